/* Checked, counted, 64-byte aligned allocation. Many small blocks a second are the usual case, so it is
   malloc plus a header and two relaxed atomic additions, plain ones in a process of one thread; it is no
   allocator of its own.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include "base/mem.h"
#include "base/par.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define WITH_SINGLE_THREADED 1
#endif
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)(addr), (void)(size))
#endif

enum {
    ALIGN = 64,
    HEADER = 32,
    EXTRA = HEADER + ALIGN - 16, /* malloc aligns to 16: header and alignment never need more */
    MAGIC = 0x6b6c6d31,
    /* Below: malloc and memset, for calloc bypasses glibc's thread cache. Above: calloc, whose pages are zero
       already. */
    SMALL_BYTES = 1 << 16,
    HUGE_PAGE = 1 << 21,
    HUGE_FROM = 1 << 23
};

/*  raw ... | raw 8 | bytes 8 | kind 4 | magic 4 | spare 8 | user block, 64-byte aligned ... bytes | slack  */
typedef struct header {
    void *raw;
    int64_t bytes;
    int32_t kind;
    int32_t magic;
    int64_t spare;
} header;
_Static_assert(sizeof(header) == HEADER, "the header lies right before the aligned block");
_Static_assert(_Alignof(max_align_t) >= 16, "EXTRA counts on malloc aligning to 16");

static const int64_t MOST_BYTES = (int64_t)1 << 47; /* all that processors of today address */

/* ORDER KL_MEM */
static const char *const kind_names[] = {"misc",    "blocks", "states",  "vectors",
                                         "records", "work",   "matrices"};
_Static_assert(sizeof(kind_names) / sizeof(*kind_names) == KL_MEM_NKIND, "one name for each kind");

typedef struct counter {
    _Atomic int64_t live, peak;
} counter;

static counter by_kind[KL_MEM_NKIND], total, device, device_use;
static _Atomic int64_t watched_peak; /* of total, since kl_mem_watch */
static _Atomic int64_t fail_countdown;

/* 1: there has never been a second thread, so that a number may be read and written without a lock. */
static int alone(void)
{
#ifdef WITH_SINGLE_THREADED
    return __libc_single_threaded;
#else
    return 0;
#endif
}

static int64_t add(_Atomic int64_t *to, int64_t change)
{
    if (!alone()) return atomic_fetch_add_explicit(to, change, memory_order_relaxed) + change;
    const int64_t now = atomic_load_explicit(to, memory_order_relaxed) + change;
    atomic_store_explicit(to, now, memory_order_relaxed);
    return now;
}

static void raise_peak(_Atomic int64_t *peak, int64_t live)
{
    int64_t most = atomic_load_explicit(peak, memory_order_relaxed);
    while (live > most && !atomic_compare_exchange_weak_explicit(peak, &most, live, memory_order_relaxed,
                                                                 memory_order_relaxed)) {}
}

static int64_t count(counter *c, int64_t change)
{
    const int64_t live = add(&c->live, change);
    if (change > 0) raise_peak(&c->peak, live);
    return live;
}

static void count_host(kl_mem_kind kind, int64_t change)
{
    count(&by_kind[kind], change);
    const int64_t live = count(&total, change);
    if (change > 0) raise_peak(&watched_peak, live);
}

/* 1 when a test wants this allocation to fail. */
static int injected(void)
{
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0) return 0;
    return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

/* The aligned address in raw; writes nothing. */
static char *user_of(void *raw) { return (char *)(((uintptr_t)raw + HEADER + ALIGN - 1) / ALIGN * ALIGN); }

static header *header_of(void *user)
{
    header *const h = (header *)((char *)user - HEADER);
    assert(h->magic == MAGIC && "not a block of mem.c, freed twice, or its header was overwritten");
    return h;
}

/* What lies behind the block up to the end of the raw one, for ASan to watch. */
static void watch_slack(header *h, int on)
{
    char *const from = (char *)(h + 1) + h->bytes;
    const size_t size = (size_t)((char *)h->raw + h->bytes + EXTRA - from);
    if (on) ASAN_POISON_MEMORY_REGION(from, size);
    else ASAN_UNPOISON_MEMORY_REGION(from, size);
}

static void *put_header(void *raw, int64_t bytes, kl_mem_kind kind)
{
    char *const user = user_of(raw);
    header *const h = (header *)(user - HEADER);
    *h = (header){.raw = raw, .bytes = bytes, .kind = (int32_t)kind, .magic = MAGIC};
    watch_slack(h, 1);
    return user;
}

/* Callers hold double *, char * ... : the pointer is moved as bytes, so that no aliasing rule is broken. */
static void *load_ptr(void **ptr)
{
    void *p;
    memcpy(&p, (const void *)ptr, sizeof(p));
    return p;
}

static void store_ptr(void **ptr, void *p) { memcpy((void *)ptr, &p, sizeof(p)); }

