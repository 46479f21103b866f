/* See halves.h. A right isometry A of site p has as its image the left isometry B of site q = nsite - 1 - p:
     1. from the end on, overlaps F of the states of sites p.. that A has with the images of those of B:
        F = sum over states s of the site of A_s^T F_before B_s
     2. wavefunctions on the site that the sweep has come to, with what lies beyond it in images: psi A F
     3. that site belongs to the columns then, and what lies before it is left states
     4. B instead of A, and blocks that grow by it
   The image of |block> |s> is |s> |image of the block>, with the sign of exchanging them.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/halves.h"
#include "base/mem.h"
#include "base/prof.h"
#include "dmrg/engineroom.h"
#include "dmrg/onesite.h"
#include "model/inversion.h"
#include "record/record.h"
#include <math.h>

/* Below that both halves are hardly more than the two sites of a centre. */
enum { LEAST_SITE = 8 };

int kl_halves_possible(const kl_terms *t, kl_qn target)
{
    const int spin = kl_model_spin(t->model);
    /* the left block of no sites has the target's spin, the right one none */
    return t->nsite >= LEAST_SITE && (spin < 0 || target.v[spin] == 0) && kl_inversion_keeps(t);
}

/* Overlaps of the states of a right block, in sectors, with images of a left block's. */
typedef struct overlaps {
    int nsec;   /* of the image */
    int *old;   /* [nsec] the sector of the same charges that there was, or -1 */
    int64_t *at; /* [nsec] where its matrix begins: states that there were x states of the image */
    int64_t n;   /* numbers */
    kl_dptr data;
} overlaps;

static void clear_overlaps(const kl_engine *e, overlaps *f)
{
    kl_free(&f->old);
    kl_free(&f->at);
    e->ex->vt.release(e->ex, &f->data);
}

/* Sectors of the two bases, and room. */
static kl_status open_overlaps(const kl_engine *e, const kl_basis *was, const kl_basis *image, overlaps *f,
                               kl_err *err)
{
    kl_status st = KL_OK;
    f->nsec = image->nsec;
    KL_TRY(kl_alloc(&f->old, image->nsec, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&f->at, image->nsec, KL_MEM_WORK, err));
    for (int k = 0; k < image->nsec; k++) {
        f->old[k] = kl_basis_find(was, image->q[k]);
        f->at[k] = f->n;
        if (f->old[k] >= 0) f->n += (int64_t)was->dim[f->old[k]] * image->dim[k];
        f->n += f->n % 2;
    }
    KL_TRY(e->ex->vt.alloc(e->ex, f->n > 0 ? f->n : 1, &f->data, err));
out:
    return st;
}

double kl_halves_sign(const kl_model *m, const kl_site_type *site, int s, kl_qn block, kl_qn both)
{
    const int spin = kl_model_spin(m), odd = kl_qn_odd(m, block) & (kl_qn_odd(m, both) ^ kl_qn_odd(m, block));
    const int turns = spin < 0 ? 0 : (block.v[spin] + site->spin[s] - both.v[spin]) / 2;
    return odd ^ (turns & 1) ? -1 : 1;
}

