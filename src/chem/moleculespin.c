/* The Hamiltonian of a molecule in scalars of the total spin: see moleculespin.h. Outline:
   1. tables: the ten operators of coupled.h on the steps of a site; of an operator that blocks keep its
      shift, its rank and the sign of its adjoint, one row for all that share them;
   2. strings: sum h_pq c+_p c_q + 1/2 sum (pq|rs) c+_p c+_r c_s c_q, summed over spins. What such a product
      is as strings depends only on the order of its positions, so that there are a few dozen cases, each
      made once.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/moleculespin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "chem/coupled.h"
#include "model/strings.h"
#include "phase.h"

enum {
    NOP = KL_COUPLED_OPS,
    STEPS = 4,
    MAX_ELEM = 6,
    MAX_IRREP = 8,
    MAX_ADDS = 2, /* electrons that an operator of a block adds, */
    MAX_RANK = 2, /* and its rank (doubled) */
    NKEPT = 1 + (2 * MAX_ADDS + 1) * MAX_IRREP * (MAX_RANK + 1) * 2,
    SITES = KL_COUPLED_FACTORS,
    CASES = SITES * SITES * SITES * SITES,
};

typedef struct kl_spin_tables {
    kl_coupled coupled;
    kl_charge charge[5];
    kl_site_type type[MAX_IRREP];
    char type_name[MAX_IRREP][16];
    int state_charge[MAX_IRREP][STEPS][KL_MAX_CHARGE];
    kl_site_op op[MAX_IRREP][NOP];
    kl_elem elem[NOP][MAX_ELEM];
    int nelem[NOP];
    kl_kept kept[NKEPT];
} kl_spin_tables;

/* ---------------------------------------------------------------- 1. tables */

/* The steps of a site: electrons of their multiplet, by how much they change the spin (doubled), the step
   from the other side, and the state 0, up, dn or updn that is their component. */
static const char *const step_name[STEPS] = {"0:0", "1:-1/2", "1:1/2", "2:0"};
static const int step_shell[STEPS] = {0, 1, 1, 2}, step_turns[STEPS] = {0, -1, 1, 0},
                 step_spin[STEPS] = {0, 1, 1, 0}, step_other[STEPS] = {0, 2, 1, 3};
static const double step_vector[STEPS * STEPS] = {1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1};

void kl_molecule_spin_charges(const kl_molecule *m, int electrons, int spin, int irrep, int *charge)
{
    int at = 0;
    charge[at++] = electrons;
    for (int b = 0; 1 << b < m->model.ntype; b++) charge[at++] = irrep >> b & 1;
    charge[at] = spin;
}

static void make_elements(kl_spin_tables *t)
{
    for (int o = 0; o < NOP; o++)
        for (int col = 0; col < STEPS; col++)
            for (int row = 0; row < STEPS; row++) {
                const double v = t->coupled.reduced[o][step_shell[row]][step_shell[col]];
                if (v != 0) t->elem[o][t->nelem[o]++] = (kl_elem){row, col, v};
            }
}

static void make_type(kl_molecule *m, int irrep)
{
    kl_spin_tables *const t = m->spin_tables;
    const kl_coupled *const c = &t->coupled;
    snprintf(t->type_name[irrep], sizeof t->type_name[irrep], "irrep%d", irrep + 1);
    for (int s = 0; s < STEPS; s++)
        kl_molecule_spin_charges(m, step_shell[s], step_turns[s], step_shell[s] == 1 ? irrep : 0,
                                 t->state_charge[irrep][s]);
    for (int o = 0; o < NOP; o++) {
        kl_site_op *const op = &t->op[irrep][o];
        const int odd = c->adds[o] & 1;
        *op = (kl_site_op){.name = c->name[o],
                           .odd = odd,
                           .adjoint = c->adjoint[o],
                           .adjoint_factor = c->adjoint_factor[o],
                           .nelem = t->nelem[o],
                           .elem = t->elem[o],
                           .rank = c->rank[o]};
        kl_molecule_spin_charges(m, c->adds[o], 0, odd ? irrep : 0, op->shift);
    }
    t->type[irrep] = (kl_site_type){.name = t->type_name[irrep],
                                    .where = t->type_name[irrep],
                                    .dim = STEPS,
                                    .state_name = step_name,
                                    .state_charge = (const int (*)[KL_MAX_CHARGE])t->state_charge[irrep],
                                    .nop = NOP,
                                    .op = t->op[irrep],
                                    .spin = step_spin,
                                    .other = step_other,
                                    .vector = step_vector};
}

static int kept_of(int adds, int irrep, int rank, int minus)
{
    return 1 + (((adds + MAX_ADDS) * MAX_IRREP + irrep) * (MAX_RANK + 1) + rank) * 2 + minus;
}

static void make_kept(kl_molecule *m)
{
    kl_kept *const kept = m->spin_tables->kept;
    kept[0] = (kl_kept){.name = "1", .adjoint_factor = 1};
    for (int adds = -MAX_ADDS; adds <= MAX_ADDS; adds++)
        for (int irrep = 0; irrep < MAX_IRREP; irrep++)
            for (int rank = 0; rank <= MAX_RANK; rank++)
                for (int minus = 0; minus < 2; minus++) {
                    kl_kept *const k = &kept[kept_of(adds, irrep, rank, minus)];
                    *k = (kl_kept){.name = "operators of a block",
                                   .odd = adds & 1,
                                   .adjoint = kept_of(-adds, irrep, rank, minus ^ (rank & 1)),
                                   .adjoint_factor = minus ? -1 : 1,
                                   .rank = rank};
                    kl_molecule_spin_charges(m, adds, 0, irrep, k->shift);
                }
}

