/* The C types that the generator fills: what a model description says, free of any lattice or number.
   Tables are constant and checked once at load (kl_model_check). Signs inside them come from gen/fermion.lua.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MODEL_H
#define KL_MODEL_H
#include "model/coef.h"

#define KL_MAX_CHARGE 8     /* charges of a model, an added parity included */
#define KL_OP_IDENTITY 0    /* op[0] of every site type */
#define KL_OP_ZERO (-1)     /* a product that vanishes */
#define KL_OP_NONE (-2)     /* a product that no term or measurement can need */

/* A conserved charge. Stored values are integers; the user's value is integer * unit_num / unit_den (2*Sz is
   stored for Sz). Fermion parity of a state is sum(odd * charge) mod 2 over the charges, exact by
   construction. */
typedef struct kl_charge {
    const char *name;
    int modulus; /* 0: U(1); n > 1: Z_n, values 0..n-1 */
    int unit_num, unit_den;
    int odd;
    int spin; /* 1: the total spin, stored doubled; only the last charge of a model can be it */
} kl_charge;

typedef struct kl_elem {
    int row, col;
    double value;
} kl_elem;

/* A site operator with a definite charge shift and parity. transpose(op) == adjoint_factor * op[adjoint]. */
typedef struct kl_site_op {
    const char *name; /* "Sz", "c_up", or "Sp*Sm" for a product that the closure added */
    int shift[KL_MAX_CHARGE]; /* charge(row) - charge(col), reduced for Z_n */
    int odd;                  /* 1: fermionic */
    int adjoint;
    double adjoint_factor;
    int named;                /* 1: the model's author may measure it by this name */
    int nelem;
    const kl_elem *elem;      /* sorted by col, then row; no zeros */
    /* twice the rank where the total spin is a charge: the elements are then those of the reduced matrix, one
       for every two steps of its multiplets, shift holds no spin, and the adjoint is
       A~_q = (-1)^(k-q) (A_-q)^+ (wigner.h) */
    int rank;
} kl_site_op;

typedef struct kl_site_product {
    int op; /* index, KL_OP_ZERO or KL_OP_NONE */
    double factor;
} kl_site_product;

/* A name for an operator that is made of others. */
typedef struct kl_site_word {
    const char *name, *text; /* "n_up", "cdag_up*c_up" */
} kl_site_word;

typedef struct kl_site_type {
    const char *name; /* "spin(1/2)" */
    /* NULL: every site that no other type claims; "ends", "first", "last", "odd", "even", or a site class of
       a lattice file */
    const char *where;
    int dim;
    /* [dim]; "up", "dn", "0", "updn", ... for --start product: and reports */
    const char *const *state_name;
    const int (*state_charge)[KL_MAX_CHARGE]; /* [dim][KL_MAX_CHARGE] */
    int nop;
    const kl_site_op *op; /* [nop] */
    /* [nop][nop]: op[a] * op[b] as matrices on one site; NULL where the total spin is a charge */
    const kl_site_product *product;
    /* NULL where the total spin is no charge. With it states are steps: a multiplet of spin[s] / 2 that is
       added to a block of spin j makes j + state_charge[s][spin] / 2, where the triangle closes. [dim] */
    const int *spin;
    const int *other; /* [dim]: the step by which the same multiplet is added to the other side */
    /* [dim][dim]: row s the component of that multiplet with the projection state_charge[s][spin] / 2, in the
       states that the site has in the variant without the total spin */
    const double *vector;
    const kl_site_word *word; /* further names to measure by, ended by one of NULL; NULL: none */
} kl_site_type;

typedef enum kl_place {
    KL_PLACE_SITE, /* once per site (of class `where`, if not NULL); slot 0 */
    /* once per bond of class `where`; slots 0 and 1 along the bond: site[0] < site[1] in the lattice's
       numbering, but last to first where a ring, cylinder or torus closes */
    KL_PLACE_BOND,
    /* once per pair of different sites, site[0] < site[1]; if distance > 0 only pairs that far apart */
    KL_PLACE_PAIR,
    KL_PLACE_RUN, /* once per run of nslot consecutive sites of a chain or ring */
    KL_PLACE_NAMED, /* once, on the sites named in `sites` */
    /* once per closed path of nslot bonds of class `where`, around it from its lowest site towards the lower
       of its two neighbours */
    KL_PLACE_LOOP,
} kl_place;

