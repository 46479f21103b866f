/* Leading eigenvectors of density matrices: see dominant.h.
     1. how many columns are tried, and from which: by the diagonals; Q = those columns of rho
     2. Q orthonormal by Cholesky factors, Q = rho Q, again
     3. B = Q^T rho Q
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dominant.h"
#include "base/mem.h"
#include "base/parsort.h"
#include "exec/roots.h"
#include "record/record.h"
#include <math.h>
#include <stddef.h>

enum {
    BESIDE = 16, /* columns tried beyond those that are expected to be kept, */
    STEP = 4,    /* in multiples of it */
    SURE = 8,    /* columns that may not be kept, */
};
#define MORE 0.3        /* and as a part of what is expected; */
#define SURE_MORE 0.12  /* and of those kept */
#define MANY 0.6        /* of all: a full eigenproblem costs little more then */
#define SHIFT 1e-13     /* of a Gram matrix's diagonal: columns that nearly depend on others stay there */

typedef struct element {
    double w;
    int part, nth;
} element;

int kl_dominant_sure(int tried, int kept) { return kept + SURE + (int)(SURE_MORE * kept) <= tried; }

static kl_rec copied(int m, int n, int64_t a, int lda, int64_t c)
{
    return (kl_rec){.kind = KL_REC_ADD,
                    .at_a = KL_AT_X,
                    .at_c = KL_AT_Y,
                    .m = m,
                    .n = n,
                    .lda = lda,
                    .ldc = m,
                    .a = a,
                    .c = c,
                    .alpha = 1};
}

/* 1. All diagonal elements, the largest first. */
static kl_status take_diagonals(kl_dominant *d, int64_t nx, kl_dptr rho, int64_t n, element *e, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    int64_t at = 0;
    kl_dptr diagonal = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_realloc(&host, n, KL_MEM_WORK, err));
    KL_TRY(d->ex->vt.alloc(d->ex, n, &diagonal, err));
    for (int i = 0; i < d->npart; at += d->part[i++].n)
        if (d->part[i].n > 0)
            KL_TRY(kl_batch_push_alone(&b, d->part[i].n,
                                       copied(1, d->part[i].n, d->part[i].at, d->part[i].n + 1, at), err));
    b.nx = nx;
    b.ny = n;
    KL_TRY(kl_batch_run(&b, d->ex, rho, diagonal, err));
    KL_TRY(d->ex->vt.download(d->ex, host, diagonal, n, err));
    at = 0;
    for (int i = 0; i < d->npart; at += d->part[i++].n) {
        d->part[i].trace = 0;
        for (int k = 0; k < d->part[i].n; k++) {
            d->part[i].trace += host[at + k];
            e[at + k] = (element){host[at + k] > 0 ? host[at + k] : 0, i, k};
        }
    }
    KL_TRY(kl_sort_falling(e, n, sizeof *e, offsetof(element, w), err)); /* equal ones in their order */
out:
    kl_batch_clear(&b);
    d->ex->vt.release(d->ex, &diagonal);
    kl_free(&host);
    return st;
}

/* 1. */
static kl_status set_tried(kl_dominant *d, int64_t n, const element *e, kl_err *err)
{
    kl_status st = KL_OK;
    int *expected = NULL;
    KL_TRY(kl_alloc(&expected, d->npart, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n && i < d->m; i++) expected[e[i].part]++;
    d->nq = d->nb = 0;
    for (int i = 0; i < d->npart; i++) {
        kl_dominant_part *const p = &d->part[i];
        const int wanted = expected[i] + BESIDE + (int)(MORE * expected[i]);
        p->tried = (wanted + STEP - 1) / STEP * STEP;
        if (p->whole || p->n < d->worth || p->tried > MANY * p->n || !(p->trace > 0 && isfinite(p->trace)))
            p->tried = 0;
        p->q = d->nq;
        p->b = d->nb;
        d->nq += (int64_t)p->n * p->tried;
        d->nb += (int64_t)p->tried * p->tried;
    }
out:
    kl_free(&expected);
    return st;
}

/* 1. The columns that begin, the most important first, into q. */
static kl_status begin(kl_dominant *d, int64_t nx, kl_dptr rho, int64_t n, const element *e, kl_err *err)
{
    kl_status st = KL_OK;
    int *have = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&have, d->npart, KL_MEM_WORK, err));
    for (int64_t i = 0; i < n; i++) {
        const kl_dominant_part *const p = &d->part[e[i].part];
        int *const k = &have[e[i].part];
        if (*k == p->tried) continue;
        KL_TRY(kl_batch_push_alone(
            &b, p->n, copied(p->n, 1, p->at + (int64_t)e[i].nth * p->n, p->n, p->q + (int64_t)*k * p->n),
            err));
        ++*k;
    }
    b.nx = nx;
    b.ny = d->nq;
    KL_TRY(kl_batch_run(&b, d->ex, rho, d->q, err));
