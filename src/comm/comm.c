/* See comm.h. Whoever waits tests, and meanwhile listens to what other ranks have to say of their end. Sums
   are gathered and added in the order of ranks, so that no library's tree decides about their bits.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/comm.h"

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/module.h"
#include "base/par.h"
#include "base/prof.h"
#include "comm/watch.h"
#include "mpi/module.h"

static const kl_module module = {.what = "MPI",
                                 .file = "libkronlat-mpi.so",
                                 .variable = "KRONLAT_MPI",
                                 .option = "-Dmpi=enabled",
                                 .global = 1};
static const kl_mpi_host services = {kl_alloc_bytes, kl_free_ptr};

typedef struct ranks {
    const kl_mpi_module *mpi;
    kl_comm_tell_fn *tell;
    kl_comm_end_fn *end;
    kl_comm_watch *watch;
    double *sums; /* [size][nsum] */
    int64_t nsum;
    double started;
    double spin; /* seconds that who waits asks at once */
    char *common; /* [2][ncommon] memory of all ranks */
    int64_t ncommon;
    int turn; /* which of the two is next */
} ranks;

static kl_comm *world;

/* ---------------------------------------------------------------- who has started this */

static int number_of(const char *variable, int *out)
{
    int64_t n;
    const char *const text = getenv(variable);
    if (text == NULL || !kl_parse_int(text, &n) || n < 0 || n > INT32_MAX) return 0;
    *out = (int)n;
    return 1;
}

kl_launch kl_comm_launched(void)
{
    static const char *const known[][2] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"},
        {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},   {"PALS_SIZE", "PALS_RANKID"},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}, /* of srun alone: a batch script has none */
    };
    kl_launch l = {.size = 1};
    for (size_t i = 0; i < sizeof known / sizeof *known && l.size < 2; i++) {
        if (!number_of(known[i][0], &l.size) || !number_of(known[i][1], &l.rank)) l = (kl_launch){.size = 1};
        l.variable = known[i][0];
    }
    return l;
}

int kl_comm_first_elsewhere(void)
{
    static const char *const known[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "SLURM_LOCALID"};
    int local = -1;
    if (kl_comm_launched().rank == 0) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && local < 0; i++)
        if (!number_of(known[i], &local)) local = -1;
    return local == 0;
}

/* ---------------------------------------------------------------- the end */

static const double HEARD_S = 3; /* how long others are listened to at the end */
static const double LEAST_S = 0.2; /* in which those on other machines hear of it */
/* Whoever waits asks again at once for some time, then sleeps in between. Nobody yields: a core that is given
   away comes back milliseconds later where another program wants it, and two ranks took ten times as long
   beside one such program. Who sleeps comes first when it wakes. Where ranks are more than their cores, he
   sleeps sooner: who asks holds up those who work, and has used up his share when his turn comes. A call that
   took MOVES_S has moved numbers: MPI moves them piece by piece when it is asked, and asked once in a nap it
   moved 0.7 GB/s of 5.8. */
static const double SPIN_S = 1e-4, CROWDED_S = 1e-5, LONG_S = 2e-3, MOVES_S = 1.5e-6;
enum {
    SPIN = 64,
    SHORT_NAP_NS = 5000,
    NAP_NS = 50000,
};

static ranks *of(const kl_comm *c) { return c->self; }

static void say_to_others(const kl_comm *c, const char *text)
{
    char words[KL_MPI_WORDS];
    snprintf(words, sizeof words, "%s", text);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) of(c)->mpi->say(r, words);
}

/* The line comes first: a launcher may kill this rank as soon as another one has ended. Others hear of it by
   MPI where they wait, and by their watch where they work: one that only saw this process gone would tell
   that as well. */
static void end_all(const kl_comm *c, const char *line)
{
    ranks *const s = of(c);
    if (kl_comm_watch_called()) s->end("");
    kl_comm_watch_hush(s->watch); /* before they go, which is no news */
    if (line[0] != '\0') s->tell(line);
    say_to_others(c, "");
    kl_comm_watch_call(s->watch);
    const double until = kl_prof_seconds() + HEARD_S, least = kl_prof_seconds() + LEAST_S;
    while (kl_prof_seconds() < until && (!kl_comm_watch_alone(s->watch) || kl_prof_seconds() < least))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    s->end("");
}

