/* From integrals to operator strings: see molecule.h.
   1. Tables: sixteen operators of a site, cdag_up^a cdag_dn^b c_dn^c c_up^d, by the bits a, b, c, d, of which
      0 is the identity; the adjoint swaps the bits and has no sign.
   2. Strings: c+_p c+_r c_s c_q with the spins (up, dn) or twice the same, brought into the order of the
      positions. What falls on one site is in the order of these operators by then, so that its bits are
      joined.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/molecule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "chem/moleculespin.h"
#include "model/strings.h"
#include "phase.h"

enum {
    NOP = KL_MOLECULE_OPS,
    DIM = 4,
    MAX_IRREP = 8,
    MAX_SHIFT = 2,
    NSHIFT = 2 * MAX_SHIFT + 1,
};
enum { NKEPT = 1 + NSHIFT * NSHIFT * MAX_IRREP * 2 };
enum {
    CDAG_UP = KL_CDAG_UP,
    CDAG_DN = KL_CDAG_DN,
    C_DN = KL_C_DN,
    C_UP = KL_C_UP,
};

typedef struct kl_molecule_tables {
    kl_charge charge[5];
    kl_site_type type[MAX_IRREP];
    char type_name[MAX_IRREP][16];
    int state_charge[MAX_IRREP][DIM][KL_MAX_CHARGE];
    kl_site_op op[MAX_IRREP][NOP];
    kl_elem elem[NOP][DIM];
    int nelem[NOP];
    char op_name[NOP][32];
    kl_site_product product[NOP * NOP];
    kl_kept kept[NKEPT];
} kl_molecule_tables;

/* ---------------------------------------------------------------- 1. tables */

static const char *const state_name[DIM] = {"0", "up", "dn", "updn"};

/* As sites of models with electrons have them. */
static const kl_site_word word[] = {{"n_up", "cdag_up*c_up"},
                                    {"n_dn", "cdag_dn*c_dn"},
                                    {"n", "cdag_up*c_up+cdag_dn*c_dn"},
                                    {"docc", "cdag_up*c_up*cdag_dn*c_dn"},
                                    {"Sz", "(cdag_up*c_up-cdag_dn*c_dn)/2"},
                                    {"Sp", "cdag_up*c_dn"},
                                    {"Sm", "cdag_dn*c_up"},
                                    {"P", "(1-2*cdag_up*c_up)*(1-2*cdag_dn*c_dn)"},
                                    {NULL, NULL}};

/* Applies one of the four elementary operators to a state (bit 0: up, bit 1: dn); 0: it vanishes. */
static int apply(int op, int *state)
{
    const int mode = op == CDAG_UP || op == C_UP ? 1 : 2, creates = op == CDAG_UP || op == CDAG_DN;
    const int empty = !(*state & mode);
    if (empty != creates) return 0;
    const int sign = mode == 2 && (*state & 1) ? -1 : 1;
    *state ^= mode;
    return sign;
}

static void make_elements(kl_molecule_tables *t)
{
    static const int acts[4] = {C_UP, C_DN, CDAG_DN, CDAG_UP};
    static const char *const names[4] = {"c_up", "c_dn", "cdag_dn", "cdag_up"};
    for (int o = 0; o < NOP; o++) {
        char *const name = t->op_name[o];
        for (int k = 3; k >= 0; k--) {
            const size_t used = strlen(name);
            if (!(o & acts[k])) continue;
            snprintf(name + used, sizeof t->op_name[o] - used, "%s%s", used > 0 ? "*" : "", names[k]);
        }
        if (o == 0) snprintf(name, sizeof t->op_name[o], "1");
        for (int col = 0; col < DIM; col++) {
            int row = col, sign = 1;
            for (int k = 0; k < 4; k++)
                if (o & acts[k]) sign *= apply(acts[k], &row);
            if (sign != 0) t->elem[o][t->nelem[o]++] = (kl_elem){row, col, sign};
        }
    }
}

/* Electrons that an operator adds. */
static int adds_up(int op) { return !!(op & CDAG_UP) - !!(op & C_UP); }
static int adds_dn(int op) { return !!(op & CDAG_DN) - !!(op & C_DN); }
static int is_odd(int op) { return (adds_up(op) + adds_dn(op)) & 1; }
static int adjoint_of(int op) { return (op & 1) << 3 | (op & 2) << 1 | (op & 4) >> 1 | (op & 8) >> 3; }