out:
    kl_batch_clear(&b);
    kl_free(&have);
    return st;
}

/* Arrays of the iteration. */
typedef struct room {
    kl_dptr next; /* [nq] */
    kl_dptr h, t; /* [nb] */
} room;

/* The Gram matrix of q with `with`, each part's, into h. */
static kl_status gram(const kl_dominant *d, kl_dptr with, double shift, kl_dptr h, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        const int n = p->tried;
        if (n == 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)n * n,
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .ta = 1,
                                            .at_a = KL_AT_X,
                                            .at_b = KL_AT_LEFT,
                                            .at_c = KL_AT_Y,
                                            .m = n,
                                            .n = n,
                                            .k = p->n,
                                            .lda = p->n,
                                            .ldb = p->n,
                                            .ldc = n,
                                            .a = p->q,
                                            .b = p->q,
                                            .c = p->b,
                                            .alpha = 1},
                                   err));
    }
    b.nx = d->nq;
    b.ny = d->nb;
    b.base[KL_AT_LEFT] = with;
    KL_TRY(kl_batch_run(&b, d->ex, d->q, h, err));
    if (shift == 0) goto out;
    /* of the diagonal itself, so that columns may be of any size */
    kl_dptr diagonal = {0};
    int64_t at = 0;
    for (int i = 0; i < d->npart; at += d->part[i++].tried)
        if (d->part[i].tried > 0)
            KL_TRY(kl_batch_push_alone(&b, d->part[i].tried,
                                       copied(1, d->part[i].tried, d->part[i].b, d->part[i].tried + 1, at),
                                       err));
    KL_TRY(d->ex->vt.alloc(d->ex, at, &diagonal, err));
    b.nx = d->nb;
    b.ny = at;
    st = kl_batch_run(&b, d->ex, h, diagonal, err);
    at = 0;
    for (int i = 0; i < d->npart && st == KL_OK; at += d->part[i++].tried) {
        const int n = d->part[i].tried;
        kl_rec r = copied(1, n, at, 1, d->part[i].b);
        r.beta = 1, r.ldc = n + 1, r.alpha = shift;
        if (n > 0) st = kl_batch_push_alone(&b, (int64_t)n * n, r, err);
    }
    b.nx = at;
    b.ny = d->nb;
    if (st == KL_OK) st = kl_batch_run(&b, d->ex, diagonal, h, err);
    d->ex->vt.release(d->ex, &diagonal);
out:
    kl_batch_clear(&b);
    return st;
}

/* 2. Q times the inverse Cholesky factor of its Gram matrix. */
static kl_status orthonormalize(kl_dominant *d, room *r, double shift, kl_err *err)
{
    kl_status st = KL_OK;
    int *n = NULL;
    int64_t *off = NULL;
    char *good = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&n, d->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, d->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&good, d->npart, KL_MEM_WORK, err));
    KL_TRY(gram(d, d->q, shift, r->h, err));
    for (int i = 0; i < d->npart; i++) {
        n[i] = d->part[i].tried;
        off[i] = d->part[i].b;
    }
    const kl_roots roots = {d->npart, n, off, d->nb, r->h, r->t, good};
    KL_TRY(kl_roots_find(d->ex, &roots, err));
    for (int i = 0; i < d->npart; i++) {
        kl_dominant_part *const p = &d->part[i];
        if (!good[i]) p->tried = 0;
        if (p->tried == 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * n[i],
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .at_a = KL_AT_X,
                                            .at_b = KL_AT_LEFT,
                                            .at_c = KL_AT_Y,
                                            .m = p->n,
                                            .n = n[i],
                                            .k = n[i],
                                            .lda = p->n,
                                            .ldb = n[i],
                                            .ldc = p->n,
                                            .a = p->q,
                                            .b = p->b,
                                            .c = p->q,
                                            .alpha = 1},
                                   err));
    }
    b.nx = b.ny = d->nq;
    b.base[KL_AT_LEFT] = r->t;
    KL_TRY(kl_batch_run(&b, d->ex, d->q, r->next, err));
    const kl_dptr q = d->q;
    d->q = r->next;
    r->next = q;
