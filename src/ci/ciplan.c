/* What a run of configuration interaction would need; nothing is stored or solved.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cisector.h"

#include <string.h>

#include "base/mem.h"

/* On all rows of a small space, on some of a larger one. */
static kl_status count_nonzeros(const kl_ciorbitals *l, const kl_ci_opts *o, const kl_det_spec *spec,
                                kl_ci_plan *out, int g, kl_err *err)
{
    enum { ALL = 100000, MOST = 20000000 };
    kl_status st = KL_OK;
    kl_detspace *space = NULL;
    kl_slater *h = NULL;
    out->nnz[g] = -1;
    if (out->ndet[g] < 0 || out->ndet[g] > MOST) return KL_OK;
    out->nnz[g] = 0;
    if (out->ndet[g] == 0 || (o->irrep >= 0 && g != o->irrep)) return KL_OK;
    KL_TRY(kl_detspace_create(spec, o->nthread, &space, err));
    KL_TRY(kl_slater_create(l->g, space, o->nthread, &h, err));
    const int every = (int)(space->n / ALL) + 1;
    out->nnz_sampled[g] = every > 1;
    KL_TRY(kl_slater_count(h, o->half, every, &out->nnz[g], err));
out:
    kl_slater_destroy(&h);
    kl_detspace_destroy(&space);
    return st;
}

kl_status kl_ci_make_plan(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_plan *out, kl_err *err)
{
    const int64_t most_vector = INT64_C(1) << 50; /* all vectors of a solver together stay within 64 bits */
    kl_status st = KL_OK;
    kl_ciorbitals l = {0};
    *out = (kl_ci_plan){0};
    KL_TRY(kl_ciorbitals_make(f, o, &l, err));
    out->norb = f->norb;
    out->nalpha = l.nalpha;
    out->nbeta = l.nbeta;
    out->nirrep = f->nirrep;
    out->nactive = l.nactive;
    out->ninactive = l.ncore;
    memcpy(out->note, f->note, sizeof(out->note));
    KL_TRY(kl_ciorbitals_facts(&l, &out->reference, &out->reference_energy, err));
    out->closed_shell = l.ref[0][0] == l.ref[0][1];
    for (int g = 0; g < f->nirrep; g++) {
        const kl_det_spec spec = kl_ciorbitals_spec(&l, o, g);
        int nlevel = 0;
        KL_TRY(kl_det_levels(&spec, g, &nlevel, out->det[g], out->csf[g], err));
        if (nlevel > out->nlevel) out->nlevel = nlevel;
        for (int k = 0; k <= 2 * KL_DET_MAX_ORB; k++) {
            out->det[8][k] += out->det[g][k];
            out->csf[8][k] += out->csf[g][k];
        }
        KL_TRY(kl_detspace_count(&spec, &out->ndet[g], err));
        const int nroot = out->ndet[g] >= 0 && o->nroot > out->ndet[g] ? (int)out->ndet[g] : o->nroot;
        const int nvec = nroot < 1                                  ? 1
                         : nroot + KL_CISECTOR_GUARD > out->ndet[g] ? nroot
                                                                    : nroot + KL_CISECTOR_GUARD;
        const kl_eig_opts eig = {.solver = o->solver, .nroot = nvec, .max_basis = o->max_basis};
        KL_TRY(count_nonzeros(&l, o, &spec, out, g, err));
        if (out->ndet[g] < 0 || out->ndet[g] > most_vector) out->bytes_vectors[g] = -1;
        else if (out->ndet[g] > 0)
            out->bytes_vectors[g] = 8 * (kl_eig_work_doubles(&eig, out->ndet[g]) + (nvec + 2) * out->ndet[g]);
    }
out:
    kl_ciorbitals_clear(&l);
    if (st != KL_OK) kl_ci_plan_clear(out);
    return st;
}

void kl_ci_plan_clear(kl_ci_plan *p)
{
    kl_free(&p->reference);
    *p = (kl_ci_plan){0};
}
