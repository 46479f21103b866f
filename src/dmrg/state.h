/* A matrix product state in mixed canonical form: isometries left and right of a two-site centre,
   block-sparse, in one charge sector. What checkpoint files hold and measurements read.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STATE_H
#define KL_STATE_H
#include "model/sector.h"
#include "model/terms.h"

/* Site tensor at position p. Left: columns are the kept states of the block of sites 0..p, rows its enlarged
   basis (block 0..p-1) (x) site. Right: columns are the kept states of sites p..N-1, rows site (x) (block
   p+1..N-1). Matrix of sector I: rows[I] x cols[I], column-major, leading dimension rows[I]; columns
   orthonormal. */
typedef struct kl_isometry {
    kl_enlarged *enlarged; /* the row basis */
    kl_basis basis;        /* the column basis: kept sectors, a subset of the enlarged ones */
    int *sec;              /* [basis.nsec] enlarged sector of each kept sector */
    int64_t *off;          /* [basis.nsec] of the matrix in data */
    int64_t ndata;
    double *data;          /* NULL where the numbers lie with an executor */
    int away;              /* 1: there each rank has its part of them: kl_share_put_away */
} kl_isometry;

#define KL_MAX_STATE 16 /* states that one run averages over, guards included */

typedef struct kl_state {
    const kl_model *model;
    int nsite;
    const kl_site_type **type; /* [nsite], borrowed from the terms' model */
    kl_qn target;
    int centre;                /* the wavefunction sits on positions centre and centre + 1 */
    /* of the empty blocks to the left and to the right: charge 0, dimension 1; the left one has the target's
       spin */
    kl_basis edge, end;
    /* [nsite]: sites < centre, and sites > centre + 1. In the middle of a sweep right[centre + 1] of a
       forward half-sweep, left[centre] of a backward one, is the isometry that was opened last: the next
       truncation begins with it */
    kl_isometry **left, **right;
    int nstate;
    kl_enlarged *row, *col; /* bases of the centre: (left block) (x) site, site (x) (right block) */
    /* length of one wavefunction: segments rowsec I with colsec J(I) = target - I, column-major, in the order
       of I */
    int64_t npsi;
    int *pair; /* [row->basis.nsec]: J of I, -1 where there is none */
    int64_t *psi_off; /* [row->basis.nsec] */
    double *psi; /* [nstate][npsi] */
    /* In the middle of a one-site sweep the isometry that was opened last holds all of psi, and more states:
       psi is `narrow` times its transpose. The same numbers make the same run go on. */
    int64_t nnarrow; /* 0: there is no such isometry */
    double *narrow; /* [nstate][nnarrow] in the order of psi: segments of the sectors that the isometry has */
    double energy[KL_MAX_STATE];
} kl_state;

/* Isometry over enlarged basis e (taken over, freed with it) keeping dim[i] states (all of them if dim is
   NULL) of enlarged sector sec[i], i < nsec, ascending; data zeroed. */
kl_status kl_isometry_create_take(kl_enlarged **e, int nsec, const int *sec, const int *dim,
                                  kl_isometry **out, kl_err *err) KL_MUST_CHECK;
/* The same, its data being whatever the memory has: for callers that write all of it. */
kl_status kl_isometry_blank_take(kl_enlarged **e, int nsec, const int *sec, const int *dim, kl_isometry **out,
                                 kl_err *err) KL_MUST_CHECK;
/* The same without data. */
kl_status kl_isometry_shape_take(kl_enlarged **e, int nsec, const int *sec, const int *dim, kl_isometry **out,
                                 kl_err *err) KL_MUST_CHECK;
void kl_isometry_destroy(kl_isometry **iso);
/* A copy of its own. */
kl_status kl_enlarged_copy(const kl_enlarged *from, kl_enlarged **to, kl_err *err) KL_MUST_CHECK;

/* An empty state for nsite sites of a model: no tensors yet. */
kl_status kl_state_create(const kl_terms *terms, kl_qn target, kl_state **out, kl_err *err) KL_MUST_CHECK;
void kl_state_destroy(kl_state **s);
/* Numbers of one wavefunction between the other side and the isometry that was opened last; 0: there is no
   such isometry. */
int64_t kl_state_narrow_size(const kl_state *s);
/* A copy of its own for terms of an equal model and as many sites, whose types it borrows. */
kl_status kl_state_copy(const kl_state *from, const kl_terms *terms, kl_state **to,
                        kl_err *err) KL_MUST_CHECK;

/* States of its widest block. */
int kl_state_widest(const kl_state *s);

#endif
