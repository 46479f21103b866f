/* A state of a total spin written out in components: see expand.h. Outline:
   1. the state with its centre at the left end: right isometries at every site, whose first one has the
      multiplet of the whole as its only column;
   2. from the right end on, a sector of n multiplets of spin j becomes 2j + 1 times n states, and an isometry
      is filled by Clebsch-Gordan coefficients and the components of the sites' multiplets: an isometry again;
   3. of the columns of the first one the component that is asked for is taken, and multiplied by the second.
   The left end, where the spin of the whole sits, is never written out.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/components.h"
#include "base/mem.h"
#include "dmrg/canonical.h"
#include "model/wigner.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 1e-14 /* a component of a site's multiplet below is none */

/* The components of a basis of multiplets, as a basis of states. Component k of sector i has the projection
   -j + 2k (doubled) and the number first[i] + k. */
typedef struct unfolded {
    kl_basis basis;
    int *first; /* [sectors of multiplets + 1] */
    kl_qn *q;   /* [components]: charges */
    int *sec;   /* [components]: sector of basis, and the index of the first state in it */
    int *off;
} unfolded;

typedef struct expansion {
    const kl_canonical *from;
    const kl_terms *plain;
    int spin;         /* index of the total spin among the charges of `from` */
    unfolded *cut;    /* [nsite + 1]: of the right part of every cut */
    kl_isometry **iso; /* [nsite] */
} expansion;

static void clear_unfolded(unfolded *u)
{
    kl_basis_clear(&u->basis);
    kl_free(&u->first);
    kl_free(&u->q);
    kl_free(&u->sec);
    kl_free(&u->off);
}

static int by_charge(const void *a, const void *b) { return kl_qn_cmp(*(const kl_qn *)a, *(const kl_qn *)b); }

static int spin_of(const expansion *x, const kl_basis *b, int i) { return b->q[i].v[x->spin]; }

/* The step of the same multiplet that stands for its component ms. */
static int component_of(const expansion *x, const kl_site_type *site, int s, int ms)
{
    return s + (ms - site->state_charge[s][x->spin]) / 2;
}

/* Charges of a component of a site's multiplet: those of any state that is in it. */
static kl_qn site_charge(const expansion *x, int p, int component)
{
    const double *const v = x->from->type[p]->vector + (int64_t)component * x->from->type[p]->dim;
    int state = 0;
    while (fabs(v[state]) < 1e-9) state++;
    return kl_qn_of(x->plain->model, x->plain->type[p]->state_charge[state]);
}

/* Charges of component m of sector k of the isometry at p: those of any path that makes it. */
static kl_qn charge_of(const expansion *x, int p, int k, int m)
{
    const kl_isometry *const r = x->from->right[p];
    const kl_enlarged *const e = r->enlarged;
    const unfolded *const block = &x->cut[p + 1];
    for (int s = 0; s < e->d; s++) {
        const int i = e->part_sec[r->sec[k] * e->d + s];
        if (i < 0) continue;
        const int j = spin_of(x, &e->block, i);
        for (int ms = -e->site->spin[s]; ms <= e->site->spin[s]; ms += 2) {
            if (abs(m - ms) > j) continue;
            const kl_qn q = site_charge(x, p, component_of(x, e->site, s, ms));
            return kl_qn_add(x->plain->model, q, block->q[block->first[i] + (m - ms + j) / 2]);
        }
    }
    return kl_qn_zero();
}

