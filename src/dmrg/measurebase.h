/* What the files of measurements share, the wavefunction first: see measure.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MEASUREBASE_H
#define KL_MEASUREBASE_H
#include "dmrg/measure.h"
#include "record/record.h"

struct kl_measure {
    kl_exec *ex;
    const kl_lattice *lat;  /* borrowed */
    kl_canonical *can;
    int filed; /* 1: operators that wait do so in files, */
    const char *scratch; /* in this folder: borrowed, or NULL */
    /* [nsite] on the executor, or on its host where it has little room: left isometries, of a device those of
       `can'; the same times the bond beyond, */
    kl_dptr *iso, *centre;
    int64_t *length; /* [nsite] of those, */
    int64_t **at; /* [nsite][sectors of the isometry]: one matrix behind the other */
    /* [nsite]: density matrix of each site, dim x dim; between states of unlike charge 0 */
    double **site;
};

/* States beyond site p that go with sector k of its left isometry. */
int kl_measure_beyond(const kl_canonical *c, int p, int k);

/* (*kept)[sector of the enlarged block of site p] = the one of its left isometry, -1: none. */
kl_status kl_measure_kept(const kl_measure *m, int p, int **kept, kl_err *err) KL_MUST_CHECK;
/* The centre tensor of site p is made, and has n numbers: it may wait on the host. */
void kl_measure_put_by(kl_measure *m, int p, int64_t n);
/* y of the list with the centre tensor of site p as x. */
kl_status kl_measure_run(const kl_measure *m, int p, kl_batch *b, kl_dptr y, kl_err *err) KL_MUST_CHECK;
/* The part of the dual of an operator at site p that one element of it makes in sector k of the isometry:
   coef times the centre tensor with itself, into `to`. */
kl_rec kl_measure_trace(const kl_measure *m, int p, int k, const kl_elem *el, int64_t to, double coef);

/* The same as kl_measure_local, ..._populations, ..._pairs, ..._product and ..._terms in a state of the total
   spin. */
kl_status kl_measurespin_local(const kl_measure *m, const kl_siteop *a, double *value,
                               kl_err *err) KL_MUST_CHECK;
kl_status kl_measurespin_populations(const kl_measure *m, int d, double *value, kl_err *err) KL_MUST_CHECK;
kl_status kl_measurespin_pairs(const kl_measure *m, const kl_siteop *a, const kl_siteop *between,
                               const kl_siteop *b, int connected, double *value, kl_err *err) KL_MUST_CHECK;
kl_status kl_measurespin_product(const kl_measure *m, int n, const int *site, const kl_siteop *const *op,
                                 const kl_siteop *between, double *value, kl_err *err) KL_MUST_CHECK;
kl_status kl_measurespin_terms(const kl_measure *m, const kl_terms *t, double *value,
                               kl_err *err) KL_MUST_CHECK;

/* An operator of one charge shift in a basis: sector i is mapped to sector dst[i]. */
typedef struct kl_opshape {
    kl_qn shift;
    int nsec;
    int *dst;     /* [nsec]; -1: to none */
    int64_t *off; /* [nsec] of dim[dst] x dim[i], column-major */
    int64_t len;
} kl_opshape;
kl_status kl_opshape_make(const kl_model *model, const kl_basis *b, kl_qn shift, kl_opshape *s,
                          kl_err *err) KL_MUST_CHECK;
void kl_opshape_clear(kl_opshape *s);

/* One element of an operator carried over a site: y += coef O_row^T L O_col. L is an operator of the block
   before the site, O_row and O_col are row blocks of the site's isometry. */
typedef struct kl_carry {
    int64_t op;          /* where L is in x; -1: the identity */
    int row_rows, rows;  /* rows of O_row and of the matrix that it is a block of */
    int col_rows, cols;  /* the same of O_col */
    int row_dim, col_dim; /* columns of O_row and O_col: y is row_dim x col_dim */
    int64_t row, col, y; /* where O_row, O_col and y are */
    double coef;
} kl_carry;
/* An element of an operator of parity `odd` at site p, from sector k of its left isometry to sector k2; which
   L it carries, and where y is, is the caller's: op and y are 0. */
kl_carry kl_measure_carry(const kl_measure *m, int p, int k, int k2, const kl_elem *el, int odd);
/* Its records, at most two, behind those of b, with the isometry as LEFT. Returns the doubles of WORK that
   they need. */
int64_t kl_measure_push_carry(kl_batch *b, const kl_carry *c);
/* The same for the dual of L, from the dual D of what L grows into: y += coef O_row D O_col^T, D at c->op. */
int64_t kl_measure_push_back(kl_batch *b, const kl_carry *c);

/* Two lists of vectors of `length` numbers, on the executor. */
typedef struct kl_scalars {
    int64_t length;
    int nleft, nright;
    kl_dptr left, right;
} kl_scalars;
/* value[nright][nleft]: all their scalar products. */
kl_status kl_measure_scalars(const kl_measure *m, kl_scalars s, double *value, kl_err *err) KL_MUST_CHECK;

#endif
