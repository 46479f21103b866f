/* The slow, obvious answer that everything else is compared with: H as a sum of Kronecker products in the
   full Hilbert space, made from a model's tables with Jordan-Wigner strings of its own. Shares no code with
   terms, phase.h, sectors or records. Sites stand in the lattice's DMRG order, position 0 is the slowest
   index of a basis state. Ends the program (a test) when memory runs out.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ORACLE_H
#define KL_ORACLE_H
#include "model/lattice.h"
#include "model/model.h"
#include "model/params.h"

/* a measured string has an operator on every site, a term of a model KL_MAX_FACTOR at most */
enum { ORACLE_MAX_FACTOR = 64 };

typedef struct oracle_string {
    double coef;
    int nfactor, plus_hc;
    struct {
        int pos;
        const kl_site_op *op;
    } factor[ORACLE_MAX_FACTOR]; /* as written: factor[0] acts last */
} oracle_string;

typedef struct oracle {
    const kl_model *model;
    const kl_lattice *lattice;
    int n;                      /* sites */
    const kl_site_type **type;  /* [n] by position */
    int64_t *stride;            /* [n]: basis state = sum of digit * stride */
    int64_t dim;
    int64_t nstring;
    oracle_string *string;
} oracle;

/* A matrix on a list of basis states: all elements (row, col, value) of H, repeated ones to be added. */
typedef struct oracle_sector {
    int64_t dim, *state;         /* [dim]: their numbers in the full space */
    int64_t nelem, *row, *col;
    double *value;
} oracle_sector;

oracle *oracle_create(const kl_model *m, const kl_lattice *lat, const kl_params *p);
void oracle_destroy(oracle **o);

/* Adds coef * product, written order, at DMRG positions, e.g. a pinning field. */
void oracle_add(oracle *o, double coef, int nop, const int *pos, const char *const *name, int plus_hc);

/* Total charge of a basis state, reduced for Z_n. */
void oracle_charge(const oracle *o, int64_t state, int charge[KL_MAX_CHARGE]);

/* charge NULL: the full space. */
oracle_sector *oracle_sector_create(const oracle *o, const int *charge);
void oracle_sector_destroy(oracle_sector **s);

/* h[dim][dim], column-major, to be freed. */
double *oracle_dense(const oracle_sector *s);

/* y = H x within the sector. */
void oracle_apply(const oracle_sector *s, const double *x, double *y);

/* The k lowest energies of a charge sector, dense up to dimension 1500, else by Lanczos, which sees a
   degenerate level once. Returns how many there are (fewer in a small sector). psi, if not NULL, gets the
   ground state in the full space, psi[dim]. */
int oracle_energies(const oracle *o, const int *charge, int k, double *w, double *psi);

/* <psi| product |psi> / <psi|psi>, in written order, operators by name at lattice sites. */
double oracle_expect(const oracle *o, const double *psi, int nop, const int *site, const char *const *name);

#endif
