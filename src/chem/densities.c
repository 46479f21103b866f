/* From strings to density matrices: see densities.h. A string is brought into the order of the positions, as
   those of the Hamiltonian are, and of it and its adjoint the lesser one is kept: their values are the same
   for a real wavefunction. Asking for all and filling the matrices in are one loop, done twice.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/densities.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "phase.h"

enum {
    NOP = KL_MOLECULE_OPS,
    DIM = 4,
    PAIR = DIM * DIM,
};

struct kl_densities {
    const kl_molecule *m;
    kl_terms terms;
    int64_t nhash;  /* a power of two */
    int64_t *hash;  /* string + 1 */
};

/* ---------------------------------------------------------------- strings */

static uint64_t key_of(const kl_op_at *op, int n)
{
    uint64_t x = (uint64_t)n;
    for (int k = 0; k < n; k++) {
        x = (x ^ ((uint64_t)(uint32_t)op[k].pos << 8) ^ (uint64_t)(uint32_t)op[k].op) * 0x9e3779b97f4a7c15ULL;
        x ^= x >> 29;
    }
    return x;
}

static int same(const kl_densities *d, int64_t i, const kl_op_at *op, int n)
{
    const kl_term *const t = &d->terms.term[i];
    if (t->nop != n) return 0;
    for (int k = 0; k < n; k++) {
        const kl_op_at *const o = &d->terms.op[t->first + k];
        if (o->pos != op[k].pos || o->op != op[k].op) return 0;
    }
    return 1;
}

/* Slot of a string in the hash: its own, or the free one where it belongs. */
static int64_t slot_of(const kl_densities *d, const kl_op_at *op, int n)
{
    uint64_t h = key_of(op, n);
    for (;; h++) {
        const int64_t at = (int64_t)(h & (uint64_t)(d->nhash - 1));
        if (d->hash[at] == 0 || same(d, d->hash[at] - 1, op, n)) return at;
    }
}

static kl_status add(kl_densities *d, const kl_op_at *op, int n, kl_err *err)
{
    kl_status st = KL_OK;
    kl_terms *const t = &d->terms;
    if (2 * (t->nterm + 1) > d->nhash) {
        kl_free(&d->hash);
        d->nhash = d->nhash > 0 ? 2 * d->nhash : 4096;
        KL_TRY(kl_alloc(&d->hash, d->nhash, KL_MEM_WORK, err));
        for (int64_t i = 0; i < t->nterm; i++)
            d->hash[slot_of(d, t->op + t->term[i].first, t->term[i].nop)] = i + 1;
    }
    const int64_t at = slot_of(d, op, n);
    if (d->hash[at] != 0) goto out;
    if (t->nterm == t->term_room) {
        t->term_room = 2 * t->term_room + 1024;
        KL_TRY(kl_realloc(&t->term, t->term_room, KL_MEM_WORK, err));
    }
    if (t->nop + n > t->op_room) {
        t->op_room = 2 * t->op_room + 4096;
        KL_TRY(kl_realloc(&t->op, t->op_room, KL_MEM_WORK, err));
    }
    memcpy(t->op + t->nop, op, (size_t)n * sizeof *op);
    t->term[t->nterm] = (kl_term){.coef = 1, .nop = n, .first = t->nop};
    t->nop += n;
    d->hash[at] = ++t->nterm;
out:
    return st;
}

static const kl_site_op *operator_of(const kl_densities *d, kl_op_at o)
{
    return &d->terms.type[o.pos]->op[o.op];
}

/* The string or its adjoint, whichever is less; the sign between them. */
static int lesser(const kl_densities *d, int n, kl_op_at *op)
{
    int odd[4], compared = 0;
    kl_op_at adjoint[4];
    for (int k = 0; k < n; k++) {
        adjoint[k] = (kl_op_at){op[k].pos, operator_of(d, op[k])->adjoint, 0};
        odd[k] = operator_of(d, op[k])->odd;
        if (compared == 0) compared = adjoint[k].op - op[k].op;
    }
    if (compared >= 0) return 1;
    memcpy(op, adjoint, (size_t)n * sizeof *op);
    return kl_phase_adjoint(n, odd);
}

