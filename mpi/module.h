/* What the program and its MPI module know of each other. The module is a library of its own, opened when a
   launcher has started more than one process, so that one program runs with and without MPI. It calls nothing
   of the program but what this table hands it. Only the thread that begins may call it.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MPI_MODULE_H
#define KL_MPI_MODULE_H
#include "base/mem.h"

enum {
    KL_MPI_ABI = 2,
    KL_MPI_WHY = 600,
    KL_MPI_WORDS = 1024,
};

/* Bytes that go to a rank or come from it. What goes between two ranks arrives in its order. */
typedef struct kl_mpi_part {
    int peer, send;
    void *at;
    int64_t bytes;
} kl_mpi_part;

typedef struct kl_mpi_facts {
    int rank, size, local, nlocal; /* local: among the ranks of this machine */
    char library[160];             /* who it is, for reports */
} kl_mpi_facts;

typedef struct kl_mpi_host {
    kl_status (*alloc_bytes)(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err);
    void (*free_ptr)(void **ptr);
} kl_mpi_host;

typedef struct kl_mpi_wait kl_mpi_wait; /* what is not finished */

/* The module's part, under the name KL_MPI_SYMBOL. Calls return 0, or 1 and the reason in `why`. */
#define KL_MPI_SYMBOL "kl_mpi_module_table"
typedef struct kl_mpi_module {
    int abi;
    size_t bytes[3]; /* KL_MPI_SIZES */
    int (*begin)(const kl_mpi_host *host, kl_mpi_facts *facts, char why[KL_MPI_WHY]);
    /* All parts at once; what is sent or received may not be touched until test says done. */
    int (*post)(int npart, const kl_mpi_part *part, kl_mpi_wait **wait, char why[KL_MPI_WHY]);
    /* Of every rank the same number of bytes, in the order of ranks. */
    int (*gather)(const void *mine, void *all, int64_t bytes, kl_mpi_wait **wait, char why[KL_MPI_WHY]);
    int (*broadcast)(void *at, int64_t bytes, int root, kl_mpi_wait **wait, char why[KL_MPI_WHY]);
    /* *done: 1, and *wait is NULL from then on */
    int (*test)(kl_mpi_wait **wait, int *done, char why[KL_MPI_WHY]);
    /* *at: memory that all ranks have, all of one machine; the former is gone. All ranks together. bytes 0:
       none. */
    int (*common)(int64_t bytes, void **at, char why[KL_MPI_WHY]);
    /* Between what this rank writes there and its word that it has, and before it reads after the others'. */
    void (*order)(void);
    /* Words apart from all that: sent without waiting; heard, if there are any: returns 1. */
    void (*say)(int rank, const char words[KL_MPI_WORDS]);
    int (*hear)(int *rank, char words[KL_MPI_WORDS]);
    void (*end)(void); /* all ranks together */
} kl_mpi_module;
#define KL_MPI_SIZES {sizeof(kl_mpi_part), sizeof(kl_mpi_facts), sizeof(kl_mpi_module)}

#endif
