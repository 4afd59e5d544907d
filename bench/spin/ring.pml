/* [BMG09] Algorithm 1, tree to oriented ring, as overlay/src/ring.rs has it.
 *
 * Processes are 0 .. N-1 in preorder, so the ring must become 0, 1, 2, ... A
 * process is written as its number + 1 wherever 0 means none. Between any two
 * there is one slot for each kind of message, newest wins, and any letter may
 * arrive next.
 *
 *   -DN=3 -DP1=0 -DP2=1     the tree: the parents of 1, 2, ...
 *   -DSTART=CLEAN           nothing is known, nothing is on its way
 *          =SINGLE          any tables, and none or any one letter
 *          =ALL             any tables, any letters that a rule would look at
 *          =LETTERS         any such letters; tables stay unset (-DBLIND only)
 *          =TABLES          any tables, any legitimate letters
 *          =LEGITIMATE      any legitimate configuration
 *   -DFAIR | -DREPLAY       who schedules: ring_schedule.pml
 *   -DBLIND                 tables are left alone: no rule ever reads them
 *   -DPLANT_...             bugs, to see the checks go red
 */
#ifndef N
#define N 3
#define P1 0
#define P2 0
#endif
#ifndef P2
#define P2 0
#endif
#ifndef P3
#define P3 0
#endif
#ifndef P4
#define P4 0
#endif
#define CLEAN      0
#define SINGLE     1
#define ALL        2
#define LETTERS    3
#define TABLES     4
#define LEGITIMATE 5
#ifndef START
#define START CLEAN
#endif

/* ---- the tree, N <= 5 ---- */
#define PARENT(i)   ((i) == 1 -> P1 : ((i) == 2 -> P2 : ((i) == 3 -> P3 : P4)))
#define IS_CHILD(i, of) ((i) != 0 && (i) < N && PARENT(i) == (of))
#define HAS_CHILD(i)    IS_CHILD((i) + 1, i)
#define SIBLING(i, j)   ((j) < N && PARENT(j) == PARENT(i))
#define NEXT(i) (SIBLING(i, (i) + 1) -> (i) + 1 : (SIBLING(i, (i) + 2) -> (i) + 2 : \
                (SIBLING(i, (i) + 3) -> (i) + 3 : N)))
/* The last leaf under i: in preorder, all from i to it have parents from i on. */
#define UNDER(i, j) ((j) < N && PARENT(j) >= (i))
#define LAST(i) (!UNDER(i, (i) + 1) -> (i) : (!UNDER(i, (i) + 2) -> (i) + 1 : \
                (!UNDER(i, (i) + 3) -> (i) + 2 : (!UNDER(i, (i) + 4) -> (i) + 3 : (i) + 4))))
#define IS_LEAF(i)  (!HAS_CHILD(i) && (i) != 0)
#define IS_CLOSE(i, me) ((i) == (me) || ((me) != 0 && (i) == PARENT(me)) || IS_CHILD(i, me))

/* ---- the state ---- */
byte pred[N];
byte succ[N];
byte f[N];          /* F_Connect to i: one bit for each sender */
byte b[N];          /* B_Connect to i, likewise */
byte info[N * N];   /* Info to i from j at [i * N + j]: the leaf + 1 */
byte ask[N * N];    /* Ask_Connect, likewise */
#ifdef PLANT_FORGOTTEN_REFRESH
byte fired;
#define MAY_FIRE(me) ((fired & (1 << (me))) == 0)
#else
#define MAY_FIRE(me) true
#endif
hidden byte leaf, next;

#ifdef BLIND
#define PUT(place, who) skip
#else
#define PUT(place, who) place = who
#endif

/* ---- the rules ---- */
/* Rules 1 and 3, and the departure for a lone root. */
inline spontaneous(me) {
#ifdef PLANT_FORGOTTEN_REFRESH
    fired = fired | (1 << (me));
#endif
    if
    :: HAS_CHILD(me) ->
        f[(me) + 1] = f[(me) + 1] | (1 << (me));
        PUT(succ[me], (me) + 2)
    :: !HAS_CHILD(me) && (me) != 0 -> info[PARENT(me) * N + (me)] = (me) + 1
    :: else -> PUT(pred[me], 0); PUT(succ[me], 0)
    fi
}

/* Rule 2: only from my parent. */
inline on_f_connect(me, from) {
    f[me] = f[me] & ~(1 << (from));
    if
    :: (me) != 0 && PARENT(me) == (from) -> PUT(pred[me], (from) + 1)
    :: else
    fi
}

/* Rule 4: only from a child, and no leaf that cannot be the last one under it. */
inline on_info(me, from) {
    leaf = info[(me) * N + (from)] - 1;
    info[(me) * N + (from)] = 0;
    if
    :: !IS_CHILD(from, me) || (leaf != (from) && IS_CLOSE(leaf, me))
    :: else ->
        next = NEXT(from);
        if
        :: next < N -> ask[next * N + (me)] = leaf + 1
        :: next >= N && (me) != 0 -> info[PARENT(me) * N + (me)] = leaf + 1
        :: else -> couple(me)
        fi
    fi
}

/* Rule 5: only from my parent, and never me, my parent or a child of mine. */
inline on_ask_connect(me, from) {
    leaf = ask[(me) * N + (from)] - 1;
    ask[(me) * N + (from)] = 0;
    if
    :: (me) == 0 || PARENT(me) != (from) || IS_CLOSE(leaf, me)
    :: else -> couple(me)
    fi
}