/* 1: it leaves every charge as it is. */
static int conserves(const kl_densities *d, int n, const kl_op_at *op)
{
    for (int c = 0; c < d->m->model.ncharge; c++) {
        int sum = 0;
        for (int k = 0; k < n; k++) sum += operator_of(d, op[k])->shift[c];
        const int modulus = d->m->model.charge[c].modulus;
        if (modulus > 0 ? sum % modulus != 0 : sum != 0) return 0;
    }
    return 1;
}

/* act[0] on orbital[0] * act[1] on orbital[1] ... as a sorted string of op[n], and the sign. */
static int sorted(const kl_densities *d, int *n, const int *orbital, const int *act, kl_op_at *op)
{
    int key[4], odd[4] = {1, 1, 1, 1}, perm[4], count = 0;
    for (int k = 0; k < *n; k++) key[k] = d->m->position[orbital[k]];
    const int sign = kl_phase_sort(*n, key, odd, perm);
    for (int k = 0; k < *n; k++)
        if (count > 0 && op[count - 1].pos == key[k]) op[count - 1].op |= act[perm[k]];
        else op[count++] = (kl_op_at){key[k], act[perm[k]], 0};
    *n = count;
    return sign * lesser(d, count, op);
}

/* What is done with each string: asked for, or looked up. */
typedef struct pass {
    kl_densities *d;
    const double *value; /* NULL: asked for */
    kl_status st;
    kl_err *err;
} pass;

static double meet_sorted(pass *p, int n, const kl_op_at *op)
{
    kl_densities *const d = p->d;
    if (p->st != KL_OK || !conserves(d, n, op)) return 0;
    if (p->value == NULL) {
        p->st = add(d, op, n, p->err);
        return 0;
    }
    const int64_t at = d->hash[slot_of(d, op, n)];
    return at > 0 ? p->value[at - 1] : 0;
}

static double meet(pass *p, int n, const int *orbital, const int *act)
{
    kl_op_at op[4];
    const int sign = sorted(p->d, &n, orbital, act, op);
    return sign * meet_sorted(p, n, op);
}

/* ---------------------------------------------------------------- one and two electrons */

static void one_body(pass *p, int spin, double *gamma)
{
    const int n = p->d->m->norb,
              act[2] = {spin == 0 ? KL_CDAG_UP : KL_CDAG_DN, spin == 0 ? KL_C_UP : KL_C_DN};
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            const double x = meet(p, 2, (const int[]){i, j}, act);
            if (gamma != NULL) gamma[i * n + j] = gamma[j * n + i] = x;
        }
}

static int64_t at_of(int n, int p, int q, int r, int s) { return (((int64_t)p * n + q) * n + r) * n + s; }

static void same_spins(pass *a, int spin, double *gamma)
{
    const int n = a->d->m->norb, c = spin == 0 ? KL_CDAG_UP : KL_CDAG_DN, x = spin == 0 ? KL_C_UP : KL_C_DN;
    for (int p = 0; p < n; p++)
        for (int r = 0; r < p; r++)
            for (int q = 0; q <= p; q++)
                for (int s = 0; s < q; s++) {
                    if (q == p && s > r) continue;
                    const double v = meet(a, 4, (const int[]){p, r, s, q}, (const int[]){c, c, x, x});
                    if (gamma == NULL) continue;
                    gamma[at_of(n, p, q, r, s)] = gamma[at_of(n, r, s, p, q)] = v;
                    gamma[at_of(n, q, p, s, r)] = gamma[at_of(n, s, r, q, p)] = v;
                    gamma[at_of(n, r, q, p, s)] = gamma[at_of(n, p, s, r, q)] = -v;
                    gamma[at_of(n, q, r, s, p)] = gamma[at_of(n, s, p, q, r)] = -v;
                }
}

static void opposite_spins(pass *a, double *gamma)
{
    static const int act[4] = {KL_CDAG_UP, KL_CDAG_DN, KL_C_DN, KL_C_UP};
    const int n = a->d->m->norb;
    for (int p = 0; p < n; p++)
        for (int r = 0; r < n; r++)
            for (int q = 0; q <= p; q++)
                for (int s = 0; s < n; s++) {
                    if (q == p && s > r) continue;
                    const double v = meet(a, 4, (const int[]){p, r, s, q}, act);
                    if (gamma != NULL) gamma[at_of(n, p, q, r, s)] = gamma[at_of(n, q, p, s, r)] = v;
                }
}

void kl_densities_one(kl_densities *d, const double *value, double *up, double *dn)
{
    pass p = {.d = d, .value = value};
    one_body(&p, 0, up);
    one_body(&p, 1, dn);
}

