/* A molecule from integrals in memory: checked, and packed as files of integrals are. See kronlat.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "lib/handles.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

#define NOISE 1e-10 /* of the largest element: what may break a symmetry */

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, isfinite(x[i]) ? fabs(x[i]) : INFINITY);
    return most;
}

static kl_status pack_one(const double *h, int norb, int spin, double *to, kl_err *err)
{
    const double most = largest(h, (int64_t)norb * norb);
    if (!isfinite(most)) return kl_fail(err, KL_EINPUT, "integrals: h holds a number that is not finite");
    for (int p = 0; p < norb; p++)
        for (int q = 0; q < norb; q++) {
            if (fabs(h[p * norb + q] - h[q * norb + p]) > NOISE * most)
                return kl_fail(err, KL_EINPUT,
                               "integrals: h of spin %d is not symmetric: (%d,%d) is %.10g, (%d,%d) is %.10g",
                               spin, p, q, h[p * norb + q], q, p, h[q * norb + p]);
            to[p * norb + q] = h[p >= q ? p * norb + q : q * norb + p];
        }
    return KL_OK;
}

/* kind 2: alpha beta, whose two pairs may not be exchanged. */
static kl_status pack_two(const double *eri, int norb, int kind, double *to, kl_err *err)
{
    const int64_t n = norb, npair = n * (n + 1) / 2;
    const double most = largest(eri, n * n * n * n);
    if (!isfinite(most)) return kl_fail(err, KL_EINPUT, "integrals: eri holds a number that is not finite");
    for (int p = 0; p < norb; p++)
        for (int q = 0; q < norb; q++)
            for (int r = 0; r < norb; r++)
                for (int s = 0; s < norb; s++) {
                    const double x = eri[((p * n + q) * n + r) * n + s];
                    const int a = p >= q ? p : q, b = p >= q ? q : p, c = r >= s ? r : s, d = r >= s ? s : r;
                    const int swap = kind < 2 && kl_pair(a, b) < kl_pair(c, d);
                    const double y =
                        swap ? eri[((c * n + d) * n + a) * n + b] : eri[((a * n + b) * n + c) * n + d];
                    if (fabs(x - y) > NOISE * most)
                        return kl_fail(err, KL_EINPUT,
                                       "integrals: (%d %d|%d %d) is %.10g, but its mirror image %.10g; "
                                       "eri is wanted over real orbitals, (pq|rs)",
                                       p, q, r, s, x, y);
                    to[kl_pair(p, q) * npair + kl_pair(r, s)] = y;
                }
    return KL_OK;
}

/* Elements that the irreps forbid are refused where they are more than noise; `clear`: they become 0. */
static kl_status obey_irreps(kl_fcidump *f, const int *irrep, int clear, kl_err *err)
{
    const int norb = f->norb, nspin = f->unrestricted ? 2 : 1;
    for (int s = 0; s < nspin; s++) {
        const double most = largest(f->h[s], (int64_t)norb * norb);
        for (int p = 0; p < norb; p++)
            for (int q = 0; q < norb; q++) {
                double *const x = &f->h[s][p * norb + q];
                if (irrep[p] == irrep[q]) continue;
                if (fabs(*x) > NOISE * most)
                    return kl_fail(err, KL_EINPUT,
                                   "integrals: h (%d,%d) = %.10g joins orbitals of irreps %d and %d", p, q,
                                   *x, irrep[p], irrep[q]);
                if (clear) *x = 0;
            }
    }
    for (int k = 0; k < (f->unrestricted ? 3 : 1); k++) {
        const double most = largest(f->eri[k], f->npair * f->npair);
        for (int p = 0; p < norb; p++)
            for (int q = 0; q <= p; q++)
                for (int r = 0; r < norb; r++)
                    for (int s = 0; s <= r; s++) {
                        double *const x = &f->eri[k][kl_pair(p, q) * f->npair + kl_pair(r, s)];
                        if ((irrep[p] ^ irrep[q] ^ irrep[r] ^ irrep[s]) == 0) continue;
                        if (fabs(*x) > NOISE * most)
                            return kl_fail(err, KL_EINPUT,
                                           "integrals: (%d %d|%d %d) = %.10g is forbidden by the irreps", p,
                                           q, r, s, *x);
                        if (clear) *x = 0;
                    }
    }
    return KL_OK;
}

