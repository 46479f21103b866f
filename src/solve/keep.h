/* What a solver keeps of itself so that the same run can go on, to the same bits, after the program ended: a
   list of numbers that only the solver reads, and some vectors.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_KEEP_H
#define KL_KEEP_H
#include "solve/linop.h"

typedef struct kl_keep {
    int64_t nnumber;
    const double *number;  /* host */
    int nvector;
    const int64_t *n;      /* NULL, or [nvector] length of each, whole; 0: that of the operator at hand */
    /* NULL, or [nvector] who has which part of each (linop.h); NULL: as the operator at hand */
    const int64_t *const *begin;
    const kl_dptr *vector; /* [nvector] device; NULL with fetch */
    /* NULL, or [nvector]: those that lie in the host's memory instead; NULL: on the device */
    const double *const *far;
    /* Of what is read from a file: brings vectors [first, first + count) to where they belong. */
    void *self;
    kl_status (*fetch)(void *self, int first, int count, const int64_t *begin, const kl_dptr *to,
                       kl_err *err);
    int first; /* what fetch calls vector 0 */
} kl_keep;

/* due is asked between steps; when it says yes, or the run is stopped, write is called. from: what such a
   call was given, or NULL. */
typedef struct kl_keeper {
    void *self;
    int (*due)(void *self);
    kl_status (*write)(void *self, const kl_keep *k, kl_err *err);
    const kl_keep *from;
} kl_keeper;

/* The first count vectors, which h is for, to where they belong. */
kl_status kl_keep_take(const kl_keep *k, const kl_linop *h, int count, const kl_dptr *to,
                       kl_err *err) KL_MUST_CHECK;

/* What stands behind the first numbers and vectors: somebody else's. */
kl_keep kl_keep_behind(const kl_keep *k, int64_t nnumber, int nvector);

/* Numbers of a list, one after the other: a solver writes and reads its own by one function. */
typedef struct kl_keep_list {
    double *at;
    int reading;
} kl_keep_list;
void kl_keep_reals(kl_keep_list *l, int64_t n, double *x);
void kl_keep_int(kl_keep_list *l, int *x);
void kl_keep_bits(kl_keep_list *l, uint64_t *x); /* as two numbers, all 64 of them */
enum { KL_KEEP_BITS = 2 };

#endif