void kl_densities_two(kl_densities *d, const double *value, double *gamma[3])
{
    pass p = {.d = d, .value = value};
    same_spins(&p, 0, gamma[0]);
    same_spins(&p, 1, gamma[1]);
    opposite_spins(&p, gamma[2]);
}

/* ---------------------------------------------------------------- two orbitals */

/* <A_i B_j>, i and j positions, i < j, A and B operators of a site; 0: the identity. */
static double meet_pair(pass *p, int i, int a, int j, int b)
{
    kl_op_at op[2];
    int n = 0;
    if (a != 0) op[n++] = (kl_op_at){i, a, 0};
    if (b != 0) op[n++] = (kl_op_at){j, b, 0};
    if (n == 0) return 1;
    const int sign = lesser(p->d, n, op);
    return sign * meet_sorted(p, n, op);
}

static void pairs(pass *p)
{
    const int n = p->d->m->norb;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            for (int a = 0; a < NOP; a++)
                for (int b = 0; b < NOP; b++) (void)meet_pair(p, i, a, j, b);
}

static int ones(int x) { return (x & 1) + (x >> 1 & 1); }

/* The operator that makes state `to` of `from`, and the same of states with more electrons in both. */
static int op_of(int to, int from)
{
    return (to & 1 ? KL_CDAG_UP : 0) | (to & 2 ? KL_CDAG_DN : 0) | (from & 2 ? KL_C_DN : 0) |
           (from & 1 ? KL_C_UP : 0);
}

static double element(const kl_site_op *o, int row, int col)
{
    for (int k = 0; k < o->nelem; k++)
        if (o->elem[k].row == row && o->elem[k].col == col) return o->elem[k].value;
    return 0;
}

/* x[op * apart]: values of the sixteen operators become those of |to><from|, at to * 4 +
   from. */
static void to_units(const kl_site_type *type, double *x, int apart)
{
    double unit[PAIR];
    for (int electrons = 4; electrons >= 0; electrons--) /* those with more of them first */
        for (int to = 0; to < DIM; to++)
            for (int from = 0; from < DIM; from++) {
                if (ones(to) + ones(from) != electrons) continue;
                const kl_site_op *const o = &type->op[op_of(to, from)];
                double v = x[op_of(to, from) * apart];
                for (int more = 1; more < DIM; more++)
                    if ((more & (to | from)) == 0)
                        v -= element(o, to | more, from | more) * unit[(to | more) * DIM + (from | more)];
                unit[to * DIM + from] = v * element(o, to, from);
            }
    for (int k = 0; k < PAIR; k++) x[k * apart] = unit[k];
}

static double entropy_of(int n, const double *w)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        if (w[k] > 0) sum -= w[k] * log(w[k]);
    return sum;
}

/* Of the orbitals at positions i < j. */
static kl_status pair_entropy(pass *p, int i, int j, double *entropy, kl_err *err)
{
    const kl_site_type *const *const type = p->d->terms.type;
    double x[NOP * NOP], rho[PAIR * PAIR], w[PAIR];
    for (int a = 0; a < NOP; a++)
        for (int b = 0; b < NOP; b++) x[a * NOP + b] = meet_pair(p, i, a, j, b);
    for (int b = 0; b < NOP; b++) to_units(type[i], x + b, NOP);
    for (int a = 0; a < PAIR; a++) to_units(type[j], x + a * NOP, 1);
    for (int r = 0; r < PAIR; r++)
        for (int c = 0; c < PAIR; c++) { /* rows and columns: state of i * 4 + state of j */
            const int odd = (ones(r % DIM) + ones(c % DIM)) & 1;
            rho[r + c * PAIR] = kl_phase_record(odd, ones(c / DIM) & 1) *
                                x[((r / DIM) * DIM + c / DIM) * NOP + (r % DIM) * DIM + c % DIM];
        }
    const kl_status st = kl_dense_eig(PAIR, rho, PAIR, w, err);
    *entropy = entropy_of(PAIR, w);
    return st;
}

