/* Columns of an eigensolver's basis where a device has no room for all of them (nemes2014, section 6): the
   first ones lie there, the others on the host, which takes its share of products with all columns. A column
   that is being made is on the device in any case, in one of a few buffers that are used in turn.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COLUMNS_H
#define KL_COLUMNS_H
#include "exec/exec.h"

typedef struct kl_columns {
    kl_exec *ex, *cpu; /* cpu: NULL where all columns are on the device */
    int64_t n, ld;
    int ndev, nplace;
    kl_dptr dev;       /* [ndev][ld] */
    /* [nplace][ld]: of columns that are made; one more behind them for what comes from the host */
    kl_dptr place;
    double *host;      /* [columns - ndev][ld] */
    double *buffer;    /* [n], for what travels */
    /* NULL, or the buffer is far memory: the copy out of it that may not be done yet, -1: none. Bases that
       share a buffer share this */
    int *ticket;
} kl_columns;

/* Where column j is or is being made; good until column j + nplace is. */
static inline kl_dptr kl_columns_at(const kl_columns *c, int j)
{
    return j < c->ndev ? kl_dptr_at(c->dev, j * c->ld)
                       : kl_dptr_at(c->place, (j - c->ndev) % c->nplace * c->ld);
}
/* Column j is made. Columns before it are meant by the two calls below, which read settled ones only. */
kl_status kl_columns_settle(const kl_columns *c, int j, kl_err *err) KL_MUST_CHECK;
/* out[j] = V_j . x, j < k; x on the device */
kl_status kl_columns_dots(const kl_columns *c, int k, kl_dptr x, double *out, kl_err *err) KL_MUST_CHECK;
/* y = sum_j < k of coef[j] V_j + b y; y on the device */
kl_status kl_columns_combine(const kl_columns *c, int k, const double *coef, double b, kl_dptr y,
                             kl_err *err) KL_MUST_CHECK;

#endif
