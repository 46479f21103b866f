/* Sectors of strings that no charge tells: where H is invariant under products of signs and flips of
   single sites (signstrings.h), and the state found has a value of each, 1 or -1, the lowest state with
   another value may lie as low, or lower, and sweeps that began in one sector seldom leave it: fluxes of a
   Kitaev model, a frustrated Ising model, electrons that never move. Guards may have met it or not.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_STRINGTRIALS_H
#define KL_STRINGTRIALS_H
#include "dmrg/signstrings.h"
#include "dmrg/valleys.h"

/* For one string after the other the lowest state of the other value is looked for, by trials with moves and
   by runs of H and a multiple of the string that puts the value found higher: a rough run, then finer ones as
   long as bars overlap. *lower: its state is one that lies below `here`; NULL: none was found. settled->rival
   becomes larger than 0 where a state of another value lies within this. Trials of more than a few strings
   end when they took as long as the run by `o`, which is the one that `here` comes from; settled->cut becomes
   1 where some string had no trial then. e: as for kl_valleys_compare. */
kl_status kl_stringtrials_compare(const kl_terms *t, kl_exec *ex, const kl_engine_opts *e,
                                  const kl_dmrg_opts *o, const kl_dmrg_monitor *mon,
                                  const kl_valley_here *here, kl_valley *lower, kl_valley_settled *settled,
                                  kl_err *err) KL_MUST_CHECK;

/* How many strings there are that charges say nothing of. */
kl_status kl_stringtrials_count(const kl_terms *t, int *count, kl_err *err) KL_MUST_CHECK;

/* The same of H without what joins sites weakly (a fiftieth of the largest coupling of sites), where there
   is any: sweeps seldom move charges between parts that are joined so, wherever the first ones put them. */
kl_status kl_stringtrials_weak(const kl_terms *t, int *count, kl_err *err) KL_MUST_CHECK;

/* *loose = 1: H has parts with charges of their own that nothing joins, or only what joins weakly. */
kl_status kl_stringtrials_loose(const kl_terms *t, int *loose, kl_err *err) KL_MUST_CHECK;

/* part[nsite]: which of *n parts, from 0, a position is in where nothing joins two of them, or only what
   joins weakly. */
kl_status kl_stringtrials_parts(const kl_terms *t, int *part, int *n, kl_err *err) KL_MUST_CHECK;

/* Behind a run: how many strings there are, and that a run which has converged waits for a search where it
   has left out sectors. Up to four strings of all sites, mirrors as a chain without charges has them, are
   none of this: sweeps begin in all their sectors. Neither has one that ended otherwise found the charges of
   loose parts. Without memory nothing is known of strings. */
void kl_stringtrials_tell(const kl_terms *t, kl_dmrg_result *res);

/* H with moves that strings forbid: -coef (A_i A_j^+ + h.c.) for positions that a term joins, or 64 apart at
   most in parts that nothing joins or weak couplings do (from neighbour to neighbour charges would not come
   far), of operators A that change the value of some string, and -coef A_i of those that no charge forbids;
   the strings are those of H without what joins sites weakly. A list of its own. */
kl_status kl_stringtrials_moving(const kl_terms *t, double coef, kl_terms **out, kl_err *err) KL_MUST_CHECK;

/* The same for ever fewer moves, the first of them of `part` of the largest coupling that joins sites. */
enum { KL_STRINGSTAGES = 3 };
kl_status kl_stringtrials_stages(const kl_terms *t, double part, kl_terms *out[KL_STRINGSTAGES],
                                 kl_err *err) KL_MUST_CHECK;

/* *yes 1: the values of some string differ between two states, whose centres are at position 0. */
kl_status kl_stringtrials_differ(const kl_terms *t, const kl_state *a, const kl_state *b, int *yes,
                                 kl_err *err) KL_MUST_CHECK;

/* H + coef * string k: a list of its own for a model of its own, which has the string's operators. */
typedef struct kl_stringterms {
    kl_terms terms;
    kl_model model;
    kl_site_type *type; /* [ntype] */
    kl_site_op *op; /* of all types, one after the other */
    kl_elem *elem; /* of the string's operators */
} kl_stringterms;
/* EINPUT: the string is not Hermitian. */
kl_status kl_stringterms_create(const kl_terms *t, const kl_signstrings *s, int k, double coef,
                                kl_stringterms *out, kl_err *err) KL_MUST_CHECK;
void kl_stringterms_clear(kl_stringterms *s);

#endif
