/* Sectors that lose few columns: see leadingleast.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/leadingleast.h"
#include "base/divide.h"
#include "base/mem.h"
#include <string.h>

enum {
    WORTH = 88,      /* columns from which it takes less time than all eigenvectors, with a device, */
    WORTH_TEST = 40, /* and where products are asked for */
};
#define FEW_STAY 0.7 /* of all columns: most sectors lose too much then */

/* Tridiagonal matrices of the parts that were found, and all their values, unless these are put off. Without
   memory for the matrices nothing was found. */
static kl_status find_spectra(kl_leading *l, int put_off, kl_dptr gram, kl_err *err)
{
    kl_status st = KL_OK;
    kl_exec *const ex = l->range.ex;
    const int npart = l->least.npart;
    const double **d = NULL, **e = NULL;
    kl_least_part **of = NULL;
    int64_t *off = NULL, rows = 0;
    int *n = NULL, count = 0;
    KL_TRY(kl_alloc(&of, npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&n, npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&off, npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&d, npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&e, npart, KL_MEM_WORK, err));
    for (int i = 0; i < npart; i++) {
        kl_least_part *const p = &l->least.part[i];
        if (p->tried == 0) continue;
        of[count] = p;
        n[count] = p->n;
        off[count++] = p->gram;
        rows += p->n;
    }
    if (count == 0) goto out;
    KL_TRY(kl_realloc(&l->diagonal, rows, KL_MEM_WORK, err));
    KL_TRY(kl_realloc(&l->beside, rows, KL_MEM_WORK, err));
    st = ex->vt.tridiagonal(ex, count, n, off, gram, l->diagonal, l->beside, err);
    if (st == KL_ENOMEM) {
        for (int i = 0; i < count; i++) of[i]->tried = 0;
        st = KL_OK;
        goto out;
    }
    if (st != KL_OK) goto out;
    l->put_off = put_off;
    l->nrow = rows;
    rows = 0;
    for (int i = 0; i < count; rows += n[i++]) {
        of[i]->row = rows;
        d[i] = l->diagonal + rows;
        e[i] = l->beside + rows;
    }
    if (put_off) goto out;
    KL_TRY(kl_realloc(&l->spectrum, rows, KL_MEM_WORK, err));
    KL_TRY(kl_divide_values(ex->nthread, count, n, d, e, l->spectrum, err));
    for (int64_t k = 0; k < rows; k++) l->spectrum[k] = l->spectrum[k] > 0 ? l->spectrum[k] : 0;
    rows = 0;
    for (int i = 0; i < count; rows += n[i++]) of[i]->all = l->spectrum + rows;
out:
    kl_free(&of);
    kl_free(&n);
    kl_free(&off);
    kl_free(&d);
    kl_free(&e);
    return st;
}

kl_status kl_leading_least_find(kl_leading *l, const kl_leading_opts *o, const int64_t *off, kl_dptr gram,
                                kl_err *err)
{
    kl_status st = KL_OK;
    const int worth = o->way == KL_TRUNCATION_PRODUCTS ? WORTH_TEST : WORTH;
    kl_least *const least = &l->least;
    const int may = l->range.ex->vt.roots != NULL || o->way == KL_TRUNCATION_PRODUCTS;
    if (!may || (o->spectrum && !l->range.ex->vt.tridiagonal) || l->npart == 0 ||
        o->m < FEW_STAY * l->ncolumn)
        return KL_OK;
    least->ex = l->range.ex;
    KL_TRY(kl_alloc(&least->part, l->npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&l->least_of, l->nsec, KL_MEM_WORK, err));
    least->stay = (double)o->m / l->ncolumn;
    for (int c = 0; c < l->nsec; c++) {
        const int part = l->part[c];
        l->least_of[c] = -1;
        if (part < 0 || o->least[c] > 0 || l->way[c].mode != KL_RANGE_DUAL || l->way[c].width < worth)
            continue;
        l->least_of[c] = least->npart;
        least->part[least->npart++] = (kl_least_part){.n = l->way[c].width, .gram = off[c]};
    }
    KL_TRY(kl_least_find(least, gram, err));
    if (o->spectrum) KL_TRY(find_spectra(l, o->put_off, gram, err));
out:
    return st;
}

int kl_leading_nleast(const kl_leading *l)
{
    int count = 0;
    for (int i = 0; i < l->least.npart; i++) count += l->least.part[i].tried > 0;
    return count;
}

const kl_least_part *kl_leading_least(const kl_leading *l, int c)
{
    const int nth = l->least_of ? l->least_of[c] : -1;
    return nth >= 0 && l->least.part[nth].tried > 0 ? &l->least.part[nth] : NULL;
}

void kl_leading_least_weights(const kl_least_part *p, double *w)
{
    double known = 0;
    if (p->all) {
        memcpy(w, p->all, (size_t)p->n * sizeof *w);
        return;
    }
    for (int i = 0; i < p->tried; i++) known += w[i] = p->value[i];
    for (int i = p->tried; i < p->n; i++) w[i] = (p->trace - known) / (p->n - p->tried);
}

kl_status kl_leading_least_states(kl_leading *l, const int *count, const int64_t *from, int64_t nz, kl_dptr z,
                                  kl_err *err)
{
    kl_status st = KL_OK;
    int *drop = NULL;
    int64_t *to = NULL;
    if (l->least.npart == 0) return KL_OK;
    KL_TRY(kl_alloc(&drop, l->least.npart, KL_MEM_WORK, err));
    KL_TRY(kl_alloc(&to, l->least.npart, KL_MEM_WORK, err));
    for (int c = 0; c < l->nsec; c++) {
        const int nth = l->least_of[c];
        if (nth < 0) continue;
        const int kept = count[l->part[c]];
        to[nth] = kept > 0 ? from[l->part[c]] : -1;
        drop[nth] = l->least.part[nth].n - kept;
    }
    KL_TRY(kl_least_rest(&l->least, drop, to, nz, z, err));
out:
    kl_free(&drop);
    kl_free(&to);
    return st;
}
