/* Panels of configuration interaction: see panels.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "figure/panels.h"

#include <math.h>
#include <string.h>

enum { MOST_SPIN = 8 };

/* 2 S of a state by <S^2>; -1: it is of no spin. */
static int twice_spin(double s2)
{
    const double twice = sqrt(1 + 4 * s2) - 1;
    return isfinite(twice) && fabs(twice - round(twice)) < 0.05 ? (int)round(twice) : -1;
}

/* Energies above the lowest, by irrep, a series for each spin. */
static kl_status levels(const kl_ci_result *r, kl_figure *f, kl_err *err)
{
    static const char *const name[MOST_SPIN + 1] = {
        "singlets", "doublets", "triplets", "quartets", "quintets", "sextets", "septets", "octets", "mixed"};
    kl_status st = KL_OK;
    kl_panel *p;
    KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, "states by irrep", &p, err));
    snprintf(p->x, sizeof p->x, "irrep");
    snprintf(p->y, sizeof p->y, "E - lowest / hartree");
    for (int spin = 0; spin <= MOST_SPIN; spin++) {
        kl_series *s;
        int n = 0;
        for (int pass = 0; pass < 2; pass++) {
            if (pass == 1 && n == 0) break;
            if (pass == 1) KL_TRY(kl_panel_add(p, name[spin], KL_STROKE_POINTS, n, 0, &s, err));
            n = 0;
            for (int i = 0; i < r->nstate; i++) {
                const int twice = twice_spin(r->state[i].s2);
                const int own = twice >= 0 && twice < MOST_SPIN ? twice : MOST_SPIN;
                if (own != spin) continue;
                if (pass == 1) {
                    s->x[n] = r->state[i].irrep + 1;
                    s->y[n] = r->state[i].energy - r->state[0].energy;
                }
                n++;
            }
        }
    }
    snprintf(p->note, sizeof p->note, "lowest %.8f hartree", r->state[0].energy);
out:
    return st;
}

static void name_of(const kl_ci_result *r, int i, char *out, size_t size)
{
    const int twice = twice_spin(r->state[i].s2);
    if (twice >= 0) snprintf(out, size, "%d: irrep %d, 2S+1 = %d", i + 1, r->state[i].irrep + 1, twice + 1);
    else snprintf(out, size, "%d: irrep %d", i + 1, r->state[i].irrep + 1);
}

/* A curve of n numbers for each state that has them. */
static kl_status by_state(const kl_ci_result *r, const char *title, const char *x, const char *y, int natural,
                          kl_figure *f, kl_err *err)
{
    enum { MOST = 12 };
    kl_status st = KL_OK;
    kl_panel *p = NULL;
    kl_series *s;
    char name[80];
    for (int i = 0; i < r->nstate; i++) {
        const double *const v = natural ? r->state[i].natural : r->state[i].level_weight;
        const int n = natural ? r->norb : r->nlevel;
        if (v == NULL || n < 1) continue;
        if (i == MOST) {
            KL_TRY(kl_figure_leave(f, title, "a panel shows the twelve lowest states", err));
            break;
        }
        if (p == NULL) {
            KL_TRY(kl_figure_add(f, KL_PANEL_CURVES, title, &p, err));
            snprintf(p->x, sizeof p->x, "%s", x);
            snprintf(p->y, sizeof p->y, "%s", y);
            p->log_y = !natural;
        }
        name_of(r, i, name, sizeof name);
        KL_TRY(kl_panel_add(p, name, KL_STROKE_BOTH, n, 0, &s, err));
        for (int k = 0; k < n; k++) {
            s->x[k] = natural ? k + 1 : k;
            s->y[k] = natural || v[k] > 1e-15 ? v[k] : 0;
        }
    }
out:
    return st;
}

kl_status kl_panels_ci(const kl_ci_record *c, kl_figure *f, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_ci_result *const r = &c->r;
    const char *const slash = c->fcidump != NULL ? strrchr(c->fcidump, '/') : NULL;
    if (r->nstate < 1)
        return kl_fail(err, KL_EINPUT, "plot: an unfinished run of ci has no states that could be drawn");
    snprintf(f->title, sizeof f->title, "%.200s, %.60s, %d orbitals, %d and %d electrons, E = %.10g",
             slash != NULL ? slash + 1 : c->fcidump, c->space, r->norb, r->nalpha, r->nbeta,
             r->state[0].energy);
    KL_TRY(levels(r, f, err));
    KL_TRY(by_state(r, "weight by level of excitation", "level", "weight", 0, f, err));
    KL_TRY(by_state(r, "natural occupations", "orbital", "electrons", 1, f, err));
out:
    return st;
}