/* 1. The matrix of sector k of the image. */
static kl_status overlap_records(const kl_engine *e, const kl_isometry *a, const kl_isometry *b,
                                 const overlaps *before, const overlaps *f, int k, kl_batch *q, kl_err *err)
{
    kl_status st = KL_OK;
    const int o = f->old[k], ca = a->sec[o], cb = b->sec[k], d = b->enlarged->d;
    const int rows_a = a->enlarged->basis.dim[ca], rows_b = b->enlarged->basis.dim[cb];
    const int na = a->basis.dim[o], nb = b->basis.dim[k];
    int64_t most = 0;
    KL_TRY(kl_batch_open_group(q, f->at[k], (int64_t)na * nb, err));
    KL_TRY(kl_batch_reserve(q, 2 * d, err));
    for (int s = 0; s < d; s++) {
        const int ra = a->enlarged->part_sec[ca * d + s], rb = b->enlarged->part_sec[cb * d + s];
        if (ra < 0 || rb < 0 || before->old[rb] != ra) continue;
        const int da = a->enlarged->block.dim[ra], db = b->enlarged->block.dim[rb];
        const double sign =
            kl_halves_sign(e->terms->model, b->enlarged->site, s, b->enlarged->block.q[rb], b->basis.q[k]);
        *kl_batch_push(q) = (kl_rec){.kind = KL_REC_GEMM,
                                     .at_a = KL_AT_X,
                                     .at_b = KL_AT_LEFT,
                                     .at_c = KL_AT_WORK,
                                     .m = da,
                                     .n = nb,
                                     .k = db,
                                     .lda = da,
                                     .ldb = rows_b,
                                     .ldc = da,
                                     .a = before->at[rb],
                                     .b = b->off[k] + b->enlarged->part_off[cb * d + s],
                                     .alpha = sign};
        *kl_batch_push(q) = (kl_rec){.kind = KL_REC_GEMM,
                                     .ta = 1,
                                     .beta = 1,
                                     .at_a = KL_AT_RIGHT,
                                     .at_b = KL_AT_WORK,
                                     .at_c = KL_AT_Y,
                                     .m = na,
                                     .n = nb,
                                     .k = da,
                                     .lda = rows_a,
                                     .ldb = da,
                                     .ldc = na,
                                     .a = a->off[o] + a->enlarged->part_off[ca * d + s],
                                     .c = f->at[k],
                                     .alpha = 1};
        if ((int64_t)da * nb > most) most = (int64_t)da * nb;
    }
    kl_batch_close_group(q, most);
out:
    return st;
}

/* An isometry, wherever it waits, where lists read it; and away again. */
static kl_status bring(kl_engine *e, kl_side side, int pos, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const iso = side == KL_LEFT ? e->left[pos] : e->right[pos];
    kl_engine_make_room(e, 9 * iso->ndata);
    KL_TRY(kl_engine_bring_isometry(e, side, pos, err));
    kl_exec_move_operators(e->ex, 0, iso->ndata, side == KL_LEFT ? &e->left_data[pos] : &e->right_data[pos]);
out:
    return st;
}

/* 1. *f, of the block beyond position p, becomes that of the block from p on. */
static kl_status extend(kl_engine *e, int p, overlaps *f, kl_err *err)
{
    kl_status st = KL_OK;
    const int from = e->nsite - 1 - p, opened = p == e->centre + 1;
    overlaps next = {0};
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(bring(e, KL_LEFT, from, err));
    if (!opened) KL_TRY(bring(e, KL_RIGHT, p, err));
    const kl_isometry *const a = opened ? e->warm : e->right[p], *const b = e->left[from];
    KL_TRY(open_overlaps(e, &a->basis, &b->basis, &next, err));
    for (int k = 0; k < next.nsec; k++)
        if (next.old[k] >= 0) KL_TRY(overlap_records(e, a, b, f, &next, k, &q, err));
    q.zero = 1, q.nx = f->n, q.ny = next.n;
    q.base[KL_AT_LEFT] = e->left_data[from];
    q.base[KL_AT_RIGHT] = opened ? e->warm_data : e->right_data[p];
    if (q.ngroup > 0) KL_TRY(kl_batch_run(&q, e->ex, f->data, next.data, err));
    KL_TRY(kl_engine_put_away(e, KL_LEFT, from, err));
    if (!opened) KL_TRY(kl_engine_put_away(e, KL_RIGHT, p, err));
    clear_overlaps(e, f);
    *f = next;
    next = (overlaps){0};
out:
    kl_batch_clear(&q);
    clear_overlaps(e, &next);
    return st;
}

/* Wavefunctions on their way from one form to the next are kl_ahead: a layout and all of them. */
static kl_status open_form(const kl_engine *e, const kl_basis *row, const kl_basis *col, kl_ahead *x,
                           kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_layout_create(e->terms->model, row, col, e->target, &x->layout, err));
    KL_TRY(e->ex->vt.alloc(e->ex, x->layout.n * e->nstate, &x->psi, err));
    e->ex->vt.fill(e->ex, x->layout.n * e->nstate, 0.0, x->psi);
out:
    return st;
}

/* One segment of a wavefunction of `to', and the room that its records take. */
static kl_status open_segment(kl_batch *q, const kl_ahead *to, int v, int row, int64_t numbers, int records,
                              kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_batch_open_group(q, v * to->layout.n + to->layout.off[row], numbers, err));
    KL_TRY(kl_batch_reserve(q, records, err));
