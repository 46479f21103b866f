/* The words of a measurement, read: operators, sites, and what is to be made of them. Whoever measures, DMRG
   or exact diagonalization, reads them here. See request.h for the language.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_REQUESTREAD_H
#define KL_REQUESTREAD_H
#include "model/lattice.h"
#include "model/siteop.h"
#include "model/terms.h"
#include "run/bondop.h"

enum {
    KL_REQUEST_ARGS = 32,
    KL_REQUEST_TEXT = 400,
    KL_REQUEST_LETTERS = 4, /* i, j, k, l */
};

/* ORDER REQUEST: kl_request_kinds[] */
typedef enum kl_request_kind {
    KL_REQUEST_LOCAL,
    KL_REQUEST_CORR,
    KL_REQUEST_CONNECTED,
    KL_REQUEST_STRING,
    KL_REQUEST_STRUCTURE,
    KL_REQUEST_PRODUCT,
    KL_REQUEST_OVERLAP,
    KL_REQUEST_POPULATIONS,
    KL_REQUEST_ENTROPY,
    KL_REQUEST_SPECTRUM,
    KL_REQUEST_ENERGY,
    KL_REQUEST_VARIANCE,
    KL_REQUEST_BOND,
    KL_REQUEST_BONDCORR,
    KL_REQUEST_BONDCONNECTED,
    KL_REQUEST_ENERGIES,
    KL_REQUEST_DENSITY,
    KL_REQUEST_MUTUAL,
    KL_NREQUEST
} kl_request_kind;

typedef struct kl_request_row {
    const char *word, *folder, *note;
    int narg;    /* 0: a word alone; -1: a list; else how many */
    int in_mean; /* linear in the density matrix, or nearly: has a mean over a manifold */
} kl_request_row;
extern const kl_request_row kl_request_kinds[KL_NREQUEST];

typedef struct kl_request {
    kl_request_kind kind;
    char text[KL_REQUEST_TEXT]; /* the arguments, for messages and names */
    int nop;
    kl_siteop *op[KL_REQUEST_ARGS];
    int nsite;                 /* of a density matrix */
    int site[KL_REQUEST_ARGS]; /* of a product, or a density matrix: the lattice's numbers */
    /* of a product over letters, each of which is an index of the result, in the order in which they come: */
    int nletter;
    int letter[KL_REQUEST_ARGS]; /* of an operator, into the next two; -1: it stands on site[] */
    int offset[KL_REQUEST_ARGS]; /* its site is the letter's value plus this, 0 or more */
    char name[KL_REQUEST_LETTERS];
    int length[KL_REQUEST_LETTERS]; /* a letter goes from 0 to length - 1: all its operators have sites */
    int odd[KL_REQUEST_ARGS]; /* the operator is fermionic */
    kl_siteop *between;
    kl_bondop *bondop[2]; /* of bonds: X, and Y of a correlation */
    int nbond;
    int (*bond)[2]; /* from and to */
    char file[KL_REQUEST_TEXT];
} kl_request;

/* EINPUT, with what is allowed, for text that asks for nothing that this model and lattice have, or for a
   value that is 0 in every sector; EIO for a file to overlap with that is not there. */
kl_status kl_request_read(const char *text, const kl_model *model, const kl_lattice *lat, kl_request *q,
                          kl_err *err) KL_MUST_CHECK;
void kl_request_clear(kl_request *q);

/* Tells every product of a request over letters, in the order of its result, the last letter fastest. */
kl_status kl_request_each(const kl_request *q, kl_bondop_fn *tell, void *self, kl_err *err) KL_MUST_CHECK;

/* value[nbond] of energies(CLASS): from each[nterm], what every term of H comes to. */
void kl_request_energies(const kl_request *q, const kl_terms *t, const kl_lattice *lat, const double *each,
                         double *value);

/* "correlation/Sz,Sz"; a slash in an expression would open a folder, so it becomes ':'. */
void kl_request_name(const kl_request *q, const char *prefix, const char *tail, char *name, size_t size);

#endif
