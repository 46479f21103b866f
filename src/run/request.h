/* Measurements as a user asks for them: one line of text each, checked before a run and carried out after it
   into a result.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REQUEST_H
#define KL_REQUEST_H
#include "dmrg/measure.h"
#include "model/params.h"
#include "io/result.h"

/* A, B, S: operators as kl_siteop_create reads them; sites (after @) are the lattice's numbers or names.
     A  or  local(A)          <A_i> of every site
     corr(A,B)                <A_i B_j> of all pairs; connected(A,B) less <A_i><B_j>
     string(A,S,B)            <A_i S S ... S B_j>, S on the sites between by number
     structure(A,B)           S(k) = 1/N sum_ij cos(k (r_i-r_j)) <A_i B_j>
     product(A@0,B@5,...)     one product in the order written
     product(A@0,B@5;S)       the same with S on the sites between that are not named
     product(A@0,B@i,C@j+1)   all of them: i, j, k and l run over the sites, an index of the result each
     bond(CLASS,X)            <X> by bond, X of its ends: Sz(i)*Sz(j); bond(CLASS): S.S
     corr("CLASS",X,Y)        <X_b Y_c> of all pairs of bonds; hc in the place of Y: the adjoint of X;
                              connected("CLASS",X,Y) less <X_b><Y_c>
     energies(CLASS)          <H's terms on the two ends> by bond
     density(0,1,...)         reduced density matrix of these sites
     mutual                   mutual information of all pairs of sites, and their entropies
     populations              probability of each state of each site
     entropy, spectrum        of the cuts; energy, variance: <H> and the two-site variance
     overlap(RESULT.h5)       <this state|each state of that file> */
typedef struct kl_request_scene {
    const kl_terms *terms;
    /* where these have the total spin: the sites without it, whose operators are measured; else NULL */
    const kl_terms *plain;
    const kl_lattice *lat;
    const kl_params *params;
    kl_exec *ex;
    int filed; /* 1: operators that wait do so in files of this folder: kl_measure_file */
    const char *scratch;
} kl_request_scene;

/* What every run measures whether asked or not: the variance, and `top` and `top_PART`, the projectors on the
   states where a cut-off ends a space of bosons. text has room for KL_REQUEST_STANDARD names, which the model
   owns; returns how many. */
enum { KL_REQUEST_STANDARD = 32 };
int kl_request_standard(const kl_model *model, const char **text);
int kl_request_tops(const kl_model *model, const char **text); /* the last of these alone */

/* The largest weight of such a state in what was measured, over all sites and states, and its site; 0 when
   there is no cut-off. The energy depends on the cut-off by about this share: above KL_CUTOFF_SMALL it has to
   be said. */
#define KL_CUTOFF_SMALL 1e-6
int kl_request_cutoff(const kl_result *r, double *weight, int *site);

/* EINPUT, with what is allowed, for text that asks for nothing that this model (the plain one) and lattice
   have; EIO for a file to overlap with that is not there. */
kl_status kl_request_check(const char *text, const kl_model *model, const kl_lattice *lat,
                           kl_err *err) KL_MUST_CHECK;

/* Of a text that passed: what there is to overlap with is read, and has to be a state of this system with
   these charges. */
kl_status kl_request_check_other(const kl_request_scene *scene, const char *text, kl_qn target,
                                 kl_err *err) KL_MUST_CHECK;

/* Measures all requests on every wavefunction of the state and adds them to the result as "local/Sz",
   "correlation/Sz,Sz", ..., of excited states as "state_1/local/Sz". Where the lowest nmanifold > 1 of them
   cannot be told apart, the mean over these, which does not depend on the basis that the eigensolver happened
   to choose among them, is added as "manifold/local/Sz". EBROKEN where the charges of the state do not add
   up. */
kl_status kl_request_run(const kl_request_scene *scene, int n, const char *const *text, const kl_state *s,
                         int nmanifold, kl_result *r, kl_err *err) KL_MUST_CHECK;

#endif
