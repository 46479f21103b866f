/* Packed lists of one sparse operator in the memory that goes to a device: see devkron.h for what they say.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KRONLIST_H
#define KL_KRONLIST_H
#include "device/devkron.h"

/* One block of memory, made here and copied to the device as a whole. */
typedef struct kl_arena {
    char *byte;
    int64_t n, room;
} kl_arena;

/* Room for `bytes`, zero; *at its offset. */
kl_status kl_arena_reserve(kl_arena *a, int64_t bytes, int64_t *at, kl_err *err) KL_MUST_CHECK;
kl_status kl_arena_append(kl_arena *a, const void *from, int64_t bytes, int64_t *at,
                          kl_err *err) KL_MUST_CHECK;

/* Offsets become addresses when the device's block is known: pointers are kept as offsets + 1 until then. */
#define KL_PLACE(at) ((void *)(uintptr_t)((at) + 1))
#define KL_MOVE(p, base) ((p) = (p) ? (void *)((char *)(base) + (uintptr_t)(p) - 1) : NULL)

/* All lists of an operator of nrow rows, NULL being one without entries, in tiles of `rows`; right: of the
   right half. room NULL: all entries are far. */
kl_status kl_kronlist_pack(kl_arena *a, const kl_kron_op *o, int64_t nrow, int rows, int right,
                           const kl_devkron_room *room, kl_devkron_op *out, kl_err *err) KL_MUST_CHECK;
/* First rows of the groups, at most room->most rows each, in place[ngroup + 1]: of all borders at multiples
   of 32 rows those that leave the fewest entries far, an operator being as full above its diagonal as below.
   A team takes room->round rows at once: rows that the last round of a group lacks count as 4 far entries
   each, and so does a quarter of a round for the group's beginning. *far: their entries. */
kl_status kl_kronlist_groups(const kl_kron_op *o, int64_t nrow, const kl_devkron_room *room, uint32_t **place,
                             int *ngroup, int64_t *far, kl_err *err) KL_MUST_CHECK;

/* Its offsets become addresses. */
void kl_kronlist_move(kl_devkron_op *o, void *base);

#endif
