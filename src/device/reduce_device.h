/* Sums of all blocks of a launch on NVIDIA GPUs, once for CUDA and for bare OpenMP regions, in an order that
   depends on the launch alone: equal input gives equal bits. A block leaves its part in slots, a number with
   the number of the launch, both written and read as one; the first block looks until all are there. Parts
   without such a mark take a fence, a counter and a last block that then reads: a microsecond more of every
   launch.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REDUCE_DEVICE_H
#define KL_REDUCE_DEVICE_H
#include "device/ptx.h"

/* for 128 sums of 1000 blocks and the first, which has the number of launches so far; all 0 at the
   beginning */
enum { KL_SLOTS = 1 << 17 };

typedef struct kl_slot {
    double part;
    uint64_t launch;
} kl_slot;

/* Of this launch, which has n sums. Asked for at its beginning, so that nobody waits for it, by those who
   will want it: accesses to the same address happen one after another. */
KL_DEV uint64_t kl_launch_number(const kl_slot *slot, int n)
{
    return kl_in_block() < n || kl_block_number() == 0 ? kl_early_u64(&slot->launch) + 1 : 0;
}

/* Rows of `wide` numbers in shared memory, any count of them: the first becomes the sum of all. All threads
   call; at least wide * groups / 2 of them. */
KL_DEV void kl_sum_rows(double *shared, int wide, int groups)
{
    const int me = kl_in_block();
    for (int half; groups > 1; groups = half) {
        half = (groups + 1) / 2;
        kl_block_sync();
        if (me < (groups - half) * wide) shared[me] += shared[me + half * wide];
    }
}

/* result[j], j < n, 0 < n <= T, becomes the sum of what threads j of all blocks have as `mine`; T: threads of
   a block, a constant where this is used, all of which call; shared: [T], free. */
KL_DEV void kl_reduce_blocks(const int T, int n, double mine, uint64_t launch, kl_slot *slot, double *result,
                             double *shared)
{
    enum { AHEAD = 8 }; /* slots that are looked at together */
    /* of threads, one a sum, that take different blocks */
    const int me = kl_in_block(), blocks = kl_block_count(), groups = T / n, group = me / n;
    kl_slot *const own = slot + 1 + me % n;
    if (me < n) kl_put_word(own + kl_block_number() * n, mine, launch);
    if (kl_block_number() != 0) return;
    double a = 0.0;
    for (int b = group < groups ? group : blocks; b < blocks; b += AHEAD * groups) {
        double part[AHEAD];
        /* all at once: one after the other each would wait for memory */
        for (int missing = 1; missing;) {
            uint64_t of[AHEAD];
            KL_UNROLL
            for (int i = 0; i < AHEAD; i++) {
                part[i] = 0.0, of[i] = launch;
                if (b + i * groups < blocks) kl_look_word(own + (b + i * groups) * n, &part[i], &of[i]);
            }
            missing = 0;
            KL_UNROLL
            for (int i = 0; i < AHEAD; i++) missing |= of[i] != launch;
        }
        KL_UNROLL
        for (int i = 0; i < AHEAD; i++) a += part[i];
    }
    kl_block_sync(); /* shared may have held `mine` */
    shared[me] = a;
    kl_sum_rows(shared, n, groups);
    if (me < n) result[me] = shared[me];
    if (me == 0) slot->launch = launch; /* everybody has asked for it */
}
#endif