typedef struct kl_factor {
    int slot; /* which of the placement's sites */
    /* [ntype]: operator index on each site type, KL_OP_NONE where that type has no such operator */
    const int *op;
} kl_factor;

/* An operator that blocks keep: the product of some factors of a term, in the term's order, each on a site of
   its own. */
typedef struct kl_kept {
    const char *name; /* "cdag_up c_up"; kept[0] is "1", no factor at all */
    int shift[KL_MAX_CHARGE]; /* reduced for Z_n */
    int odd; /* 1: fermionic */
    int adjoint; /* the adjoint factors, in the same order */
    double adjoint_factor; /* kept^+ == adjoint_factor * kept[adjoint] */
    int rank; /* twice that of the total spin */
} kl_kept;

/* Symbolic records of a term: row m is the cut that has the factors of the bit mask m (bit f: factor[f]) on
   its left and the others on its right. Factors of one slot are never cut apart. With K(m) =
   kept[split[m].kept], `rest` the mask of the other factors, and (-1)^bit for the bit f of a mask:
     superblock          product = sign * K(m) (x) K(rest)
     left block grows    K(m) (x) factor[f] = (-1)^left_minus * K(m | 1 << f)
     right block grows   factor[f] (x) K(m) = (-1)^right_minus * K(m | 1 << f)
   The first is LR's; where its right factor is odd, kl_phase_record is needed too. l-1-1-r is a left block
   grown by a site and a right block grown by a site, in the superblock record of the two. */
typedef struct kl_split {
    int kept;
    int sign;
    unsigned left_minus, right_minus;
} kl_split;

typedef struct kl_term_def {
    kl_place place;
    const char *where; /* bond or site class, NULL where the placement needs none */
    double distance;
    int nslot;
    /* [nslot] for KL_PLACE_NAMED: a number ("0", "-1" from the end) or a name of a lattice file */
    const char *const *sites;
    int nfactor;
    const kl_factor *factor; /* the product in the order it is written: factor[0] acts last */
    const kl_split *split; /* [1 << nfactor]; NULL where the total spin is a charge */
    kl_coef coef;
    int plus_hc; /* 1: add the Hermitian adjoint */
    int line; /* of the model file */
    const char *text; /* "-t * cdag_up(i)*c_up(j) + hc", for messages and `kronlat models` */
    /* [nfactor]: twice the rank of the factors up to this one, coupled from the left; the last is 0. NULL
       where the total spin is no charge. */
    const int *rank;
    int check; /* 1: no term, but a coefficient that must be 0, for else the total spin is not conserved */
} kl_term_def;

typedef struct kl_model {
    const char *name; /* "heisenberg" */
    const char *variant; /* structural parameters in the file's order, "S=1/2"; "" when it has none */
    const char *formula; /* line 1 of the file without its comment mark */
    const char *source; /* file name without folder, for messages */
    uint64_t hash; /* of what the tables mean: gen/fingerprint.lua; of a molecule of its integrals */
    int ncharge;
    const kl_charge *charge;
    int nparam;
    const kl_param_def *param;
    int ntype;
    const kl_site_type *type;
    int nkept;
    const kl_kept *kept;
    int nterm;
    const kl_term_def *term;
} kl_model;

/* Index of the total spin among the charges, -1 where it is none. */
static inline int kl_model_spin(const kl_model *m)
{
    return m->ncharge > 0 && m->charge[m->ncharge - 1].spin ? m->ncharge - 1 : -1;
}

/* The operator o in front of `rest`, on a site of its own: shift, odd and adjoint_factor. By this rule tables
   are checked, and what no table can hold is made: products that come at run time. */
kl_kept kl_kept_join(const kl_model *m, const kl_site_op *o, const kl_kept *rest);

/* Checks what the generator promised (adjoints, shifts, sorted elements, products, symbolic records,
   coefficients); the message names the table row. */
kl_status kl_model_check(const kl_model *m, kl_err *err) KL_MUST_CHECK;

/* Models compiled into this program: kl_models_builtin[kl_models_nbuiltin] (written by the generator). */
extern const kl_model *const kl_models_builtin[];
extern const int kl_models_nbuiltin;

#endif
