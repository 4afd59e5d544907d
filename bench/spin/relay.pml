/* Custody: a broadcast down the binary sibling tree of 7 ([SFT06] section 4) and a
 * multicast along it, with hello before and acknowledgements behind. What docs/relay.md
 * says of custody, done, duplicates and lost children, without its timers' lengths,
 * rounds, epochs and budgets: `check --layer relays` has those, with the shipped code.
 *
 *            0            packet 0: from 0 to all, down the tree
 *        1       2        packet 1: from 6 to 1 and 4, over 2 and 0
 *      3   4   5   6
 *
 * An inbox holds C messages; what does not fit is lost. Nobody sends to a child that
 * has not said hello. Time goes by while nothing is on its way: then one after the
 * other asks again for what it lacks. With -DCRASH any node but an origin dies once, at any moment; its
 * heirs get what was behind it.
 *
 *   -DC=2  -DPACKETS=2  -DCRASH  -DFAIR (an LTL property)  -DPLANT_...
 */
#define N 7
#ifndef C
#define C 2
#endif
#ifndef PACKETS
#define PACKETS 2
#endif
#define BIT(i) (1 << (i))
#define ORIGIN(p) ((p) == 0 -> 0 : 6)
#define UP(i) (((i) - 1) / 2)
/* Whom a node hands a packet to, and whom it is for. */
#define TREE(i) ((i) == 0 -> 6 : ((i) == 1 -> 24 : ((i) == 2 -> 96 : 0)))
#define WAY(i)  ((i) == 6 -> 4 : ((i) == 2 -> 1 : ((i) == 0 -> 2 : ((i) == 1 -> 16 : 0))))
#define HEIRS_OF(p, i) ((p) == 0 -> TREE(i) : WAY(i))
#define AUDIENCE(p) ((p) == 0 -> 126 : 18)
#define LIVING (dead == N -> 127 : 127 & ~BIT(dead))

mtype = { hello, packet, custody, done, inquire, unknown };
chan inbox[N] = [C] of { mtype, byte, byte };    /* what, from whom, of which packet */
byte greeted;                   /* whose hello has arrived */
byte dead = N;
byte taken[PACKETS];            /* who has it, and answers for what is behind it */
byte delivered[PACKETS];
byte givers[PACKETS * N];       /* who waits for my done */
byte held[PACKETS * N];         /* which of my heirs have custody */
byte finished[PACKETS * N];     /* which of my heirs are done */
bool settled[PACKETS];

#define AT(p, me) ((p) * N + (me))
/* A lost heir is replaced by its own. */
#define HEIRS(p, me) ((dead < N && (HEIRS_OF(p, me) & BIT(dead % N))) -> \
    (HEIRS_OF(p, me) & ~BIT(dead)) | HEIRS_OF(p, dead) : HEIRS_OF(p, me))
#define IS_DONE(p, me) ((HEIRS(p, me) & ~finished[AT(p, me)]) == 0)
#define MAY_SEND(me, to) ((greeted & BIT(to)) || (to) == 0 || UP(to) != (me))

/* In what follows `me` acts, on packet `p`. */
inline post(whom, what) {
    if
    :: whom == dead
#ifdef PLANT_BLOCKING
    /* The sender waits, and reads nothing meanwhile. */
    :: whom != dead -> inbox[whom]!what,me,p
#else
    :: whom != dead && len(inbox[whom]) == C
    :: whom != dead && len(inbox[whom]) < C -> inbox[whom]!what,me,p
#endif
    fi
}

/* To all of a set who may be sent to. */
inline post_all(set, kind) {
    x = 0;
    do
    :: x < N ->
        if
        :: ((set) & BIT(x)) && MAY_SEND(me, x) -> post(x, kind)
        :: else
        fi;
        x++
    :: else -> break
    od;
    x = 0
}

/* All of my part is done: so I say, and the origin knows that all who live have it. */
inline conclude() {
    if
    :: !(taken[p] & BIT(me)) || !IS_DONE(p, me)
    :: else ->
        if
        :: me == ORIGIN(p) && !settled[p] ->
            settled[p] = true;
            assert((delivered[p] & LIVING) == (AUDIENCE(p) & LIVING))
        :: else
        fi;
        post_all(givers[AT(p, me)], done)
    fi
}

