/* What a run tells of a molecule's state: see moleculetask.h. Orbitals stand in the file's order, active ones
   only.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/moleculetask.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dense.h"
#include "base/mem.h"
#include "chem/densities.h"
#include "dmrg/components.h"
#include "phase.h"

enum {
    LEADING = 16,
    LEADING_TOLD = 6,
    MAX_NAME = 64,
};
#define TRACES 1e-8 /* electrons: what traces of density matrices may be off by, before they are refused */

/* Adds what is told of state k: under `name', of excited states under "state_1/" and so on before it. */
static kl_status tell(int k, const char *name, const char *note, int rank, const int64_t *shape,
                      const double *data, kl_result *r, kl_err *err)
{
    char whole[MAX_NAME], prefix[24] = "";
    if (k > 0) snprintf(prefix, sizeof prefix, "state_%d/", k);
    snprintf(whole, sizeof whole, "%s%.36s", prefix, name);
    return kl_result_add(r, whole, note, rank, shape, data, err);
}

static kl_status tell_natural(int k, int n, const double *up, const double *dn, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t length = n;
    double *sum = NULL, *w = NULL;
    KL_TRY(kl_alloc(&sum, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&w, n, KL_MEM_WORK, err));
    for (int64_t i = 0; i < (int64_t)n * n; i++) sum[i] = up[i] + dn[i];
    KL_TRY(kl_dense_eig(n, sum, n, w, err));
    for (int i = 0; i < n / 2; i++) {
        const double low = w[i];
        w[i] = w[n - 1 - i];
        w[n - 1 - i] = low;
    }
    KL_TRY(tell(k, "molecule/natural_occupations", "of the spin-summed density matrix, descending", 1,
                &length, w, r, err));
out:
    kl_free(&sum);
    kl_free(&w);
    return st;
}

static kl_status tell_information(kl_densities *d, int n, const double *value, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t shape[2] = {n, n};
    double *entropy = NULL, *information = NULL;
    KL_TRY(kl_alloc(&entropy, n, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&information, (int64_t)n * n, KL_MEM_WORK, err));
    KL_TRY(kl_densities_information(d, value, entropy, information, err));
    KL_TRY(kl_result_add(r, "molecule/orbital_entropies", "of each active orbital, in the file's order", 1,
                         shape, entropy, err));
    KL_TRY(kl_result_add(r, "molecule/mutual_information",
                         "s_p + s_q - s_pq, on the diagonal s_p; active orbitals in the file's order", 2,
                         shape, information, err));
out:
    kl_free(&entropy);
    kl_free(&information);
    return st;
}

/* A product of site bases in DMRG order = sign * all up, then all down electrons, orbitals rising. */
static int sign_of(const kl_molecule *m, const int *state)
{
    int key[2 * KL_FCIDUMP_MAX_ORB], odd[2 * KL_FCIDUMP_MAX_ORB], n = 0;
    for (int p = 0; p < m->norb; p++)
        for (int spin = 0; spin < 2; spin++)
            if (state[m->order[p]] >> spin & 1) {
                odd[n] = 1;
                key[n++] = spin * m->norb + m->order[p];
            }
    return kl_phase_sort(n, key, odd, NULL);
}

