/* Irreps of orbitals from the labels of an FCIDUMP file; see orbsym.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/orbsym.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Labels are believed while no integral that they forbid is larger; smaller ones are rounding of the writer
   and become 0. Hartree, as long as the file's largest integral is between 2^-USUAL and 2^USUAL. */
static const double forbidden_noise = 1e-10;
enum { USUAL = 16 };

static double largest_integral(const kl_fcidump *f)
{
    double most = 0;
    for (int s = 0; s < (f->unrestricted ? 2 : 1); s++)
        for (int64_t i = 0; i < (int64_t)f->norb * f->norb; i++) most = fmax(most, fabs(f->h[s][i]));
    for (int s = 0; s < (f->unrestricted ? 3 : 1); s++)
        for (int64_t i = 0; i < f->npair * f->npair; i++) most = fmax(most, fabs(f->eri[s][i]));
    return most;
}

/* Zeroes what the labels forbid and returns the largest of it; with look only, changes nothing. */
static double forbidden(kl_fcidump *f, const int *irrep, int look)
{
    double largest = 0;
    for (int s = 0; s < (f->unrestricted ? 2 : 1); s++)
        for (int p = 0; p < f->norb; p++)
            for (int q = 0; q < f->norb; q++) {
                if (irrep[p] == irrep[q]) continue;
                double *const x = &f->h[s][p * f->norb + q];
                largest = fmax(largest, fabs(*x));
                if (!look) *x = 0;
            }
    for (int s = 0; s < (f->unrestricted ? 3 : 1); s++)
        for (int p = 0; p < f->norb; p++)
            for (int q = 0; q <= p; q++)
                for (int t = 0; t < f->norb; t++)
                    for (int u = 0; u <= t; u++) {
                        if ((irrep[p] ^ irrep[q] ^ irrep[t] ^ irrep[u]) == 0) continue;
                        double *const x = &f->eri[s][kl_pair(p, q) * f->npair + kl_pair(t, u)];
                        largest = fmax(largest, fabs(*x));
                        if (!look) *x = 0;
                    }
    return largest;
}

/* Irreps by labels that count from base; returns the largest of the integrals that they forbid, INFINITY
   where a label is none. *nirrep: 1, 2, 4 or 8. */
static double try_base(kl_fcidump *f, const int *labels, int step, int base, int *nirrep)
{
    int most = 0;
    for (int p = 0; p < f->norb; p++) {
        const int irrep = labels[step * p] - base;
        if (irrep < 0 || irrep > 7) return INFINITY;
        f->irrep[p] = irrep;
        if (irrep > most) most = irrep;
    }
    for (*nirrep = 1; *nirrep <= most;) *nirrep *= 2;
    return most > 0 ? forbidden(f, f->irrep, 1) : 0;
}

/* Says in the note why the labels are of no use: what stands in them. 1: they are. */
static int check_labels(kl_fcidump *f, const int *labels, int nlabel, int step)
{
    int low = 8, high = 0;
    for (int p = 0; p < f->norb; p++) {
        const int label = labels[step * p], other = labels[step * p + step - 1];
        if (label != other) {
            snprintf(f->note, sizeof(f->note),
                     "ORBSYM has %d labels, one for each spin orbital of %d orbitals, and the two of orbital "
                     "%d differ, %d and %d; the point group is not used",
                     nlabel, f->norb, p + 1, label, other);
            return 0;
        }
        if (label < 0 || label > 8) {
            snprintf(f->note, sizeof(f->note),
                     "ORBSYM has the label %d for orbital %d, which is none of 1 to 8 (or 0 to 7); the point "
                     "group is not used",
                     label, p + 1);
            return 0;
        }
        low = label < low ? label : low;
        high = label > high ? label : high;
    }
    if (low > 0 || high < 8) return 1;
    snprintf(f->note, sizeof(f->note),
             "ORBSYM has labels from 0 to 8, and irreps are 1 to 8 or 0 to 7; the point group is not used");
    return 0;
}

/* Molpro counts irreps from 1, PySCF by default from 0: the base is the one under which no integral is
   forbidden, 1 where both are. */
kl_status kl_orbsym_use(kl_fcidump *f, int nlabel, const int *labels, kl_err *err)
{
    kl_status st = KL_OK;
    int usable = 0, nirrep = 1, base;
    double largest = INFINITY;
    const double noise = forbidden_noise * kl_unit_of(largest_integral(f), USUAL);
    KL_TRY(kl_alloc(&f->irrep, f->norb, KL_MEM_MISC, err));
    f->nirrep = 1;
    /* 0 throughout: the writer knew no point group */
    for (int k = 0; k < nlabel; k++) usable |= labels[k] != 0;
    if (nlabel > f->norb && nlabel != 2 * f->norb)
        return kl_fail(err, KL_EINPUT, "ORBSYM has %d labels for %d orbitals", nlabel, f->norb);
    if (nlabel > 0 && nlabel < f->norb) {
        snprintf(f->note, sizeof(f->note),
                 "ORBSYM has %d labels for %d orbitals; the point group is not used", nlabel, f->norb);
        usable = 0;
    }
    const int step = nlabel == 2 * f->norb ? 2 : 1; /* a label for each spin orbital */
    usable = usable && check_labels(f, labels, nlabel, step);
    for (base = 1; usable && base >= 0; base--) {
        const double now = try_base(f, labels, step, base, &nirrep);
        if (now <= noise) break;
        largest = fmin(largest, now);
    }
    if (usable && base < 0) {
        snprintf(f->note, sizeof(f->note),
                 "ORBSYM forbids an integral of %.3g that the file gives; the point group is not used",
                 largest);
        usable = 0;
    }
    if (!usable) {
        memset(f->irrep, 0, (size_t)f->norb * sizeof(*f->irrep));
        goto out;
    }
    f->nirrep = nirrep;
    if (nirrep > 1) forbidden(f, f->irrep, 0);
    if (base == 0)
        snprintf(f->note, sizeof(f->note),
                 "ORBSYM counts irreps from 0, as PySCF does; here they are told from 1");
out:
    return st;
}