static kl_status no_memory(int64_t n, size_t size, kl_mem_kind kind, kl_err *err)
{
    const double gib = (double)n * (double)size / (1024.0 * 1024.0 * 1024.0);
    return kl_fail(
        err, KL_ENOMEM,
        "out of memory: %lld elements of %zu bytes (%.3g GiB) asked for %s, %.3g GiB in use by all",
        (long long)n, size, gib, kl_mem_kind_name(kind),
        (double)kl_mem_live_total() / (1024.0 * 1024.0 * 1024.0));
}

/* n * size, or -1 when no machine has that much. */
static int64_t checked_bytes(int64_t n, size_t size)
{
    int64_t bytes;
    if (size > (size_t)INT64_MAX || !kl_mul_size(n, (int64_t)size, &bytes) || bytes > MOST_BYTES) return -1;
    return bytes;
}

/* Pages of 2 MiB where the system gives them on request: vectors are met at strides beyond a small page, and
   each such step would miss the TLB. */
static void ask_huge(char *raw, int64_t bytes)
{
#ifdef MADV_HUGEPAGE
    char *const from = (char *)(((uintptr_t)raw + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    const int64_t size = (raw + bytes - from) / HUGE_PAGE * HUGE_PAGE;
    if (size > 0) (void)madvise(from, (size_t)size, MADV_HUGEPAGE); /* a wish: refused, the pages are small */
#else
    (void)raw;
    (void)bytes;
#endif
}

kl_status kl_alloc_bytes(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err)
{
    store_ptr(ptr, NULL);
    const int64_t bytes = checked_bytes(n, size);
    if (bytes < 0 || injected()) return no_memory(n, size, kind, err);
    void *const raw = bytes < SMALL_BYTES ? malloc((size_t)bytes + EXTRA) : calloc(1, (size_t)bytes + EXTRA);
    if (raw == NULL) return no_memory(n, size, kind, err);
    if (bytes >= HUGE_FROM) ask_huge(raw, bytes);
    void *const user = put_header(raw, bytes, kind);
    if (bytes < SMALL_BYTES) memset(user, 0, (size_t)bytes);
    count_host(kind, bytes);
    store_ptr(ptr, user);
    return KL_OK;
}

kl_status kl_realloc_bytes(void **ptr, int64_t n, size_t size, kl_mem_kind kind, kl_err *err)
{
    void *const user = load_ptr(ptr);
    const int64_t bytes = checked_bytes(n, size);
    if (bytes < 0 || injected()) return no_memory(n, size, kind, err);
    if (user == NULL) {
        void *const raw = malloc((size_t)bytes + EXTRA);
        if (raw == NULL) return no_memory(n, size, kind, err);
        if (bytes >= HUGE_FROM) ask_huge(raw, bytes);
        store_ptr(ptr, put_header(raw, bytes, kind));
        count_host(kind, bytes);
        return KL_OK;
    }
    header *const h = header_of(user);
    const header old = *h;
    const uintptr_t offset = (uintptr_t)user - (uintptr_t)old.raw;
    watch_slack(h, 0);
    void *const raw = realloc(old.raw, (size_t)bytes + EXTRA);
    if (raw == NULL) {
        watch_slack(h, 1);
        return no_memory(n, size, kind, err);
    }
    /* The block may have landed with another remainder modulo 64; what was copied then sits a few bytes
       off. */
    char *const now = user_of(raw);
    if ((uintptr_t)now - (uintptr_t)raw != offset)
        memmove(now, (char *)raw + offset, (size_t)(old.bytes < bytes ? old.bytes : bytes));
    put_header(raw, bytes, kind);
    count_host((kl_mem_kind)old.kind, -old.bytes);
    count_host(kind, bytes);
    store_ptr(ptr, now);
    return KL_OK;
}

int64_t kl_mem_block_bytes(const void *ptr)
{
    if (ptr == NULL) return 0;
    return ((const header *)((const char *)ptr - HEADER))->bytes;
}

void kl_free_ptr(void **ptr)
{
    void *const user = load_ptr(ptr);
    if (user == NULL) return;
    header *const h = header_of(user);
    count_host((kl_mem_kind)h->kind, -h->bytes);
    watch_slack(h, 0);
    h->magic = 0;
    free(h->raw);
    store_ptr(ptr, NULL);
}

char *kl_strdup(const char *s)
{
    const size_t length = strlen(s);
    char *copy = NULL;
    if (kl_alloc(&copy, (int64_t)length + 1, KL_MEM_MISC, NULL) != KL_OK) return NULL;
    memcpy(copy, s, length);
    return copy;
}

kl_status kl_text_written(void (*write)(const void *self, FILE *to), const void *self, char **out,
                          kl_err *err)
{
    kl_status st = KL_OK;
    char *text = NULL;
    size_t length = 0;
    FILE *const to = open_memstream(&text, &length);
    if (to == NULL) return kl_fail(err, KL_ENOMEM, "no memory for a text");
    write(self, to);
    const int bad = ferror(to);
    if (fclose(to) != 0 || bad) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for a text"));
    KL_TRY(kl_alloc(out, (int64_t)length + 1, KL_MEM_MISC, err));
    memcpy(*out, text, length);
out:
    free(text);
    return st;
}

const char *kl_mem_kind_name(kl_mem_kind kind)
{
    return (unsigned)kind < KL_MEM_NKIND ? kind_names[kind] : "?";
}

int64_t kl_mem_live_bytes(kl_mem_kind kind)
{
    return atomic_load_explicit(&by_kind[kind].live, memory_order_relaxed);
}

int64_t kl_mem_peak_bytes(kl_mem_kind kind)
{
    return atomic_load_explicit(&by_kind[kind].peak, memory_order_relaxed);
}

int64_t kl_mem_total_peak_bytes(void) { return atomic_load_explicit(&total.peak, memory_order_relaxed); }

int64_t kl_mem_live_total(void) { return atomic_load_explicit(&total.live, memory_order_relaxed); }

/* What the process has now. */
static int64_t process_bytes(void)
{
    long long pages = 0;
    FILE *const f = fopen("/proc/self/statm", "r");
    if (f == NULL) return 0;
    if (fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

int64_t kl_mem_process_peak_bytes(void)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? (int64_t)used.ru_maxrss * 1024 : 0;
}

int64_t kl_mem_ours_of(double allowed)
{
    enum { LEAST = 1000000 };
    const int64_t others = process_bytes() - kl_mem_live_total();
    if (!(allowed > 0)) return 0;
    if (others <= 0) return (int64_t)allowed;
    return (int64_t)allowed > others + LEAST ? (int64_t)allowed - others : LEAST;
}

int64_t kl_mem_half_of(double allowed)
{
    const double program = 2e7, least = 1e6;
    if (!(allowed > 0)) return 0;
    return (int64_t)(allowed > program + least ? (allowed - program) / 2 : least / 2);
}

double kl_mem_machine_bytes(void) { return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE); }

/* What new pages could have, files that are cached counted in. */
static double available_bytes(void)
{
    char line[128];
    long long kib = -1;
    FILE *const f = fopen("/proc/meminfo", "re");
    while (f && kib < 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld", &kib) != 1) kib = -1;
    if (f) fclose(f);
    return kib < 0 ? kl_mem_machine_bytes() : 1024.0 * (double)kib;
}

enum { TOUCH_BYTES = 8 << 21 };

typedef struct touched {
    char *at;
    int64_t bytes;
} touched;

static void touch(void *self, int64_t task, int thread)
{
    enum { PAGE = 1 << 12 };
    const touched *const t = self;
    const int64_t from = task * TOUCH_BYTES, rest = t->bytes - from;
    (void)thread;
    for (int64_t i = 0; i < rest && i < TOUCH_BYTES; i += PAGE) t->at[from + i] = 0;
}

void *kl_mem_take_pages(int64_t bytes, int nthread)
{
    void *pages = NULL;
    /* a page that is touched and not there ends the program */
    if ((double)bytes > available_bytes() || posix_memalign(&pages, HUGE_PAGE, (size_t)bytes) != 0)
        return NULL;
    ask_huge(pages, bytes);
    touched t = {pages, bytes};
    kl_par_for(nthread, (bytes + TOUCH_BYTES - 1) / TOUCH_BYTES, touch, &t);
    return pages;
}

void kl_mem_give_pages(void *pages) { free(pages); }

void kl_mem_count(kl_mem_kind kind, int64_t change) { count_host(kind, change); }

void kl_mem_device_count(int64_t change) { count(&device, change); }

void kl_mem_device_use(int64_t change) { count(&device_use, change); }

int64_t kl_mem_device_used_bytes(void)
{
    return atomic_load_explicit(&device_use.peak, memory_order_relaxed);
}

int64_t kl_mem_device_using_bytes(void)
{
    return atomic_load_explicit(&device_use.live, memory_order_relaxed);
}

int64_t kl_mem_device_live_bytes(void) { return atomic_load_explicit(&device.live, memory_order_relaxed); }

int64_t kl_mem_device_peak_bytes(void) { return atomic_load_explicit(&device.peak, memory_order_relaxed); }

static void reset_peak(counter *c)
{
    atomic_store_explicit(&c->peak, atomic_load_explicit(&c->live, memory_order_relaxed),
                          memory_order_relaxed);
}

void kl_mem_watch(void) { atomic_store_explicit(&watched_peak, kl_mem_live_total(), memory_order_relaxed); }

int64_t kl_mem_watched_peak(void) { return atomic_load_explicit(&watched_peak, memory_order_relaxed); }

void kl_mem_reset_peaks(void)
{
    for (int kind = 0; kind < KL_MEM_NKIND; kind++) reset_peak(&by_kind[kind]);
    reset_peak(&total);
    reset_peak(&device);
    reset_peak(&device_use);
}

void kl_mem_fail_after(int64_t k)
{
    atomic_store_explicit(&fail_countdown, k > 0 ? k : 0, memory_order_relaxed);
}

const char *kl_mem_text(double bytes, char buf[32])
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int u = 0;
    while (bytes >= 1000 && u < 5) {
        bytes /= 1000;
        u++;
    }
    snprintf(buf, 32, u == 0 ? "%.0f %s" : "%.3g %s", bytes, unit[u]);
    return buf;
}
