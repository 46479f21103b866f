/* The MPI module: see module.h. Every call's answer is looked at; MPI is told to return errors.
   SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 30, /* of one message: MPI counts in int */
    TALKS = 64,
};

struct kl_mpi_wait {
    int n;
    MPI_Request request[];
};

static const kl_mpi_host *host;
static MPI_Comm data = MPI_COMM_NULL, words_comm = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL; /* of common memory */
/* Words in flight, which nobody waits for. */
static struct talk {
    char words[KL_MPI_WORDS];
    MPI_Request request;
} talks[TALKS];
static int ntalk;

static int good(int code, const char *what, char why[KL_MPI_WHY])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return 1;
    MPI_Error_string(code, text, &n);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n') *c = ' ';
    snprintf(why, KL_MPI_WHY, "%s: %.400s", what, text);
    return 0;
}

static int begin(const kl_mpi_host *h, kl_mpi_facts *f, char why[KL_MPI_WHY])
{
    int begun = 0, had = 0, n = 0, major = 0, minor = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Comm here;
    host = h;
    if (!good(MPI_Initialized(&begun), "MPI_Initialized", why)) return 1;
    if (!begun && !good(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &had), "MPI_Init_thread", why))
        return 1;
    if (!good(MPI_Comm_dup(MPI_COMM_WORLD, &data), "MPI_Comm_dup", why) ||
        !good(MPI_Comm_dup(MPI_COMM_WORLD, &words_comm), "MPI_Comm_dup", why) ||
        !good(MPI_Comm_set_errhandler(data, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", why) ||
        !good(MPI_Comm_set_errhandler(words_comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", why) ||
        !good(MPI_Comm_rank(data, &f->rank), "MPI_Comm_rank", why) ||
        !good(MPI_Comm_size(data, &f->size), "MPI_Comm_size", why) ||
        !good(MPI_Comm_split_type(data, MPI_COMM_TYPE_SHARED, f->rank, MPI_INFO_NULL, &here),
              "MPI_Comm_split_type", why) ||
        !good(MPI_Comm_rank(here, &f->local), "MPI_Comm_rank", why) ||
        !good(MPI_Comm_size(here, &f->nlocal), "MPI_Comm_size", why) ||
        !good(MPI_Comm_free(&here), "MPI_Comm_free", why) ||
        !good(MPI_Get_library_version(text, &n), "MPI_Get_library_version", why) ||
        !good(MPI_Get_version(&major, &minor), "MPI_Get_version", why))
        return 1;
    text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\t') *c = ' ';
    snprintf(f->library, sizeof f->library, "%.100s, MPI %d.%d", text, major, minor);
    return 0;
}

static kl_mpi_wait *make_wait(int64_t n, char why[KL_MPI_WHY])
{
    kl_mpi_wait *w = NULL;
    kl_err err;
    if (host->alloc_bytes((void **)&w, 1, sizeof *w + (size_t)n * sizeof(MPI_Request), KL_MEM_MISC, &err) !=
        KL_OK)
        snprintf(why, KL_MPI_WHY, "%.500s", err.text);
    return w;
}

static int post(int npart, const kl_mpi_part *part, kl_mpi_wait **wait, char why[KL_MPI_WHY])
{
    int64_t n = 0;
    for (int i = 0; i < npart; i++) n += (part[i].bytes + MOST_BYTES - 1) / MOST_BYTES;
    kl_mpi_wait *const w = *wait = make_wait(n, why);
    if (w == NULL) return 1;
    /* receives first: what is sent finds its buffer */
    for (int send = 0; send < 2; send++)
        for (int i = 0; i < npart; i++) {
            const kl_mpi_part *const p = &part[i];
            if (p->send != send) continue;
            for (int64_t at = 0; at < p->bytes; at += MOST_BYTES, w->n++) {
                const int some = p->bytes - at < MOST_BYTES ? (int)(p->bytes - at) : MOST_BYTES;
                const int code =
                    send ? MPI_Isend((char *)p->at + at, some, MPI_BYTE, p->peer, 0, data, &w->request[w->n])
                         : MPI_Irecv((char *)p->at + at, some, MPI_BYTE, p->peer, 0, data, &w->request[w->n]);
                if (!good(code, send ? "MPI_Isend" : "MPI_Irecv", why)) return 1;
            }
        }
    return 0;
}

static int gather(const void *mine, void *all, int64_t bytes, kl_mpi_wait **wait, char why[KL_MPI_WHY])
{
    kl_mpi_wait *const w = *wait = make_wait(1, why);
    if (w == NULL) return 1;
    w->n = 1;
    return !good(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, data, w->request),
                 "MPI_Iallgather", why);
}

static int broadcast(void *at, int64_t bytes, int root, kl_mpi_wait **wait, char why[KL_MPI_WHY])
{
    kl_mpi_wait *const w = *wait = make_wait((bytes + MOST_BYTES - 1) / MOST_BYTES, why);
    if (w == NULL) return 1;
    for (int64_t i = 0; i < bytes; i += MOST_BYTES, w->n++)
        if (!good(MPI_Ibcast((char *)at + i, bytes - i < MOST_BYTES ? (int)(bytes - i) : MOST_BYTES, MPI_BYTE,
                             root, data, &w->request[w->n]),
                  "MPI_Ibcast", why))
            return 1;
    return 0;
}

static void close_window(MPI_Win *w)
{
    if (*w == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(*w);
    MPI_Win_free(w);
}

/* All of it is the first rank's; a lock on it, which nobody waits for, makes MPI_Win_sync legal. */
static int common(int64_t bytes, void **at, char why[KL_MPI_WHY])
{
    MPI_Win next = MPI_WIN_NULL;
    MPI_Aint size = 0;
    void *mine = NULL;
    int rank = 0, unit = 0;
    *at = NULL;
    if (bytes == 0) {
        close_window(&window);
        return 0;
    }
    if (!good(MPI_Comm_rank(data, &rank), "MPI_Comm_rank", why) ||
        !good(MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)bytes : 0, 1, MPI_INFO_NULL, data, &mine, &next),
              "MPI_Win_allocate_shared", why))
        return 1;
    if (!good(MPI_Win_shared_query(next, 0, &size, &unit, at), "MPI_Win_shared_query", why) ||
        !good(MPI_Win_lock_all(MPI_MODE_NOCHECK, next), "MPI_Win_lock_all", why))
        return 1;
    close_window(&window);
    window = next;
    return 0;
}

static void order(void)
{
    if (window != MPI_WIN_NULL) MPI_Win_sync(window);
}

static int test(kl_mpi_wait **wait, int *done, char why[KL_MPI_WHY])
{
    *done = 0;
    if (!good(MPI_Testall((*wait)->n, (*wait)->request, done, MPI_STATUSES_IGNORE), "MPI_Testall", why))
        return 1;
    if (*done) host->free_ptr((void **)wait);
    return 0;
}

static void say(int rank, const char words[KL_MPI_WORDS])
{
    struct talk *const t = &talks[ntalk % TALKS];
    int over = 1;
    if (ntalk >= TALKS && (MPI_Test(&t->request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || !over)) return;
    memcpy(t->words, words, KL_MPI_WORDS);
    if (MPI_Isend(t->words, KL_MPI_WORDS, MPI_CHAR, rank, 0, words_comm, &t->request) == MPI_SUCCESS) ntalk++;
}

static int hear(int *rank, char words[KL_MPI_WORDS])
{
    MPI_Status status;
    int there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, words_comm, &there, &status) != MPI_SUCCESS || !there) return 0;
    *rank = status.MPI_SOURCE;
    if (MPI_Recv(words, KL_MPI_WORDS, MPI_CHAR, *rank, 0, words_comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 0;
    words[KL_MPI_WORDS - 1] = '\0';
    return 1;
}

static void end(void) { MPI_Finalize(); }

__attribute__((visibility("default"))) extern const kl_mpi_module kl_mpi_module_table;
const kl_mpi_module kl_mpi_module_table = {
    .abi = KL_MPI_ABI,
    .bytes = KL_MPI_SIZES,
    .begin = begin,
    .post = post,
    .gather = gather,
    .broadcast = broadcast,
    .common = common,
    .order = order,
    .test = test,
    .say = say,
    .hear = hear,
    .end = end,
};
