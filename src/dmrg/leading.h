/* Which sectors of a truncation are found by products, how many columns are tried in each, and with what
   success.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LEADING_H
#define KL_LEADING_H
#include "dmrg/density.h"
#include "dmrg/leastcolumns.h"
#include "dmrg/rangefind.h"
#include "dmrg/state.h"

/* ORDER KL_TRUNCATION: names in leading.c */
typedef enum kl_truncation {
    KL_TRUNCATION_AUTO,     /* products for large sectors that the sweep before knows, else exact */
    KL_TRUNCATION_EXACT,    /* the whole density matrix of every sector, or all singular values of its
                               wavefunctions */
    KL_TRUNCATION_PRODUCTS, /* products wherever they can be, for tests */
    KL_NTRUNCATION
} kl_truncation;
extern const char *const kl_truncation_name[KL_NTRUNCATION];

/* What decides how a sector is done. */
typedef struct kl_sector_case {
    kl_truncation way;
    int rows, wide; /* of its wavefunctions side by side */
    int known;      /* states that the sweep before kept on the other side of it; -1: unknown */
    double growth;  /* states wanted by those kept in the sweep before, in all sectors */
    int full;       /* 1: kept states may be rounded up to whole tiles, see sectorfill.h */
    int least;      /* columns at least, since fewer have been too few */
    int precise;    /* 1: small weights are to be exact relative to themselves */
    int there;      /* 1: the executor diagonalizes small matrices where they are */
    int narrow;     /* 1: the other side has no site of its own, and about as few states as are kept */
} kl_sector_case;

typedef struct kl_sector_way {
    int products; /* 0: exact */
    kl_range_mode mode;
    int width;
} kl_sector_way;

/* Pure. */
kl_sector_way kl_sector_choose(const kl_sector_case *c);
/* 1: where `kept` states stay of the `width` columns that were tried, there may be more to keep, or too few
   were left to tell the last of them from the next; cold: all columns began at random. *next: columns to try
   then. */
int kl_sector_narrow(int width, int kept, int cold, int *next);

/* What truncation knows from before: the isometry of the other side that was opened last. */
typedef struct kl_warm {
    const kl_isometry *iso; /* NULL: nothing is known */
    kl_dptr data;
} kl_warm;

typedef struct kl_leading_opts {
    kl_truncation way, asked; /* with noise all sectors' own way is exact, whatever was asked for */
    int m;               /* states wanted of all sectors */
    int full, precise, there; /* as in kl_sector_case */
    int narrow;          /* as in kl_sector_case */
    int settled;         /* 1: the sweep before was one without noise */
    int spectrum;        /* 1: the weights of all states are wanted, not only of those near the cut; */
    int put_off;         /* 1: but they may be read later, from tridiagonal matrices */
    const kl_warm *warm; /* or NULL */
    const int *least;    /* [sectors] as in kl_sector_case */
} kl_leading_opts;

typedef struct kl_leading {
    int nsec;
    kl_sector_way *way; /* [nsec] */
    int nproducts;      /* sectors by products, those of other ranks too; 0: all is exact */
    int *owner;         /* [nsec] the rank that finds a sector */
    int npart;          /* by products, of this rank */
    int *sec;           /* [npart] */
    int *part;          /* [nsec] or -1 */
    kl_range range;
    double ncolumn; /* of all sectors */
    kl_least least; /* of some parts: see leadingleast.h */
    double *spectrum; /* all values of these, where they are wanted at once; or NULL */
    int put_off; /* 1: nobody has read them: the tridiagonal matrices have them */
    int64_t nrow; /* rows of these, */
    double *diagonal, *beside; /* and what stands on their diagonals and next to them */
    int *least_of;  /* [nsec] which of them a sector is, or -1; NULL: there are none */
} kl_leading;

/* How the sectors of d's side are found, and by which rank; this one's by products are ready for
   kl_range_find. d and its wave must live as long. */
kl_status kl_leading_choose(kl_exec *ex, const kl_density *d, const kl_leading_opts *o, kl_leading *out,
                            kl_err *err) KL_MUST_CHECK;
/* Sectors of which not all weights are looked for; whether in some of them more columns have to be tried,
   kept[nsec] states being kept: then least[nsec] says how many. */
int kl_leading_tried(const kl_leading *l);
int kl_leading_narrow(const kl_leading *l, const int *kept, int *least);
void kl_leading_clear(kl_leading *l);

#endif
