/* Coefficients of terms as programs: what a model's text says as an expression in its parameters, checked
   once and evaluated wherever a term stands. Data alone: no text of a model becomes code.
   Does not know what the rest of a model's tables say.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COEF_H
#define KL_COEF_H
#include "base/base.h"

#define KL_MAX_FACTOR 8 /* operators in one term, and sites that a term names */
#define KL_MAX_STEP 4096 /* steps of one coefficient, as in gen/tables.lua */

typedef enum kl_param_kind { KL_PARAM_SCALAR, KL_PARAM_SITE, KL_PARAM_BOND } kl_param_kind;

typedef struct kl_param_def {
    const char *name;
    kl_param_kind kind;
    double value; /* default; arrays start constant */
} kl_param_def;

/* Where a term sits, handed to its coefficient. Sites are numbers of the lattice, in the order of the
   slots. */
typedef struct kl_coef_args {
    const double *scalar;       /* [nparam], scalars only */
    const double *const *array; /* [nparam] -> [sites] or [bonds]; NULL for scalars */
    int site[KL_MAX_FACTOR];
    int bond;                   /* -1 where there is none */
    int nsite;                  /* of the lattice */
    double r;                   /* distance of slots 0 and 1; 0 for one site */
    double x, y;                /* coordinates of slot 0 */
} kl_coef_args;

/* What a step can be: its name, which gen/tables.lua writes, and what its operands a and b are. */
#define KL_COEF_OPS(X)                                    \
    X(NUMBER, NONE, NONE)     /* value */                     \
    X(SCALAR, PARAM, NONE)    /* a: a scalar parameter */    \
    X(AT_SITE, PARAM, SLOT)   /* a: a parameter per site */ \
    X(AT_BOND, PARAM, NONE)   /* a: a parameter per bond */ \
    X(SITE, SLOT, NONE)       /* number of the site */          \
    X(NSITE, NONE, NONE)                                  \
    X(R, NONE, NONE)                                      \
    X(X, NONE, NONE)                                      \
    X(Y, NONE, NONE)                                      \
    X(ADD, STEP, STEP)                                    \
    X(MUL, STEP, STEP)                                    \
    X(DIV, STEP, STEP)                                    \
    X(POW, STEP, STEP)                                    \
    X(EXP, STEP, NONE)                                    \
    X(LOG, STEP, NONE)                                    \
    X(SQRT, STEP, NONE)                                   \
    X(ABS, STEP, NONE)                                    \
    X(SIN, STEP, NONE)                                    \
    X(COS, STEP, NONE)                                    \
    X(TANH, STEP, NONE)

typedef enum kl_coef_op {
#define X(name, a, b) KL_COEF_##name,
    KL_COEF_OPS(X)
#undef X
        KL_COEF_NKIND
} kl_coef_op;

/* Step k makes value k, from values of steps before it; parts that occur twice are one step. */
typedef struct kl_coef_step {
    kl_coef_op op;
    int a, b;     /* steps, parameters or slots; 0 where there is none */
    double value; /* of KL_COEF_NUMBER */
} kl_coef_step;

typedef struct kl_coef {
    int nstep;
    const kl_coef_step *step; /* [nstep]; the last one is the coefficient */
} kl_coef;

/* NULL, or what is wrong with the program of a term with nslot sites (has_bond: that sits on bonds).
   Where nothing is wrong kl_coef_eval reads nothing outside its arguments. param[nparam] */
const char *kl_coef_fault(const kl_coef *c, const kl_param_def *param, int nparam, int nslot, int has_bond);

/* The coefficient of a program without a fault. Deterministic: yes. */
double kl_coef_eval(const kl_coef *c, const kl_coef_args *args);

/* 1: the coefficient reads the parameter. */
int kl_coef_reads(const kl_coef *c, int param);

/* The operation of this name, "MUL"; KL_COEF_NKIND where there is none. */
kl_coef_op kl_coef_op_of(const char *name);

#endif
