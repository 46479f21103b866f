/* Steers and names the BLAS. It is linked by Fortran symbols only, so that any BLAS can stand in for BLIS;
   what only one library has (its version, its thread count) is looked up by name at run time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/blas.h"
#include "base/mem.h"
#include "base/prof.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <lapack.h>

void dgemv_(const char *trans, const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, const double *x, const int *incx, const double *beta, double *y, const int *incy);
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);

static kl_blas_info info;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A function of this name in whatever is loaded, or NULL. ISO C has no cast from data to function pointers,
   POSIX has this copy. */
static void lookup(const char *name, void *function)
{
    void *const address = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &address, sizeof(address));
}

static void path_of(const void *address, char *path, size_t size)
{
    Dl_info where;
    const int found = dladdr(address, &where) != 0 && where.dli_fname != NULL;
    snprintf(path, size, "%s", found ? where.dli_fname : "unknown");
}

#if defined(__x86_64__)
/* BLIS 0.9 knows Intel by features and AMD up to family 25 (zen 3 and 4, where its zen3 choice is also the
   fastest measured: 18.6 GFLOP/s against 3.3 of skx at n = 16, equal from 256 on). Younger AMD and other
   makers get 'generic': 21 instead of 120 GFLOP/s on family 26. */
static int blis_knows_cpu(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return 1;
    const int intel = b == signature_INTEL_ebx;
    const int amd = b == signature_AMD_ebx;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
    const unsigned family = ((a >> 8) & 0xf) == 0xf ? 0xf + ((a >> 20) & 0xff) : (a >> 8) & 0xf;
    return intel || (amd && family <= 25);
}

static void steer_blis(void)
{
    const char *(*version)(void);
    lookup("bli_info_get_version_str", &version);
    /* AMD's own BLIS knows its CPUs; from 1.0 on the numbers of the kernels are not ours to know. */
    if (version == NULL || strncmp(version(), "0.", 2) != 0) return;
    if (getenv("BLIS_ARCH_TYPE") != NULL || blis_knows_cpu()) return;
    __builtin_cpu_init();
    const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!avx512 && !avx2) return;
    if (setenv("BLIS_ARCH_TYPE", avx512 ? "0" : "3", 0) != 0) return;
    snprintf(info.steered, sizeof(info.steered),
             "BLIS_ARCH_TYPE=%s set: this BLIS does not know the CPU, which has %s", avx512 ? "0" : "3",
             avx512 ? "AVX-512" : "AVX2");
}
#else
static void steer_blis(void) {}
#endif

/* Threads are ours to assign (a threaded BLAS inside an OpenMP region has hung); whichever library is behind
   the symbols is told so. */
static void pin_threads(void)
{
    static const char *const by_int[] = {"openblas_set_num_threads", "MKL_Set_Num_Threads"};
    for (size_t i = 0; i < sizeof(by_int) / sizeof(*by_int); i++) {
        void (*set)(int);
        lookup(by_int[i], &set);
        if (set != NULL) set(1);
    }
    void (*set_blis)(int64_t); /* dim_t */
    lookup("bli_thread_set_num_threads", &set_blis);
    if (set_blis != NULL) set_blis(1);
}

static void init(void)
{
    steer_blis();
    pin_threads();
    void *address;
    const __typeof__(&dgemm_) linked = dgemm_;
    memcpy(&address, &linked, sizeof(address));
    path_of(address, info.blas_path, sizeof(info.blas_path));
    lookup("dsyevd_", &address);
    path_of(address, info.lapack_path, sizeof(info.lapack_path));
    lookup("omp_get_max_threads", &address);
    path_of(address, info.openmp_path, sizeof(info.openmp_path));
    const char *(*version)(void);
    lookup("bli_info_get_version_str", &version);
    if (version != NULL) snprintf(info.blas_version, sizeof(info.blas_version), "BLIS %s", version());
    char *(*openblas)(void);
    lookup("openblas_get_config", &openblas);
    if (version == NULL && openblas != NULL)
        snprintf(info.blas_version, sizeof(info.blas_version), "%s", openblas());
    int (*arch)(void);
    char *(*arch_name)(int);
    lookup("bli_arch_query_id", &arch);
    lookup("bli_arch_string", &arch_name);
    if (arch != NULL && arch_name != NULL)
        snprintf(info.kernel, sizeof(info.kernel), "%s", arch_name(arch()));
}

void kl_blas_init(void) { pthread_once(&once, init); }

const kl_blas_info *kl_blas_about(void)
{
    kl_blas_init();
    return &info;
}

typedef struct listing {
    int n, most;
    char (*path)[512];
} listing;

static int list_library(struct dl_phdr_info *lib, size_t size, void *self)
{
    static const char *const part[] = {"blas",  "blis",    "lapack", "flame",  "mkl",
                                       "armpl", "libgomp", "libomp", "libiomp"};
    listing *const list = self;
    const char *const slash = strrchr(lib->dlpi_name, '/'), *const name =
                                                                slash != NULL ? slash + 1 : lib->dlpi_name;
    (void)size;
    for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
        if (strstr(name, part[k]) == NULL) continue;
        if (list->n < list->most) snprintf(list->path[list->n], sizeof list->path[0], "%s", lib->dlpi_name);
        list->n++;
        break;
    }
    return 0;
}

int kl_blas_loaded(int most, char (*path)[512])
{
    listing list = {0, most, path};
    kl_blas_init();
    dl_iterate_phdr(list_library, &list);
    return list.n;
}

void kl_dgemm(char trans_a, char trans_b, int m, int n, int k, double alpha, const double *a, int lda,
              const double *b, int ldb, double beta, double *c, int ldc)
{
    kl_blas_init();
    dgemm_(&trans_a, &trans_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

void kl_dgemv(char trans, int m, int n, double alpha, const double *a, int lda, const double *x, double beta,
              double *y)
{
    const int one = 1;
    kl_blas_init();
    dgemv_(&trans, &m, &n, &alpha, a, &lda, x, &one, &beta, y, &one);
}

double kl_blas_measure(int n)
{
    double *a = NULL;
    if (n <= 0 || kl_alloc(&a, 3 * (int64_t)n * n, KL_MEM_WORK, NULL) != KL_OK) return 0.0;
    const int64_t nn = (int64_t)n * n;
    for (int64_t i = 0; i < 2 * nn; i++) a[i] = 1.0 / (double)(i % 17 + 1);
    double best = 0.0;
    for (int repeat = 0; repeat < 3; repeat++) {
        const int64_t start = kl_prof_clock();
        kl_dgemm('N', 'N', n, n, n, 1.0, a, n, a + nn, n, 0.0, a + 2 * nn, n);
        const double rate = 2.0 * (double)n * (double)nn / (double)(kl_prof_clock() - start + 1);
        if (rate > best) best = rate;
    }
    kl_free(&a);
    return best;
}
