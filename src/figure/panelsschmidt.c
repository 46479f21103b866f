/* The entanglement spectrum as a panel: see panels.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panels.h"

#include <math.h>
#include <string.h>

/* Of the left part, the first charge that has several values among n Schmidt states; -1: none has. */
static int telling_charge(const kl_measured *q, int64_t cut, int64_t n)
{
    const int64_t ncharge = q->shape[2];
    const double *const v = q->data + cut * q->shape[1] * ncharge;
    for (int c = 0; c < ncharge; c++)
        for (int64_t k = 1; k < n; k++)
            if (v[k * ncharge + c] != v[c]) return c;
    return -1;
}

kl_status kl_panels_schmidt(const kl_result *r, const kl_measured *m, kl_figure *f, kl_err *err)
{
    enum { DEPTH = 20 }; /* weights below exp(-20) are made of what truncations leave */
    kl_status st = KL_OK;
    kl_panel *p;
    kl_series *s;
    const int64_t cut = (r->nsite - 1) / 2, room = m->shape[1];
    const double *const w = m->data + cut * room;
    const kl_measured *const q = kl_panels_find(r, "spectrum/charges");
    int64_t n = 0;
    while (n < room && w[n] > exp(-DEPTH)) n++;
    const int known = q != NULL && q->rank == 3 && q->shape[0] == m->shape[0] && q->shape[1] == room &&
                      q->shape[2] <= r->ncharge;
    const int c = known ? telling_charge(q, cut, n) : -1;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "entanglement spectrum at the middle cut", &p, err));
    if (c >= 0) snprintf(p->x, sizeof p->x, "%.40s of the left part", r->charge[c].name);
    else snprintf(p->x, sizeof p->x, "Schmidt state");
    snprintf(p->y, sizeof p->y, "- ln of the weight");
    KL_TRY(kl_panel_add(p, "", KL_STROKE_POINTS, n, 0, &s, err));
    for (int64_t k = 0; k < n; k++) {
        s->x[k] = c >= 0 ? q->data[(cut * room + k) * q->shape[2] + c] : (double)(k + 1);
        s->y[k] = w[k] < 1 ? -log(w[k]) : 0;
    }
out:
    return st;
}