/* Whether another rank has said that it ends. */
static void listen(const kl_comm *c)
{
    char words[KL_MPI_WORDS], line[KL_MPI_WORDS + 40];
    int from;
    if (kl_comm_watch_called()) of(c)->end("");
    if (!of(c)->mpi->hear(&from, words)) return;
    if (words[0] == '\0') of(c)->end("");
    snprintf(line, sizeof line, "rank %d: %s", from, words);
    end_all(c, line);
}

static void lost(const kl_comm *c, const char *why)
{
    char line[KL_MPI_WHY + 80];
    snprintf(line, sizeof line, "rank %d: the ranks cannot reach each other: %.580s", c->rank, why);
    end_all(c, line);
}

static void finish(const kl_comm *c, kl_mpi_wait **wait)
{
    char why[KL_MPI_WHY];
    const double start = kl_prof_seconds();
    int done = 0;
    double now = start, moved = start;
    for (int64_t turn = 1;; turn++) {
        const double asked = now;
        if (of(c)->mpi->test(wait, &done, why)) lost(c, why);
        if (done) break;
        if (turn % SPIN == 0) listen(c);
        now = kl_prof_seconds();
        if (turn > 1 && now - asked > MOVES_S) moved = now;
        if (now - moved <= of(c)->spin) continue;
        nanosleep(&(struct timespec){.tv_nsec = now - moved > LONG_S ? NAP_NS : SHORT_NAP_NS}, NULL);
        now = kl_prof_seconds();
    }
    kl_prof_add(KL_PROF_WAIT, start);
}

/* ---------------------------------------------------------------- begin */

typedef struct whereabouts {
    uint64_t host, cores;
    int64_t process;
} whereabouts;

static uint64_t host_hash(void)
{
    char name[256] = "";
    uint64_t h = KL_HASH_EMPTY;
    if (gethostname(name, sizeof name - 1) == 0)
        for (const char *p = name; *p != '\0'; p++) h = kl_hash_mix(h, (unsigned char)*p);
    return h;
}

static uint64_t cores_hash(void)
{
    cpu_set_t set;
    uint64_t h = KL_HASH_EMPTY;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set)) h = kl_hash_mix(h, (uint64_t)i);
    return h;
}

/* Open MPI's launcher may use all cores that a run has on this machine, and binds ranks to some of them:
   where there are two, to one each. */
static int most_cores(const kl_comm *c)
{
    cpu_set_t set;
    const char *const variable = kl_comm_launched().variable;
    if (!variable || strncmp(variable, "OMPI_", 5) != 0) return 0;
    return sched_getaffinity(getppid(), sizeof set, &set) == 0 ? CPU_COUNT(&set) / c->nlocal : 0;
}

/* Who is where: machines are counted, the ranks of this one looked after. */
static kl_status find_places(kl_comm *c, kl_err *err)
{
    kl_status st = KL_OK;
    whereabouts *all = NULL;
    int64_t *process = NULL;
    const whereabouts mine = {host_hash(), cores_hash(), getpid()};
    KL_TRY(kl_alloc(&all, c->size, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&process, c->size, KL_MEM_MISC, err));
    kl_comm_gather(c, &mine, all, sizeof mine);
    for (int r = 0; r < c->size; r++) {
        int known = 0;
        for (int q = 0; q < r && !known; q++) known = all[q].host == all[r].host;
        c->nhost += !known;
        c->sharing += all[r].host == mine.host && all[r].cores == mine.cores;
        process[r] = all[r].host == mine.host ? all[r].process : 0;
    }
    c->most_cores = most_cores(c);
    if (c->sharing > kl_par_cpus()) of(c)->spin = CROWDED_S;
    KL_TRY(kl_comm_watch_begin(c->rank, c->size, process, of(c)->end, &of(c)->watch, err));
out:
    kl_free(&all);
    kl_free(&process);
    return st;
}