static void make_shift(int up, int dn, int irrep, int *shift)
{
    shift[0] = up;
    shift[1] = dn;
    for (int b = 0; b < 3; b++) shift[2 + b] = irrep >> b & 1;
}

static void make_type(kl_molecule_tables *t, int irrep)
{
    kl_site_type *const type = &t->type[irrep];
    snprintf(t->type_name[irrep], sizeof t->type_name[irrep], "irrep%d", irrep + 1);
    for (int s = 0; s < DIM; s++)
        make_shift(s & 1, s >> 1, s == 1 || s == 2 ? irrep : 0, t->state_charge[irrep][s]);
    for (int o = 0; o < NOP; o++) {
        kl_site_op *const op = &t->op[irrep][o];
        *op = (kl_site_op){.name = t->op_name[o],
                           .odd = is_odd(o),
                           .adjoint = adjoint_of(o),
                           .adjoint_factor = 1,
                           .named = o != 0,
                           .nelem = t->nelem[o],
                           .elem = t->elem[o]};
        make_shift(adds_up(o), adds_dn(o), is_odd(o) ? irrep : 0, op->shift);
    }
    *type = (kl_site_type){.name = t->type_name[irrep],
                           .where = t->type_name[irrep],
                           .dim = DIM,
                           .state_name = state_name,
                           .state_charge = (const int (*)[KL_MAX_CHARGE])t->state_charge[irrep],
                           .nop = NOP,
                           .op = t->op[irrep],
                           .word = word,
                           .product = t->product};
}

/* Of an operator that blocks keep only its shift and the sign of its adjoint are needed: one row for all that
   share them. */
static int kept_of(int up, int dn, int irrep, int minus)
{
    return 1 + (((up + MAX_SHIFT) * NSHIFT + dn + MAX_SHIFT) * MAX_IRREP + irrep) * 2 + minus;
}

static void make_kept(kl_molecule_tables *t)
{
    t->kept[0] = (kl_kept){.name = "1", .adjoint_factor = 1};
    for (int up = -MAX_SHIFT; up <= MAX_SHIFT; up++)
        for (int dn = -MAX_SHIFT; dn <= MAX_SHIFT; dn++)
            for (int irrep = 0; irrep < MAX_IRREP; irrep++)
                for (int minus = 0; minus < 2; minus++) {
                    kl_kept *const k = &t->kept[kept_of(up, dn, irrep, minus)];
                    *k = (kl_kept){.name = "operators of a block",
                                   .odd = (up + dn) & 1,
                                   .adjoint = kept_of(-up, -dn, irrep, minus),
                                   .adjoint_factor = minus ? -1 : 1};
                    make_shift(up, dn, irrep, k->shift);
                }
}

const char kl_molecule_formula[] = "sum h_pq cdag_p c_q + 1/2 sum (pq|rs) cdag_p cdag_r c_s c_q";

int kl_molecule_irrep_charges(const kl_fcidump *f, kl_charge *charge)
{
    static const char *const parity[3] = {"irrep_bit1", "irrep_bit2", "irrep_bit3"};
    int n = 0;
    for (; 1 << n < f->nirrep; n++) charge[n] = (kl_charge){parity[n], 2, 1, 1, 0, 0};
    return n;
}

