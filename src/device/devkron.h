/* A sum of Kronecker products made ready for a device: the lists of kron.h cut into groups of states whose
   part of a vector lies in fast memory, and packed so that neighbouring states read neighbouring words. Who
   launches what is the executor's.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_DEVKRON_H
#define KL_DEVKRON_H
#include "base/dev.h"
#include "exec/kron.h"
#include "base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A left operator works on a tile of 8 right states, 8 of its rows at a time: an entry moves 64 bytes. A
   right one works on 8 left states, 16 of its rows at a time, of which 8 neighbours meet in an access: in
   fast memory 8 right states with their left ones take PITCH numbers, as in a vector. */
enum {
    KL_DEVKRON_LEFT_ROWS = 8,
    KL_DEVKRON_RIGHT_ROWS = 16,
    KL_DEVKRON_PITCH = 64,
    KL_DEVKRON_NONE = 0x7fffffff,
    KL_DEVKRON_NARROW_NONE = 0x7fff,
    /* pairs of slots that every tile has, where an operator has any */
    KL_DEVKRON_NEAR_LEAST = 4,
    KL_DEVKRON_FAR_LEAST = 1,
    KL_DEVKRON_LEFT_STATES = 4064,
    KL_DEVKRON_RIGHT_STATES = 3584,
    KL_DEVKRON_LEFT_MASK = 0x3ffc0,
    KL_DEVKRON_LEFT_SHIFT = 12 /* see kl_devkron_op */
};

/* Lists of a tile of rows, in pairs of slots; a left operator's near pairs are kept in twos, and near_first
   counts these. A slot holds one entry of each row at most, as a rule with one distance (column - row) for
   all rows: hops of one bond keep the order of the states that differ elsewhere. */
typedef struct kl_devkron_span {
    uint32_t near_first, near_count, far_first, far_count;
} kl_devkron_span;

/* Rows in groups of neighbours. Entries whose column lies in the group of their row are near; rows without an
   entry there take one of the words behind the group, which hold 0: two states for a left operator, a tile
   for a right one. Words of near pairs are made for few instructions. Right: 16 bits an entry, the top one a
   sign, the others the number's offset in fast memory. Left: `& MASK' is the first entry's offset in bytes,
   64 a state, `>> SHIFT & MASK' the second's; bits 0 and 31 are their signs. The others are far: 32 bits, or
   16 where columns fit (narrow), the top one a sign, the others all 1 for none. */
typedef struct kl_devkron_op {
    int ngroup, unit, narrow, spare;
    double scale; /* unit: of every entry; else 1 */
    const uint32_t *group; /* [ngroup + 1] first rows; multiples of 32 but for the last */
    const kl_devkron_span *span; /* [rows / LEFT_ROWS or RIGHT_ROWS, rounded up] */
    /* right: [pair][rows of a tile], left: [two pairs][rows of a tile][2]; two slots each; NULL: none */
    const uint32_t *near;
    const void *far; /* [pair][rows of a tile] two slots each; NULL: none */
    const double *near_coef, *far_coef; /* not unit: [2 pair][rows of a tile] */
} kl_devkron_op;

/* a by rows, `most` entries each, value 0 for none; b has far entries only. */
typedef struct kl_devkron_cross {
    int64_t off, nl; /* of the source block */
    int most, spare;
    const uint32_t *col; /* [most][nl rounded up to 8] */
    const double *val;
    kl_devkron_op b;
} kl_devkron_cross;

typedef struct kl_devkron_block {
    int64_t off, nl, nr, ntile;
    kl_devkron_op left, right;
    const double *dl, *dr; /* dl NULL: 0 */
    const void *mask; /* [nl], 32 bits each up to nbit = 32, else 64 */
    int any_dr, spare; /* any_dr 0: dr is 0 everywhere, and the last tile full */
    /* even: bits[k][r] is 0 or bit_value: popcount(mask[l] & with[r]) of them are added */
    int nbit, nfeature, ncross, even;
    double bit_value;
    const uint64_t *with; /* even: [8 ntile] */
    const double *bits; /* else [nbit][8 ntile] */
    const double *fl, *fr;
    const kl_devkron_cross *cross;
} kl_devkron_block;