/* Rule 6: only a leaf that has a parent takes it, and not from itself. */
inline on_b_connect(me, from) {
    b[me] = b[me] & ~(1 << (from));
    if
    :: IS_LEAF(me) && (from) != (me) -> PUT(succ[me], (from) + 1)
    :: else
    fi
}

inline couple(me) {
#ifdef PLANT_LIVELOCK
    /* Who is asked again by its predecessor believes that it has been left. */
    if
    :: pred[me] == leaf + 1 -> pred[me] = 0
    :: else -> pred[me] = leaf + 1; b[leaf] = b[leaf] | (1 << (me))
    fi
#else
#ifndef PLANT_DROPPED_B_CONNECT
    b[leaf] = b[leaf] | (1 << (me));
#endif
    PUT(pred[me], leaf + 1)
#endif
}

/* ---- what is right ---- */
#define RIGHT_AT(i) ((i) >= N || N == 1 || \
    (pred[(i) % N] == ((i) + N - 1) % N + 1 && succ[(i) % N] == ((i) + 1) % N + 1))
#ifdef BLIND
#define IS_RIGHT true
#else
#define IS_RIGHT (RIGHT_AT(0) && RIGHT_AT(1) && RIGHT_AT(2) && RIGHT_AT(3) && RIGHT_AT(4))
#endif
/* What [BMG09] definition A.3, property C, lets the slots hold. */
#define MAY_F(to, from)    ((to) == (from) + 1 && IS_CHILD(to, from))
#define MAY_B(to, from)    (!HAS_CHILD(to) && (to) != (from) && (from) == ((to) + 1) % N)
#define MAY_INFO(to, from) (IS_CHILD(from, to) -> LAST(from) + 1 : 0)
#define MAY_ASK(to, from)  (IS_CHILD(to, from) && (to) != (from) + 1 -> (to) : 0)
#define F_MASK(to)  ((to) > 0 && HAS_CHILD((to) - 1) -> 1 << ((to) - 1) : 0)
#define B_MASK(to)  (N > 1 && !HAS_CHILD(to) -> 1 << (((to) + 1) % N) : 0)
#define SLOT_FINE(to, from) ((from) >= N || \
    ((info[(to) * N + (from) % N] == 0 || \
      info[(to) * N + (from) % N] == MAY_INFO(to, (from) % N)) && \
     (ask[(to) * N + (from) % N] == 0 || \
      ask[(to) * N + (from) % N] == MAY_ASK(to, (from) % N))))
#define SLOTS_FINE(to) ((to) >= N || \
    ((f[(to) % N] & ~F_MASK((to) % N)) == 0 && (b[(to) % N] & ~B_MASK((to) % N)) == 0 && \
     SLOT_FINE((to) % N, 0) && SLOT_FINE((to) % N, 1) && SLOT_FINE((to) % N, 2) && \
     SLOT_FINE((to) % N, 3) && SLOT_FINE((to) % N, 4)))
#define IS_LEGITIMATE (IS_RIGHT && SLOTS_FINE(0) && SLOTS_FINE(1) && SLOTS_FINE(2) && \
    SLOTS_FINE(3) && SLOTS_FINE(4))

/* ---- where it starts: t, o and w are of the process that starts it ---- */
inline any_tables() {
    for (t : 0 .. N - 1) {
        select(o : 0 .. N); pred[t] = o;
        select(o : 0 .. N); succ[t] = o
    }
}

/* None or one, of any kind, from anybody to anybody else. */
inline any_letter() {
    select(t : 0 .. N - 1); select(o : 0 .. N - 1);
    if
    :: t == o
    :: t != o -> f[t] = 1 << o
    :: t != o -> b[t] = 1 << o
    :: t != o -> select(w : 1 .. N); info[t * N + o] = w
    :: t != o -> select(w : 1 .. N); ask[t * N + o] = w
    fi
}

/* In all slots whose sender and receiver a rule accepts. The others are emptied
 * without any effect, and of their kinds only B_Connect is ever sent to such. */
inline any_letters() {
    for (t : 0 .. N - 1) {
        if
        :: t > 0 ->
            if :: true :: f[t] = 1 << PARENT(t) fi;
            select(w : 0 .. N); ask[t * N + PARENT(t)] = w;
            select(w : 0 .. N); info[PARENT(t) * N + t] = w
        :: else
        fi;
        for (o : 0 .. N - 1) {
            if
            :: IS_LEAF(t) && t != o -> if :: true :: b[t] = b[t] | (1 << o) fi
            :: else
            fi
        }
    }
}

inline legitimate_letters() {
    for (t : 0 .. N - 1) {
        if :: f[t] = 0 :: F_MASK(t) != 0 -> f[t] = F_MASK(t) fi;
        if :: b[t] = 0 :: B_MASK(t) != 0 -> b[t] = B_MASK(t) fi;
        for (o : 0 .. N - 1) {
            if :: true :: MAY_INFO(t, o) != 0 -> info[t * N + o] = MAY_INFO(t, o) fi;
            if :: true :: MAY_ASK(t, o) != 0 -> ask[t * N + o] = MAY_ASK(t, o) fi
        }
    }
}

inline start() {
#if START == SINGLE
    any_tables(); any_letter()
#elif START == ALL
    any_tables(); any_letters()
#elif START == LETTERS
    any_letters()
#elif START == TABLES
    any_tables(); legitimate_letters()
#elif START == LEGITIMATE
    for (t : 0 .. N - 1) { pred[t] = (t + N - 1) % N + 1; succ[t] = (t + 1) % N + 1 }
    legitimate_letters()
#else
    skip
#endif
}

#include "ring_schedule.pml"
