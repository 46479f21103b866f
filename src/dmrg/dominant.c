/* Leading eigenvectors of density matrices: see dominant.h.
     1. how many columns are tried, and from which: by the diagonals; Q = those columns of rho
     2. Q orthonormal by Cholesky factors, Q = rho Q, again
     3. B = Q^T rho Q
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/dominant.h"
#include "base/mem.h"
#include "base/parsort.h"
#include "comm/share.h"
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

typedef struct kl_dominant_element {
    double w;
    int part, nth;
} element;

static int own(const kl_dominant *d, int i) { return d->part[i].owner == kl_ranks_mine(d->ranks); }
/* Rows, and columns tried, of a part that this rank has. */
static int rows(const kl_dominant *d, int i) { return own(d, i) ? d->part[i].n : 0; }
static int tried(const kl_dominant *d, int i) { return own(d, i) ? d->part[i].tried : 0; }

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

/* Numbers of rho: up to the end of the last matrix. */
static int64_t numbers(const kl_dominant *d)
{
    int64_t nx = 0;
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        if (own(d, i) && p->at + (int64_t)p->n * p->n > nx) nx = p->at + (int64_t)p->n * p->n;
    }
    return nx;
}

/* 1. host[nelement]: those of this rank's parts, each at its place. */
static kl_status own_diagonals(const kl_dominant *d, kl_dptr rho, double *host, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t at = 0;
    kl_dptr diagonal = {0};
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(d->ex->vt.alloc(d->ex, d->nelement, &diagonal, err));
    for (int i = 0; i < d->npart; at += d->part[i++].n)
        if (rows(d, i) > 0)
            KL_TRY(kl_batch_push_alone(&b, d->part[i].n,
                                       copied(1, d->part[i].n, d->part[i].at, d->part[i].n + 1, at), err));
    b.nx = numbers(d);
    b.ny = d->nelement;
    b.zero = 1;
    KL_TRY(kl_batch_run(&b, d->ex, rho, diagonal, err));
    KL_TRY(d->ex->vt.download(d->ex, host, diagonal, d->nelement, err));
out:
    kl_batch_clear(&b);
    d->ex->vt.release(d->ex, &diagonal);
    return st;
}

/* 1. All diagonal elements, the largest first. */
static kl_status take_diagonals(kl_dominant *d, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    element *const e = d->element;
    kl_share_piece *piece = NULL;
    int64_t at = 0;
    KL_TRY(kl_realloc(&host, d->nelement, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&piece, d->npart, KL_MEM_WORK, err));
    KL_TRY(own_diagonals(d, rho, host, err));
    for (int i = 0; i < d->npart; at += d->part[i++].n)
        piece[i] = (kl_share_piece){d->part[i].owner, at, d->part[i].n};
    KL_TRY(kl_share_exchange(d->ranks, d->npart, piece, host, err));
    at = 0;
    for (int i = 0; i < d->npart; at += d->part[i++].n) {
        d->part[i].trace = 0;
        for (int k = 0; k < d->part[i].n; k++) {
            d->part[i].trace += host[at + k];
            e[at + k] = (element){host[at + k] > 0 ? host[at + k] : 0, i, k};
        }
    }
    /* equal ones in their order */
    KL_TRY(kl_sort_falling(e, d->nelement, sizeof *e, offsetof(element, w), err));
out:
    kl_free(&piece);
    kl_free(&host);
    return st;
}

/* 1. */
static kl_status set_tried(kl_dominant *d, kl_err *err)
{
    kl_status st = KL_OK;
    int *expected = NULL;
    KL_TRY(kl_alloc(&expected, d->npart, KL_MEM_WORK, err));
    for (int64_t i = 0; i < d->nelement && i < d->m; i++) expected[d->element[i].part]++;
    d->nq = d->nb = 0;
    for (int i = 0; i < d->npart; i++) {
        kl_dominant_part *const p = &d->part[i];
        const int wanted = expected[i] + BESIDE + (int)(MORE * expected[i]);
        p->tried = (wanted + STEP - 1) / STEP * STEP;
        if (p->whole || p->n < d->worth || p->tried > MANY * p->n || !(p->trace > 0 && isfinite(p->trace)))
            p->tried = 0;
        p->q = d->nq;
        p->b = d->nb;
        d->nq += (int64_t)p->n * tried(d, i);
        d->nb += (int64_t)tried(d, i) * tried(d, i);
    }
out:
    kl_free(&expected);
    return st;
}

