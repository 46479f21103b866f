/* See placement.h. 1. labels; 2. H within a placement; 3. its states as those of H.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/placement.h"
#include "base/mem.h"
#include "dmrg/engineroom.h"
#include <string.h>

/* ---- 1. labels ---- */

/* States a and b of a site have one label from now on: the lower one. */
static void join(int *of, int dim, int a, int b)
{
    const int from = of[a] > of[b] ? of[a] : of[b], to = of[a] > of[b] ? of[b] : of[a];
    for (int s = 0; s < dim; s++)
        if (of[s] == from) of[s] = to;
}

/* Labels counted from 0 without a gap; returns how many. */
static int count_up(int *of, int dim)
{
    int n = 0;
    for (int s = 0; s < dim; s++) {
        if (of[s] == s) of[s] = n++;
        else of[s] = of[of[s]];
    }
    return n;
}

kl_status kl_labels_find(const kl_terms *t, kl_labels *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_labels){.nsite = t->nsite, .most = kl_terms_most_states(t)};
    KL_TRY(kl_alloc(&out->n, t->nsite, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->of, (int64_t)t->nsite * out->most, KL_MEM_WORK, err));
    const int apart = kl_model_spin(t->model) < 0;
    for (int p = 0; p < t->nsite; p++)
        for (int s = 0; s < out->most; s++) out->of[p * out->most + s] = apart ? s : 0;
    for (int64_t i = 0; i < t->nop; i++) {
        const int p = t->op[i].pos;
        const kl_site_op *const o = &t->type[p]->op[t->op[i].op];
        for (int k = 0; k < o->nelem && apart; k++)
            join(out->of + p * out->most, t->type[p]->dim, o->elem[k].row, o->elem[k].col);
    }
    for (int p = 0; p < t->nsite; p++) {
        out->n[p] = apart ? count_up(out->of + p * out->most, t->type[p]->dim) : 1;
        out->nfree += out->n[p] > 1;
        out->moving |= out->n[p] < t->type[p]->dim;
    }
out:
    if (st != KL_OK) kl_labels_clear(out);
    return st;
}

void kl_labels_clear(kl_labels *l)
{
    kl_free(&l->n);
    kl_free(&l->of);
}

int kl_labels_alike(const kl_labels *l, const kl_terms *t, int p, int q)
{
    return t->type[p] == t->type[q] &&
           memcmp(l->of + p * l->most, l->of + q * l->most, sizeof *l->of * (size_t)t->type[p]->dim) == 0;
}

/* ---- 2. H within a placement ---- */

/* The operators of a site among the states that are left, at *op and *elem, which move on. */
static void narrow_operators(const kl_site_type *from, const int *number, kl_site_type *to, kl_site_op **op,
                             kl_elem **elem)
{
    to->op = *op;
    for (int a = 0; a < from->nop; a++, ++*op) {
        **op = from->op[a];
        (*op)->elem = *elem;
        (*op)->nelem = 0;
        for (int k = 0; k < from->op[a].nelem; k++) {
            const kl_elem e = from->op[a].elem[k];
            if (number[e.row] < 0 || number[e.col] < 0) continue;
            *(*elem)++ = (kl_elem){.row = number[e.row], .col = number[e.col], .value = e.value};
            (*op)->nelem++;
        }
    }
}

static kl_status narrow_sites(const kl_terms *t, const kl_labels *l, const char *label, kl_placed *out,
                              kl_err *err)
{
    kl_status st = KL_OK;
    int64_t nop = 0, nelem = 0;
    int *number = NULL;
    for (int p = 0; p < t->nsite; p++) {
        nop += t->type[p]->nop;
        for (int a = 0; a < t->type[p]->nop; a++) nelem += t->type[p]->op[a].nelem;
    }
    KL_TRY(kl_alloc(&number, l->most, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&out->type, t->nsite, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->op, nop, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->elem, nelem, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->charge, (int64_t)t->nsite * l->most, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->name, (int64_t)t->nsite * l->most, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&out->state, (int64_t)t->nsite * l->most, KL_MEM_MISC, err));
    out->most = l->most;
    kl_site_op *op = out->op;
    kl_elem *elem = out->elem;
    for (int p = 0; p < t->nsite; p++) {
        const kl_site_type *const from = t->type[p];
        kl_site_type *const to = &out->type[p];
        const int64_t at = (int64_t)p * l->most;
        *to = *from;
        to->product = NULL; /* of whole operators */
        to->dim = 0;
        to->state_charge = out->charge + at;
        to->state_name = out->name + at;
        for (int s = 0; s < from->dim; s++) {
            number[s] = l->of[at + s] == label[p] ? to->dim : -1;
            if (number[s] < 0) continue;
            memcpy(out->charge[at + to->dim], from->state_charge[s], sizeof *out->charge);
            out->name[at + to->dim] = from->state_name ? from->state_name[s] : "";
            out->state[at + to->dim++] = s;
        }
        narrow_operators(from, number, to, &op, &elem);
    }
out:
    kl_free(&number);
    return st;
}

/* The strings that are left: those of which no operator vanishes. */
static kl_status narrow_strings(const kl_terms *t, kl_placed *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *const to = &out->terms;
    KL_TRY(kl_alloc(&to->type, t->nsite, KL_MEM_MISC, err));
    for (int p = 0; p < t->nsite; p++) to->type[p] = &out->type[p];
    KL_TRY(kl_terms_room(to, t, err));
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_term *const from = &t->term[i];
        int there = 1;
        for (int k = 0; k < from->nop; k++) {
            const kl_op_at *const o = &t->op[from->first + k];
            there &= out->type[o->pos].op[o->op].nelem > 0;
        }
        if (there) kl_terms_pick(to, t, i);
    }