out:
    kl_batch_clear(&b);
    kl_free(&n);
    kl_free(&off);
    kl_free(&good);
    return st;
}

/* rho Q into next. */
static kl_status multiply(const kl_dominant *d, int64_t nx, kl_dptr rho, kl_dptr next, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        if (p->tried == 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * p->tried,
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .at_a = KL_AT_X,
                                            .at_b = KL_AT_LEFT,
                                            .at_c = KL_AT_Y,
                                            .m = p->n,
                                            .n = p->tried,
                                            .k = p->n,
                                            .lda = p->n,
                                            .ldb = p->n,
                                            .ldc = p->n,
                                            .a = p->at,
                                            .b = p->q,
                                            .c = p->q,
                                            .alpha = 1},
                                   err));
    }
    b.nx = nx;
    b.ny = d->nq;
    b.base[KL_AT_LEFT] = d->q;
    KL_TRY(kl_batch_run(&b, d->ex, rho, next, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_dominant_find(kl_dominant *d, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0, nx = 0;
    element *e = NULL;
    room r = {.next.addr = 0};
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        n += p->n;
        if (p->at + (int64_t)p->n * p->n > nx) nx = p->at + (int64_t)p->n * p->n;
    }
    d->nq = 0;
    if (n == 0) goto out;
    KL_TRY(kl_realloc(&e, n, KL_MEM_WORK, err));
    KL_TRY(take_diagonals(d, nx, rho, n, e, err));
    KL_TRY(set_tried(d, n, e, err));
    if (d->nq == 0) goto out;
    KL_TRY(d->ex->vt.alloc(d->ex, d->nq, &d->q, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nq, &r.next, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &d->b, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &r.h, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &r.t, err));
    KL_TRY(begin(d, nx, rho, n, e, err));
    KL_TRY(orthonormalize(d, &r, SHIFT, err));
    KL_TRY(multiply(d, nx, rho, r.next, err));
    const kl_dptr q = d->q;
    d->q = r.next;
    r.next = q;
    KL_TRY(orthonormalize(d, &r, SHIFT, err));
    KL_TRY(orthonormalize(d, &r, 0, err));
    KL_TRY(orthonormalize(d, &r, 0, err)); /* to rounding */
    KL_TRY(multiply(d, nx, rho, r.next, err));
    KL_TRY(gram(d, r.next, 0, d->b, err));
out:
    kl_free(&e);
    d->ex->vt.release(d->ex, &r.next);
    d->ex->vt.release(d->ex, &r.h);
    d->ex->vt.release(d->ex, &r.t);
    return st;
}

kl_status kl_dominant_states(const kl_dominant *d, const int *count, const int64_t *from, int64_t nz,
                             kl_dptr z, const int64_t *to, int64_t ndata, kl_dptr data, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        if (p->tried == 0 || count[i] == 0) continue;
        KL_TRY(kl_batch_push_alone(&b, (int64_t)p->n * count[i],
                                   (kl_rec){.kind = KL_REC_GEMM,
                                            .at_a = KL_AT_LEFT,
                                            .at_b = KL_AT_X,
                                            .at_c = KL_AT_Y,
                                            .m = p->n,
                                            .n = count[i],
                                            .k = p->tried,
                                            .lda = p->n,
                                            .ldb = p->tried,
                                            .ldc = p->n,
                                            .a = p->q,
                                            .b = from[i],
                                            .c = to[i],
                                            .alpha = 1},
                                   err));
    }
    b.nx = nz;
    b.ny = ndata;
    b.base[KL_AT_LEFT] = d->q;
    if (b.ngroup > 0) KL_TRY(kl_batch_run(&b, d->ex, z, data, err));
out:
    kl_batch_clear(&b);
    return st;
}

void kl_dominant_clear(kl_dominant *d)
{
    if (!d->ex) return;
    d->ex->vt.release(d->ex, &d->q);
    d->ex->vt.release(d->ex, &d->b);
}
