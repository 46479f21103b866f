/* See twins.h. 1. the image; 2. both in one basis of every block, in which the states of the first come
   first.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/twins.h"
#include "base/blas.h"
#include "base/mem.h"
#include "dmrg/canonical.h"
#include "dmrg/halves.h"
#include <math.h>
#include <string.h>

#define DEPENDENT 1e-9 /* norm that a state has beyond others, and is left out */

/* ---- 1. the image ---- */

/* |block> |s>, rows of en in its sector c, become |s> |block>: the sign of each row. */
static void turn_rows(const kl_model *m, const kl_enlarged *en, int c, int ncol, double *a, int64_t lda)
{
    for (int s = 0; s < en->d; s++) {
        const int r = en->part_sec[c * en->d + s], at = en->part_off[c * en->d + s];
        if (r < 0 || kl_halves_sign(m, en->site, s, en->block.q[r], en->basis.q[c]) > 0) continue;
        for (int k = 0; k < ncol; k++)
            for (int i = 0; i < en->block.dim[r]; i++) a[at + i + k * lda] *= -1;
    }
}

/* The right isometry that a left one has as its image. */
static kl_status turn_isometry(const kl_model *m, const kl_isometry *from, const kl_site_type *site,
                               kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    KL_TRY(kl_enlarged_copy(from->enlarged, &en, err));
    en->site = site;
    KL_TRY(kl_isometry_create_take(&en, from->basis.nsec, from->sec, from->basis.dim, out, err));
    memcpy((*out)->data, from->data, (size_t)from->ndata * sizeof *from->data);
    for (int k = 0; k < from->basis.nsec; k++) {
        const int rows = from->enlarged->basis.dim[from->sec[k]];
        turn_rows(m, (*out)->enlarged, from->sec[k], from->basis.dim[k], (*out)->data + from->off[k], rows);
    }
out:
    kl_enlarged_destroy(&en);
    return st;
}

/* The first two sites of the image: the last two of c, of which the last one alone is right of the bond. */
static kl_status turn_centre(const kl_canonical *c, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = c->nsite;
    const kl_isometry *const left = c->left[n - 2], *const right = c->right[n - 1];
    const kl_layout *const bond = &c->layout[n - 1];
    kl_layout lay = {0};
    double *part = NULL;
    KL_TRY(kl_enlarged_copy(right->enlarged, &s->row, err));
    KL_TRY(kl_enlarged_copy(left->enlarged, &s->col, err));
    s->row->site = s->type[0], s->col->site = s->type[1];
    KL_TRY(kl_layout_create(c->model, &s->row->basis, &s->col->basis, s->target, &lay, err));
    s->nstate = 1;
    s->npsi = lay.n;
    KL_TRY(kl_alloc(&s->psi, lay.n, KL_MEM_STATE, err));
    for (int k = 0; k < left->basis.nsec; k++) {
        const int j = bond->pair[k], wide = left->sec[k];
        if (j < 0 || lay.pair[right->sec[j]] != wide) continue;
        const int rows = s->row->basis.dim[right->sec[j]], cols = s->col->basis.dim[wide],
                  a = left->basis.dim[k], b = right->basis.dim[j];
        double *const to = s->psi + lay.off[right->sec[j]];
        KL_TRY(kl_realloc(&part, (int64_t)rows * a, KL_MEM_WORK, err));
        /* right bond^T left^T, in which |left> |right> is |right> |left> with the sign of exchanging them */
        kl_dgemm('n', 't', rows, a, b, 1, right->data + right->off[j], rows, c->bond[n - 1] + bond->off[k], a,
                 0, part, rows);
        kl_dgemm('n', 't', rows, cols, a, 1, part, rows, left->data + left->off[k], cols, 0, to, rows);
        const kl_qn at = left->basis.q[k], other = right->basis.q[j];
        const int spin = kl_model_spin(c->model);
        double sign = kl_qn_odd(c->model, at) && kl_qn_odd(c->model, other) ? -1 : 1;
        if (spin >= 0 && (at.v[spin] & 1)) sign = -sign; /* two j coupled to 0: (-1)^2j */
        for (int64_t i = 0; i < (int64_t)rows * cols; i++) to[i] *= sign;
        /* and of the columns, whose block is left of their site there */
        for (int x = 0; x < s->col->d; x++) {
            const int r = s->col->part_sec[wide * s->col->d + x],
                      off = s->col->part_off[wide * s->col->d + x];
            if (r < 0 ||
                kl_halves_sign(c->model, s->col->site, x, s->col->block.q[r], s->col->basis.q[wide]) > 0)
                continue;
            for (int64_t i = (int64_t)off * rows; i < (int64_t)(off + s->col->block.dim[r]) * rows; i++)
                to[i] *= -1;
        }
    }
    s->pair = lay.pair, s->psi_off = lay.off;
    lay.pair = NULL, lay.off = NULL;
out:
    kl_layout_clear(&lay);
    kl_free(&part);
    return st;
}