out:
    return st;
}

kl_status kl_placed_create(const kl_terms *t, const kl_labels *l, const char *label, kl_placed *out,
                           kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_placed){.terms = {.nsite = t->nsite, .constant = t->constant}};
    KL_TRY(narrow_sites(t, l, label, out, err));
    KL_TRY(narrow_strings(t, out, err));
    out->model = *t->model;
    out->model.ntype = t->nsite;
    out->model.type = out->type;
out:
    out->terms.model = &out->model;
    if (st != KL_OK) kl_placed_clear(out);
    return st;
}

void kl_placed_clear(kl_placed *x)
{
    kl_terms_clear(&x->terms);
    kl_free(&x->terms.type);
    kl_free(&x->type);
    kl_free(&x->op);
    kl_free(&x->elem);
    kl_free(&x->charge);
    kl_free(&x->name);
    kl_free(&x->state);
}

/* ---- 3. states ---- */

/* row[]: where the rows of sector c of a small basis are in sector `big` of the whole one, whose block is the
   same. */
static void find_rows(const kl_enlarged *small, int c, const kl_enlarged *whole, int big, const int *state,
                      int *row)
{
    for (int s = 0; s < small->d; s++) {
        const int l = small->part_sec[c * small->d + s];
        if (l < 0) continue;
        const int from = small->part_off[c * small->d + s], to = whole->part_off[big * whole->d + state[s]];
        for (int i = 0; i < small->block.dim[l]; i++) row[from + i] = to + i;
    }
}

static int *states_of(const kl_placed *x, int p) { return x->state + (int64_t)p * x->most; }

static kl_status embed_isometry(const kl_placed *x, kl_engine *e, int p, const kl_isometry *small,
                                kl_err *err)
{
    kl_status st = KL_OK;
    kl_enlarged *en = NULL;
    kl_isometry *iso = NULL;
    int *sec = NULL, *row = NULL;
    const int n = small->basis.nsec;
    KL_TRY(kl_engine_enlarge(e, KL_RIGHT, p, &e->right_block[p + 1]->basis, &en, err));
    KL_TRY(kl_alloc(&sec, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&row, small->enlarged->basis.total, KL_MEM_WORK, err));
    for (int c = 0; c < n; c++) sec[c] = kl_basis_find(&en->basis, small->basis.q[c]);
    KL_TRY(kl_isometry_create_take(&en, n, sec, small->basis.dim, &iso, err));
    for (int c = 0; c < n; c++) {
        const int rows = small->enlarged->basis.dim[small->sec[c]], all = iso->enlarged->basis.dim[sec[c]];
        find_rows(small->enlarged, small->sec[c], iso->enlarged, sec[c], states_of(x, p), row);
        for (int k = 0; k < small->basis.dim[c]; k++)
            for (int i = 0; i < rows; i++)
                iso->data[iso->off[c] + row[i] + (int64_t)k * all] =
                    small->data[small->off[c] + i + (int64_t)k * rows];
    }
    KL_TRY(kl_engine_set_isometry_take(e, KL_RIGHT, p, &iso, &(kl_dptr){0}, err));
out:
    kl_enlarged_destroy(&en);
    kl_isometry_destroy(&iso);
    kl_free(&sec);
    kl_free(&row);
    return st;
}

/* Of the lowest wavefunction. */
static kl_status embed_centre(const kl_placed *x, kl_engine *e, const kl_state *from, kl_err *err)
{
    kl_status st = KL_OK;
    double *host = NULL;
    int *row = NULL, *col = NULL;
    KL_TRY(kl_alloc(&host, e->layout.n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&row, from->row->basis.total, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&col, from->col->basis.total, KL_MEM_WORK, err));
    memset(host, 0, sizeof *host * (size_t)e->layout.n);
    for (int i = 0; i < from->row->basis.nsec; i++) {
        const int j = from->pair[i];
        if (j < 0) continue;
        const int to = kl_basis_find(&e->row->basis, from->row->basis.q[i]), rows = from->row->basis.dim[i];
        find_rows(from->row, i, e->row, to, states_of(x, 0), row);
        find_rows(from->col, j, e->col, e->layout.pair[to], states_of(x, 1), col);
        for (int c = 0; c < from->col->basis.dim[j]; c++)
            for (int r = 0; r < rows; r++)
                host[e->layout.off[to] + row[r] + (int64_t)col[c] * e->row->basis.dim[to]] =
                    from->psi[from->psi_off[i] + r + (int64_t)c * rows];
    }
    KL_TRY(e->ex->vt.upload(e->ex, e->psi, host, e->layout.n, err));
out:
    kl_free(&host);
    kl_free(&row);
    kl_free(&col);
    return st;
}

kl_status kl_placed_embed(const kl_placed *x, const kl_terms *t, kl_exec *ex, const kl_engine_opts *o,
                          const kl_state *from, kl_state **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_engine *e = NULL;
    *out = NULL;
    KL_TRY(kl_engine_create(t, ex, o, &e, err));
    for (int p = t->nsite - 1; p > 1; p--) {
        KL_TRY(embed_isometry(x, e, p, from->right[p], err));
        KL_TRY(kl_engine_rebuild(e, KL_RIGHT, p, err));
        KL_TRY(kl_engine_put_away(e, KL_RIGHT, p, err));
    }
    KL_TRY(kl_engine_open(e, 0, err));
    KL_TRY(embed_centre(x, e, from, err));
    KL_TRY(kl_engine_state(e, from->energy, out, err));
out:
    kl_engine_destroy(&e);
    return st;
}
