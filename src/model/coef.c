/* Checks and evaluates the programs of coefficients. Does not know where a term's sites come from.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/coef.h"
#include <math.h>
#include <string.h>

typedef enum operand { NONE, STEP, SLOT, PARAM } operand;

static const struct {
    const char *name;
    operand a, b;
} kind[KL_COEF_NKIND] = {
#define X(name, a, b) {#name, a, b},
    KL_COEF_OPS(X)
#undef X
};

kl_coef_op kl_coef_op_of(const char *name)
{
    int op = 0;
    while (op < KL_COEF_NKIND && strcmp(kind[op].name, name) != 0) op++;
    return (kl_coef_op)op;
}

static int in_range(operand what, int v, int nstep, int nslot, int nparam)
{
    switch (what) {
    case STEP: return v >= 0 && v < nstep;
    case SLOT: return v >= 0 && v < nslot;
    case PARAM: return v >= 0 && v < nparam;
    default: return v == 0;
    }
}

const char *kl_coef_fault(const kl_coef *c, const kl_param_def *param, int nparam, int nslot, int has_bond)
{
    if (c->step == NULL || c->nstep < 1 || c->nstep > KL_MAX_STEP)
        return "a coefficient with too many steps or none";
    for (int k = 0; k < c->nstep; k++) {
        const kl_coef_step *s = &c->step[k];
        if ((int)s->op < 0 || s->op >= KL_COEF_NKIND) return "a coefficient with an unknown operation";
        if (!in_range(kind[s->op].a, s->a, k, nslot, nparam) ||
            !in_range(kind[s->op].b, s->b, k, nslot, nparam))
            return "a coefficient with a parameter, site or step that is not there";
        if (s->op == KL_COEF_NUMBER && !isfinite(s->value))
            return "a coefficient with a number that is not finite";
        if (s->op == KL_COEF_AT_BOND && !has_bond)
            return "a coefficient with a parameter per bond where there is no bond";
        if ((s->op == KL_COEF_SCALAR && param[s->a].kind != KL_PARAM_SCALAR) ||
            (s->op == KL_COEF_AT_SITE && param[s->a].kind != KL_PARAM_SITE) ||
            (s->op == KL_COEF_AT_BOND && param[s->a].kind != KL_PARAM_BOND))
            return "a coefficient with a parameter of another kind";
    }
    return NULL;
}

double kl_coef_eval(const kl_coef *c, const kl_coef_args *args)
{
    double v[KL_MAX_STEP];
    for (int k = 0; k < c->nstep; k++) {
        const kl_coef_step *s = &c->step[k];
        switch (s->op) {
        case KL_COEF_NUMBER: v[k] = s->value; break;
        case KL_COEF_SCALAR: v[k] = args->scalar[s->a]; break;
        case KL_COEF_AT_SITE: v[k] = args->array[s->a][args->site[s->b]]; break;
        case KL_COEF_AT_BOND: v[k] = args->array[s->a][args->bond]; break;
        case KL_COEF_SITE: v[k] = args->site[s->a]; break;
        case KL_COEF_NSITE: v[k] = args->nsite; break;
        case KL_COEF_R: v[k] = args->r; break;
        case KL_COEF_X: v[k] = args->x; break;
        case KL_COEF_Y: v[k] = args->y; break;
        case KL_COEF_ADD: v[k] = v[s->a] + v[s->b]; break;
        case KL_COEF_MUL: v[k] = v[s->a] * v[s->b]; break;
        case KL_COEF_DIV: v[k] = v[s->a] / v[s->b]; break;
        case KL_COEF_POW: v[k] = pow(v[s->a], v[s->b]); break;
        case KL_COEF_EXP: v[k] = exp(v[s->a]); break;
        case KL_COEF_LOG: v[k] = log(v[s->a]); break;
        case KL_COEF_SQRT: v[k] = sqrt(v[s->a]); break;
        case KL_COEF_ABS: v[k] = fabs(v[s->a]); break;
        case KL_COEF_SIN: v[k] = sin(v[s->a]); break;
        case KL_COEF_COS: v[k] = cos(v[s->a]); break;
        case KL_COEF_TANH: v[k] = tanh(v[s->a]); break;
        case KL_COEF_NKIND: v[k] = 0.0; break; /* refused by kl_coef_fault */
        }
    }
    return v[c->nstep - 1];
}

int kl_coef_reads(const kl_coef *c, int param)
{
    for (int k = 0; k < c->nstep; k++)
        if (kind[c->step[k].op].a == PARAM && c->step[k].a == param) return 1;
    return 0;
}
