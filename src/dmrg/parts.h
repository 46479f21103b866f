/* What the engine and the algorithms above it both name: how a superblock is put together, and the parts of a
   run that are timed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTS_H
#define KL_PARTS_H
#include <stdint.h>

/* The superblock from two enlarged blocks, or from block, site, site and block. */
typedef enum kl_strategy { KL_STRATEGY_AUTO, KL_STRATEGY_LR, KL_STRATEGY_L11R } kl_strategy;

/* ORDER KL_PART: kl_part_name in dmrg.c */
enum {
    KL_PART_PLAN,
    KL_PART_SOLVE,
    KL_PART_APPLY,
    KL_PART_TRUNCATE,
    KL_PART_GROW,
    KL_PART_TRANSFORM,
    KL_PART_OTHER,
    KL_NPART
};
extern const char *const kl_part_name[KL_NPART];

/* What products with H take of memory at a centre, by strategies of nemes2014 and as they are run. */
typedef struct kl_list_cost {
    int64_t operator_bytes; /* that one product reads */
    int64_t vector_bytes; /* x and y */
    /* intermediate results: of all outputs (4Streams), and of the one that has most (NoStreams) */
    int64_t all_work_bytes, one_work_bytes;
    int64_t run_bytes; /* work and lists of the executor's own way */
    int64_t moved_bytes; /* operators that come from the host in every product */
    int64_t basis_bytes; /* the eigensolver's V, as many columns as it may keep, and its products with H */
    int64_t free_bytes; /* of the device when the list is there, before V is; 0: not known */
    double share; /* of the flops, the device's; 0: there is no device */
} kl_list_cost;

#endif
