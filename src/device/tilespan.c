/* Simulates a launch: see tilespan.h. Tiles that cost the same are taken in whole rounds where that is the
   same as one by one: the sums are made in the same order, to the last bit.
   SPDX-License-Identifier: Apache-2.0 */
#include "device/tilespan.h"

enum { MOST = 4096 };

/* The earliest of the heap takes a tile and gets free at `end`. */
static void take(double *heap, int n, double end)
{
    int at = 0;
    for (;;) {
        int child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= end) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = end;
}

/* No launch is shorter: of the i * nblock + 1 costliest tiles one block takes i + 1, and the cheapest of them
   costs this. */
static double least_span(const kl_tile_load *l, int64_t n, int nblock)
{
    double least = 0;
    int64_t before = 0; /* tiles of l[0 .. k) */
    int64_t i = 0;
    for (int64_t k = 0; k < n; before += l[k].n, k++)
        for (; i * nblock < before + l[k].n; i++) {
            double sum = 0;
            for (int64_t j = 0; j <= i; j++) sum += l[k].cost;
            if (sum > least) least = sum;
        }
    return least;
}

/* 1. The first tiles find a block each that is free; the costliest come first, so that these blocks stand in
      the order in which they get free, which is a heap.
   2. Tiles are taken one by one by the block that gets free first.
   3. Where no block is busy for longer than the first one with its next tile, all blocks take one before any
      takes two: a round changes their times and not their order. */
double kl_tile_span(const kl_tile_load *l, int64_t n, int nblock, double limit)
{
    double heap[MOST]; /* when a block gets free; the earliest first */
    const int nheap = nblock < MOST ? nblock : MOST;
    int idle = nheap;
    const double least = least_span(l, n, nheap);
    if (least >= limit) return least;
    double last = n > 0 ? l[0].cost : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = l[i].n;
        for (; idle > 0 && rest > 0; rest--) heap[--idle] = l[i].cost; /* 1. */
        while (rest > 0) {
            if (last >= limit) return last;
            if (rest >= nheap && last <= heap[0] + l[i].cost) { /* 3. */
                for (int k = 0; k < nheap; k++) heap[k] += l[i].cost;
                last += l[i].cost;
                rest -= nheap;
                continue;
            }
            const double end = heap[0] + l[i].cost; /* 2. */
            take(heap, nheap, end);
            if (end > last) last = end;
            rest--;
        }
    }
    return last;
}
