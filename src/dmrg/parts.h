/* What the engine and the algorithms above it both name: how a superblock is put together, and the parts of a
   run that are timed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PARTS_H
#define KL_PARTS_H

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

#endif
