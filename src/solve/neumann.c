/* The Neumann expansion as Jacobi's iteration on (H - theta) t = r: t = D^-1 r, then t += D^-1 (r - (H -
   theta) t), `order` times. Near the end theta is an eigenvalue and the series just does not converge; cut
   after an even term it is a positive function of D^-1/2 A D^-1/2 all the same.
   SPDX-License-Identifier: Apache-2.0 */
#include "solve/neumann.h"

static void apply(const kl_precond *p, double theta, double floor, kl_dptr r, kl_dptr t)
{
    kl_neumann *const s = p->self;
    kl_exec *const ex = s->h->ex;
    const int64_t n = s->h->n;
    ex->vt.precondition(ex, n, s->h->diagonal, theta, floor, r, t);
    for (int k = 0; k < s->order && s->st == KL_OK; k++) {
        s->st = s->h->apply(s->h, 1, t, n, s->work, n, s->err);
        s->products++;
        const kl_dptr in[3] = {s->work, t, r}, out[1] = {s->work};
        const double c[3] = {-1.0, theta, 1.0};
        const kl_fuse f = {.nin = 3, .nout = 1, .in = in, .out = out, .c = c};
        ex->vt.fuse(ex, n, &f, NULL);
        ex->vt.precondition(ex, n, s->h->diagonal, theta, floor, s->work, s->work);
        ex->vt.axpby(ex, n, 1.0, s->work, 1.0, t);
    }
}

kl_status kl_neumann_open(const kl_linop *h, int order, kl_neumann *out, kl_err *err)
{
    kl_status st = KL_OK;
    *out = (kl_neumann){.h = h, .order = order, .err = err};
    if (!h->diagonal.addr || order < 0)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "the Neumann expansion to order %d needs the diagonal of H and an order of 0 or more",
                       order));
    out->precond = (kl_precond){.self = out, .apply = apply};
    KL_TRY(h->ex->vt.alloc(h->ex, h->n, &out->work, err));
out:
    return st;
}

void kl_neumann_close(kl_neumann *s)
{
    if (s->work.addr) s->h->ex->vt.release(s->h->ex, &s->work);
}