static kl_status image_of(const kl_canonical *c, const kl_state *from, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_terms sites = {.model = from->model, .nsite = from->nsite, .type = from->type};
    const int n = from->nsite;
    KL_TRY(kl_state_create(&sites, from->target, out, err));
    for (int p = 0; p < n - 1; p++) KL_TRY(kl_canonical_bring(c, p, err));
    for (int p = 2; p < n; p++)
        KL_TRY(turn_isometry(c->model, c->left[n - 1 - p], from->type[p], &(*out)->right[p], err));
    KL_TRY(turn_centre(c, *out, err));
out:
    if (st != KL_OK) kl_state_destroy(out);
    return st;
}

kl_status kl_twins_image(kl_exec *ex, const kl_state *s, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_canonical *c = NULL;
    *out = NULL;
    KL_TRY(kl_canonical_create(ex, s, 0, &c, err));
    KL_TRY(image_of(c, s, out, err));
out:
    kl_canonical_destroy(&c);
    return st;
}

/* ---- 2. one basis for both ---- */

/* States of a block of one of the two in the basis of both. */
typedef struct within {
    const kl_basis *of; /* its own; */
    int *sec; /* [sectors of the joint basis]: its sector of these charges, or -1 */
    int64_t *off; /* [the same]: of the matrix, joint states x its own */
    double *data;
} within;

static void clear_within(within *w)
{
    kl_free(&w->sec);
    kl_free(&w->off);
    kl_free(&w->data);
}

static kl_status open_within(const kl_basis *of, const kl_basis *joint, within *w, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t n = 0;
    *w = (within){.of = of};
    KL_TRY(kl_alloc(&w->sec, joint->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w->off, joint->nsec, KL_MEM_WORK, err));
    for (int k = 0; k < joint->nsec; k++) {
        w->sec[k] = kl_basis_find(of, joint->q[k]);
        w->off[k] = n;
        if (w->sec[k] >= 0) n += (int64_t)joint->dim[k] * of->dim[w->sec[k]];
    }
    KL_TRY(kl_alloc(&w->data, n, KL_MEM_WORK, err));
out:
    if (st != KL_OK) clear_within(w);
    return st;
}

/* Columns a (rows of its enlarged sector c, which has the charges of sector k of en) over the block of both:
   to[en->basis.dim[k]][ncol], zero before. */
static void embed(const kl_enlarged *en, int k, const within *w, const kl_enlarged *own, int c,
                  const double *a, int ncol, double *to)
{
    const int rows = en->basis.dim[k];
    for (int s = 0; s < en->d; s++) {
        const int r = en->part_sec[k * en->d + s], from = own->part_sec[c * own->d + s];
        if (r < 0 || from < 0 || w->sec[r] != from) continue;
        kl_dgemm('n', 'n', en->block.dim[r], ncol, own->block.dim[from], 1, w->data + w->off[r],
                 en->block.dim[r], a + own->part_off[c * own->d + s], own->basis.dim[c], 0,
                 to + en->part_off[k * en->d + s], rows);
    }
}

/* Column x[rows] less what it has of q[n][rows], which is added to coef[n]; its norm then. */
static double beyond(int rows, int n, const double *q, double *x, double *coef)
{
    double norm = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < n; j++) {
            double dot = 0;
            for (int i = 0; i < rows; i++) dot += q[(int64_t)j * rows + i] * x[i];
            for (int i = 0; i < rows; i++) x[i] -= dot * q[(int64_t)j * rows + i];
            coef[j] += dot;
        }
    for (int i = 0; i < rows; i++) norm += x[i] * x[i];
    return sqrt(norm);
}

