/* What a run of configuration interaction would need; nothing is stored or solved.
   SPDX-License-Identifier: Apache-2.0 */
#include "ci/cisector.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "solve/davidson.h"

/* On all rows of a small space, on some of a larger one. */
static kl_status count_nonzeros(const kl_ciorbitals *l, const kl_ci_opts *o, const kl_det_spec *spec,
                                kl_ci_plan *out, int g, kl_err *err)
{
    enum {
        ALL = 100000,
        MOST = 20000000,
    };
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

/* Full spaces need no matrix. */
int kl_ci_is_direct(const kl_ci_opts *o)
{
    return o->store == KL_CI_DIRECT || (o->store == KL_CI_AUTO && o->full);
}

double kl_ci_stored_share(const kl_ci_opts *o, double nnz)
{
    if (kl_ci_is_direct(o)) return 0;
    return o->half || o->store == KL_CI_MATRIX ? 1 : fmin((double)kl_cisector_memory(o) / (12 * nnz), 1);
}

double kl_ci_connected(int norb, int nalpha, int nbeta)
{
    const double a = (double)nalpha * (norb - nalpha), b = (double)nbeta * (norb - nbeta);
    const double aa = a * (nalpha - 1) * (norb - nalpha - 1) / 4,
                 bb = b * (nbeta - 1) * (norb - nbeta - 1) / 4;
    return 1 + a + b + a * b + aa + bb;
}

/* Vectors that the solver follows. */
static int followed(const kl_ci_opts *o, int64_t ndet)
{
    const int nroot = ndet >= 0 && o->nroot > ndet ? (int)ndet : o->nroot;
    return nroot < 1 ? 1 : nroot + KL_CISECTOR_GUARD > ndet ? nroot : nroot + KL_CISECTOR_GUARD;
}

/* Bytes of its vectors, for ndet > 0; -1: all of them together are beyond 64 bits. */
static int64_t solver_bytes(const kl_ci_opts *o, int64_t ndet)
{
    const int64_t most_vector = INT64_C(1) << 50;
    const int nvec = followed(o, ndet);
    const kl_eig_opts eig = {.solver = o->solver, .nroot = nvec, .max_basis = o->max_basis};
    if (ndet < 0 || ndet > most_vector) return -1;
    return 8 * (kl_eig_work_doubles(&eig, ndet) + (nvec + 2) * ndet);
}

/* Columns of a basis that a device needs for them. */
static double least_columns(const kl_ci_opts *o, int64_t ndet)
{
    const kl_eig_opts eig = {.solver = o->solver, .nroot = followed(o, ndet), .max_basis = o->max_basis};
    return o->solver == KL_SOLVER_DAVIDSON ? kl_davidson_least_columns(&eig, ndet)
                                           : (double)kl_eig_work_doubles(&eig, ndet) / (double)ndet;
}

kl_status kl_ci_measure(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_size *out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_ciorbitals l = {0};
    *out = (kl_ci_size){0};
    KL_TRY(kl_ciorbitals_make(f, o, &l, err));
    for (int g = 0; g < f->nirrep; g++) {
        int64_t n;
        const kl_det_spec spec = kl_ciorbitals_spec(&l, o, g);
        if (o->irrep >= 0 && g != o->irrep) continue;
        KL_TRY(kl_detspace_count(&spec, &n, err));
        out->norb = spec.norb, out->nalpha = spec.nalpha, out->nbeta = spec.nbeta;
        out->ndet[g] = n < 0 ? 0x1p62 : (double)n;
        out->connected[g] =
            fmin(1 + kl_ci_connected(spec.norb, spec.nalpha, spec.nbeta) / f->nirrep, out->ndet[g]);
        const int64_t bytes = n == 0 ? 0 : solver_bytes(o, n);
        out->vector_bytes[g] = bytes < 0 ? 0x1p62 : (double)bytes;
        if (bytes > 0) out->least_bytes[g] = 8 * least_columns(o, n) * (double)n;
        if (bytes > 0) out->kept_bytes[g] = 8.0 * (followed(o, n) + 2) * (double)n;
    }
out:
    kl_ciorbitals_clear(&l);
    return st;
}

kl_status kl_ci_make_plan(const kl_fcidump *f, const kl_ci_opts *o, kl_ci_plan *out, kl_err *err)
{
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
        KL_TRY(count_nonzeros(&l, o, &spec, out, g, err));
        if (out->nnz[g] > 0) out->stored[g] = kl_ci_stored_share(o, (double)out->nnz[g]);
        if (out->ndet[g] != 0) out->bytes_vectors[g] = solver_bytes(o, out->ndet[g]);
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