/* 2. The basis of cut p: `of` has its multiplets. */
static kl_status unfold_basis(expansion *x, int p, const kl_basis *of, kl_err *err)
{
    kl_status st = KL_OK;
    unfolded *const u = &x->cut[p];
    int n = 0;
    KL_TRY(kl_alloc(&u->first, of->nsec + 1, KL_MEM_STATE, err));
    for (int i = 0; i < of->nsec; i++) {
        u->first[i] = n;
        n += spin_of(x, of, i) + 1;
    }
    u->first[of->nsec] = n;
    KL_TRY(kl_alloc(&u->q, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&u->sec, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&u->off, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&u->basis.q, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&u->basis.dim, n, KL_MEM_STATE, err));
    for (int i = 0; i < of->nsec && p < x->from->nsite; i++)
        for (int k = 0, j = spin_of(x, of, i); k <= j; k++)
            u->q[u->first[i] + k] = charge_of(x, p, i, 2 * k - j);
    memcpy(u->basis.q, u->q, (size_t)n * sizeof *u->q);
    qsort(u->basis.q, (size_t)n, sizeof *u->q, by_charge);
    for (int c = 0; c < n; c++)
        if (c == 0 || kl_qn_cmp(u->basis.q[c], u->basis.q[u->basis.nsec - 1]))
            u->basis.q[u->basis.nsec++] = u->basis.q[c];
    for (int i = 0; i < of->nsec; i++)
        for (int c = u->first[i]; c < u->first[i + 1]; c++) {
            u->sec[c] = kl_basis_find(&u->basis, u->q[c]);
            u->off[c] = u->basis.dim[u->sec[c]];
            u->basis.dim[u->sec[c]] += of->dim[i];
            u->basis.total += of->dim[i];
        }
out:
    return st;
}

static int is_there(void *self, kl_qn q) { return kl_basis_find(self, q) >= 0; }

/* to += f * from, a block of matrices by columns. */
static void add_block(int rows, int cols, double f, const double *from, int64_t ldf, double *to, int64_t ldt)
{
    for (int c = 0; c < cols; c++)
        for (int r = 0; r < rows; r++) to[r + c * ldt] += f * from[r + c * ldf];
}

/* Component m of the columns of sector k, from step s of the site. */
static void fill_component(const expansion *x, int p, int k, int m, int s, kl_isometry *to)
{
    const kl_isometry *const r = x->from->right[p];
    const kl_enlarged *const e = r->enlarged, *const wide = to->enlarged;
    const unfolded *const block = &x->cut[p + 1], *const whole = &x->cut[p];
    const int d = e->d, big = r->sec[k], i = e->part_sec[big * d + s],
              column = whole->first[k] + (m + spin_of(x, &r->basis, k)) / 2;
    if (i < 0) return;
    const int j = spin_of(x, &e->block, i), sec = whole->sec[column];
    const int64_t rows = wide->basis.dim[to->sec[sec]];
    for (int ms = -e->site->spin[s]; ms <= e->site->spin[s]; ms += 2) {
        if (abs(m - ms) > j) continue;
        const double g = kl_clebsch(e->site->spin[s], ms, j, m - ms, spin_of(x, &r->basis, k), m);
        const double *const v = e->site->vector + (int64_t)component_of(x, e->site, s, ms) * d;
        const int from = block->first[i] + (m - ms + j) / 2;
        for (int state = 0; state < d && g != 0; state++) {
            if (fabs(v[state]) < SMALL) continue;
            const int row = wide->part_off[to->sec[sec] * d + state] + block->off[from];
            add_block(e->block.dim[i], r->basis.dim[k], g * v[state],
                      r->data + r->off[k] + e->part_off[big * d + s], e->basis.dim[big],
                      to->data + to->off[sec] + row + rows * whole->off[column], rows);
        }
    }
}

/* 2. The isometry at p, and the basis that it makes. */
static kl_status unfold_isometry(expansion *x, int p, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const r = x->from->right[p];
    kl_enlarged *e = NULL;
    int *sec = NULL;
    KL_TRY(unfold_basis(x, p, &r->basis, err));
    unfolded *const whole = &x->cut[p];
    KL_TRY(kl_enlarged_create(x->plain->model, &x->cut[p + 1].basis, x->plain->type[p], is_there,
                              &whole->basis, &e, err));
    KL_TRY(kl_alloc(&sec, whole->basis.nsec, KL_MEM_WORK, err));
    for (int c = 0; c < whole->basis.nsec; c++) sec[c] = kl_basis_find(&e->basis, whole->basis.q[c]);
    KL_TRY(kl_isometry_create_take(&e, whole->basis.nsec, sec, whole->basis.dim, &x->iso[p], err));
    for (int k = 0; k < r->basis.nsec; k++)
        for (int j = spin_of(x, &r->basis, k), m = -j; m <= j; m += 2)
            for (int s = 0; s < r->enlarged->d; s++) fill_component(x, p, k, m, s, x->iso[p]);
out:
    kl_enlarged_destroy(&e);
    kl_free(&sec);
    return st;
}