/* What one team does: left: tile `strip` of right states; right: left states 8 strip and on; rows of one
   group. */
typedef struct kl_devkron_item {
    uint32_t block, strip, group, spare;
} kl_devkron_item;

typedef struct kl_devkron_room {
    /* states of a group, a multiple of 32, at most KL_DEVKRON_LEFT_STATES or RIGHT_STATES; rows that a team
       takes at once */
    int64_t most, round;
} kl_devkron_room;

/* Few large teams or many small ones. */
typedef struct kl_devkron_opts {
    kl_devkron_room left[2], right[2]; /* the second has larger groups */
} kl_devkron_opts;

typedef struct kl_devkron {
    void *list; /* all that follows, on the device */
    int64_t list_bytes;
    const kl_devkron_block *block;
    kl_devkron_block only; /* the block, where there is one */
    const kl_devkron_item *left, *right;
    double *partial; /* [nleft + nright] for x . y */
    int64_t nblock, nleft, nright;
    int64_t left_states, right_states; /* of the largest group */
    int left_room, right_room; /* which of the options it is */
    /* not 0: one block, and all entries of an operator are of one size; left: and a popcount of 32 bits makes
       the diagonal; right: and there are no a (x) b; 2: and far entries have 16 bits */
    int plain_left, plain_right;
    /* sets of 16 sums of bits that a tile's diagonal needs at most, 0 where popcounts do */
    int tables;
} kl_devkron;

/* The bits of left state l, whichever width they are stored in. */
static KL_ON_DEVICE inline uint64_t kl_devkron_mask(const kl_devkron_block *b, int64_t l)
{
    return b->nbit > 32 ? ((const uint64_t *)b->mask)[l] : ((const uint32_t *)b->mask)[l];
}

/* Word `pair' of a tile's row, its near pairs beginning at `first'. */
static KL_ON_DEVICE inline int64_t kl_devkron_near_at(int64_t first, int pair, int right, int row)
{
    return right ? (first + pair) * KL_DEVKRON_RIGHT_ROWS + row
                 : ((first + pair / 2) * KL_DEVKRON_LEFT_ROWS + row) * 2 + pair % 2;
}

/* Near entry `slot' (0, 1) of a word: its state's number in the group, and whether it has a minus sign. */
static KL_ON_DEVICE inline uint32_t kl_devkron_near_state(uint32_t word, int slot, int right)
{
    const uint32_t place = word >> 16 * slot & 0x7fff;
    if (!right)
        return (word >> (slot ? KL_DEVKRON_LEFT_SHIFT : 0) & KL_DEVKRON_LEFT_MASK) / (KL_KRON_LANES * 8);
    return place / KL_DEVKRON_PITCH * KL_KRON_LANES + place % KL_DEVKRON_PITCH;
}
static KL_ON_DEVICE inline int kl_devkron_near_minus(uint32_t word, int slot, int right)
{
    return (int)(right ? word >> (16 * slot + 15) & 1 : slot ? word >> 31 : word & 1);
}

/* Column and sign (bit 31) of far slot `slot` of a tile's row, KL_DEVKRON_NONE for none; pair: the tile's
   first, rows: of a tile. */
static KL_ON_DEVICE inline uint32_t kl_devkron_far(const kl_devkron_op *o, int64_t pair, int slot, int rows,
                                                   int row)
{
    const int64_t at = (pair + slot / 2) * rows + row;
    if (!o->narrow) return (uint32_t)(((const uint64_t *)o->far)[at] >> 32 * (slot % 2));
    const uint32_t e = ((const uint32_t *)o->far)[at] >> 16 * (slot % 2) & 0xffff;
    return ((e & 0x7fff) == KL_DEVKRON_NARROW_NONE ? (uint32_t)KL_DEVKRON_NONE : e & 0x7fff) | e >> 15 << 31;
}

/* k->device becomes a kl_devkron. */
kl_status kl_devkron_prepare(kl_kron *k, const kl_devkron_opts *o, kl_pool *pool, kl_err *err) KL_MUST_CHECK;
void kl_devkron_release(kl_kron *k, kl_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
