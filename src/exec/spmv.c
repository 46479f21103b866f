/* What is the same for sparse products on every executor: groups of vectors, names, counts.
   SPDX-License-Identifier: Apache-2.0 */
#include "exec/spmv.h"

#include <string.h>

#include "base/mem.h"
#include "base/prof.h"

/* ORDER KL_SPWAY */
static const char *const way_name[KL_NSPWAY] = {"auto",   "thread", "warp",     "warps",
                                                "packed", "tiles",  "cusparse", "csr5"};

const char *kl_spway_name(kl_spway way) { return way_name[way]; }

static kl_status create(kl_exec *ex, const kl_spmat *m, kl_spway way, int threads, int64_t products,
                        kl_spmv **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_spmv *s = NULL;
    const double start = kl_prof_seconds();
    *out = NULL;
    if (ex->vt.spmv_prepare == NULL)
        return kl_fail(err, KL_EABSENT, "executor %s knows no products with sparse matrices", ex->name);
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    *s = (kl_spmv){.ex = ex, .m = m, .way = way, .threads = threads, .products = products};
    KL_TRY(ex->vt.spmv_prepare(ex, s, err));
    s->seconds = kl_prof_seconds() - start;
    *out = s;
    return KL_OK;
out:
    kl_spmv_destroy(&s);
    return st;
}

kl_status kl_spmv_create_way(kl_exec *ex, const kl_spmat *m, kl_spway way, int threads, kl_spmv **out,
                             kl_err *err)
{
    return create(ex, m, way, threads, KL_SPMV_MANY, out, err);
}

kl_status kl_spmv_create(kl_exec *ex, const kl_spmat *m, int64_t products, kl_spmv **out, kl_err *err)
{
    return create(ex, m, KL_SPWAY_AUTO, 0, products, out, err);
}

void kl_spmv_destroy(kl_spmv **s)
{
    if (*s == NULL) return;
    (*s)->ex->vt.spmv_release((*s)->ex, *s);
    kl_free(s);
}

int64_t kl_spmv_bytes(const kl_spmat *m, int nvec)
{
    return kl_spmat_measured_bytes(m) + (m->ncol + m->nrow) * nvec * (int64_t)sizeof(double);
}

kl_status kl_spmv_apply(kl_spmv *s, int nvec, kl_dptr x, int64_t ldx, kl_dptr y, int64_t ldy, kl_err *err)
{
    kl_status st = KL_OK;
    for (int first = 0; first < nvec && s->m->nrow > 0; first += KL_SPMV_MAX_VEC) {
        const int take = nvec - first < KL_SPMV_MAX_VEC ? nvec - first : KL_SPMV_MAX_VEC;
        KL_TRY(s->ex->vt.spmv_apply(s->ex, s, take, kl_dptr_at(x, first * ldx), ldx,
                                    kl_dptr_at(y, first * ldy), ldy, err));
    }
out:
    return st;
}
