/* A keeper that copies what it is given to the host, from where a run can go on. It is due when it is asked
   for the k-th time, or never; the k-th look of a monitor ends the run, as does what has been kept. 0:
   neither.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SAVER_H
#define KL_SAVER_H
#include "kl_test.h"
#include "solve/keep.h"

typedef struct saver {
    kl_exec *ex;
    int64_t n; /* length of vectors that do not say it */
    int countdown, looks, have;
    double *number;
    double **host;
    kl_dptr *vector;
    int64_t *length;
    kl_keep kept;
} saver;

static inline int saver_due(void *self)
{
    saver *const s = self;
    return --s->countdown == 0;
}

static inline void saver_close(saver *s)
{
    for (int i = 0; i < s->kept.nvector; i++) free(s->host[i]);
    free(s->number);
    free(s->host);
    free(s->vector);
    free(s->length);
    s->number = NULL;
    s->host = NULL;
    s->vector = NULL;
    s->length = NULL;
    s->kept = (kl_keep){0};
    s->have = 0;
}

/* The first one stays. */
static inline kl_status saver_write(void *self, const kl_keep *k, kl_err *err)
{
    saver *const s = self;
    if (s->have) return KL_OK;
    s->have = 1;
    s->number = calloc((size_t)k->nnumber + 1, sizeof(double));
    s->host = calloc((size_t)k->nvector + 1, sizeof *s->host);
    s->vector = calloc((size_t)k->nvector + 1, sizeof *s->vector);
    s->length = calloc((size_t)k->nvector + 1, sizeof *s->length);
    memcpy(s->number, k->number, (size_t)k->nnumber * sizeof(double));
    for (int i = 0; i < k->nvector; i++) {
        s->length[i] = k->n && k->n[i] > 0 ? k->n[i] : s->n;
        s->host[i] = calloc((size_t)s->length[i], sizeof(double));
        if (k->far && k->far[i]) memcpy(s->host[i], k->far[i], (size_t)s->length[i] * sizeof(double));
        else {
            const kl_status st = s->ex->vt.download(s->ex, s->host[i], k->vector[i], s->length[i], err);
            if (st != KL_OK) return st;
        }
        s->vector[i] = (kl_dptr){(uintptr_t)s->host[i]};
    }
    s->kept = (kl_keep){.nnumber = k->nnumber,
                        .number = s->number,
                        .nvector = k->nvector,
                        .vector = s->vector,
                        .n = s->length};
    return KL_OK;
}

static inline int saver_stops(saver *s) { return s->have || --s->looks == 0; }

#endif