/* Of one sector of an enlarged block: columns of both, the second's made orthogonal. */
typedef struct joined {
    int rows, n, most;
    int own[2]; /* columns of the first and the second */
    double *q; /* [most][rows], n of them orthonormal */
    double *coef; /* [own[1]][most]: the second's in q */
} joined;

static kl_status join_columns(joined *x, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_alloc(&x->coef, (int64_t)x->most * (x->own[1] + 1), KL_MEM_WORK, err));
    x->n = x->own[0];
    for (int k = 0; k < x->own[1]; k++) {
        double *const from = x->q + (int64_t)(x->own[0] + k) * x->rows,
                      *const to = x->q + (int64_t)x->n * x->rows,
                      *const coef = x->coef + (int64_t)k * x->most;
        const double norm = beyond(x->rows, x->n, x->q, from, coef);
        if (norm < DEPENDENT || x->n == x->rows) continue;
        coef[x->n] = norm;
        for (int i = 0; i < x->rows; i++) to[i] = from[i] / norm;
        x->n++;
    }
out:
    return st;
}

/* The sectors of position p: isometries iso[2] over blocks of both, w[2] being those before. */
static kl_status join_sectors(const kl_enlarged *en, const kl_isometry *const *iso, const within *w,
                              joined *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int k = 0; k < en->basis.nsec; k++) {
        int at[2];
        joined *const to = &x[k];
        for (int i = 0; i < 2; i++) {
            at[i] = kl_basis_find(&iso[i]->basis, en->basis.q[k]);
            to->own[i] = at[i] < 0 ? 0 : iso[i]->basis.dim[at[i]];
        }
        to->rows = en->basis.dim[k];
        to->most = to->own[0] + to->own[1];
        KL_TRY(kl_alloc(&to->q, (int64_t)to->rows * to->most, KL_MEM_WORK, err));
        for (int i = 0; i < 2; i++)
            if (at[i] >= 0)
                embed(en, k, &w[i], iso[i]->enlarged, iso[i]->sec[at[i]], iso[i]->data + iso[i]->off[at[i]],
                      to->own[i], to->q + (int64_t)(i ? to->own[0] : 0) * to->rows);
        KL_TRY(join_columns(to, err));
    }
out:
    return st;
}

/* w[2] become those of the block with this site. */
static kl_status step_within(const kl_isometry *out, const kl_isometry *const *iso, const joined *x,
                             within *w, kl_err *err)
{
    kl_status st = KL_OK;
    for (int i = 0; i < 2; i++) {
        within next;
        KL_TRY(open_within(&iso[i]->basis, &out->basis, &next, err));
        for (int k = 0; k < out->basis.nsec; k++) {
            const joined *const from = &x[out->sec[k]];
            if (next.sec[k] < 0) continue;
            for (int c = 0; c < from->own[i]; c++)
                for (int j = 0; j < from->n; j++)
                    next.data[next.off[k] + (int64_t)c * from->n + j] =
                        i ? from->coef[(int64_t)c * from->most + j] : c == j;
        }
        clear_within(&w[i]);
        w[i] = next;
    }
out:
    return st;
}

static kl_status join_site(const kl_engine *e, int p, const kl_basis *block, const kl_isometry *const *iso,
                           within *w, kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    joined *x = NULL;
    int *sec = NULL, *dim = NULL, n = 0, all = 0;
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, p, block, &en, err));
    KL_TRY(kl_alloc(&x, en->basis.nsec, KL_MEM_WORK, err));
    all = en->basis.nsec;
    KL_TRY(kl_alloc(&sec, all, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&dim, all, KL_MEM_WORK, err));
    KL_TRY(join_sectors(en, iso, w, x, err));
    for (int k = 0; k < all; k++)
        if (x[k].n > 0) sec[n] = k, dim[n++] = x[k].n;
    KL_TRY(kl_isometry_create_take(&en, n, sec, dim, out, err));
    for (int k = 0; k < n; k++)
        memcpy((*out)->data + (*out)->off[k], x[sec[k]].q,
               (size_t)x[sec[k]].rows * (size_t)dim[k] * sizeof(double));
    KL_TRY(step_within(*out, iso, x, w, err));
