/* [BMG09] Algorithm 2, ring to binomial graph, as overlay/src/fingers.rs has it,
 * without marks, which is what the paper has: UP and DN are believed.
 *
 * Processes are 0 .. N-1 along the ring. A process is written as its number + 1
 * wherever 0 means none. One slot for each kind and level between any two, newest
 * wins, any letter may arrive next.
 *
 *   -DN=3..6         how many
 *   -DSTART=CLEAN    nothing is known, nothing is on its way
 *          =SINGLE   any fingers above level 0, and none or any one letter
 *          =TABLES   any fingers above level 0
 *          =LEGITIMATE  any legitimate configuration
 *   -DONCE           rule 1 is applied once by each, from a clean start: that
 *                    alone must lead to the graph
 *   -DFAIR | -DREPLAY   who schedules: bmg_schedule.pml
 *   -DPLANT_...      bugs, to see the checks go red
 */
#ifndef N
#define N 3
#endif
#define CLEAN      0
#define SINGLE     1
#define TABLES     2
#define LEGITIMATE 3
#ifndef START
#define START CLEAN
#endif
/* Whether a level exists: 2^level < N. */
#if N <= 4
#define LEVELS 2
#else
#define LEVELS 3
#endif
#ifdef PLANT_LEVEL_BOUND
/* As printed in rule 3, and so nothing stops a process from being its own. */
#define SPAN (LEVELS + 1)
#define HAS_LEVEL(l) ((1 << (l)) <= N)
#define BELIEVES_ITSELF true
#else
#define SPAN LEVELS
#define HAS_LEVEL(l) ((1 << (l)) < N)
#define BELIEVES_ITSELF false
#endif

/* ---- the state ---- */
#define AHEAD(i, d)  (((i) + (d)) % N)
#define BEHIND(i, d) (((i) + 2 * N - (d)) % N)
#define AT(l, i)     ((l) * N + (i))
#define SLOT(l, to, from) ((((l) - 1) * N + (to)) * N + (from))
byte cw[SPAN * N];                  /* clockwise, by level and process */
byte ccw[SPAN * N];
byte up[(SPAN - 1) * N * N];        /* UP by level, receiver, sender: the subject + 1 */
byte dn[(SPAN - 1) * N * N];
#if defined(ONCE) || defined(PLANT_FORGOTTEN_REFRESH)
byte fired;
#define MAY_FIRE(me) ((fired & (1 << (me))) == 0)
#else
#define MAY_FIRE(me) true
#endif
hidden byte who, towards, was;

/* ---- the rules ---- */
/* Rule 1: level 0 is the ring; introduce my neighbours to each other. */
inline spontaneous(me) {
#if defined(ONCE) || defined(PLANT_FORGOTTEN_REFRESH)
    fired = fired | (1 << (me));
#endif
    cw[AT(0, me)] = AHEAD(me, 1) + 1;
    ccw[AT(0, me)] = BEHIND(me, 1) + 1;
    introduce_ahead(0, me);
    introduce_behind(0, me)
}

/* UP to my finger clockwise, about the one counterclockwise: in both rules only if
 * 2^(level+1) < N, and never to or about an unset one, nor to its own subject. */
inline introduce_ahead(l, me) {
    towards = cw[AT(l, me)];
    if
    :: HAS_LEVEL((l) + 1) && towards != 0 && ccw[AT(l, me)] != 0 &&
       ((towards != ccw[AT(l, me)] && towards != (me) + 1) || BELIEVES_ITSELF) ->
        up[SLOT((l) + 1, towards - 1, me)] = ccw[AT(l, me)]
    :: else
    fi
}

/* DN to my finger counterclockwise, about the one clockwise. */
inline introduce_behind(l, me) {
    towards = ccw[AT(l, me)];
    if
    :: HAS_LEVEL((l) + 1) && towards != 0 && cw[AT(l, me)] != 0 &&
       ((towards != cw[AT(l, me)] && towards != (me) + 1) || BELIEVES_ITSELF) ->
        dn[SLOT((l) + 1, towards - 1, me)] = cw[AT(l, me)]
    :: else
    fi
}

/* Rule 2, and linear forwarding: what completes or changes the pair of a level
 * introduces both to each other, what only repeats it begets one of its kind. */