/* 1. The columns that begin, the most important first, into q. */
static kl_status begin(kl_dominant *d, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    int *have = NULL;
    kl_batch b;
    kl_batch_init(&b);
    KL_TRY(kl_alloc(&have, d->npart, KL_MEM_WORK, err));
    for (int64_t i = 0; i < d->nelement; i++) {
        const element *const e = &d->element[i];
        const kl_dominant_part *const p = &d->part[e->part];
        int *const k = &have[e->part];
        if (*k == tried(d, e->part)) continue;
        KL_TRY(kl_batch_push_alone(
            &b, p->n, copied(p->n, 1, p->at + (int64_t)e->nth * p->n, p->n, p->q + (int64_t)*k * p->n), err));
        ++*k;
    }
    b.nx = numbers(d);
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
        const int n = tried(d, i);
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
    for (int i = 0; i < d->npart; at += tried(d, i++)) {
        const int n = tried(d, i);
        if (n > 0) KL_TRY(kl_batch_push_alone(&b, n, copied(1, n, d->part[i].b, n + 1, at), err));
    }
    KL_TRY(d->ex->vt.alloc(d->ex, at, &diagonal, err));
    b.nx = d->nb;
    b.ny = at;
    st = kl_batch_run(&b, d->ex, h, diagonal, err);
    at = 0;
    for (int i = 0; i < d->npart && st == KL_OK; at += tried(d, i++)) {
        const int n = tried(d, i);
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
        n[i] = tried(d, i);
        off[i] = d->part[i].b;
    }
    const kl_roots roots = {d->npart, n, off, d->nb, r->h, r->t, good};
    KL_TRY(kl_roots_find(d->ex, &roots, err));
    for (int i = 0; i < d->npart; i++) {
        kl_dominant_part *const p = &d->part[i];
        if (own(d, i) && !good[i]) p->tried = 0;
        if (tried(d, i) == 0) continue;
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
static kl_status multiply(const kl_dominant *d, kl_dptr rho, kl_dptr next, kl_err *err)
{
    kl_status st = KL_OK;
    kl_batch b;
    kl_batch_init(&b);
    for (int i = 0; i < d->npart; i++) {
        const kl_dominant_part *const p = &d->part[i];
        if (tried(d, i) == 0) continue;
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
    b.nx = numbers(d);
    b.ny = d->nq;
    b.base[KL_AT_LEFT] = d->q;
    KL_TRY(kl_batch_run(&b, d->ex, rho, next, err));
out:
    kl_batch_clear(&b);
    return st;
}

kl_status kl_dominant_look(kl_dominant *d, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    d->nq = d->nelement = 0;
    for (int i = 0; i < d->npart; i++) d->nelement += d->part[i].n;
    if (d->nelement == 0) goto out;
    KL_TRY(kl_realloc(&d->element, d->nelement, KL_MEM_WORK, err));
    KL_TRY(take_diagonals(d, rho, err));
    KL_TRY(set_tried(d, err));
out:
    return st;
}

kl_status kl_dominant_find(kl_dominant *d, kl_dptr rho, kl_err *err)
{
    kl_status st = KL_OK;
    room r = {.next.addr = 0};
    if (d->nq == 0) goto out;
    KL_TRY(d->ex->vt.alloc(d->ex, d->nq, &d->q, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nq, &r.next, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &d->b, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &r.h, err));
    KL_TRY(d->ex->vt.alloc(d->ex, d->nb, &r.t, err));
    KL_TRY(begin(d, rho, err));
    KL_TRY(orthonormalize(d, &r, SHIFT, err));
    KL_TRY(multiply(d, rho, r.next, err));
    const kl_dptr q = d->q;
    d->q = r.next;
    r.next = q;
    KL_TRY(orthonormalize(d, &r, SHIFT, err));
    KL_TRY(orthonormalize(d, &r, 0, err));
    KL_TRY(orthonormalize(d, &r, 0, err)); /* to rounding */
    KL_TRY(multiply(d, rho, r.next, err));
    KL_TRY(gram(d, r.next, 0, d->b, err));
out:
    d->ex->vt.release(d->ex, &r.next);
    d->ex->vt.release(d->ex, &r.h);
    d->ex->vt.release(d->ex, &r.t);
    return st;
}

kl_status kl_dominant_agree(kl_dominant *d, kl_err *err)
{
    kl_status st = KL_OK;
    kl_share_piece *piece = NULL;
    double *columns = NULL;
    KL_TRY(kl_alloc(&piece, d->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&columns, d->npart, KL_MEM_WORK, err));
    for (int i = 0; i < d->npart; i++) {
        piece[i] = (kl_share_piece){d->part[i].owner, i, 1};
        columns[i] = d->part[i].tried;
    }
    KL_TRY(kl_share_exchange(d->ranks, d->npart, piece, columns, err));
    for (int i = 0; i < d->npart; i++) d->part[i].tried = (int)columns[i];
out:
    kl_free(&piece);
    kl_free(&columns);
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
        if (tried(d, i) == 0 || count[i] == 0) continue;
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
    kl_free(&d->element);
}