static int completes(void *self, kl_qn q)
{
    const kl_state *const s = self;
    return kl_basis_find(&s->col->basis, kl_qn_sub(s->model, s->target, q)) >= 0;
}

/* 3. The wavefunction at centre 0 of column `column` of the first isometry. */
static kl_status open_centre(expansion *x, int column, kl_state *s, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_isometry *const first = x->iso[0], *const second = x->iso[1];
    const int d = s->type[0]->dim, big = first->sec[column];
    const double *const v = first->data + first->off[column];
    kl_layout lay = {0};
    KL_TRY(kl_enlarged_copy(second->enlarged, &s->col, err));
    KL_TRY(kl_enlarged_create(s->model, &s->edge, s->type[0], completes, s, &s->row, err));
    KL_TRY(kl_layout_create(s->model, &s->row->basis, &s->col->basis, s->target, &lay, err));
    s->npsi = lay.n;
    KL_TRY(kl_alloc(&s->psi, lay.n, KL_MEM_STATE, err));
    for (int state = 0; state < d; state++) {
        const int k = first->enlarged->part_sec[big * d + state], row = s->row->home[state];
        if (k < 0 || row < 0) continue;
        const int rows = s->row->basis.dim[row], cols = second->enlarged->basis.dim[second->sec[k]];
        double *const psi = s->psi + lay.off[row] + s->row->part_off[row * d + state];
        for (int b = 0; b < second->basis.dim[k]; b++) {
            const double f = v[first->enlarged->part_off[big * d + state] + b] * x->from->bond[0][0];
            const double *const from = second->data + second->off[k] + (int64_t)b * cols;
            for (int c = 0; c < cols; c++) psi[(int64_t)c * rows] += f * from[c];
        }
    }
    s->pair = lay.pair;
    s->psi_off = lay.off;
    lay.pair = NULL;
    lay.off = NULL;
out:
    kl_layout_clear(&lay);
    return st;
}

/* Sector of the first isometry's columns with these charges, or the one of M = S. */
static kl_status find_component(const expansion *x, const kl_qn *target, int *sec, kl_err *err)
{
    const unfolded *const whole = &x->cut[0];
    *sec = target == NULL ? whole->sec[whole->first[1] - 1] : kl_basis_find(&whole->basis, *target);
    if (*sec >= 0) return KL_OK;
    char have[128], want[128];
    return kl_fail(err, KL_EINPUT, "a state with %s has no component with %s",
                   kl_qn_print(x->from->model, x->from->target, have, sizeof have),
                   kl_qn_print(x->plain->model, *target, want, sizeof want));
}

kl_status kl_components_create(kl_exec *ex, const kl_state *spin, int which, const kl_terms *plain,
                               const kl_qn *target, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = spin->nsite;
    kl_canonical *c = NULL;
    kl_state *s = NULL;
    expansion x = {.plain = plain, .spin = kl_model_spin(spin->model)};
    int column;
    *out = NULL;
    KL_TRY(kl_canonical_create(ex, spin, which, &c, err));
    x.from = c;
    KL_TRY(kl_alloc(&x.cut, n + 1, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&x.iso, n, KL_MEM_STATE, err));
    KL_TRY(unfold_basis(&x, n, &c->end, err));
    for (int p = n - 1; p >= 0; p--) KL_TRY(unfold_isometry(&x, p, err));
    KL_TRY(find_component(&x, target, &column, err));
    KL_TRY(kl_state_create(plain, x.cut[0].basis.q[column], &s, err));
    s->nstate = 1;
    s->energy[0] = spin->energy[which];
    KL_TRY(open_centre(&x, column, s, err));
    for (int p = 2; p < n; p++) {
        s->right[p] = x.iso[p];
        x.iso[p] = NULL;
    }
    *out = s;
    s = NULL;
out:
    kl_state_destroy(&s);
    for (int p = 0; x.cut != NULL && p <= n; p++) clear_unfolded(&x.cut[p]);
    for (int p = 0; x.iso != NULL && p < n; p++) kl_isometry_destroy(&x.iso[p]);
    kl_free(&x.cut);
    kl_free(&x.iso);
    kl_canonical_destroy(&c);
    return st;
}
