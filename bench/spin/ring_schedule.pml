/* Who lets a process of ring.pml apply which rule: anybody at any time (one
 * process that chooses among all that is possible, for safety), every rule of
 * every process fairly (-DFAIR: a process for each guarded rule and link, for
 * liveness), or a schedule that is read (-DREPLAY, for the test that compares
 * states with those of the shipped machines).
 */
bit legit;

/* After every step: no step leads out of legitimacy. */
inline judge() {
#if defined(REPLAY)
    skip
#elif defined(LIVELY)
    legit = IS_LEGITIMATE
#else
    if
    :: IS_LEGITIMATE -> legit = true
    :: else -> assert(!legit)
    fi
#endif
}

#define FIRE(me) d_step { MAY_FIRE(me) -> spontaneous(me); judge() }
#define RULE2(me, from) d_step { (f[me] & (1 << from)) -> on_f_connect(me, from); judge() }
#define RULE4(me, from) d_step { info[me * N + from] -> on_info(me, from); judge() }
#define RULE5(me, from) d_step { ask[me * N + from] -> on_ask_connect(me, from); judge() }
#define RULE6(me, from) d_step { (b[me] & (1 << from)) -> on_b_connect(me, from); judge() }
#define BEGIN t = 0; d_step { if :: IS_LEGITIMATE -> legit = true :: else fi; t = 0; o = 0; w = 0 }

#include "pairs.pml"

#if defined(REPLAY)
/* Lines of small numbers, each with a letter before it: 0 (forget all), p and s
 * (set a neighbour), x (spontaneous rules), and F, I, A, B for letters: put
 * (lower case) or received (upper case). After a "." the state is
 * printed; "e" ends it. */
inline tell() {
    for (i : 0 .. N - 1) { printf("%d %d ", pred[i], succ[i]) }
    for (i : 0 .. N - 1) { printf("%d %d ", f[i], b[i]) }
    for (i : 0 .. N * N - 1) { printf("%d %d ", info[i], ask[i]) }
    printf("\n")
}

inline number(x) { STDIN?word; x = word - '0' }

chan STDIN;

/* What cannot be done is left, and the states differ. */
#define TRY(rule) if :: rule :: else fi

init {
    int word, i; byte me, from, who;
    do
    :: STDIN?word;
        if
        :: word == '.' -> tell()
        :: word == '\n'
        :: word == 'e' -> break
        :: word == '0' -> d_step {
            for (i : 0 .. N - 1) { pred[i] = 0; succ[i] = 0; f[i] = 0; b[i] = 0 }
            for (i : 0 .. N * N - 1) { info[i] = 0; ask[i] = 0 } }
        :: word == 'p' -> number(me); number(who); pred[me] = who
        :: word == 's' -> number(me); number(who); succ[me] = who
        :: word == 'f' -> number(me); number(from); f[me] = f[me] | (1 << from)
        :: word == 'b' -> number(me); number(from); b[me] = b[me] | (1 << from)
        :: word == 'i' -> number(me); number(from); number(who); info[me * N + from] = who
        :: word == 'a' -> number(me); number(from); number(who); ask[me * N + from] = who
        :: word == 'x' -> number(me); TRY(FIRE(me))
        :: word == 'F' -> number(me); number(from); TRY(RULE2(me, from))
        :: word == 'I' -> number(me); number(from); TRY(RULE4(me, from))
        :: word == 'A' -> number(me); number(from); TRY(RULE5(me, from))
        :: word == 'B' -> number(me); number(from); TRY(RULE6(me, from))
        fi
    od
}
#elif defined(FAIR)
#define DECLARE_NODE(me) proctype spontaneous_##me() { do :: FIRE(me) od }
#define DECLARE(me, from) \
    proctype rule_2_##me##_##from() { do :: RULE2(me, from) od } \
    proctype rule_4_##me##_##from() { do :: RULE4(me, from) od } \
    proctype rule_5_##me##_##from() { do :: RULE5(me, from) od } \
    proctype rule_6_##me##_##from() { do :: RULE6(me, from) od }
NODES(DECLARE_NODE)
PAIRS(DECLARE)

/* Letters that nobody sends and no rule accepts: one process empties them all. */
#define DISCARD(me, from) \
    :: d_step { IS_CHILD(me, from) == 0 && (f[me] & (1 << from)) -> on_f_connect(me, from); judge() } \
    :: d_step { IS_CHILD(from, me) == 0 && info[me * N + from] -> on_info(me, from); judge() } \
    :: d_step { IS_CHILD(me, from) == 0 && ask[me * N + from] -> on_ask_connect(me, from); judge() } \
    :: d_step { IS_LEAF(me) == 0 && (b[me] & (1 << from)) -> on_b_connect(me, from); judge() }
proctype discard() { do PAIRS(DISCARD) od }

#define RUN_NODE(me) run spontaneous_##me();
#define RUN(me, from) \
    if :: IS_CHILD(me, from) -> run rule_2_##me##_##from(); run rule_5_##me##_##from() \
       :: else fi; \
    if :: IS_CHILD(from, me) -> run rule_4_##me##_##from() :: else fi; \
    if :: IS_LEAF(me) -> run rule_6_##me##_##from() :: else fi;
init { byte t, o, w; atomic { start(); BEGIN; NODES(RUN_NODE) PAIRS(RUN) run discard() } }

#ifdef LIVELY
#if LIVELY == 2
ltl recovery { <> [] legit }
#else
ltl recovery { <> legit }
#endif
#endif
#else
#define MAY_DO_NODE(me) :: FIRE(me)
#define MAY_DO(me, from) \
    :: RULE2(me, from) :: RULE4(me, from) :: RULE5(me, from) :: RULE6(me, from)
init { byte t, o, w; atomic { start(); BEGIN }; do NODES(MAY_DO_NODE) PAIRS(MAY_DO) od }
#endif
