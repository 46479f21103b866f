/* Texts that the program carries with it: the generator's modules and the shipped models (written by
   gen/gen.lua --embed).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_EMBEDDED_H
#define KL_EMBEDDED_H
#include <stddef.h>
#include <stdint.h>

typedef struct kl_embedded {
    const char *name; /* "lower" of gen/lower.lua, "hubbard" of models/hubbard.lua; NULL ends a list */
    const char *text;
    int64_t size;
} kl_embedded;

/* In the order in which they were named to the generator. */
extern const kl_embedded kl_embedded_modules[], kl_embedded_models[];

#endif