inline on_up(l, me, from) {
    who = up[SLOT(l, me, from)];
    up[SLOT(l, me, from)] = 0;
    if
    :: who != (me) + 1 || BELIEVES_ITSELF ->
        was = ccw[AT(l, me)];
        ccw[AT(l, me)] = who;
        introduce_ahead(l, me);
        if :: was != who -> introduce_behind(l, me) :: else fi
    :: else
    fi
}

/* Rule 3. */
inline on_dn(l, me, from) {
    who = dn[SLOT(l, me, from)];
    dn[SLOT(l, me, from)] = 0;
    if
    :: who != (me) + 1 || BELIEVES_ITSELF ->
        was = cw[AT(l, me)];
        cw[AT(l, me)] = who;
        introduce_behind(l, me);
        if :: was != who -> introduce_ahead(l, me) :: else fi
    :: else
    fi
}

/* ---- what is right ---- */
#define IS(l, i) (cw[AT(l, (i) % N)] == AHEAD(i, 1 << (l)) + 1 && \
    ccw[AT(l, (i) % N)] == BEHIND(i, 1 << (l)) + 1)
#if LEVELS == 2
#define RIGHT_AT(i) ((i) >= N || (IS(0, i) && IS(1, i)))
#else
#define RIGHT_AT(i) ((i) >= N || (IS(0, i) && IS(1, i) && IS(2, i)))
#endif
/* Fingers beyond the levels there are, which only a bug sets. */
#ifdef PLANT_LEVEL_BOUND
#define STRAY(i) ((i) < N && (cw[AT(SPAN - 1, (i) % N)] != 0 || ccw[AT(SPAN - 1, (i) % N)] != 0))
#define NO_STRAY (!STRAY(0) && !STRAY(1) && !STRAY(2) && !STRAY(3) && !STRAY(4) && !STRAY(5))
#else
#define NO_STRAY true
#endif
#define IS_RIGHT (RIGHT_AT(0) && RIGHT_AT(1) && RIGHT_AT(2) && RIGHT_AT(3) && \
    RIGHT_AT(4) && RIGHT_AT(5) && NO_STRAY)
/* [BMG09] definition A.5: an UP goes 2^(l-1) places clockwise and names the
 * process as many places behind its sender, a DN the other way round. */
#define MAY_UP(l, to, from) ((to) == AHEAD(from, 1 << ((l) - 1)) && HAS_LEVEL(l) -> \
    BEHIND(from, 1 << ((l) - 1)) + 1 : 0)
#define MAY_DN(l, to, from) ((to) == BEHIND(from, 1 << ((l) - 1)) && HAS_LEVEL(l) -> \
    AHEAD(from, 1 << ((l) - 1)) + 1 : 0)

/* ---- where it starts: l, t, o and w are of the process that starts it ---- */
inline any_tables() {
    for (l : 1 .. LEVELS - 1) {
        for (t : 0 .. N - 1) {
            select(w : 0 .. N); cw[AT(l, t)] = w;
            select(w : 0 .. N); ccw[AT(l, t)] = w
        }
    }
}

inline any_letter() {
    if
    :: true
    :: select(l : 1 .. LEVELS - 1); select(w : 1 .. N);
        select(t : 0 .. N - 1); select(o : 1 .. N - 1); o = (t + o) % N;
        if :: up[SLOT(l, t, o)] = w :: dn[SLOT(l, t, o)] = w fi
    fi
}

inline legitimate() {
    for (l : 0 .. LEVELS - 1) {
        for (t : 0 .. N - 1) {
            cw[AT(l, t)] = AHEAD(t, 1 << l) + 1;
            ccw[AT(l, t)] = BEHIND(t, 1 << l) + 1;
            for (o : 0 .. N - 1) {
                if
                :: l > 0 && MAY_UP(l, t, o) != 0 ->
                    if :: true :: up[SLOT(l, t, o)] = MAY_UP(l, t, o) fi
                :: else
                fi;
                if
                :: l > 0 && MAY_DN(l, t, o) != 0 ->
                    if :: true :: dn[SLOT(l, t, o)] = MAY_DN(l, t, o) fi
                :: else
                fi
            }
        }
    }
}

inline start() {
#if START == SINGLE
    any_tables(); any_letter()
#elif START == TABLES
    any_tables()
#elif START == LEGITIMATE
    legitimate()
#else
    skip
#endif
}

#include "bmg_schedule.pml"
