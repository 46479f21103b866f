/* y = H x on a caller's vectors: see kronlat.h. The executor's vectors have elements that are no states; the
   product form of electrons and determinants have an order of modes of their own; callers see neither.
   SPDX-License-Identifier: Apache-2.0 */
#include "lib/handles.h"

#include <string.h>

#include "base/mem.h"
#include "base/par.h"
#include "ci/cioperator.h"
#include "run/cirun.h"
#include "run/edrun.h"
#include "run/runfile.h"

struct kronlat_operator {
    kl_scene *scene; /* of a lattice */
    kl_ed *ed;
    kl_ci_operator *ci; /* of a molecule */
    kl_exec *own; /* of a molecule */
    kl_exec *ex;
    kl_linop *h; /* in units of `unit` */
    double unit;
    kl_places places;
    double *work; /* [n] of the executor's vectors, in host memory */
    kl_dptr x, y;
};

/* ---------------------------------------------------------------- indices */

void kl_places_clear(kl_places *p)
{
    kl_free(&p->at);
    kl_free(&p->sign);
}

enum { CHUNK = 4096 };

typedef struct signing {
    const kl_bipartition *space;
    kl_places *places;
} signing;

static void find_signs(void *self, int64_t task, int thread)
{
    const signing *const s = self;
    int state[1024], sign;
    const int64_t end = (task + 1) * CHUNK < s->places->dim ? (task + 1) * CHUNK : s->places->dim;
    (void)thread;
    for (int64_t i = task * CHUNK; i < end; i++) {
        (void)kl_bipartition_unrank(s->space, s->places->at[i], state);
        (void)kl_bipartition_rank(s->space, state, &sign);
        s->places->sign[i] = (signed char)sign;
    }
}

kl_status kl_places_create(const kl_ed *ed, int nthread, kl_places *out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_kron *const k = ed->kron;
    int64_t n = 0;
    *out = (kl_places){.dim = ed->space->dim};
    KL_TRY(kl_alloc(&out->at, out->dim, KL_MEM_VECTOR, err));
    for (int64_t b = 0; b < k->nblock; b++) {
        const kl_kron_block *const block = &k->block[b];
        for (int64_t r = 0; r < block->nr; r += KL_KRON_LANES)
            for (int64_t l = 0; l < block->nl; l++)
                for (int64_t i = r; i < r + KL_KRON_LANES && i < block->nr; i++)
                    out->at[n++] = block->off + (r / KL_KRON_LANES * block->nl + l) * KL_KRON_LANES + i - r;
    }
    if (!ed->space->flavours) goto out;
    KL_TRY(kl_alloc(&out->sign, out->dim, KL_MEM_VECTOR, err));
    signing s = {ed->space, out};
    kl_par_for(nthread, (out->dim + CHUNK - 1) / CHUNK, find_signs, &s);
out:
    if (st != KL_OK) kl_places_clear(out);
    return st;
}

/* ---------------------------------------------------------------- the operator */

void kronlat_operator_destroy(kronlat_operator *op)
{
    if (op == NULL) return;
    if (op->x.addr) op->ex->vt.release(op->ex, &op->x);
    if (op->y.addr) op->ex->vt.release(op->ex, &op->y);
    kl_places_clear(&op->places);
    kl_free(&op->work);
    kl_ed_destroy(&op->ed);
    kl_ci_operator_destroy(&op->ci);
    kl_exec_close(&op->own);
    kl_scene_release(&op->scene);
    kl_free(&op);
}

static kl_status of_lattice(const kronlat_problem *p, kronlat_operator *op, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ed_opts opts;
    KL_TRY(kl_problem_new_scene(p, KL_CMD_ED, &op->scene, err));
    kl_task *const t = op->scene->t;
    KL_TRY(kl_task_one_sector(t, "an operator is of", err));
    kl_edrun_opts(t, &opts);
    opts.solver = KL_ED_LANCZOS; /* two vectors: no more memory is asked for */
    opts.nstate = 1;
    opts.want_vectors = 0;
    KL_TRY(kl_edrun_operator(t, t->target, &opts, &op->ed, err));
    op->ex = t->ex;
    op->h = &op->ed->op;
    op->unit = op->ed->unit;
    KL_TRY(kl_places_create(op->ed, t->ex->nthread, &op->places, err));
out:
    return st;
}

