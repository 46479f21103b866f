/* Sites of electrons as two modes.
   SPDX-License-Identifier: Apache-2.0 */
#include "ed/flavour.h"
#include "base/mem.h"
#include "phase.h"

#include <math.h>
#include <string.h>

static const kl_elem mode_elem[KL_NMODE][2] = {
    {{0, 0, 1.0}, {1, 1, 1.0}}, {{1, 1, 1.0}}, {{0, 1, 1.0}}, {{1, 0, 1.0}}};
static const int mode_nelem[KL_NMODE] = {2, 1, 1, 1};
static const int mode_shift[KL_NMODE] = {0, 0, -1, 1};
static const char *const mode_name[KL_NMODE] = {"I", "n", "c", "cdag"};
static const char *const mode_state[2] = {"0", "1"};

void kl_flavour_free(kl_flavour **f)
{
    if (*f) kl_free(&(*f)->part);
    kl_free(f);
}

/* part of one site operator from its elements: |0><0| = 1 - n, |1><1| = n on each mode. */
static void split_operator(const kl_flavour *f, const kl_site_op *op, double part[KL_NMODE][KL_NMODE])
{
    memset(part, 0, sizeof(double) * KL_NMODE * KL_NMODE);
    for (int e = 0; e < op->nelem; e++) {
        const int to = f->bits_of[op->elem[e].row], from = f->bits_of[op->elem[e].col];
        const int a[2] = {to & 1, to >> 1}, b[2] = {from & 1, from >> 1};
        int kind[2];
        for (int s = 0; s < 2; s++)
            kind[s] = a[s] == b[s] ? (a[s] ? KL_MODE_N : KL_MODE_I) : a[s] ? KL_MODE_CDAG : KL_MODE_C;
        const double v = op->elem[e].value * kl_phase_record(kind[1] >= KL_MODE_C, b[0]);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                /* KL_MODE_I here is |0><0| = 1 - n: two terms */
                if ((i && kind[0] != KL_MODE_I) || (j && kind[1] != KL_MODE_I)) continue;
                part[i ? KL_MODE_N : kind[0]][j ? KL_MODE_N : kind[1]] +=
                    (i ? -1.0 : 1.0) * (j ? -1.0 : 1.0) * v;
            }
    }
}

kl_status kl_flavour_find(const kl_terms *t, int charge[2], kl_flavour **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_model *const m = t->model;
    const kl_site_type *const type = t->type[0];
    kl_flavour *f = NULL;
    *out = NULL;
    if (m->ncharge != 2 || type->dim != 4 || t->nsite > 62) return KL_OK;
    for (int p = 1; p < t->nsite; p++)
        if (t->type[p] != type) return KL_OK;
    for (int c = 0; c < 2; c++)
        if (m->charge[c].modulus != 0 || m->charge[c].odd != 1) return KL_OK;
    KL_TRY(kl_alloc(&f, 1, KL_MEM_MISC, err));
    for (int b = 0; b < 4; b++) f->state_of[b] = -1;
    for (int s = 0; s < 4; s++) {
        const int a = type->state_charge[s][0], b = type->state_charge[s][1];
        if (a < 0 || a > 1 || b < 0 || b > 1 || f->state_of[a | b << 1] >= 0) goto out;
        f->state_of[a | b << 1] = s;
        f->bits_of[s] = a | b << 1;
    }
    for (int s = 0; s < 2; s++) {
        charge[s] = s;
        f->charge[s][1][s] = 1;
        for (int o = 0; o < KL_NMODE; o++) {
            f->op[s][o] = (kl_site_op){
                .name = mode_name[o], .odd = o >= KL_MODE_C, .nelem = mode_nelem[o], .elem = mode_elem[o]};
            f->op[s][o].shift[s] = mode_shift[o];
        }
        f->type[s] = (kl_site_type){.name = "mode",
                                    .dim = 2,
                                    .state_name = mode_state,
                                    .state_charge = (const int (*)[KL_MAX_CHARGE])f->charge[s],
                                    .nop = KL_NMODE,
                                    .op = f->op[s]};
    }
    f->nop = type->nop;
    KL_TRY(kl_alloc(&f->part, f->nop, KL_MEM_MISC, err));
    int pure[2] = {0, 0};
    for (int o = 0; o < f->nop; o++) {
        split_operator(f, &type->op[o], f->part[o]);
        double all = 0.0;
        for (int i = 0; i < KL_NMODE; i++)
            for (int j = 0; j < KL_NMODE; j++) all += fabs(f->part[o][i][j]);
        if (all > 0.0 && all == fabs(f->part[o][KL_MODE_C][KL_MODE_I])) pure[0] = 1;
        if (all > 0.0 && all == fabs(f->part[o][KL_MODE_I][KL_MODE_C])) pure[1] = 1;
    }
    if (!pure[0] || !pure[1]) goto out; /* another mode order than the one of phase.h's flavour-major sign */
    *out = f;
    f = NULL;
out:
    kl_flavour_free(&f);
    return st;
}
