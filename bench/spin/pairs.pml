/* X for every process of N <= 6, and for every two, (receiver, sender). */
#if N > 1
#define PAIRS_2(X) X(0, 1) X(1, 0)
#define NODES_2(X) X(1)
#else
#define PAIRS_2(X)
#define NODES_2(X)
#endif
#if N > 2
#define PAIRS_3(X) X(0, 2) X(1, 2) X(2, 0) X(2, 1)
#define NODES_3(X) X(2)
#else
#define PAIRS_3(X)
#define NODES_3(X)
#endif
#if N > 3
#define PAIRS_4(X) X(0, 3) X(1, 3) X(2, 3) X(3, 0) X(3, 1) X(3, 2)
#define NODES_4(X) X(3)
#else
#define PAIRS_4(X)
#define NODES_4(X)
#endif
#if N > 4
#define PAIRS_5(X) X(0, 4) X(1, 4) X(2, 4) X(3, 4) X(4, 0) X(4, 1) X(4, 2) X(4, 3)
#define NODES_5(X) X(4)
#else
#define PAIRS_5(X)
#define NODES_5(X)
#endif
#if N > 5
#define PAIRS_6(X) X(0, 5) X(1, 5) X(2, 5) X(3, 5) X(4, 5) X(5, 0) X(5, 1) X(5, 2) X(5, 3) X(5, 4)
#define NODES_6(X) X(5)
#else
#define PAIRS_6(X)
#define NODES_6(X)
#endif
#define PAIRS(X) PAIRS_2(X) PAIRS_3(X) PAIRS_4(X) PAIRS_5(X) PAIRS_6(X)
#define NODES(X) X(0) NODES_2(X) NODES_3(X) NODES_4(X) NODES_5(X) NODES_6(X)
