/* What a run of exact diagonalization would need, and which solver it takes.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/ed.h"

#include <math.h>

#include "solve/lobpcg.h"

kl_status kl_ed_check_full(double dim, kl_err *err)
{
    if (dim <= (double)KL_ED_FULL_MOST) return KL_OK;
    return kl_fail(err, KL_EINPUT, "the full spectrum of a sector of %.15g states; at most %d are possible",
                   dim, (int)KL_ED_FULL_MOST);
}

kl_ed_solver kl_ed_solver_for(double dim, int nstate)
{
    return dim <= (double)KL_ED_FULL_AUTO ? KL_ED_FULL
           : nstate == 1                  ? KL_ED_LANCZOS
           : nstate <= KL_LOBPCG_MOST     ? KL_ED_LOBPCG
                                          : KL_ED_DAVIDSON;
}

/* 1: a state becomes another one. */
static int moves(const kl_terms *t, const kl_term *term)
{
    const kl_op_at *const op = t->op + term->first;
    for (int f = 0; f < term->nop; f++) {
        const kl_site_op *const o = &t->type[op[f].pos]->op[op[f].op];
        for (int e = 0; e < o->nelem; e++)
            if (o->elem[e].row != o->elem[e].col) return 1;
    }
    return 0;
}

/* Strings that reach over the cut and move something there: each is a gather of its own for every state. */
static int64_t crossing(const kl_terms *t, int cut)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->nterm; i++) {
        const kl_op_at *const op = t->op + t->term[i].first;
        const int k = t->term[i].nop;
        if (k >= 2 && op[0].pos < cut && op[k - 1].pos >= cut) n += moves(t, &t->term[i]);
    }
    return n;
}

/* A string that moves something finds what it needs in about a quarter of all states: that of c+ c at half
   filling, and of S+ S- at Sz = 0. */
static double row_nonzeros(const kl_terms *t)
{
    double n = 1;
    for (int64_t i = 0; i < t->nterm; i++) n += 0.25 * moves(t, &t->term[i]);
    return n;
}

kl_status kl_ed_make_plan(const kl_terms *terms, kl_qn target, kl_bipartition_form form,
                          const kl_ed_opts *opts, int nthread, kl_ed_plan *p, kl_err *err)
{
    /* Seconds a state on one thread of a machine of 2023; `kronlat bench ed' measures this one. Groups of
       crossing strings share gathers, hence the root. */
    const double flavours = 3.9e-9, sites = 4e-9, gather = 1.4e-9;
    kl_status st = KL_OK;
    *p = (kl_ed_plan){0};
    KL_TRY(kl_bipartition_measure(terms, target, form, &p->size, err));
    p->vector_bytes = 8.0 * p->size.n;
    p->table_bytes =
        (p->size.left + p->size.right) * (8.0 + 3.0 * (double)terms->nterm / (p->size.flavours ? 4.0 : 2.0));
    const int n = opts->nstate + KL_ED_GUARDS;
    const kl_ed_solver s =
        opts->solver != KL_ED_AUTO ? opts->solver : kl_ed_solver_for(p->size.dim, opts->nstate);
    p->solver = s;
    if (s == KL_ED_FULL) {
        const double dim = p->size.dim;
        KL_TRY(kl_ed_check_full(dim, err));
        p->nvector = 2;
        p->table_bytes += 32.0 * dim * dim; /* the matrix, and LAPACK's work of three times that */
    } else if (s == KL_ED_LANCZOS && opts->nstate == 1) p->nvector = opts->want_vectors ? 4 : 3;
    else if (s == KL_ED_LOBPCG) p->nvector = kl_lobpcg_columns(n) + n + 1;
    else {
        const kl_eig_opts o = {.solver = s == KL_ED_LANCZOS ? KL_SOLVER_LANCZOS : KL_SOLVER_DAVIDSON,
                               .nroot = n,
                               .max_basis = opts->max_basis};
        const int64_t big = INT64_C(1) << 30;
        p->nvector = (int)((double)kl_eig_work_doubles(&o, big) / (double)big + 0.5) + n + 1;
    }
    p->slower =
        p->size.flavours ? 1 : (sites + gather * sqrt((double)crossing(terms, p->size.cut))) / flavours;
    p->seconds_apply = p->size.n * flavours * p->slower / nthread;
    p->row_nonzeros = fmin(row_nonzeros(terms), p->size.dim);
out:
    return st;
}
