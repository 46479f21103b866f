/* The one sequence of random numbers (splitmix64): the same on every machine for the same seed.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RANDOM_H
#define KL_RANDOM_H
#include <stdint.h>
#include "base/dev.h"

/* The next 64 bits; *state is the seed at first. */
static KL_ON_DEVICE inline uint64_t kl_random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* As if n numbers had been taken. */
static KL_ON_DEVICE inline void kl_random_skip(uint64_t *state, int64_t n)
{
    *state += (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15);
}

/* Uniform in (-1, 1), never 0 exactly. */
static KL_ON_DEVICE inline double kl_random_uniform(uint64_t *state)
{
    return ((double)(kl_random_next(state) >> 11) + 0.5) * 0x1p-52 - 1.0;
}

/* Number `index` of the stream of this seed, in (-1, 1): for vectors that are filled out of order.
   Neighbouring seeds have streams far apart. */
static KL_ON_DEVICE inline double kl_random_at(uint64_t seed, int64_t index)
{
    uint64_t state = seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15);
    return kl_random_uniform(&state);
}

#endif