out:
    for (int k = 0; k < all && x; k++) {
        kl_free(&x[k].q);
        kl_free(&x[k].coef);
    }
    kl_free(&x);
    kl_free(&sec);
    kl_free(&dim);
    kl_enlarged_destroy(&en);
    return st;
}

/* Wavefunction v of *to, whose bases are there: that of `from`. */
static kl_status put_psi(const kl_state *from, const within *w, const kl_layout *lay, int v, kl_state *to,
                         kl_err *err)
{
    kl_status st = KL_OK;
    const kl_enlarged *const own = from->col, *const col = to->col;
    for (int i = 0; i < from->row->basis.nsec; i++) {
        const int j = from->pair[i], row = kl_basis_find(&to->row->basis, from->row->basis.q[i]),
                  k = row < 0 ? -1 : lay->pair[row];
        if (j < 0 || k < 0) continue;
        const int rows = from->row->basis.dim[i];
        double *const psi = to->psi + v * lay->n + lay->off[row];
        if (rows != to->row->basis.dim[row])
            return kl_fail(err, KL_EBROKEN, "a state and its image begin with sites of different bases");
        for (int s = 0; s < col->d; s++) {
            const int r = col->part_sec[k * col->d + s], a = own->part_sec[j * own->d + s];
            if (r < 0 || a < 0 || w->sec[r] != a) continue;
            kl_dgemm('n', 't', rows, col->block.dim[r], own->block.dim[a], 1,
                     from->psi + from->psi_off[i] + (int64_t)own->part_off[j * own->d + s] * rows, rows,
                     w->data + w->off[r], col->block.dim[r], 0,
                     psi + (int64_t)col->part_off[k * col->d + s] * rows, rows);
        }
    }
    return st;
}

static kl_status join(const kl_engine *e, const kl_state *const *one, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = one[0]->nsite;
    within w[2] = {{0}, {0}};
    kl_layout lay = {0};
    kl_state *s = NULL;
    KL_TRY(kl_state_create(e->terms, one[0]->target, &s, err));
    for (int i = 0; i < 2; i++) {
        KL_TRY(open_within(&one[i]->end, &s->end, &w[i], err));
        w[i].data[0] = 1;
    }
    const kl_basis *block = &s->end;
    for (int p = n - 1; p > 1; p--) {
        const kl_isometry *const iso[2] = {one[0]->right[p], one[1]->right[p]};
        KL_TRY(join_site(e, p, block, iso, w, &s->right[p], err));
        block = &s->right[p]->basis;
    }
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, 0, &s->edge, &s->row, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, 1, block, &s->col, err));
    KL_TRY(kl_layout_create(s->model, &s->row->basis, &s->col->basis, s->target, &lay, err));
    s->nstate = 2;
    s->npsi = lay.n;
    KL_TRY(kl_alloc(&s->psi, 2 * lay.n, KL_MEM_STATE, err));
    for (int v = 0; v < 2; v++) KL_TRY(put_psi(one[v], &w[v], &lay, v, s, err));
    s->pair = lay.pair, s->psi_off = lay.off;
    lay.pair = NULL, lay.off = NULL;
    *out = s;
    s = NULL;
out:
    for (int i = 0; i < 2; i++) clear_within(&w[i]);
    kl_layout_clear(&lay);
    kl_state_destroy(&s);
    return st;
}

kl_status kl_twins_find(kl_exec *ex, const kl_engine *e, const kl_state *s, double same, double *overlap,
                        kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_canonical *c = NULL, *other = NULL;
    kl_state *image = NULL;
    *out = NULL;
    *overlap = 1;
    KL_TRY(kl_canonical_create(ex, s, 0, &c, err));
    KL_TRY(image_of(c, s, &image, err));
    KL_TRY(kl_canonical_create(ex, image, 0, &other, err));
    KL_TRY(kl_canonical_overlap(c, other, overlap, err));
    if (fabs(*overlap) > same) goto out;
    const kl_state *const both[2] = {s, image};
    KL_TRY(join(e, both, out, err));
    for (int v = 0; v < 2; v++) (*out)->energy[v] = s->energy[0];
out:
    kl_canonical_destroy(&c);
    kl_canonical_destroy(&other);
    kl_state_destroy(&image);
    return st;
}