static kl_status make_tables(const kl_fcidump *f, kl_molecule *m, kl_err *err)
{
    kl_molecule_tables *t = NULL;
    const kl_status st = kl_alloc(&m->tables, 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    t = m->tables;
    t->charge[0] = (kl_charge){"N_up", 0, 1, 1, 1, 0};
    t->charge[1] = (kl_charge){"N_dn", 0, 1, 1, 1, 0};
    const int nbit = kl_molecule_irrep_charges(f, t->charge + 2);
    make_elements(t);
    for (int a = 0; a < NOP; a++)
        for (int b = 0; b < NOP; b++)
            t->product[a * NOP + b] =
                a == 0 || b == 0 ? (kl_site_product){a + b, 1} : (kl_site_product){KL_OP_NONE, 0};
    for (int irrep = 0; irrep < f->nirrep; irrep++) make_type(t, irrep);
    make_kept(t);
    m->model = (kl_model){.name = "molecule",
                          .variant = f->unrestricted ? "unrestricted" : "restricted",
                          .formula = kl_molecule_formula,
                          .source = "FCIDUMP",
                          .hash = kl_fcidump_hash(f),
                          .ncharge = 2 + nbit,
                          .charge = t->charge,
                          .ntype = f->nirrep,
                          .type = t->type,
                          .nkept = NKEPT,
                          .kept = t->kept};
    return kl_model_check(&m->model, err);
}

/* ---------------------------------------------------------------- 2. strings */

typedef struct builder {
    const kl_fcidump *f;
    kl_molecule *m;
    double threshold;
} builder;

static double eri(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

/* What a right block keeps of the string from each of its operators on. */
static void set_rests(const kl_molecule *m, kl_string *s)
{
    int up = 0, dn = 0, irrep = 0, sign = 1;
    for (int k = s->n - 1; k >= 0; k--) {
        const int o = s->op[k].op;
        sign *= kl_phase_exchange(is_odd(o), (up + dn) & 1);
        up += adds_up(o);
        dn += adds_dn(o);
        if (is_odd(o)) irrep ^= m->irrep[m->order[s->op[k].pos]];
        s->rest[k] = kept_of(up, dn, irrep, sign < 0);
    }
}

/* value * act[0] on orbital[0] * act[1] on orbital[1] ... */
static kl_status add_string(const builder *b, double value, int n, const int *orbital, const int *act,
                            kl_err *err)
{
    int key[4], odd[4] = {1, 1, 1, 1}, perm[4];
    if (value == 0) return KL_OK;
    if (fabs(value) < b->threshold) {
        b->m->ndropped++;
        b->m->dropped += fabs(value);
        return KL_OK;
    }
    for (int k = 0; k < n; k++) key[k] = b->m->position[orbital[k]];
    kl_string s = {.coef = value * kl_phase_sort(n, key, odd, perm)};
    for (int k = 0; k < n; k++)
        if (s.n > 0 && s.op[s.n - 1].pos == key[k]) s.op[s.n - 1].op |= act[perm[k]];
        else s.op[s.n++] = (kl_op_at){key[k], act[perm[k]], 0};
    set_rests(b->m, &s);
    return kl_string_push(b->m->terms, &s, -1, err);
}

static kl_status one_body(const builder *b, int spin, kl_err *err)
{
    kl_status st = KL_OK;
    const int n = b->f->norb;
    const int act[2] = {spin == 0 ? CDAG_UP : CDAG_DN, spin == 0 ? C_UP : C_DN};
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            KL_TRY(add_string(b, b->f->h[spin][p * n + q], 2, (const int[]){p, q}, act, err));
out:
    return st;
}

static kl_status same_spin(const builder *b, int spin, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_fcidump *const f = b->f;
    const int c = spin == 0 ? CDAG_UP : CDAG_DN, a = spin == 0 ? C_UP : C_DN;
    for (int p = 0; p < f->norb; p++)
        for (int r = 0; r < p; r++)
            for (int q = 0; q < f->norb; q++)
                for (int s = 0; s < q; s++)
                    KL_TRY(add_string(b, eri(f, spin, p, q, r, s) - eri(f, spin, p, s, r, q), 4,
                                      (const int[]){p, r, s, q}, (const int[]){c, c, a, a}, err));
out:
    return st;
}

static kl_status opposite_spins(const builder *b, kl_err *err)
{
    static const int act[4] = {CDAG_UP, CDAG_DN, C_DN, C_UP};
    kl_status st = KL_OK;
    const kl_fcidump *const f = b->f;
    for (int p = 0; p < f->norb; p++)
        for (int q = 0; q < f->norb; q++)
            for (int r = 0; r < f->norb; r++)
                for (int s = 0; s < f->norb; s++)
                    KL_TRY(add_string(b, eri(f, 2, p, q, r, s), 4, (const int[]){p, r, s, q}, act, err));
out:
    return st;
}

static kl_status make_terms(const builder *b, kl_err *err)
{
    kl_status st = KL_OK;
    for (int spin = 0; spin < 2; spin++) {
        KL_TRY(one_body(b, spin, err));
        KL_TRY(same_spin(b, spin, err));
    }
    KL_TRY(opposite_spins(b, err));
out:
    return st;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_molecule_create_sites(const kl_fcidump *f, const int *order, int spin, kl_molecule **out,
                                   kl_err *err)
{
    kl_status st = KL_OK;
    kl_molecule *m = NULL;
    *out = NULL;
    if (spin && f->unrestricted)
        return kl_fail(err, KL_EINPUT,
                       "the integrals are of unrestricted orbitals, which have no total spin S; leave S out");
    KL_TRY(kl_alloc(&m, 1, KL_MEM_MISC, err));
    m->norb = f->norb;
    KL_TRY(kl_alloc(&m->order, f->norb, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&m->position, f->norb, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&m->irrep, f->norb, KL_MEM_MISC, err));
    for (int p = 0; p < f->norb; p++) {
        m->order[p] = order[p];
        m->position[order[p]] = p;
        m->irrep[p] = f->irrep[p];
    }
    if (spin) KL_TRY(kl_molecule_spin_tables(f, m, err));
    else KL_TRY(make_tables(f, m, err));
    KL_TRY(kl_alloc(&m->terms, 1, KL_MEM_MISC, err));
    m->terms->model = &m->model;
    m->terms->nsite = m->norb;
    m->terms->constant = f->core;
    KL_TRY(kl_alloc(&m->terms->type, m->norb, KL_MEM_MISC, err));
    for (int p = 0; p < m->norb; p++) m->terms->type[p] = &m->model.type[m->irrep[m->order[p]]];
    *out = m;
    m = NULL;
out:
    kl_molecule_destroy(&m);
    return st;
}

kl_status kl_molecule_create(const kl_fcidump *f, const int *order, double threshold, int spin,
                             kl_molecule **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_molecule *m = NULL;
    *out = NULL;
    if (!(threshold >= 0) || isinf(threshold))
        return kl_fail(err, KL_EINPUT, "the threshold of integrals is %g; it must be 0 or above", threshold);
    KL_TRY(kl_molecule_create_sites(f, order, spin, &m, err));
    if (spin) KL_TRY(kl_molecule_spin_terms(f, threshold, m, err));
    else KL_TRY(make_terms(&(builder){f, m, threshold}, err));
    KL_TRY(kl_terms_merge(m->terms, err));
    *out = m;
    m = NULL;
out:
    kl_molecule_destroy(&m);
    return st;
}

void kl_molecule_destroy(kl_molecule **pm)
{
    kl_molecule *const m = *pm;
    if (m == NULL) return;
    kl_terms_destroy(&m->terms);
    kl_free(&m->tables);
    kl_free(&m->spin_tables);
    kl_free(&m->order);
    kl_free(&m->position);
    kl_free(&m->irrep);
    kl_free(pm);
}

kl_status kl_molecule_target(const kl_molecule *m, int nalpha, int nbeta, int irrep, kl_qn *out, kl_err *err)
{
    if (nalpha < 0 || nbeta < 0 || nalpha > m->norb || nbeta > m->norb)
        return kl_fail(err, KL_EINPUT, "%d up and %d down electrons in %d orbitals; allowed: 0 to %d of each",
                       nalpha, nbeta, m->norb, m->norb);
    if (irrep < 0 || irrep >= m->model.ntype)
        return kl_fail(err, KL_EINPUT, "irrep %d; this point group has 1 to %d", irrep + 1, m->model.ntype);
    int charge[KL_MAX_CHARGE] = {0};
    if (kl_model_spin(&m->model) >= 0) {
        if (nalpha < nbeta)
            return kl_fail(err, KL_EINPUT, "%d up and %d down electrons are no component M = S", nalpha,
                           nbeta);
        kl_molecule_spin_charges(m, nalpha + nbeta, nalpha - nbeta, irrep, charge);
    } else make_shift(nalpha, nbeta, irrep, charge);
    *out = kl_qn_of(&m->model, charge);
    return KL_OK;
}

int kl_molecule_irrep(const kl_molecule *m, kl_qn sector)
{
    const int16_t *const bit = sector.v + (kl_model_spin(&m->model) >= 0 ? 1 : 2);
    int irrep = 0;
    for (int b = 0; 1 << b < m->model.ntype; b++) irrep += bit[b] << b;
    return irrep;
}

int kl_molecule_start(const kl_molecule *m, const unsigned char *up, const unsigned char *dn, int *start)
{
    int irrep = 0, ms2 = 0;
    for (int p = 0; p < m->norb; p++) {
        const int orbital = m->order[p];
        start[p] = up[orbital] + 2 * dn[orbital];
        ms2 += up[orbital] - dn[orbital];
        if (up[orbital] != dn[orbital]) irrep ^= m->irrep[orbital];
    }
    if (kl_model_spin(&m->model) >= 0) kl_molecule_spin_path(m, ms2, start);
    return irrep;
}
