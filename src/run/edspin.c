/* S^2 as a sum of operators: see edspin.h. Outline:
   1. the multiplets of every kind of site, which the variant with the total spin has, make Sz, S+ and S^2 of
      a site; each is written in the operators that the tables have;
   2. S^2 of the whole: S^2 of each site, and of each pair S+ S- + hc + 2 Sz Sz.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/edspin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "run/sitepart.h"

#define NEAR 1e-6 /* of S (S + 1) */

enum { Z, PLUS, SQUARE, NMAT };
enum { MANY = 500 }; /* terms of a model whose variant with the total spin takes longer than S is worth */

/* to += f * (component `row`) (component `col`)^T, components of a site's multiplets. */
static void add_outer(const kl_site_type *site, double f, int row, int col, double *to)
{
    const int d = site->dim;
    const double *const u = site->vector + (int64_t)row * d, *const v = site->vector + (int64_t)col * d;
    for (int c = 0; c < d; c++)
        for (int r = 0; r < d; r++) to[r + c * d] += f * u[r] * v[c];
}

/* 1. mat[NMAT][dim][dim] of a site by its multiplets. */
static void site_matrices(const kl_site_type *site, int spin, double *mat)
{
    const int d = site->dim;
    for (int s = 0; s < d; s++) {
        const int j = site->spin[s], m = site->state_charge[s][spin];
        add_outer(site, m / 2.0, s, s, mat + Z * d * d);
        add_outer(site, j * (j + 2) / 4.0, s, s, mat + SQUARE * d * d);
        if (m < j) add_outer(site, sqrt((j - m) * (j + m + 2)) / 2, s + 1, s, mat + PLUS * d * d);
    }
}

/* part[ntype][NMAT] */
static kl_status find_parts(const kl_model *plain, const kl_model *with, kl_sitepart *part, int *found,
                            kl_err *err)
{
    kl_status st = KL_OK;
    double *mat = NULL;
    for (int k = 0; k < plain->ntype && *found; k++) {
        const int d = plain->type[k].dim;
        KL_TRY(kl_alloc(&mat, NMAT * d * d, KL_MEM_WORK, err));
        site_matrices(&with->type[k], kl_model_spin(with), mat);
        for (int w = 0; w < NMAT && *found; w++)
            KL_TRY(kl_sitepart_find(&plain->type[k], mat + w * d * d, &part[NMAT * k + w], found, err));
        kl_free(&mat);
    }
out:
    kl_free(&mat);
    return st;
}

/* f A_i B_j, or f A_i; *inside 0: it changes charges. The adjoint is added where hc is 1. */
static kl_status add_product(kl_terms *to, double f, int i, const kl_sitepart *a, int j, const kl_sitepart *b,
                             int hc, int *inside, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = to->model;
    for (int k = 0; k < a->n; k++)
        for (int l = 0; l < (b != NULL ? b->n : 1); l++) {
            kl_op_at op[2] = {{i, a->op[k], 0}, {j, b != NULL ? b->op[l] : KL_OP_IDENTITY, 0}};
            if (hc) op[1].op = to->type[j]->op[op[1].op].adjoint;
            const kl_site_op *const p = &to->type[i]->op[op[0].op], *const q = &to->type[j]->op[op[1].op];
            const double adjoint = hc ? 1 / q->adjoint_factor : 1;
            const kl_qn shift = kl_qn_add(m, kl_qn_of(m, p->shift), kl_qn_of(m, q->shift));
            if (b != NULL && kl_qn_cmp(shift, kl_qn_zero()) != 0) *inside = 0;
            if (!*inside) return KL_OK;
            KL_TRY(kl_terms_add(to, f * a->coef[k] * (b != NULL ? b->coef[l] * adjoint : 1),
                                b != NULL ? 2 : 1, op, hc, err));
        }
out:
    return st;
}

/* 2. */
static kl_status add_square(kl_terms *to, const kl_sitepart *part, int *inside, kl_err *err)
{
    kl_status st = KL_OK;
    for (int i = 0; i < to->nsite && *inside; i++) {
        const kl_sitepart *const a = &part[NMAT * (to->type[i] - to->model->type)];
        KL_TRY(add_product(to, 1, i, &a[SQUARE], 0, NULL, 0, inside, err));
        for (int j = i + 1; j < to->nsite && *inside; j++) {
            const kl_sitepart *const b = &part[NMAT * (to->type[j] - to->model->type)];
            KL_TRY(add_product(to, 2, i, &a[Z], j, &b[Z], 0, inside, err));
            KL_TRY(add_product(to, 1, i, &a[PLUS], j, &b[PLUS], 1, inside, err));
        }
    }
    if (*inside) KL_TRY(kl_terms_merge(to, err));
out:
    return st;
}

kl_status kl_edspin_create(kl_task *t, kl_terms **square, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = t->model;
    kl_sitepart *part = NULL;
    kl_terms *s = NULL;
    kl_err none;
    int found = 1;
    *square = NULL;
    if (m->nterm > MANY) return KL_OK;
    st = kl_task_twin(t, &none);
    if (st == KL_EINPUT) return KL_OK; /* the model has no such variant */
    if (st != KL_OK) return kl_fail(err, st, "%s", none.text);
    KL_TRY(kl_alloc(&part, (int64_t)NMAT * m->ntype, KL_MEM_MISC, err));
    KL_TRY(find_parts(m, t->twin->model, part, &found, err));
    KL_TRY(kl_terms_create_sites(m, t->lat, &s, err));
    if (found) KL_TRY(add_square(s, part, &found, err));
    if (found) *square = s, s = NULL;
out:
    for (int k = 0; part != NULL && k < NMAT * m->ntype; k++) kl_sitepart_clear(&part[k]);
    kl_free(&part);
    kl_edspin_destroy(&s);
    return st;
}

void kl_edspin_destroy(kl_terms **square) { kl_terms_destroy(square); }

kl_status kl_edspin_add(const kl_terms *square, const kl_ed *ed, int nstate, kl_dptr x, int64_t ldx,
                        kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = nstate;
    double *s2 = NULL;
    KL_TRY(kl_alloc(&s2, nstate, KL_MEM_MISC, err));
    KL_TRY(kl_ed_expect_sum(ed, square, nstate, x, ldx, s2, err));
    KL_TRY(kl_result_add(r, "ed/s2", "<S^2> of each state, S being the total spin", 1, &n, s2, err));
out:
    kl_free(&s2);
    return st;
}

int kl_edspin_text(double s2, char out[16])
{
    const double twice = sqrt(1 + 4 * fmax(s2, 0)) - 1;
    const long near = lround(twice);
    const double exact = (double)near * (double)(near + 2) / 4;
    if (!(fabs(s2 - exact) <= NEAR * (1 + exact))) return 0;
    snprintf(out, 16, near % 2 == 0 ? "%ld" : "%ld/2", near % 2 == 0 ? near / 2 : near);
    return 1;
}