kl_status kl_densities_information(kl_densities *d, const double *value, double *entropy, double *information,
                                   kl_err *err)
{
    kl_status st = KL_OK;
    pass p = {.d = d, .value = value};
    const int n = d->m->norb, *const order = d->m->order;
    for (int i = 0; i < n; i++) {
        double w[PAIR], states[DIM];
        for (int a = 0; a < NOP; a++) w[a] = meet_pair(&p, i, a, i, 0);
        to_units(d->terms.type[i], w, 1);
        for (int s = 0; s < DIM; s++) states[s] = w[s * (DIM + 1)];
        entropy[order[i]] = entropy_of(DIM, states);
        information[order[i] * (int64_t)(n + 1)] = entropy[order[i]];
    }
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            double both;
            KL_TRY(pair_entropy(&p, i, j, &both, err));
            const double x = fmax(entropy[order[i]] + entropy[order[j]] - both, 0);
            information[order[i] * (int64_t)n + order[j]] = x;
            information[order[j] * (int64_t)n + order[i]] = x;
        }
out:
    return st;
}

double kl_densities_spin(kl_densities *d, const double *value, int ms2)
{
    enum {
        LOWERS = KL_CDAG_DN | KL_C_UP,
        RAISES = KL_CDAG_UP | KL_C_DN,
    };
    pass p = {.d = d, .value = value};
    const int n = d->m->norb;
    const double sz = 0.5 * ms2;
    double sum = sz * (sz + 1), size = fabs(sum);
    int count = 1;
    for (int i = 0; i < n; i++) {
        /* the spin lowered and raised on one orbital: one electron, and that down */
        const double down = meet_pair(&p, i, KL_CDAG_DN | KL_C_DN, i, 0),
                     both = meet_pair(&p, i, NOP - 1, i, 0);
        sum += down - both;
        size += fabs(down) + fabs(both);
        for (int j = i + 1; j < n; j++) {
            const double there = meet_pair(&p, i, LOWERS, j, RAISES),
                         back = meet_pair(&p, i, RAISES, j, LOWERS);
            sum += there + back;
            size += fabs(there) + fabs(back);
        }
        count += 2 * (n - i);
    }
    /* each value is rounded, and each sum: what is left of a singlet is no number */
    return fabs(sum) <= 4 * DBL_EPSILON * sqrt(count) * size ? 0 : sum;
}

double kl_densities_spin_mixed(double s2, int ms2)
{
    const double clearly = 0.01, least = fabs(0.5 * ms2);
    for (double s = least; s * (s + 1) <= s2 + clearly; s += 1)
        if (fabs(s2 - s * (s + 1)) <= clearly) return 0;
    return fmax(0, s2 - least * (least + 1));
}

/* ---------------------------------------------------------------- all of it */

double kl_densities_energy(const kl_fcidump *f, const double *up, const double *dn,
                           const double *const gamma[3])
{
    const int n = f->norb;
    double e = f->core;
    for (int k = 0; k < n * n; k++) e += f->h[0][k] * up[k] + f->h[1][k] * dn[k];
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            for (int r = 0; r < n; r++)
                for (int s = 0; s < n; s++) {
                    const int64_t i = kl_pair(p, q) * f->npair + kl_pair(r, s), k = at_of(n, p, q, r, s);
                    e += 0.5 * (f->eri[0][i] * gamma[0][k] + f->eri[1][i] * gamma[1][k]) +
                         f->eri[2][i] * gamma[2][k];
                }
    return e;
}

kl_status kl_densities_create(const kl_molecule *m, int two, kl_densities **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_densities *d = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&d, 1, KL_MEM_MISC, err));
    d->m = m;
    d->terms.model = &m->model;
    d->terms.nsite = m->norb;
    KL_TRY(kl_alloc(&d->terms.type, m->norb, KL_MEM_MISC, err));
    for (int p = 0; p < m->norb; p++) d->terms.type[p] = &m->model.type[m->irrep[m->order[p]]];
    pass p = {.d = d, .err = err};
    pairs(&p);
    if (two) {
        same_spins(&p, 0, NULL);
        same_spins(&p, 1, NULL);
        opposite_spins(&p, NULL);
    }
    KL_TRY(p.st);
    *out = d;
    d = NULL;
out:
    kl_densities_destroy(&d);
    return st;
}

void kl_densities_destroy(kl_densities **pd)
{
    kl_densities *const d = *pd;
    if (d == NULL) return;
    kl_free(&d->terms.type);
    kl_free(&d->terms.term);
    kl_free(&d->terms.op);
    kl_free(&d->hash);
    kl_free(pd);
}

const kl_terms *kl_densities_terms(const kl_densities *d) { return &d->terms; }
