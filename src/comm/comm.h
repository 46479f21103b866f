/* The ranks of a run: processes that a launcher (mpirun, srun) has started together, and what they tell each
   other through MPI, host memory to host memory. All ranks make the same calls in the same order. None of
   them fails: where MPI does, a rank is lost, or another rank says that it ends, all ranks end, with one
   line.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_COMM_H
#define KL_COMM_H
#include "base/base.h"

typedef struct kl_comm kl_comm;
struct kl_comm {
    int rank, size;
    int local, nlocal; /* among the ranks of this machine */
    int nhost;         /* machines */
    int sharing;       /* ranks of this machine, this one too, that may use the same cores */
    int most_cores;    /* that each of them could have; 0: not known */
    char library[160]; /* which MPI */
    int most_busy;     /* ranks that had a part of the list that was divided among most; 0: none was */
    int nsecond;       /* numbers that each rank told last by kl_comm_tell_seconds; 0: none */
    double *seconds;   /* [size][nsecond] */
    void *self;
};

typedef void kl_comm_tell_fn(const char *line);
/* Ends the process at once and in any thread, after it has told `line`; "" where another rank tells it. */
typedef void kl_comm_end_fn(const char *line);

/* What the launcher's variables say of this process; size 1: it is alone. */
typedef struct kl_launch {
    int rank, size;
    const char *variable; /* that says the size */
} kl_launch;
kl_launch kl_comm_launched(void);
/* 1: the first of the processes on its machine, by the launcher's variables, and not that of all. */
int kl_comm_first_elsewhere(void);

/* *out: NULL where there is one process only. EABSENT: there are more, and this program has no MPI.
   EINPUT: what the launcher says and what MPI says is not the same. */
kl_status kl_comm_open(kl_comm_tell_fn *tell, kl_comm_end_fn *end, kl_comm **out, kl_err *err) KL_MUST_CHECK;
/* All ranks together, at the end of a run that went well. */
void kl_comm_close(kl_comm **c);
/* The end of a run that went wrong on this rank, maybe on all: line is told once, by the first rank where it
   still answers. Closes. */
void kl_comm_farewell(kl_comm **c, const char *line);
/* What kl_comm_open opened; NULL: one process. */
kl_comm *kl_comm_world(void);

/* lines: "name=value", one below the other, the same number on all ranks. EINPUT on all of them: the first
   line in which a rank differs from rank 0. */
kl_status kl_comm_same(kl_comm *c, const char *lines, kl_err *err) KL_MUST_CHECK;

/* x[n] = sum over the ranks, added in their order: the same bits everywhere and every time. */
void kl_comm_sum(kl_comm *c, int64_t n, double *x);
double kl_comm_least(kl_comm *c, double mine);
int64_t kl_comm_most(kl_comm *c, int64_t mine);
void kl_comm_broadcast(kl_comm *c, int root, void *at, int64_t bytes);
/* Times of this rank's parts go to all: c->seconds. All ranks together. */
kl_status kl_comm_tell_seconds(kl_comm *c, int n, const double *mine, kl_err *err) KL_MUST_CHECK;
/* all[size][bytes] */
void kl_comm_gather(kl_comm *c, const void *mine, void *all, int64_t bytes);

/* Memory that all ranks have in common, where all are on one machine. 1: there are two stretches of `bytes`
   each. 0: several machines, or no room for them; what there was stays. All ranks together. */
int kl_comm_common(kl_comm *c, int64_t bytes);
/* One of the two, in turn: what is written into it by this rank, before kl_comm_meet, all may read behind
   that, while others still read what the call before gave. */
void *kl_comm_common_next(kl_comm *c);
/* No rank is back before all are here. */
void kl_comm_meet(kl_comm *c);

/* Numbers that go to a rank or come from it. */
typedef struct kl_comm_part {
    int peer, send;
    double *at;
    int64_t n;
} kl_comm_part;
typedef struct kl_comm_wait kl_comm_wait;
/* What it is told may not be touched until finish is back. */
kl_status kl_comm_start(kl_comm *c, int npart, const kl_comm_part *part, kl_comm_wait **out,
                        kl_err *err) KL_MUST_CHECK;
void kl_comm_finish(kl_comm *c, kl_comm_wait **wait);

#endif