static kl_status set_irreps(kl_fcidump *f, const int *irrep, kl_err *err)
{
    int most = 0;
    for (int p = 0; p < f->norb; p++) {
        if (irrep[p] < 0 || irrep[p] > 7)
            return kl_fail(err, KL_EINPUT, "integrals: irrep of orbital %d is %d; allowed: 0 to 7", p,
                           irrep[p]);
        if (irrep[p] > most) most = irrep[p];
    }
    for (int clear = 0; clear < 2; clear++) {
        const kl_status st = obey_irreps(f, irrep, clear, err);
        if (st != KL_OK) return st;
    }
    memcpy(f->irrep, irrep, (size_t)f->norb * sizeof *irrep);
    f->nirrep = most > 3 ? 8 : most > 1 ? 4 : most > 0 ? 2 : 1;
    return KL_OK;
}

static kl_status pack(kl_fcidump *f, const double *h, const double *eri, kl_err *err)
{
    kl_status st = KL_OK;
    const int64_t n = f->norb;
    KL_TRY(kl_alloc(&f->irrep, n, KL_MEM_MISC, err));
    for (int s = 0; s < (f->unrestricted ? 2 : 1); s++) {
        KL_TRY(kl_alloc(&f->h[s], n * n, KL_MEM_MATRIX, err));
        KL_TRY(pack_one(h + s * n * n, f->norb, s, f->h[s], err));
    }
    for (int k = 0; k < (f->unrestricted ? 3 : 1); k++) {
        KL_TRY(kl_alloc(&f->eri[k], f->npair * f->npair, KL_MEM_MATRIX, err));
        KL_TRY(pack_two(eri + k * n * n * n * n, f->norb, k, f->eri[k], err));
    }
    if (!f->unrestricted) {
        f->h[1] = f->h[0];
        f->eri[1] = f->eri[2] = f->eri[0];
    }
out:
    return st;
}

kronlat_status kronlat_problem_create_integrals(int norb, int electrons, int ms2, int unrestricted,
                                                double core, const double *h, const double *eri,
                                                kronlat_problem **out, kronlat_error *error)
{
    kl_status st = KL_OK;
    kl_err err = {{0}};
    kronlat_problem *p = NULL;
    kl_fcidump *f = NULL;
    const kl_visit v = kl_visit_begin(NULL);
    *out = NULL;
    if (norb < 1 || norb > KL_FCIDUMP_MAX_ORB)
        KL_TRY(
            kl_fail(&err, KL_EINPUT, "integrals: %d orbitals; allowed: 1 to %d", norb, KL_FCIDUMP_MAX_ORB));
    if (electrons < 1 || electrons > 2 * norb || ms2 > electrons || -ms2 > electrons ||
        (electrons - ms2) % 2 != 0)
        KL_TRY(kl_fail(&err, KL_EINPUT,
                       "integrals: %d electrons with ms2 %d in %d orbitals cannot be; ms2 is alpha less beta "
                       "electrons",
                       electrons, ms2, norb));
    if (h == NULL || eri == NULL || !isfinite(core))
        KL_TRY(kl_fail(&err, KL_EINPUT, "integrals: h or eri is NULL, or core is not finite"));
    KL_TRY(kl_alloc(&p, 1, KL_MEM_MISC, &err));
    KL_TRY(kl_alloc(&f, 1, KL_MEM_MISC, &err));
    *f = (kl_fcidump){.norb = norb,
                      .nelec = electrons,
                      .ms2 = ms2,
                      .unrestricted = unrestricted != 0,
                      .nirrep = 1,
                      .npair = (int64_t)norb * (norb + 1) / 2,
                      .core = core};
    KL_TRY(pack(f, h, eri, &err));
    p->integrals = f;
    f = NULL;
    *out = p;
    p = NULL;
out:
    kl_fcidump_destroy(&f);
    kronlat_problem_destroy(p);
    return kl_visit_end(v, st, &err, error);
}

kronlat_status kronlat_problem_set_irreps(kronlat_problem *problem, int norb, const int *irrep,
                                          kronlat_error *error)
{
    kl_err err = {{0}};
    kl_status st;
    const kl_visit v = kl_visit_begin(problem);
    kl_fcidump *const f = problem->integrals;
    if (f == NULL) st = kl_fail(&err, KL_EINPUT, "irreps: the problem holds no integrals in memory");
    else if (irrep == NULL || norb != f->norb)
        st = kl_fail(&err, KL_EINPUT, "irreps: %d are given for %d orbitals", irrep != NULL ? norb : 0,
                     f->norb);
    else st = set_irreps(f, irrep, &err);
    return kl_visit_end(v, st, &err, error);
}
