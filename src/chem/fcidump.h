/* Integrals of a molecule from an FCIDUMP file (Knowles and Handy, Comput. Phys. Commun. 54 (1989) 75), in
   the variants that programs write: restricted, unrestricted in six parts, unrestricted by spin orbitals.
   Knows no determinants. H = core + sum h_pq c+_p c_q + 1/2 sum (pq|rs) c+_p c+_r c_s c_q, hartree, real
   orbitals.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FCIDUMP_H
#define KL_FCIDUMP_H
#include <stdio.h>

#include "base/base.h"

#define KL_FCIDUMP_MAX_ORB 1000

typedef struct kl_fcidump {
    int norb;         /* spatial orbitals */
    int nelec;        /* as the file says; 0: it does not */
    int ms2;          /* N_alpha - N_beta; without MS2 the smallest that nelec allows */
    int unrestricted; /* alpha and beta orbitals differ */
    int nirrep;       /* 1, 2, 4 or 8; 1 without usable labels */
    int *irrep;       /* [norb] from 0; the product of two irreps is their exclusive or */
    int64_t npair;    /* norb (norb + 1) / 2 */
    double core;
    double *h[2];     /* [norb][norb] alpha, beta; restricted: one array */
    double *eri[3];   /* [npair][npair] (pq|rs) aa, bb, ab (rows alpha); restricted: one array */
    char note[256];   /* what a user should know (labels that were not usable), or "" */
} kl_fcidump;

/* Number of the pair of p and q, in either order. */
static inline int64_t kl_pair(int p, int q)
{
    return p >= q ? (int64_t)p * (p + 1) / 2 + q : (int64_t)q * (q + 1) / 2 + p;
}

/* 1: path is a file that can be read, and begins as such files do (&FCI), whatever its name. */
int kl_fcidump_is(const char *path);

/* EINPUT: "FILE:LINE: what". */
kl_status kl_fcidump_read(const char *path, kl_fcidump **out, kl_err *err) KL_MUST_CHECK;
kl_status kl_fcidump_read_stream(FILE *from, const char *name, kl_fcidump **out, kl_err *err) KL_MUST_CHECK;
/* The integrals of a list of active orbitals (order kept) with the listed core orbitals doubly occupied:
   folded into h and core. */
kl_status kl_fcidump_fold(const kl_fcidump *f, int ncore, const int *core, int nactive, const int *active,
                          kl_fcidump **out, kl_err *err) KL_MUST_CHECK;
void kl_fcidump_destroy(kl_fcidump **f);

/* Of the determinant that occupies these orbitals: up[norb], dn[norb] are 0 or 1. */
double kl_fcidump_energy(const kl_fcidump *f, const unsigned char *up, const unsigned char *dn);

/* Of all numbers, so that a run that goes on can see whether they are still the same. */
uint64_t kl_fcidump_hash(const kl_fcidump *f);

#endif
