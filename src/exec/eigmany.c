/* Many eigenproblems, the largest by the executor while threads have the others: see eigmany.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/eigmany.h"
#include "base/dense.h"
#include "base/mem.h"
#include "base/par.h"
#include "exec/eigshare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct one {
    int n, nth; /* rows; which matrix */
    int64_t off, at; /* where it is, and its values are */
    kl_status status;
    kl_err error;
} one;

typedef struct job {
    kl_exec *ex;
    const kl_eigen_many *m;
    one *of; /* [count] largest first */
    int there; /* the executor has as many, */
    int *n; /* [there] rows, */
    int64_t *off; /* [there] places */
    double *w; /* and values of these, one after the other */
    kl_status status;
    kl_err error;
} job;

static int by_size(const void *pa, const void *pb)
{
    const one *const a = pa, *const b = pb;
    return a->n != b->n ? b->n - a->n : a->nth - b->nth;
}

/* What threads do: matrices [first, small) of the order one by one, [small, last) `few` at a time. */
typedef struct share {
    job *j;
    int there; /* 1: task 0 is all that the executor does */
    int first, small, last, few;
} share;

static void task(void *self, int64_t i, int thread)
{
    const share *const s = self;
    job *const j = s->j;
    kl_dense_matrix few[KL_DENSE_FEW];
    (void)thread;
    if (s->there && i == 0) {
        j->status = j->ex->vt.eigen(j->ex, j->there, j->n, j->off, j->m->a, j->w, &j->error);
        return;
    }
    const int nth = s->first + (int)i - s->there;
    one *const x = &j->of[nth < s->small ? nth : s->small + (nth - s->small) * s->few];
    double *const host = j->m->host, *const w = j->m->w;
    if (nth < s->small) {
        x->status = kl_dense_eig(x->n, host + x->off, x->n, w + x->at, &x->error);
        return;
    }
    const int left = s->last - (int)(x - j->of), count = left < s->few ? left : s->few;
    for (int k = 0; k < count; k++) few[k] = (kl_dense_matrix){x[k].n, host + x[k].off, w + x[k].at};
    x->status = kl_dense_eig_few(count, few, &x->error);
}

/* Matrices [first, last) of the order by threads, and those before by the executor, if there is any. */
static void share_out(job *j, int nthread, int there, int first, int last)
{
    share s = {.j = j, .there = there, .first = first, .small = last, .last = last, .few = 1};
    while (s.small > first && j->of[s.small - 1].n <= KL_DENSE_SMALL) s.small--;
    double cubes = 0;
    for (int i = first; i < last; i++) cubes += pow(j->of[i].n, 3);
    const int hands = there ? nthread : kl_par_hands(nthread, cubes, KL_DENSE_WORTH);
    const int nsmall = last - s.small, each = nsmall / hands;
    s.few = each < 1 ? 1 : each < KL_DENSE_FEW ? each : KL_DENSE_FEW;
    kl_par_for(hands, there + s.small - first + (nsmall + s.few - 1) / s.few, task, &s);
}

/* Matrices [from, to) of the order, to the host: neighbours in one copy. */
static kl_status bring(const job *j, int from, int to, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_eigen_many *const m = j->m;
    char *wanted = NULL;
    KL_TRY(kl_alloc(&wanted, m->count, KL_MEM_WORK, err));
    for (int i = from; i < to; i++) wanted[j->of[i].nth] = 1;
    for (int i = 0, end; i < m->count; i = end) {
        for (end = i + 1; end < m->count && wanted[end] == wanted[i]; end++) continue;
        const int64_t stop = end < m->count ? m->off[end] : m->length;
        if (wanted[i] && stop > m->off[i])
            KL_TRY(j->ex->vt.download(j->ex, m->host + m->off[i], kl_dptr_at(m->a, m->off[i]),
                                      stop - m->off[i], err));
    }
out:
    kl_free(&wanted);
    return st;
}

static kl_status open_job(job *j, int shared, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_eigen_many *const m = j->m;
    int64_t at = 0;
    KL_TRY(kl_alloc(&j->of, m->count, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&j->n, m->count, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&j->off, m->count, KL_MEM_WORK, err));
    for (int i = 0; i < m->count; at += m->n[i++])
        j->of[i] = (one){.n = m->n[i], .nth = i, .off = m->off[i], .at = at};
    KL_TRY(kl_realloc(&j->w, at, KL_MEM_WORK, err));
    qsort(j->of, (size_t)m->count, sizeof *j->of, by_size);
    for (int i = 0; i < m->count; i++) {
        j->n[i] = j->of[i].n;
        j->off[i] = j->of[i].off;
    }
    if (shared && j->ex->vt.eigen) j->there = kl_eigen_share_next(j->ex, j->n, m->count, 1);
out:
    return st;
}

kl_status kl_eigen_many_find(kl_exec *ex, const kl_eigen_many *m, int shared, kl_err *err)
{
    kl_status st = KL_OK;
    job j = {.ex = ex, .m = m};
    int64_t at = 0;
    KL_TRY(open_job(&j, shared, err));
    const int asked = j.there;
    KL_TRY(bring(&j, asked, m->count, err));
    share_out(&j, asked > 0 ? kl_eigen_threads(ex) : ex->nthread, asked > 0, asked, m->count);
    if (j.status == KL_ENOMEM || j.status == KL_EABSENT) { /* nothing of them has been touched */
        KL_TRY(bring(&j, 0, asked, err));
        j.there = 0;
        share_out(&j, ex->nthread, 0, 0, asked);
    } else if (j.status != KL_OK) {
        st = kl_fail(err, j.status, "%s", j.error.text);
        goto out;
    } else {
        KL_TRY(bring(&j, 0, asked, err));
        for (int i = 0; i < asked; at += j.n[i++])
            memcpy(m->w + j.of[i].at, j.w + at, (size_t)j.n[i] * sizeof *m->w);
    }
    for (int i = 0; i < m->count; i++)
        if (j.of[i].status != KL_OK) {
            st = kl_fail(err, j.of[i].status, "%s", j.of[i].error.text);
            goto out;
        }
out:
    kl_free(&j.of);
    kl_free(&j.n);
    kl_free(&j.off);
    kl_free(&j.w);
    return st;
}
