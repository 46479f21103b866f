/* Matrix product states: making and freeing.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/state.h"
#include "base/mem.h"
#include <string.h>

kl_status kl_isometry_shape_take(kl_enlarged **e, int nsec, const int *sec, const int *dim, kl_isometry **out,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    kl_isometry *o = NULL;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_STATE, err));
    o->enlarged = *e;
    *e = NULL;
    KL_TRY(kl_alloc(&o->basis.q, nsec, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&o->basis.dim, nsec, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&o->sec, nsec, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&o->off, nsec, KL_MEM_STATE, err));
    o->basis.nsec = nsec;
    for (int i = 0; i < nsec; i++) {
        o->sec[i] = sec[i];
        o->basis.q[i] = o->enlarged->basis.q[sec[i]];
        o->basis.dim[i] = dim ? dim[i] : o->enlarged->basis.dim[sec[i]];
        o->basis.total += o->basis.dim[i];
        o->off[i] = o->ndata;
        o->ndata += (int64_t)o->basis.dim[i] * o->enlarged->basis.dim[sec[i]];
    }
out:
    if (st != KL_OK) kl_isometry_destroy(&o);
    *out = o;
    return st;
}

kl_status kl_isometry_create_take(kl_enlarged **e, int nsec, const int *sec, const int *dim,
                                  kl_isometry **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_isometry_shape_take(e, nsec, sec, dim, out, err));
    KL_TRY(kl_alloc(&(*out)->data, (*out)->ndata, KL_MEM_STATE, err));
out:
    if (st != KL_OK) kl_isometry_destroy(out);
    return st;
}

kl_status kl_isometry_blank_take(kl_enlarged **e, int nsec, const int *sec, const int *dim, kl_isometry **out,
                                 kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_isometry_shape_take(e, nsec, sec, dim, out, err));
    KL_TRY(kl_realloc(&(*out)->data, (*out)->ndata, KL_MEM_STATE, err));
out:
    if (st != KL_OK) kl_isometry_destroy(out);
    return st;
}

void kl_isometry_destroy(kl_isometry **po)
{
    kl_isometry *const o = *po;
    if (!o) return;
    kl_enlarged_destroy(&o->enlarged);
    kl_basis_clear(&o->basis);
    kl_free(&o->sec);
    kl_free(&o->off);
    kl_free(&o->data);
    kl_free(po);
}

static kl_status copy_ints(int **to, const int *from, int64_t n, kl_err *err)
{
    const kl_status st = kl_alloc(to, n, KL_MEM_MISC, err);
    if (st == KL_OK && n) memcpy(*to, from, (size_t)n * sizeof **to);
    return st;
}

kl_status kl_enlarged_copy(const kl_enlarged *from, kl_enlarged **to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *e = NULL;
    const int64_t n = (int64_t)from->basis.nsec * from->d;
    KL_TRY(kl_alloc(&e, 1, KL_MEM_MISC, err));
    e->site = from->site;
    e->d = from->d;
    KL_TRY(kl_basis_copy(&from->block, &e->block, err));
    KL_TRY(kl_basis_copy(&from->basis, &e->basis, err));
    KL_TRY(copy_ints(&e->part_sec, from->part_sec, n, err));
    KL_TRY(copy_ints(&e->part_off, from->part_off, n, err));
    KL_TRY(copy_ints(&e->home, from->home, (int64_t)from->block.nsec * from->d, err));
out:
    if (st != KL_OK) kl_enlarged_destroy(&e);
    *to = e;
    return st;
}

static kl_status make_empty(kl_qn q, kl_basis *b, kl_err *err)
{
    int dim = 1;
    const kl_basis one = {.nsec = 1, .q = &q, .dim = &dim, .total = 1};
    return kl_basis_copy(&one, b, err);
}

kl_status kl_state_create(const kl_terms *terms, kl_qn target, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    const int n = terms->nsite;
    KL_TRY(kl_alloc(&s, 1, KL_MEM_STATE, err));
    s->model = terms->model;
    s->nsite = n;
    s->target = target;
    KL_TRY(kl_alloc(&s->type, n, KL_MEM_STATE, err));
    memcpy(s->type, terms->type, (size_t)n * sizeof *s->type);
    KL_TRY(kl_alloc(&s->left, n, KL_MEM_STATE, err));
    KL_TRY(kl_alloc(&s->right, n, KL_MEM_STATE, err));
    KL_TRY(make_empty(kl_qn_edge(terms->model, target), &s->edge, err));
    KL_TRY(make_empty(kl_qn_zero(), &s->end, err));
out:
    if (st != KL_OK) kl_state_destroy(&s);
    *out = s;
    return st;
}

void kl_state_destroy(kl_state **ps)
{
    kl_state *const s = *ps;
    if (!s) return;
    for (int p = 0; p < s->nsite; p++) {
        if (s->left) kl_isometry_destroy(&s->left[p]);
        if (s->right) kl_isometry_destroy(&s->right[p]);
    }
    kl_free(&s->left);
    kl_free(&s->right);
    kl_free(&s->type);
    kl_basis_clear(&s->edge);
    kl_basis_clear(&s->end);
    kl_enlarged_destroy(&s->row);
    kl_enlarged_destroy(&s->col);
    kl_free(&s->pair);
    kl_free(&s->psi_off);
    kl_free(&s->psi);
    kl_free(&s->narrow);
    kl_free(ps);
}

int64_t kl_state_narrow_size(const kl_state *s)
{
    const kl_isometry *const left = s->left[s->centre], *const right = s->right[s->centre + 1];
    int64_t n = 0;
    for (int i = 0; i < s->row->basis.nsec; i++) {
        const int j = s->pair[i];
        if (j < 0) continue;
        for (int k = 0; left && k < left->basis.nsec; k++)
            if (left->sec[k] == i) n += (int64_t)left->basis.dim[k] * s->col->basis.dim[j];
        for (int k = 0; !left && right && k < right->basis.nsec; k++)
            if (right->sec[k] == j) n += (int64_t)right->basis.dim[k] * s->row->basis.dim[i];
    }
    return n;
}

static kl_status copy_bytes(void **to, const void *from, int64_t n, size_t size, kl_err *err)
{
    const kl_status st = kl_alloc_bytes(to, n, size, KL_MEM_STATE, err);
    if (st == KL_OK && n > 0) memcpy(*to, from, (size_t)n * size);
    return st;
}

static kl_status copy_isometry(const kl_isometry *from, const kl_site_type *site, kl_isometry **to,
                               kl_err *err)
{
    kl_status st = KL_OK;
    kl_isometry *o = NULL;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_STATE, err));
    KL_TRY(kl_enlarged_copy(from->enlarged, &o->enlarged, err));
    o->enlarged->site = site;
    KL_TRY(kl_basis_copy(&from->basis, &o->basis, err));
    KL_TRY(copy_bytes((void **)&o->sec, from->sec, from->basis.nsec, sizeof *o->sec, err));
    KL_TRY(copy_bytes((void **)&o->off, from->off, from->basis.nsec, sizeof *o->off, err));
    KL_TRY(copy_bytes((void **)&o->data, from->data, from->ndata, sizeof *o->data, err));
    o->ndata = from->ndata;
    *to = o;
    o = NULL;
out:
    kl_isometry_destroy(&o);
    return st;
}

kl_status kl_state_copy(const kl_state *from, const kl_terms *terms, kl_state **to, kl_err *err)
{
    kl_status st = KL_OK;
    kl_state *s = NULL;
    KL_TRY(kl_state_create(terms, from->target, &s, err));
    for (int p = 0; p < from->nsite; p++) {
        if (from->left[p]) KL_TRY(copy_isometry(from->left[p], terms->type[p], &s->left[p], err));
        if (from->right[p]) KL_TRY(copy_isometry(from->right[p], terms->type[p], &s->right[p], err));
    }
    s->centre = from->centre;
    s->nstate = from->nstate;
    s->npsi = from->npsi;
    memcpy(s->energy, from->energy, sizeof s->energy);
    KL_TRY(kl_enlarged_copy(from->row, &s->row, err));
    KL_TRY(kl_enlarged_copy(from->col, &s->col, err));
    s->row->site = terms->type[s->centre];
    s->col->site = terms->type[s->centre + 1];
    KL_TRY(copy_bytes((void **)&s->pair, from->pair, from->row->basis.nsec, sizeof *s->pair, err));
    KL_TRY(copy_bytes((void **)&s->psi_off, from->psi_off, from->row->basis.nsec, sizeof *s->psi_off, err));
    KL_TRY(copy_bytes((void **)&s->psi, from->psi, from->nstate * from->npsi, sizeof *s->psi, err));
    s->nnarrow = from->nnarrow;
    KL_TRY(
        copy_bytes((void **)&s->narrow, from->narrow, from->nstate * from->nnarrow, sizeof *s->narrow, err));
    *to = s;
    s = NULL;
out:
    kl_state_destroy(&s);
    return st;
}

int kl_state_widest(const kl_state *s)
{
    int64_t m = 1;
    for (int p = 0; p < s->nsite; p++) {
        if (s->left[p] && s->left[p]->basis.total > m) m = s->left[p]->basis.total;
        if (s->right[p] && s->right[p]->basis.total > m) m = s->right[p]->basis.total;
    }
    return (int)m;
}
