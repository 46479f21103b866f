/* One site at the centre instead of two: the other one is absorbed in the block beyond it, whose basis was
   expanded before. Everything else of the engine stays as it is: a superblock with one of the middle sites
   absent.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ONESITE_H
#define KL_ONESITE_H
#include "dmrg/engine.h"
#include "dmrg/expand.h"

/* The side of the centre that has no site, and what it was. */
typedef struct kl_onesite {
    kl_side side;
    kl_enlarged *enlarged; /* its basis with the site, and the layout of the wavefunctions then */
    kl_layout layout;
    kl_isometry *iso;      /* of the absorbed site, without data */
    kl_dptr data;
    kl_block *block;       /* with the site */
} kl_onesite;

/* A block as if it were an enlarged one without a site. */
kl_status kl_onesite_bare(const kl_block *b, kl_enlarged **basis, kl_bigop **op, kl_err *err) KL_MUST_CHECK;

/* States to add to the known ones of a bond where m are kept: pure. */
int kl_onesite_more(int m, int64_t known);

/* Absorbs the site that lies ahead in this direction, its basis expanded; the wavefunctions stay the same.
   Does nothing where that basis is not known (where the sweep reverses), and at the end, where the site is
   alone. measure: as in kl_expand_opts. */
kl_status kl_onesite_absorb(kl_engine *e, int direction, int m, int measure, uint64_t seed,
                            kl_expand_info *info, kl_err *err) KL_MUST_CHECK;
/* The same with that basis as it is. */
kl_status kl_onesite_absorb_known(kl_engine *e, int direction, kl_err *err) KL_MUST_CHECK;
/* 1: the basis ahead has every state that its block has, and these are about as many as are kept, with what
   may come on top: nothing has to go. */
int kl_onesite_keeps_all(const kl_engine *e, const kl_trunc_opts *o);
/* *centre, up to `last`: where two sites at a time are most below one: of those whose two sites most terms
   lead over, the one nearest to the middle. */
kl_status kl_onesite_look_at(const kl_terms *t, int last, int *centre, kl_err *err) KL_MUST_CHECK;
/* The lowest energies with both sites of a centre that has them, by a basis as short as can be, each with
   constant added, where they are below energy[nstate], in its place; *napply: the products with H are added.
   The wavefunctions stay as they are. Without memory for it nothing happens. */
kl_status kl_onesite_look(kl_engine *e, const kl_solve_opts *o, double constant, double *energy,
                          int64_t *napply, kl_err *err) KL_MUST_CHECK;
/* Goes on with one site where a run was left, from a centre of two sites: psi[nstate][npsi], host, in the
   basis of the isometry that was opened last; or NULL: the engine's own. */
kl_status kl_onesite_resume(kl_engine *e, const double *psi, int64_t npsi, kl_err *err) KL_MUST_CHECK;
/* The wavefunctions of two sites, whichever the centre has. With one site wave->psi is new and the
   caller's. */
kl_status kl_onesite_lift(const kl_engine *e, kl_wave *wave, kl_err *err) KL_MUST_CHECK;
/* The wavefunctions of the next centre, of two sites, from those of one site here, made being the isometry
   of the side that was truncated; *ahead: the same in the basis of the isometry that is opened. */
kl_status kl_onesite_carry(const kl_engine *e, int direction, kl_isometry_on made, kl_isometry_on opened,
                           const kl_wave *next, kl_ahead *ahead, kl_err *err) KL_MUST_CHECK;
/* What is kept for a site that may be absorbed next: the wavefunctions ahead, if there are some, and the
   block of the isometry that was opened, if the device has room for it; both are taken or destroyed. */
void kl_onesite_keep(kl_engine *e, kl_ahead *ahead, kl_block **b);
/* These are no longer wanted. */
void kl_onesite_forget(kl_engine *e);
void kl_onesite_destroy(kl_engine *e);

#endif