inline take() {
    if
    :: taken[p] & BIT(me) ->
#ifdef PLANT_LIVELOCK
        /* It has this already: let somebody else answer for it. */
        post(from, packet)
#else
        /* No second delivery, but a second duty. */
        givers[AT(p, me)] = givers[AT(p, me)] | BIT(from);
        if
        :: IS_DONE(p, me) -> post(from, done)
        :: else -> post(from, custody)
        fi
#endif
    :: else ->
        taken[p] = taken[p] | BIT(me);
        givers[AT(p, me)] = givers[AT(p, me)] | BIT(from);
        if
        :: AUDIENCE(p) & BIT(me) ->
            assert(!(delivered[p] & BIT(me)));
            delivered[p] = delivered[p] | BIT(me)
        :: else
        fi;
#ifdef PLANT_DONE_BEFORE_CUSTODY
        post(from, done);
#else
        if :: !IS_DONE(p, me) -> post(from, custody) :: else fi;
#endif
        h = HEIRS(p, me);
        post_all(h, packet);
        h = 0;
        conclude()
    fi
}

inline serve() {
    if
    :: inbox[me]?hello,from,p -> greeted = greeted | BIT(from)
    :: inbox[me]?packet,from,p -> take()
    :: inbox[me]?custody,from,p -> held[AT(p, me)] = held[AT(p, me)] | BIT(from)
    :: inbox[me]?done,from,p ->
        finished[AT(p, me)] = finished[AT(p, me)] | BIT(from);
        conclude()
    :: inbox[me]?inquire,from,p ->
        if
        :: !(taken[p] & BIT(me)) -> post(from, unknown)
        :: else -> take()
        fi
    :: inbox[me]?unknown,from,p -> post(from, packet)
    fi;
    from = 0; p = 0
}

proctype node(byte me) {
    byte from, x, p, h;
end:
    do
    :: atomic { me != dead && nempty(inbox[me]) -> serve() }
    od
}

#define QUIET (empty(inbox[0]) && empty(inbox[1]) && empty(inbox[2]) && \
    empty(inbox[3]) && empty(inbox[4]) && empty(inbox[5]) && empty(inbox[6]))
#if PACKETS == 2
#define SETTLED (settled[0] && settled[1])
#else
#define SETTLED settled[0]
#endif

/* I say hello again to who does not know me, give again what is not held, and ask
 * after what is not done. */
inline ask_again() {
    if
    :: me != 0 && !(greeted & BIT(me)) -> post(UP(me), hello)
    :: else
    fi;
    p = 0;
    do
    :: p < PACKETS ->
        if
        :: taken[p] & BIT(me) ->
            h = HEIRS(p, me) & ~finished[AT(p, me)] & ~held[AT(p, me)];
            post_all(h, packet);
            h = HEIRS(p, me) & ~finished[AT(p, me)] & held[AT(p, me)];
            post_all(h, inquire);
            h = 0;
            conclude()
        :: else
        fi;
        p++
    :: else -> break
    od;
    p = 0
}

#ifndef PLANT_FORGOTTEN_REFRESH
active proctype time() {
    byte me, x, p, h;
end:
    do
    :: atomic { QUIET && !SETTLED ->
        if :: me != dead -> ask_again() :: else fi;
        me = (me + 1) % N }
    od
}
#endif

#ifdef CRASH
/* Messages to it are lost with it. */
active proctype crash() {
    byte me, from, p;
end:
    if
    :: atomic { !SETTLED -> select(me : 1 .. 5); dead = me;
        do :: inbox[me]?_,from,p :: empty(inbox[me]) -> break od; me = 0; from = 0; p = 0 }
    fi
}
#endif

init {
    byte me, x, p;
    atomic {
        for (me : 0 .. N - 1) { run node(me) }
        for (me : 1 .. N - 1) { post(UP(me), hello) }
        for (x : 0 .. PACKETS - 1) { taken[x] = BIT(ORIGIN(x)) }
        me = 0; x = 0
    }
}

#ifdef LIVELY
ltl settles { <> SETTLED }
#endif