static kl_status load(const kl_mpi_module **out, kl_err *err)
{
    kl_status st = KL_OK;
    void *library;
    char path[KL_MODULE_PATH];
    static const size_t bytes[] = KL_MPI_SIZES;
    KL_TRY(kl_module_open(&module, &library, path, err));
    const kl_mpi_module *const m = dlsym(library, KL_MPI_SYMBOL);
    if (!m || m->abi != KL_MPI_ABI || memcmp(m->bytes, bytes, sizeof bytes) != 0)
        return kl_fail(
            err, KL_EABSENT,
            "MPI: %.400s belongs to another version of the program (its interface is %d, wanted is "
            "%d): build both together",
            path, m ? m->abi : 0, KL_MPI_ABI);
    *out = m;
out:
    return st;
}

/* Open MPI yields wherever a test finds nothing, once ranks are more than the cores that it knows of (finish
   says why nobody should). What the user says of it stays. */
static void stay_awake(void) { setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0); }

/* Open MPI looks for networks that match messages by themselves, which takes 0.2 s, and opens UCX, which
   writes hooks over functions of this process that free memory (those of a sanitizer died of it): ranks of
   one machine have no use for either. What the user says of it stays. */
static void spare_networks(const kl_launch *l)
{
    int here;
    if (!number_of("OMPI_COMM_WORLD_LOCAL_SIZE", &here) || here != l->size) return;
    if (!getenv("OMPI_MCA_pml") && !getenv("OMPI_MCA_mtl")) setenv("OMPI_MCA_pml", "^cm,ucx", 0);
}

kl_status kl_comm_open(kl_comm_tell_fn *tell, kl_comm_end_fn *end, kl_comm **out, kl_err *err)
{
    kl_status st = KL_OK;
    const kl_launch l = kl_comm_launched();
    kl_comm *c = NULL;
    ranks *s = NULL;
    kl_mpi_facts facts;
    char why[KL_MPI_WHY];
    kl_err reason;
    *out = NULL;
    if (l.size < 2) return KL_OK;
    KL_TRY(kl_alloc(&c, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&s, 1, KL_MEM_MISC, err));
    c->self = s;
    s->tell = tell;
    s->end = end;
    s->started = kl_prof_seconds();
    s->spin = SPIN_S;
    if (load(&s->mpi, &reason) != KL_OK)
        KL_TRY(kl_fail(err, KL_EABSENT,
                       "%d processes were started (%s), and each would do the same work and write the same "
                       "files: %.700s",
                       l.size, l.variable, reason.text));
    spare_networks(&l);
    stay_awake();
    if (s->mpi->begin(&services, &facts, why)) KL_TRY(kl_fail(err, KL_EABSENT, "MPI: %.500s", why));
    if (facts.size != l.size)
        KL_TRY(kl_fail(err, KL_EINPUT,
                       "%d processes were started (%s), and MPI (%.150s) knows of %d: they were started by "
                       "the launcher of another MPI",
                       l.size, l.variable, facts.library, facts.size));
    c->rank = facts.rank;
    c->size = facts.size;
    c->local = facts.local;
    c->nlocal = facts.nlocal;
    snprintf(c->library, sizeof c->library, "%s", facts.library);
    KL_TRY(find_places(c, err));
    *out = world = c;
    return KL_OK;
out:
    kl_free(&s);
    kl_free(&c);
    return st;
}

kl_comm *kl_comm_world(void) { return world; }

/* Its memory counts as divided between the ranks. */
static void count_common(const kl_comm *c, int64_t bytes)
{
    kl_mem_count(KL_MEM_VECTOR, 2 * (bytes - of(c)->ncommon) / c->size);
    of(c)->ncommon = bytes;
}

/* together: all ranks leave, and free what they had in common. */
static void leave(kl_comm **comm, int together)
{
    ranks *s = of(*comm);
    char why[KL_MPI_WHY];
    void *none;
    kl_comm_watch_end(&s->watch);
    if (together && s->common) (void)s->mpi->common(0, &none, why);
    count_common(*comm, 0);
    s->mpi->end();
    kl_free(&(*comm)->seconds);
    kl_free(&s->sums);
    kl_free(&s);
    kl_free(comm);
    world = NULL;
}