static kl_status tell_leading(const kl_moleculetask *t, kl_measure *m, int which, kl_result *r, kl_err *err)
{
    kl_status st = KL_OK;
    const int norb = t->m->norb;
    int *state = NULL, n = 0;
    double amplitude[LEADING], *occupied = NULL;
    char note[120 + LEADING_TOLD * (KL_FCIDUMP_MAX_ORB + 1)] =
        "of all up, then all down electrons, active orbitals rising:";
    KL_TRY(kl_alloc(&state, (int64_t)LEADING * norb, KL_MEM_WORK, err));
    KL_TRY(kl_measure_leading(m, LEADING, state, amplitude, &n, err));
    KL_TRY(kl_alloc(&occupied, (int64_t)LEADING * norb, KL_MEM_WORK, err));
    for (int k = n - 1; k >= 0; k--) amplitude[k] *= sign_of(t->m, state + k * norb);
    for (int k = n - 1; k >= 0; k--) amplitude[k] *= amplitude[0] < 0 ? -1 : 1; /* the first is positive */
    for (int k = 0; k < n; k++) {
        size_t at = strlen(note);
        if (k < LEADING_TOLD) note[at++] = ' ';
        for (int p = 0; p < norb; p++) {
            occupied[k * norb + p] = state[k * norb + p];
            if (k < LEADING_TOLD) note[at++] = "0ud2"[state[k * norb + p]];
        }
        note[at] = '\0';
    }
    if (n > LEADING_TOLD) strcat(note, " ...");
    const int64_t shape[2] = {n, norb};
    if (n == 0) goto out;
    KL_TRY(tell(which, "molecule/leading_coefficients", note, 1, shape, amplitude, r, err));
    KL_TRY(tell(which, "molecule/leading_determinants",
                "active orbitals in the file's order: 0 empty, 1 up, 2 down, 3 both", 2, shape, occupied, r,
                err));
out:
    kl_free(&state);
    kl_free(&occupied);
    return st;
}

/* sum over p, r of gamma[p][p][r][r]: pairs of electrons. */
static double trace_of(int n, const double *gamma)
{
    double sum = 0;
    for (int64_t p = 0; p < n; p++)
        for (int64_t r = 0; r < n; r++) sum += gamma[((p * n + p) * n + r) * n + r];
    return sum;
}

static kl_status check_traces(const kl_moleculetask *t, double *const gamma[3], kl_err *err)
{
    static const char *const name[] = {"up up", "down down", "up down"};
    const double a = t->nup, b = t->ndn, pairs[] = {a * (a - 1), b * (b - 1), a * b};
    for (int k = 0; k < 3; k++) {
        const double have = trace_of(t->m->norb, gamma[k]);
        if (!(fabs(have - pairs[k]) <= TRACES * (1 + pairs[k])))
            return kl_fail(err, KL_EBROKEN, "two-body density matrix of %s: its trace is %.12g, not %.0f",
                           name[k], have, pairs[k]);
    }
    return KL_OK;
}

static kl_status tell_two(const kl_moleculetask *t, int which, kl_densities *d, const double *value,
                          const double *const one[2], kl_result *r, kl_err *err)
{
    static const char *const name[] = {"molecule/two_body_upup", "molecule/two_body_dndn",
                                       "molecule/two_body_updn", "molecule/two_body"};
    static const char *const note[] = {"<cdag_p,up cdag_r,up c_s,up c_q,up> at p, q, r, s",
                                       "<cdag_p,dn cdag_r,dn c_s,dn c_q,dn>",
                                       "<cdag_p,up cdag_r,dn c_s,dn c_q,up>",
                                       "of both spins: energy = core + sum h_pq D_pq + 1/2 sum (pq|rs)"};
    kl_status st = KL_OK;
    const int64_t n = t->m->norb, shape[4] = {n, n, n, n};
    double *gamma[4] = {NULL, NULL, NULL, NULL};
    for (int k = 0; k < 4; k++) KL_TRY(kl_alloc(&gamma[k], n * n * n * n, KL_MEM_WORK, err));
    kl_densities_two(d, value, gamma);
    KL_TRY(check_traces(t, gamma, err));
    for (int64_t pq = 0; pq < n * n; pq++)
        for (int64_t rs = 0; rs < n * n; rs++) {
            const int64_t k = pq * n * n + rs, turned = rs * n * n + pq;
            gamma[3][k] = gamma[0][k] + gamma[1][k] + gamma[2][k] + gamma[2][turned];
        }
    const double energy = kl_densities_energy(t->orbitals.g, one[0], one[1], (const double *const *)gamma);
    KL_TRY(tell(which, "molecule/energy_of_densities", "hartree, of the density matrices and the integrals",
                0, NULL, &energy, r, err));
    for (int k = 0; k < 4; k++) KL_TRY(tell(which, name[k], note[k], 4, shape, gamma[k], r, err));
out:
    for (int k = 0; k < 4; k++) kl_free(&gamma[k]);
    return st;
}