out:
    return st;
}

static kl_status run_form(const kl_engine *e, kl_batch *q, kl_dptr from, int64_t nfrom, kl_ahead *to,
                          kl_err *err)
{
    kl_status st = KL_OK;
    q->nx = e->nstate * nfrom, q->ny = e->nstate * to->layout.n;
    if (q->ngroup > 0) KL_TRY(kl_batch_run(q, e->ex, from, to->psi, err));
out:
    kl_batch_clear(q);
    return st;
}

/* 2. *to: rows of the centre, columns images of the states that `image' has. */
static kl_status to_images(const kl_engine *e, const overlaps *f, const kl_basis *image, kl_ahead *to,
                           kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const a = e->warm;
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(open_form(e, &e->row->basis, image, to, err));
    for (int i = 0; i < e->row->basis.nsec * e->nstate; i++) {
        const int sec = i / e->nstate, v = i % e->nstate, j = e->layout.pair[sec], jb = to->layout.pair[sec];
        const int ja = jb < 0 ? -1 : f->old[jb];
        if (j < 0 || ja < 0 || a->sec[ja] != j) continue;
        const int rows = e->row->basis.dim[sec], wide = e->col->basis.dim[j], states = a->basis.dim[ja];
        const int64_t y = v * to->layout.n + to->layout.off[sec];
        KL_TRY(open_segment(&q, to, v, sec, (int64_t)rows * image->dim[jb], 2, err));
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_X,
                                      .at_b = KL_AT_RIGHT,
                                      .at_c = KL_AT_WORK,
                                      .m = rows,
                                      .n = states,
                                      .k = wide,
                                      .lda = rows,
                                      .ldb = wide,
                                      .ldc = rows,
                                      .a = v * e->layout.n + e->layout.off[sec],
                                      .b = a->off[ja],
                                      .alpha = 1};
        *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_GEMM,
                                      .at_a = KL_AT_WORK,
                                      .at_b = KL_AT_LEFT,
                                      .at_c = KL_AT_Y,
                                      .m = rows,
                                      .n = image->dim[jb],
                                      .k = states,
                                      .lda = rows,
                                      .ldb = states,
                                      .ldc = rows,
                                      .b = f->at[jb],
                                      .c = y,
                                      .alpha = 1};
        kl_batch_close_group(&q, (int64_t)rows * states);
    }
    q.base[KL_AT_RIGHT] = e->warm_data;
    q.base[KL_AT_LEFT] = f->data;
    KL_TRY(run_form(e, &q, e->psi, e->layout.n, to, err));
out:
    kl_batch_clear(&q);
    return st;
}

/* 3. The site of the centre changes sides. */
static kl_status change_sides(const kl_engine *e, const kl_enlarged *col, const kl_ahead *from, kl_ahead *to,
                              kl_err *err)
{
    kl_status st = KL_OK;
    const kl_enlarged *const row = e->row;
    const kl_basis *const left = &row->block;
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(open_form(e, left, &col->basis, to, err));
    for (int i = 0; i < left->nsec * e->nstate; i++) {
        const int sec = i / e->nstate, v = i % e->nstate, j = to->layout.pair[sec];
        if (j < 0) continue;
        const int64_t y = v * to->layout.n + to->layout.off[sec];
        KL_TRY(open_segment(&q, to, v, sec, (int64_t)left->dim[sec] * col->basis.dim[j], row->d, err));
        for (int s = 0; s < row->d; s++) {
            const int own = kl_step_from_other(row->site, s), r = col->part_sec[j * row->d + s],
                      wide = row->home[sec * row->d + own];
            if (r < 0 || wide < 0 || from->layout.pair[wide] != r) continue;
            *kl_batch_push(&q) = (kl_rec){.kind = KL_REC_ADD,
                                          .at_a = KL_AT_X,
                                          .at_c = KL_AT_Y,
                                          .m = left->dim[sec],
                                          .n = col->block.dim[r],
                                          .lda = row->basis.dim[wide],
                                          .ldc = left->dim[sec],
                                          .a = v * from->layout.n + from->layout.off[wide] +
                                               row->part_off[wide * row->d + own],
                                          .c = y + (int64_t)col->part_off[j * row->d + s] * left->dim[sec],
                                          .alpha = 1};
        }
        kl_batch_close_group(&q, 0);
    }
    KL_TRY(run_form(e, &q, from->psi, from->layout.n, to, err));
out:
    kl_batch_clear(&q);
    return st;
}