void kl_comm_close(kl_comm **comm)
{
    if (*comm == NULL) return;
    (void)kl_comm_most(*comm,
                       0); /* nobody leaves while another still works, nor looks after one who has left */
    leave(comm, 1);
}

/* Rank 0, which has told its line, hears from all that they end too; who is not heard in time still runs, and
   is ended. */
void kl_comm_farewell(kl_comm **comm, const char *line)
{
    kl_comm *const c = *comm;
    ranks *const s = of(c);
    char words[KL_MPI_WORDS];
    int from, heard = 1;
    const double until = kl_prof_seconds() + HEARD_S;
    kl_comm_watch_hush(s->watch);
    snprintf(words, sizeof words, "%s", line);
    if (c->rank > 0) s->mpi->say(0, words);
    while (kl_prof_seconds() < until && heard < (c->rank > 0 ? 2 : c->size)) {
        if (s->mpi->hear(&from, words)) heard++;
        else nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    if (c->rank > 0) {
        snprintf(words, sizeof words, "rank %d: %.900s", c->rank, line);
        if (heard < 2) end_all(c, words); /* the first rank is busy: this one tells it */
        leave(comm, 0);
        return;
    }
    if (heard < c->size) end_all(c, "");
    say_to_others(c, "");
    leave(comm, 0);
}

/* ---------------------------------------------------------------- what ranks tell each other */

void kl_comm_gather(kl_comm *c, const void *mine, void *all, int64_t bytes)
{
    kl_mpi_wait *wait = NULL;
    char why[KL_MPI_WHY];
    if (of(c)->mpi->gather(mine, all, bytes, &wait, why)) lost(c, why);
    finish(c, &wait);
}

void kl_comm_broadcast(kl_comm *c, int root, void *at, int64_t bytes)
{
    kl_mpi_wait *wait = NULL;
    char why[KL_MPI_WHY];
    if (of(c)->mpi->broadcast(at, bytes, root, &wait, why)) lost(c, why);
    finish(c, &wait);
}

kl_status kl_comm_tell_seconds(kl_comm *c, int n, const double *mine, kl_err *err)
{
    kl_status st = KL_OK;
    c->nsecond = 0;
    KL_TRY(kl_realloc(&c->seconds, (int64_t)n * c->size, KL_MEM_MISC, err));
    kl_comm_gather(c, mine, c->seconds, n * (int64_t)sizeof *mine);
    c->nsecond = n;
out:
    return st;
}

void kl_comm_sum(kl_comm *c, int64_t n, double *x)
{
    ranks *const s = of(c);
    kl_err err;
    if (n == 0) return;
    if (n > s->nsum) {
        if (kl_realloc(&s->sums, n * c->size, KL_MEM_WORK, &err) != KL_OK) lost(c, err.text);
        s->nsum = n;
    }
    kl_comm_gather(c, x, s->sums, n * (int64_t)sizeof(double));
    for (int64_t i = 0; i < n; i++) x[i] = s->sums[i];
    for (int r = 1; r < c->size; r++)
        for (int64_t i = 0; i < n; i++) x[i] += s->sums[r * n + i];
}

double kl_comm_least(kl_comm *c, double mine)
{
    kl_err err;
    double *all = NULL, least = mine;
    if (kl_alloc(&all, c->size, KL_MEM_WORK, &err) != KL_OK) lost(c, err.text);
    kl_comm_gather(c, &mine, all, sizeof mine);
    for (int r = 0; r < c->size; r++) least = fmin(least, all[r]);
    kl_free(&all);
    return least;
}

int64_t kl_comm_most(kl_comm *c, int64_t mine)
{
    kl_err err;
    int64_t *all = NULL, most = mine;
    if (kl_alloc(&all, c->size, KL_MEM_WORK, &err) != KL_OK) lost(c, err.text);
    kl_comm_gather(c, &mine, all, sizeof mine);
    for (int r = 0; r < c->size; r++)
        if (all[r] > most) most = all[r];
    kl_free(&all);
    return most;
}

kl_status kl_comm_same(kl_comm *c, const char *lines, kl_err *err)
{
    kl_status st = KL_OK;
    char *all = NULL, *mine = NULL;
    const int64_t longest = kl_comm_most(c, (int64_t)strlen(lines)) + 1;
    KL_TRY(kl_alloc(&mine, longest, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&all, longest * c->size, KL_MEM_MISC, err));
    snprintf(mine, (size_t)longest, "%s", lines);
    kl_comm_gather(c, mine, all, longest);
    for (int r = 1; r < c->size; r++) {
        const char *a = all, *b = all + r * longest;
        if (strcmp(a, b) == 0) continue;
        size_t na = 0, nb = 0;
        for (;;) { /* line by line to the first that differs */
            na = strcspn(a, "\n");
            nb = strcspn(b, "\n");
            if (na != nb || memcmp(a, b, na) != 0 || *a == '\0' || *b == '\0') break;
            a += na + (a[na] == '\n');
            b += nb + (b[nb] == '\n');
        }
        KL_TRY(kl_fail(err, KL_EINPUT, "ranks differ: rank %d has %.*s, rank 0 has %.*s; all need the same",
                       r, nb > 0 ? (int)(nb < 300 ? nb : 300) : 7, nb > 0 ? b : "nothing",
                       na > 0 ? (int)(na < 300 ? na : 300) : 7, na > 0 ? a : "nothing"));
    }
out:
    kl_free(&mine);
    kl_free(&all);
    return st;
}

/* ---------------------------------------------------------------- common memory */

/* Where both MPIs put it; they do not ask whether there is room. */
static int has_room(int64_t bytes)
{
    struct statvfs s;
    return statvfs("/dev/shm", &s) == 0 && (double)s.f_bavail * (double)s.f_frsize > 1.25 * (double)bytes;
}

int kl_comm_common(kl_comm *c, int64_t bytes)
{
    enum {
        LEAST = 1 << 20,
        PAGE = 4096,
    };
    ranks *const s = of(c);
    void *at = NULL;
    char why[KL_MPI_WHY];
    if (c->nhost > 1) return 0;
    if (bytes <= s->ncommon) return 1;
    int64_t more = bytes + bytes / 4 > LEAST ? bytes + bytes / 4 : LEAST;
    more = (more + PAGE - 1) / PAGE * PAGE;
    if (kl_comm_most(c, !has_room(2 * more))) return 0;
    if (kl_comm_most(c, s->mpi->common(2 * more, &at, why))) return 0;
    s->common = at;
    count_common(c, more);
    return 1;
}

void *kl_comm_common_next(kl_comm *c)
{
    ranks *const s = of(c);
    s->turn = !s->turn;
    return s->common + s->turn * s->ncommon;
}

void kl_comm_meet(kl_comm *c)
{
    of(c)->mpi->order();
    (void)kl_comm_most(c, 0);
    of(c)->mpi->order();
}

/* ---------------------------------------------------------------- what travels */

struct kl_comm_wait {
    kl_mpi_wait *under_way;
};

kl_status kl_comm_start(kl_comm *c, int npart, const kl_comm_part *part, kl_comm_wait **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_comm_wait *w = NULL;
    kl_mpi_part *list = NULL;
    char why[KL_MPI_WHY];
    KL_TRY(kl_alloc(&w, 1, KL_MEM_MISC, err));
    KL_TRY(kl_alloc(&list, npart, KL_MEM_MISC, err));
    for (int i = 0; i < npart; i++)
        list[i] = (kl_mpi_part){part[i].peer, part[i].send, part[i].at, part[i].n * (int64_t)sizeof(double)};
    if (of(c)->mpi->post(npart, list, &w->under_way, why)) lost(c, why);
out:
    kl_free(&list);
    *out = w;
    return st;
}

void kl_comm_finish(kl_comm *c, kl_comm_wait **wait)
{
    if (*wait == NULL) return;
    finish(c, &(*wait)->under_way);
    kl_free(wait);
}
