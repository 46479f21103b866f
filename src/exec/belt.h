/* V^T x and V y for tall V on devices: how wide a pass over V is, and what of V stays in the cache. The
   shapes of blocks are not here: a budget of registers holds for a kernel in CUDA, for a file with regions,
   and CUDA with the regions' shape is 1 to 3 % slower, 15 at 5e5 rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BELT_H
#define KL_BELT_H
#include <stdint.h>

/* V is cut into belts of columns whose width is a constant of the kernel, so that a thread's sums are
   registers. */
enum { KL_BELT = 32 /* columns at most */ };
#define KL_BELTS(F)                                                                                      \
    F(1)                                                                                                 \
    F(2)                                                                                                 \
    F(3)                                                                                                 \
    F(4)                                                                                                 \
    F(5)                                                                                                 \
    F(6)                                                                                                 \
    F(7)                                                                                                 \
    F(8)                                                                                                 \
    F(9) F(10) F(11) F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) \
        F(26) F(27) F(28) F(29) F(30) F(31) F(32)

/* Columns of the first belt of the `left` that are left: all of nearly one width. */
static inline int kl_belt(int left, int widest)
{
    const int belts = (left + widest - 1) / widest;
    return (left + belts - 1) / belts;
}

/* V is read over and over within a solve. Where it is not much larger than the L2 cache, a share of its rows,
   and of those of x, is asked to stay there and the others to leave first; read in a circle otherwise,
   nothing would ever be found again. Larger ones only pass through. The stretches of rows that stay are
   spread among the others, that memory and cache work at the same time, are the same ones for every
   operation, and few change when V gets one column more. Moreover, what a pass read last is still there when
   the next one begins, if that begins where the other ended. So V y runs backwards after a pass that ran
   forwards, and forwards after one that ran backwards: its bits do not depend on the direction. V^T x always
   runs forwards, for the order of its sums matters, and alternates with V y in Gram-Schmidt; only narrow ones
   by regions run backwards as well (offload/tall.c). */
enum {
    KL_SHARES = 64,
    KL_STRETCH = 512,
};
static inline int kl_share_to_keep(int64_t l2_bytes, int64_t n, int64_t nvec)
{
    const int64_t room = l2_bytes / 15 * 8, all = 8 * n * (nvec + 1), share = KL_SHARES * room / (all + 1);
    return all > 20 * room ? 0 : share < KL_SHARES ? (int)share : KL_SHARES;
}
/* 1 where that pair of rows stays. Multiples of an odd number near 0.618 KL_SHARES lie evenly. */
#define KL_STAYS(PAIR, SHARE) (((int)((PAIR) / KL_STRETCH) * 39 & (KL_SHARES - 1)) < (SHARE))

#endif
