/* Who lets a process of bmg.pml apply which rule: as in ring_schedule.pml. */
bit legit;

#include "pairs.pml"

/* Whether a slot holds nothing or what it may. */
#define FINE_1(to, from) \
    && (up[SLOT(1, to, from)] == 0 || up[SLOT(1, to, from)] == MAY_UP(1, to, from)) \
    && (dn[SLOT(1, to, from)] == 0 || dn[SLOT(1, to, from)] == MAY_DN(1, to, from))
#if LEVELS == 2
#define FINE(to, from) FINE_1(to, from)
#else
#define FINE(to, from) FINE_1(to, from) \
    && (up[SLOT(2, to, from)] == 0 || up[SLOT(2, to, from)] == MAY_UP(2, to, from)) \
    && (dn[SLOT(2, to, from)] == 0 || dn[SLOT(2, to, from)] == MAY_DN(2, to, from))
#endif
#define IS_LEGITIMATE (IS_RIGHT PAIRS(FINE))

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
#define RULE2(l, me, from) d_step { up[SLOT(l, me, from)] -> on_up(l, me, from); judge() }
#define RULE3(l, me, from) d_step { dn[SLOT(l, me, from)] -> on_dn(l, me, from); judge() }
#define BEGIN t = 0; d_step { if :: IS_LEGITIMATE -> legit = true :: else fi; l = 0; t = 0; o = 0; w = 0 }

#if defined(REPLAY)
/* As in ring_schedule.pml: 0, c and k (set a finger clockwise or counterclockwise:
 * level, process, who), x, u and d for letters: level, receiver, sender, subject;
 * U and D when they are received; "." and "e". */
inline tell() {
    for (i : 0 .. LEVELS * N - 1) { printf("%d %d ", cw[i], ccw[i]) }
    for (i : 0 .. (LEVELS - 1) * N * N - 1) { printf("%d %d ", up[i], dn[i]) }
    printf("\n")
}

inline number(x) { STDIN?word; x = word - '0' }

chan STDIN;

/* What cannot be done is left, and the states differ. */
#define TRY(rule) if :: rule :: else fi

init {
    int word, i; byte me, from, level, subject;
    do
    :: STDIN?word;
        if
        :: word == '.' -> tell()
        :: word == '\n'
        :: word == 'e' -> break
        :: word == '0' -> d_step {
            for (i : 0 .. LEVELS * N - 1) { cw[i] = 0; ccw[i] = 0 }
            for (i : 0 .. (LEVELS - 1) * N * N - 1) { up[i] = 0; dn[i] = 0 } }
        :: word == 'c' -> number(level); number(me); number(subject);
            cw[AT(level, me)] = subject
        :: word == 'k' -> number(level); number(me); number(subject);
            ccw[AT(level, me)] = subject
        :: word == 'u' -> number(level); number(me); number(from); number(subject);
            up[SLOT(level, me, from)] = subject
        :: word == 'd' -> number(level); number(me); number(from); number(subject);
            dn[SLOT(level, me, from)] = subject
        :: word == 'x' -> number(me); TRY(FIRE(me))
        :: word == 'U' -> number(level); number(me); number(from); TRY(RULE2(level, me, from))
        :: word == 'D' -> number(level); number(me); number(from); TRY(RULE3(level, me, from))
        fi
    od
}
#elif defined(FAIR)
/* A process for each rule and link at N <= 4, where there is one level of letters. */
#define DECLARE_NODE(me) proctype spontaneous_##me() { do :: FIRE(me) od }
#define DECLARE(me, from) \
    proctype rule_2_##me##_##from() { do :: RULE2(1, me, from) od } \
    proctype rule_3_##me##_##from() { do :: RULE3(1, me, from) od }
NODES(DECLARE_NODE)
PAIRS(DECLARE)
#define RUN_NODE(me) run spontaneous_##me();
#define RUN(me, from) run rule_2_##me##_##from(); run rule_3_##me##_##from();
init { byte l, t, o, w; atomic { start(); BEGIN; NODES(RUN_NODE) PAIRS(RUN) } }

#if LIVELY == 2
ltl recovery { <> [] legit }
#else
ltl recovery { <> legit }
#endif
#else
#define MAY_DO_NODE(me) :: FIRE(me)
#define MAY_DO_1(me, from) :: RULE2(1, me, from) :: RULE3(1, me, from)
#define MAY_DO_2(me, from) :: RULE2(2, me, from) :: RULE3(2, me, from)
init {
    byte l, t, o, w;
    atomic { start(); BEGIN };
    do
    NODES(MAY_DO_NODE)
    PAIRS(MAY_DO_1)
#if SPAN > 2
    PAIRS(MAY_DO_2)
#endif
#ifdef ONCE
    /* Nothing more can happen: it must be the graph by now. */
    :: timeout -> assert(IS_RIGHT); break
#endif
    od
}
#endif