kl_status kl_molecule_spin_tables(const kl_fcidump *f, kl_molecule *m, kl_err *err)
{
    const kl_status st = kl_alloc(&m->spin_tables, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    kl_spin_tables *const t = m->spin_tables;
    int n = 0;
    t->charge[n++] = (kl_charge){"N", 0, 1, 1, 1, 0};
    n += kl_molecule_irrep_charges(f, t->charge + n);
    t->charge[n++] = (kl_charge){"S", 0, 1, 2, 0, 1};
    m->model = (kl_model){.name = "molecule",
                          .variant = "restricted,spin=SU(2)",
                          .formula = kl_molecule_formula,
                          .source = "FCIDUMP",
                          .hash = kl_fcidump_hash(f),
                          .ncharge = n,
                          .charge = t->charge,
                          .ntype = f->nirrep,
                          .type = t->type,
                          .nkept = NKEPT,
                          .kept = t->kept};
    kl_coupled_create(&t->coupled);
    make_elements(t);
    for (int irrep = 0; irrep < f->nirrep; irrep++) make_type(m, irrep);
    make_kept(m);
    return kl_model_check(&m->model, err);
}

void kl_molecule_spin_path(const kl_molecule *m, int ms2, int *start)
{
    int left = ms2; /* what is still to come; its size is the spin of the path */
    for (int p = 0; p < m->norb; p++) {
        const int up = start[p] & 1, dn = start[p] >> 1;
        const int then = left - up + dn, turns = abs(then) - abs(left);
        start[p] = up + dn != 1 ? (up ? 3 : 0) : turns < 0 ? 1 : 2;
        left = then;
    }
}

/* ---------------------------------------------------------------- 2. strings */

typedef struct builder {
    const kl_fcidump *f;
    kl_molecule *m;
    double threshold;
    kl_coupled_sum *known; /* [2][CASES] of products of two and of four; n is 0 until it is made */
} builder;

/* What a right block keeps of the string from each of its operators on. */
static void set_rests(const kl_molecule *m, kl_string *s)
{
    const kl_coupled *const c = &m->spin_tables->coupled;
    int adds = 0, irrep = 0, sign = 1;
    for (int k = s->n - 1; k >= 0; k--) {
        const int o = s->op[k].op;
        sign *= kl_phase_exchange(c->adds[o] & 1, adds & 1) * (c->adjoint_factor[o] < 0 ? -1 : 1);
        adds += c->adds[o];
        if (c->adds[o] & 1) irrep ^= m->irrep[m->order[s->op[k].pos]];
        s->rest[k] = kept_of(adds, irrep, k > 0 ? s->op[k - 1].rank : 0, sign < 0);
    }
}

/* site[n]: number of the position of each factor among those that occur; returns which case it is. */
static int sites_of(int n, const int *pos, int *site, int *at)
{
    int which = 0;
    for (int k = 0; k < n; k++) {
        site[k] = 0;
        for (int l = 0; l < n; l++) {
            int first = pos[l] < pos[k];
            for (int e = 0; e < l; e++) first &= pos[e] != pos[l];
            site[k] += first;
        }
        at[site[k]] = pos[k];
        which = which * SITES + site[k];
    }
    return which;
}

/* value * the product of coupled.h on these orbitals */
static kl_status add_product(const builder *b, double value, int n, const int *orbital, kl_err *err)
{
    kl_status st = KL_OK;
    int pos[SITES], site[SITES], at[SITES];
    if (value == 0) return KL_OK;
    if (fabs(value) < b->threshold) {
        b->m->ndropped++;
        b->m->dropped += fabs(value) * n; /* a string for each choice of the spins */
        return KL_OK;
    }
    for (int k = 0; k < n; k++) pos[k] = b->m->position[orbital[k]];
    const int which = sites_of(n, pos, site, at);
    kl_coupled_sum *const sum = &b->known[(n == 4 ? CASES : 0) + which];
    if (sum->n == 0) kl_coupled_product(&b->m->spin_tables->coupled, n, site, sum);
    for (int i = 0; i < sum->n; i++) {
        const kl_coupled_string *const x = &sum->string[i];
        kl_string s = {.coef = value * x->coef, .n = x->n};
        for (int k = 0; k < x->n; k++) s.op[k] = (kl_op_at){at[x->site[k]], x->op[k], x->rank[k]};
        set_rests(b->m, &s);
        KL_TRY(kl_string_push(b->m->terms, &s, -1, err));
    }
out:
    return st;
}

/* Exchanging (pq) and (rs) changes no product: of the two one is made, for twice the half in front. */
static kl_status two_body(const builder *b, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_fcidump *const f = b->f;
    const int n = f->norb;
    for (int pq = 0; pq < n * n; pq++)
        for (int rs = 0; rs <= pq; rs++) {
            const int p = pq / n, q = pq % n, r = rs / n, s = rs % n;
            const double v = f->eri[0][kl_pair(p, q) * f->npair + kl_pair(r, s)];
            KL_TRY(add_product(b, rs < pq ? v : v / 2, 4, (const int[]){p, r, s, q}, err));
        }
out:
    return st;
}

kl_status kl_molecule_spin_terms(const kl_fcidump *f, double threshold, kl_molecule *m, kl_err *err)
{
    kl_status st = KL_OK;
    builder b = {f, m, threshold, NULL};
    KL_TRY(kl_alloc(&b.known, 2 * CASES, KL_MEM_WORK, err));
    for (int p = 0; p < f->norb; p++)
        for (int q = 0; q < f->norb; q++)
            KL_TRY(add_product(&b, f->h[0][p * f->norb + q], 2, (const int[]){p, q}, err));
    KL_TRY(two_body(&b, err));
out:
    kl_free(&b.known);
    return st;
}