/* 4. The image of the left isometry of site nsite - 1 - p. */
static kl_status make_image(kl_engine *e, int p, kl_isometry **iso, kl_dptr *data, kl_err *err)
{
    kl_status st = KL_OK;
    const int from = e->nsite - 1 - p;
    const kl_isometry *const b = e->left[from];
    const kl_enlarged *const w = b->enlarged;
    kl_enlarged *en = NULL;
    kl_batch q;
    kl_batch_init(&q);
    KL_TRY(bring(e, KL_LEFT, from, err));
    KL_TRY(kl_enlarged_copy(w, &en, err));
    KL_TRY(kl_isometry_shape_take(&en, b->basis.nsec, b->sec, b->basis.dim, iso, err));
    KL_TRY(kl_exec_alloc_operators(e->ex, (*iso)->ndata, data, err));
    for (int k = 0; k < b->basis.nsec; k++) {
        const int c = b->sec[k], rows = w->basis.dim[c];
        KL_TRY(kl_batch_open_group(&q, (*iso)->off[k], (int64_t)rows * b->basis.dim[k], err));
        KL_TRY(kl_batch_reserve(&q, w->d, err));
        for (int s = 0; s < w->d; s++) {
            const int r = w->part_sec[c * w->d + s], at = w->part_off[c * w->d + s];
            if (r < 0) continue;
            *kl_batch_push(&q) =
                (kl_rec){.kind = KL_REC_ADD,
                         .at_a = KL_AT_X,
                         .at_c = KL_AT_Y,
                         .m = w->block.dim[r],
                         .n = b->basis.dim[k],
                         .lda = rows,
                         .ldc = rows,
                         .a = b->off[k] + at,
                         .c = (*iso)->off[k] + at,
                         .alpha = kl_halves_sign(e->terms->model, w->site, s, w->block.q[r], b->basis.q[k])};
        }
        kl_batch_close_group(&q, 0);
    }
    q.nx = b->ndata, q.ny = (*iso)->ndata;
    KL_TRY(kl_batch_run(&q, e->ex, e->left_data[from], *data, err));
    KL_TRY(kl_engine_put_away(e, KL_LEFT, from, err));
out:
    kl_batch_clear(&q);
    kl_enlarged_destroy(&en);
    return st;
}

/* The largest part of a wavefunction's square that x has not. */
static double largest_loss(const kl_engine *e, const kl_ahead *x)
{
    double most = 0;
    for (int v = 0; v < e->nstate; v++) {
        double was, is;
        const int64_t n = e->layout.n, nx = x->layout.n;
        const kl_dptr psi = kl_dptr_at(e->psi, v * n), image = kl_dptr_at(x->psi, v * nx);
        e->ex->vt.dots(e->ex, n, 1, psi, n, psi, &was);
        e->ex->vt.dots(e->ex, nx, 1, image, nx, image, &is);
        if (was > 0) most = fmax(most, 1 - is / was);
    }
    return most;
}

/* 2 and 3. Wavefunctions on the site of the centre in *to, left states before it, col = that site with
   images. */
static kl_status carry(kl_engine *e, const overlaps *f, const kl_enlarged *col, kl_ahead *to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ahead beyond = {0};
    KL_TRY(to_images(e, f, &col->block, &beyond, err));
    KL_TRY(change_sides(e, col, &beyond, to, err));
out:
    kl_ahead_clear(e->ex, &beyond);
    return st;
}

/* What the engine becomes: the centre of sites begin - 2 and begin - 1, as if the sweep had come to it from
   the right. */
typedef struct folded {
    int begin; /* the first site that becomes an image */
    kl_enlarged *row, *col;
    kl_ahead two; /* wavefunctions of both sites, */
    kl_ahead kept; /* and with the first of them in left states */
    kl_isometry **image; /* [nsite]: from begin on */
    kl_dptr *data;
} folded;