static kl_status of_molecule(const kronlat_problem *p, kronlat_operator *op, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    kl_fcidump *read = NULL;
    kl_cirun x = {0};
    int *occupation = NULL;
    KL_TRY(kl_problem_options(p, KL_CMD_CI, &o, err));
    KL_TRY(kl_cirun_open(o, &x, err));
    if (p->integrals == NULL) KL_TRY(kl_runfile_integrals(o->file, &read, err));
    const kl_fcidump *const f = p->integrals != NULL ? p->integrals : read;
    KL_TRY(kl_task_exec(o, &op->own, err));
    op->ex = op->own;
    KL_TRY(kl_ci_operator_create(f, op->ex, &x.opts, &op->ci, err));
    op->h = &op->ci->sector.op;
    op->unit = op->ci->unit;
    const int64_t n = op->places.dim = op->h->n;
    KL_TRY(kl_alloc(&op->places.at, n, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&op->places.sign, n, KL_MEM_VECTOR, err));
    KL_TRY(kl_alloc(&occupation, f->norb, KL_MEM_MISC, err));
    for (int64_t i = 0; i < n; i++) {
        int sign;
        kl_ci_operator_at(op->ci, i, occupation, &sign);
        op->places.at[i] = i;
        op->places.sign[i] = (signed char)sign;
    }
out:
    kl_free(&occupation);
    kl_cirun_clear(&x);
    kl_fcidump_destroy(&read);
    kl_options_destroy(&o);
    return st;
}

static kl_status create(const kronlat_problem *p, kronlat_operator **out, kl_err *err)
{
    kl_status st = KL_OK;
    kronlat_operator *op = NULL;
    KL_TRY(kl_alloc(&op, 1, KL_MEM_MISC, err));
    if (p->model == NULL) KL_TRY(of_molecule(p, op, err));
    else KL_TRY(of_lattice(p, op, err));
    KL_TRY(kl_alloc(&op->work, op->h->n, KL_MEM_VECTOR, err));
    KL_TRY(op->ex->vt.alloc(op->ex, op->h->n, &op->x, err));
    KL_TRY(op->ex->vt.alloc(op->ex, op->h->n, &op->y, err));
    *out = op;
    op = NULL;
out:
    kronlat_operator_destroy(op);
    return st;
}

kronlat_status kronlat_operator_create(kronlat_problem *problem, kronlat_operator **out, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(problem);
    *out = NULL;
    return kl_visit_end(v, create(problem, out, &err), &err, error);
}

int64_t kronlat_operator_dimension(const kronlat_operator *op) { return op->places.dim; }

int kronlat_operator_sites(const kronlat_operator *op)
{
    return op->ci != NULL ? op->ci->f->norb : op->scene->t->lat->nsite;
}

int kronlat_operator_position(const kronlat_operator *op, int site)
{
    if (site < 0 || site >= kronlat_operator_sites(op)) return -1;
    return op->ci != NULL ? site : op->scene->t->lat->position[site];
}

/* One vector: out to the executor's order and back, and from the sector's own unit to the model's. */
static kl_status apply_one(kronlat_operator *op, const double *x, double *y, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = op->ex;
    const kl_places *const p = &op->places;
    const int64_t n = op->h->n;
    memset(op->work, 0, (size_t)n * sizeof *op->work);
    for (int64_t i = 0; i < p->dim; i++) op->work[p->at[i]] = p->sign != NULL ? p->sign[i] * x[i] : x[i];
    KL_TRY(ex->vt.upload(ex, op->x, op->work, n, err));
    KL_TRY(op->h->apply(op->h, 1, op->x, n, op->y, n, err));
    KL_TRY(ex->vt.download(ex, op->work, op->y, n, err));
    for (int64_t i = 0; i < p->dim; i++) {
        const double v = op->unit * op->work[p->at[i]];
        y[i] = p->sign != NULL ? p->sign[i] * v : v;
    }
out:
    return st;
}