/* What all states are told by. */
typedef struct telling {
    const kl_moleculetask *t;
    kl_exec *ex;
    const kl_lattice *lat;
    const kl_terms *plain;
    const kl_state *state;
    int two;
    kl_densities *d;
    double *value, *one[2]; /* of d's terms; [norb][norb] of each spin */
    double mixed; /* of the lowest state: kl_densities_spin_mixed */
} telling;

/* The lowest state alone has what is much to read. */
static kl_status tell_state(telling *s, int k, kl_result *r, kl_err *err)
{
    static const char *const note = "<cdag_p c_q>, active orbitals in the file's order";
    kl_status st = KL_OK;
    const kl_moleculetask *const t = s->t;
    const int n = t->m->norb;
    const int64_t shape[2] = {n, n};
    kl_state *component = NULL;
    kl_measure *m = NULL;
    KL_TRY(kl_measure_create(s->ex, s->state, k, s->lat, &m, err));
    KL_TRY(kl_measure_terms(m, kl_densities_terms(s->d), s->value, err));
    kl_densities_one(s->d, s->value, s->one[0], s->one[1]);
    KL_TRY(tell(k, "molecule/density_up", note, 2, shape, s->one[0], r, err));
    KL_TRY(tell(k, "molecule/density_dn", note, 2, shape, s->one[1], r, err));
    if (k == 0) KL_TRY(tell_information(s->d, n, s->value, r, err));
    if (s->plain != NULL) { /* amplitudes are those of one component */
        kl_measure_destroy(&m);
        KL_TRY(kl_components_create(s->ex, s->state, k, s->plain, NULL, &component, err));
        KL_TRY(kl_measure_create(s->ex, component, 0, s->lat, &m, err));
    }
    KL_TRY(tell_leading(t, m, k, r, err));
    if (s->two) KL_TRY(tell_two(t, k, s->d, s->value, (const double *const *)s->one, r, err));
    if (t->f->unrestricted) goto out;
    KL_TRY(tell_natural(k, n, s->one[0], s->one[1], r, err));
    const double s2 = kl_densities_spin(s->d, s->value, t->nup - t->ndn),
                 mixed = kl_densities_spin_mixed(s2, t->nup - t->ndn);
    if (k == 0) s->mixed = mixed;
    KL_TRY(tell(k, "molecule/s2",
                mixed == 0 ? "<S^2>"
                : k > 0    ? "<S^2>; no total spin has it: states of several spins are mixed; --charge S=... "
                             "keeps one spin"
                           : "<S^2>; no total spin has it: states of several spins are mixed, and the "
                             "energy's error is told larger for that; --charge S=... keeps one spin",
                0, NULL, &s2, r, err));
out:
    kl_measure_destroy(&m);
    kl_state_destroy(&component);
    return st;
}

kl_status kl_moleculetask_measure(const kl_moleculetask *t, kl_exec *ex, const kl_lattice *lat,
                                  const kl_terms *plain, const kl_state *state, int two, kl_result *r,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t square = (int64_t)t->m->norb * t->m->norb;
    /* the others are guards */
    const int nstate = r->dmrg.nstate < state->nstate ? r->dmrg.nstate : state->nstate;
    telling s = {.t = t, .ex = ex, .lat = lat, .plain = plain, .state = state, .two = two};
    KL_TRY(kl_densities_create(plain != NULL ? t->other : t->m, two, &s.d, err));
    KL_TRY(kl_alloc(&s.value, kl_densities_terms(s.d)->nterm, KL_MEM_WORK, err));
    for (int spin = 0; spin < 2; spin++) KL_TRY(kl_alloc(&s.one[spin], square, KL_MEM_WORK, err));
    for (int k = 0; k < nstate; k++) KL_TRY(tell_state(&s, k, r, err));
    /* sweeps of such states lie on a line that says nothing of what parts the spins: Fe2S2 of 400 states,
       <S^2> of 3.2, is 2.6 millihartree too high, 1.6 by the line */
    r->dmrg.error_estimate *= 1 + s.mixed;
out:
    kl_densities_destroy(&s.d);
    kl_free(&s.value);
    kl_free(&s.one[0]);
    kl_free(&s.one[1]);
    return st;
}
