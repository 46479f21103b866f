/* Basis columns between device and host.
   SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

static kl_dptr on_host(const double *p) { return (kl_dptr){(uintptr_t)p}; }

kl_status kl_columns_settle(const kl_columns *c, int j, kl_err *err)
{
    return j < c->ndev ? KL_OK : c->ex->vt.download(c->ex, c->host + (j - c->ndev) * c->ld, kl_columns_at(c, j), c->n, err);
}

kl_status kl_columns_dots(const kl_columns *c, int k, kl_dptr x, double *out, kl_err *err)
{
    const int near = k < c->ndev ? k : c->ndev;
    if (near > 0) c->ex->vt.dots(c->ex, c->n, near, c->dev, c->ld, x, out);
    if (near == k) return KL_OK;
    const kl_status st = c->ex->vt.download(c->ex, c->buffer, x, c->n, err);
    if (st == KL_OK) c->cpu->vt.dots(c->cpu, c->n, k - near, on_host(c->host), c->ld, on_host(c->buffer), out + near);
    return st;
}

kl_status kl_columns_combine(const kl_columns *c, int k, const double *coef, double b, kl_dptr y, kl_err *err)
{
    const int near = k < c->ndev ? k : c->ndev;
    c->ex->vt.combine(c->ex, c->n, near, c->dev, c->ld, coef, b, y);
    if (near == k) return KL_OK;
    const kl_dptr from_host = kl_dptr_at(c->place, c->nplace * c->ld);
    c->cpu->vt.combine(c->cpu, c->n, k - near, on_host(c->host), c->ld, coef + near, 0.0, on_host(c->buffer));
    const kl_status st = c->ex->vt.upload(c->ex, from_host, c->buffer, c->n, err);
    if (st == KL_OK) c->ex->vt.axpby(c->ex, c->n, 1.0, from_host, 1.0, y);
    return st;
}