static void clear_folded(const kl_engine *e, folded *x)
{
    kl_enlarged_destroy(&x->row);
    kl_enlarged_destroy(&x->col);
    kl_ahead_clear(e->ex, &x->two);
    kl_ahead_clear(e->ex, &x->kept);
    for (int p = x->begin; p < e->nsite && x->image && x->data; p++) {
        kl_isometry_destroy(&x->image[p]);
        e->ex->vt.release(e->ex, &x->data[p]);
    }
    kl_free(&x->image);
    kl_free(&x->data);
}

/* 4. Everything that may fail while the engine is as it was. */
static kl_status prepare(kl_engine *e, folded *x, kl_err *err)
{
    kl_status st = KL_OK;
    const int c = x->begin - 2;
    KL_TRY(kl_alloc(&x->image, e->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&x->data, e->nsite, KL_MEM_WORK, err));
    for (int p = x->begin; p < e->nsite; p++) KL_TRY(make_image(e, p, &x->image[p], &x->data[p], err));
    KL_TRY(bring(e, KL_LEFT, c, err));
    KL_TRY(kl_engine_enlarge(e, KL_LEFT, c, &e->left_block[c]->basis, &x->row, err));
    KL_TRY(open_form(e, &x->row->basis, &x->col->basis, &x->two, err));
    const kl_wave to = {.row = x->row, .col = x->col, .layout = &x->two.layout, .psi = x->two.psi};
    KL_TRY(kl_wave_open(e->ex, -1, e->nstate, &x->kept, (kl_isometry_on){e->left[c], e->left_data[c]}, &to,
                        err));
out:
    return st;
}

/* 4. Blocks are those of before, of sites that are images now: they grow anew behind this. */
static kl_status become_take(kl_engine *e, folded *x, kl_err *err)
{
    kl_status st = KL_OK;
    for (int p = x->begin; p < e->nsite; p++)
        KL_TRY(kl_engine_set_isometry_take(e, KL_RIGHT, p, &x->image[p], &x->data[p], err)); /* never fails */
    kl_engine_put_centre_take(e, x->begin - 2, -1, &x->row, &x->col, &x->two.layout, &x->two.psi);
    for (int p = x->begin - 1; p < e->nsite && e->left[p]; p++) { /* what the sweep left beyond it */
        kl_isometry_destroy(&e->left[p]);
        e->ex->vt.release(e->ex, &e->left_data[p]);
        kl_block_destroy(&e->left_block[p + 1]);
    }
    kl_onesite_keep(e, &x->kept, &e->left_block[x->begin - 1]);
out:
    return st;
}

kl_status kl_halves_fold(kl_engine *e, double most_lost, int *done, double *lost, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = e->nsite, t = e->centre;
    const double t0 = kl_prof_seconds(), one = 1;
    folded x = {.begin = t + 1};
    overlaps f = {0};
    kl_ahead ahead = {0};
    *done = 0;
    KL_TRY(open_overlaps(e, &e->right_block[n]->basis, &e->left_block[0]->basis, &f, err));
    KL_TRY(e->ex->vt.upload(e->ex, f.data, &one, 1, err));
    for (int p = n - 1; p > t; p--) KL_TRY(extend(e, p, &f, err));
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, t, &e->left_block[n - 1 - t]->basis, &x.col, err));
    KL_TRY(carry(e, &f, x.col, &ahead, err));
    clear_overlaps(e, &f);
    *lost = largest_loss(e, &ahead);
    if (!(*lost <= most_lost)) goto out;
    x.kept = ahead;
    ahead = (kl_ahead){0};
    KL_TRY(prepare(e, &x, err));
    *done = 1;
    KL_TRY(become_take(e, &x, err));
    for (int p = n - 1; p >= x.begin; p--) {
        KL_TRY(kl_engine_rebuild(e, KL_RIGHT, p, err));
        KL_TRY(kl_engine_put_away(e, KL_RIGHT, p, err));
    }
out:
    e->seconds[KL_PART_TRANSFORM] += kl_prof_seconds() - t0;
    clear_overlaps(e, &f);
    kl_ahead_clear(e->ex, &ahead);
    clear_folded(e, &x);
    return st;
}
