/* Configuration interaction.

   1. Electrons, references (given, the first orbitals of the file, or the determinant of lowest energy by
      descent), inactive, active and deleted orbitals; the inactive ones are folded into the integrals.
   2. For each irrep a space, and H on it: stored, or as products only.
   3. The lowest determinants make a small dense block: its eigenvectors, with a random part over the whole
      space, start the solver, its inverse
      preconditions it. Roots above the wanted ones (guards) are followed until nothing of theirs can lie
      below.
   4. Where states of several irreps are wanted: all irreps to a coarse residual, then only those that can
      still hold one of the lowest.
   5. States in order of energy, with spin, density matrices, natural occupations and leading determinants.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ci/ciunit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/prof.h"
#include "ci/cikeep.h"
#include "ci/cistate.h"

static const double coarse_tol = 0.01;  /* hartree: enough to tell irreps apart */

typedef struct candidate {
    double e, low; /* upper bound, and what it cannot lie below */
    int irrep, root;
} candidate;

static int by_value(const void *x, const void *y)
{
    const candidate *const a = x, *const b = y;
    if (a->e != b->e) return a->e < b->e ? -1 : 1;
    return a->irrep != b->irrep ? a->irrep - b->irrep : a->root - b->root;
}

static int collect(const kl_cisector *s, const int *nroot, candidate *list)
{
    int n = 0;
    for (int g = 0; g < 8; g++)
        for (int k = 0; k < nroot[g]; k++)
            list[n++] = (candidate){s[g].energy[k], s[g].energy[k] - s[g].residual[k], g, k};
    qsort(list, (size_t)n, sizeof(*list), by_value);
    return n;
}

kl_status kl_ci_check(const kl_ci_opts *o, kl_err *err)
{
    if (o->nroot < 1) return kl_fail(err, KL_EINPUT, "%d roots; 1 or more are allowed", o->nroot);
    if (!o->full && o->levels == 0) return kl_fail(err, KL_EINPUT, "no space was chosen");
    if (o->half && (o->store == KL_CI_DIRECT || o->store == KL_CI_MIXED))
        return kl_fail(err, KL_EINPUT, "one half of a matrix is stored whole, not direct or mixed");
    return KL_OK;
}

/* No more roots than there are determinants; spaces beyond 64 bits have enough. */
static kl_status check_roots(const kl_ciorbitals *l, const kl_ci_opts *o, int nirrep, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t all = 0, n;
    for (int g = 0; g < nirrep && all < o->nroot; g++) {
        if (o->irrep >= 0 && g != o->irrep) continue;
        const kl_det_spec spec = kl_ciorbitals_spec(l, o, g);
        KL_TRY(kl_detspace_count(&spec, &n, err));
        all += n < 0 || n > o->nroot ? o->nroot : n;
    }
    if (all > 0 && all < o->nroot)
        KL_TRY(kl_fail(err, KL_EINPUT, "%d roots are asked for, but the space has only %lld determinant%s",
                       o->nroot, (long long)all, all == 1 ? "" : "s"));
out:
    return st;
}

kl_status kl_ci_run_scaled(const kl_fcidump *f, kl_exec *ex, const kl_ci_opts *opts,
                           const kl_ci_monitor *monitor, kl_ci_result *out, kl_err *err)
{
    kl_status st = KL_OK;
    const double start = kl_prof_seconds();
    kl_ciorbitals l = {0};
    kl_cisector s[8] = {{0}};
    candidate *list = NULL;
    kl_ci_opts o = *opts;
    int nsector = 0, wanted[8] = {0}, n = 0;
    *out = (kl_ci_result){0};
    if (o.nthread < 1) o.nthread = ex->nthread;
    if (o.tol <= 0) o.tol = 1e-6;
    KL_TRY(kl_ci_check(&o, err));
    KL_TRY(kl_ciorbitals_make(f, &o, &l, err));
    KL_TRY(check_roots(&l, &o, f->nirrep, err));
    out->norb = f->norb;
    out->nalpha = l.nalpha;
    out->nbeta = l.nbeta;
    out->nirrep = f->nirrep;
    out->nactive = l.nactive;
    out->ninactive = l.ncore;
    out->direct = kl_ci_is_direct(&o);
    out->format = o.format.format;
    out->half = o.half;
    memcpy(out->note, f->note, sizeof(out->note));
    KL_TRY(kl_ciorbitals_facts(&l, &out->reference, &out->reference_energy, err));
    for (int g = 0; g < f->nirrep; g++) {
        s[g].irrep = g;
        if (o.irrep >= 0 && g != o.irrep) continue;
        KL_TRY(kl_cisector_make(&s[g], &l, ex, &o, monitor, &out->block[g], err));
        if (s[g].space->n == 0) continue;
        nsector++;
        for (int k = 0; k < s[g].space->nlevel; k++) out->level_count[k] += s[g].space->level_count[k];
        if (s[g].space->nlevel > out->nlevel) out->nlevel = s[g].space->nlevel;
        wanted[g] = s[g].nvec;
    }
    if (nsector == 0)
        KL_TRY(kl_fail(err, KL_EINPUT, "no determinant of irrep %d in this space", o.irrep + 1));
    int64_t most = 0;
    for (int g = 0; g < 8; g++) most += wanted[g];
    kl_cikeep kept = {.to = monitor != NULL ? monitor->keeper : NULL, .s = s, .block = out->block};
    KL_TRY(kl_cikeep_take_up(&kept, err));
    KL_TRY(kl_alloc(&list, most, KL_MEM_WORK, err));
    double ceiling = INFINITY;
    if (nsector > 1) {
        for (int g = 0; g < 8; g++)
            if (wanted[g] > 0 && s[g].done < 1 && !out->stopped) {
                const kl_cisector_stage coarse = {wanted[g], fmax(coarse_tol, o.tol), INFINITY, 0};
                KL_TRY(kl_cikeep_solve(&kept, g, &o, &coarse, monitor, err));
                out->stopped = s[g].stats.stopped;
            }
        if (out->stopped) goto out;
        n = collect(s, wanted, list);
        if (n >= o.nroot) ceiling = list[o.nroot - 1].e;
        memset(wanted, 0, sizeof(wanted));
        for (int k = 0; k < n; k++) /* roots of a sector come in order: all below a kept one are kept */
            if (list[k].low <= ceiling && wanted[list[k].irrep] < list[k].root + 1)
                wanted[list[k].irrep] = list[k].root + 1;
    }
    for (int g = 0; g < 8; g++)
        if (wanted[g] > 0 && s[g].done < 2 && !out->stopped) {
            const kl_cisector_stage fine = {wanted[g], o.tol, ceiling, 1};
            KL_TRY(kl_cikeep_solve(&kept, g, &o, &fine, monitor, err));
            out->stopped = s[g].stats.stopped;
        }
    if (out->stopped) goto out;
    n = collect(s, wanted, list);
    if (n > o.nroot) n = o.nroot;
    KL_TRY(kl_alloc(&out->state, n, KL_MEM_MISC, err));
    out->nstate = n;
    out->converged = 1;
    for (int k = 0; k < n; k++) {
        KL_TRY(kl_cistate_describe(&l, ex, &o, &s[list[k].irrep], list[k].root, &out->state[k], err));
        out->converged &= out->block[list[k].irrep].converged;
    }
    out->seconds_all = kl_prof_seconds() - start;
out:
    for (int g = 0; g < 8; g++) kl_cisector_clear(&s[g], ex);
    kl_ciorbitals_clear(&l);
    kl_free(&list);
    if (st != KL_OK) kl_ci_result_clear(out);
    return st;
}