kronlat_status kronlat_operator_apply(kronlat_operator *op, int nvector, const double *x, int64_t ldx,
                                      double *y, int64_t ldy, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const int there = x != NULL && y != NULL && ldx >= op->places.dim && ldy >= op->places.dim;
    if (nvector < 0 || (nvector > 0 && !there))
        st = kl_fail(&err, KL_EINPUT,
                     "%d vectors at strides %lld and %lld: a stride has to be %lld at least, no vector NULL",
                     nvector, (long long)ldx, (long long)ldy, (long long)op->places.dim);
    for (int k = 0; k < nvector && st == KL_OK; k++) st = apply_one(op, x + k * ldx, y + k * ldy, &err);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_operator_diagonal(kronlat_operator *op, double *d, kronlat_error *error)
{
    kl_err err = {{0}};
    const kl_visit v = kl_visit_begin(NULL);
    const double *from = op->work;
    if (op->ci != NULL) from = op->ci->diagonal;
    else kl_kron_diagonal(op->ed->kron, 0, op->ed->kron->n, op->work); /* of a stored matrix, too */
    for (int64_t i = 0; i < op->places.dim; i++) d[i] = op->unit * from[op->places.at[i]];
    return kl_visit_end(v, KL_OK, &err, error);
}

kronlat_status kronlat_operator_state(const kronlat_operator *op, int64_t i, int *state, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    int *by_position = NULL, sign;
    const kl_visit v = kl_visit_begin(NULL);
    if (i < 0 || i >= op->places.dim)
        KL_TRY(kl_fail(&err, KL_EINPUT, "there is no basis state %lld; allowed: 0 to %lld", (long long)i,
                       (long long)op->places.dim - 1));
    if (op->ci != NULL) {
        kl_ci_operator_at(op->ci, i, state, &sign);
        goto out;
    }
    const kl_lattice *const lat = op->scene->t->lat;
    KL_TRY(kl_alloc(&by_position, lat->nsite, KL_MEM_MISC, &err));
    (void)kl_bipartition_unrank(op->ed->space, op->places.at[i], by_position);
    for (int p = 0; p < lat->nsite; p++) state[lat->order[p]] = by_position[p];
out:
    kl_free(&by_position);
    return kl_visit_end(v, st, &err, error);
}

/* Index in the executor's vectors of a state of a lattice. */
static int64_t find_place(const kronlat_operator *op, const int *state)
{
    const kl_lattice *const lat = op->scene->t->lat;
    int *by_position = NULL, inside = 1;
    int64_t place = -1;
    if (kl_alloc(&by_position, lat->nsite, KL_MEM_MISC, NULL) != KL_OK) return -1;
    for (int k = 0; k < lat->nsite && inside; k++) {
        by_position[k] = state[lat->order[k]];
        inside = by_position[k] >= 0 && by_position[k] < op->scene->t->terms->type[k]->dim;
    }
    if (inside) place = kl_bipartition_rank(op->ed->space, by_position, NULL);
    kl_free(&by_position);
    return place;
}

int64_t kronlat_operator_find(const kronlat_operator *op, const int *state)
{
    const kl_places *const p = &op->places;
    const int64_t place = op->ci != NULL ? kl_ci_operator_find(op->ci, state) : find_place(op, state);
    int64_t low = 0, high = p->dim - 1;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (p->at[mid] < place) low = mid + 1;
        else high = mid;
    }
    return p->dim > 0 && p->at[low] == place ? low : -1;
}
