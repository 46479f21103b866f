/* To be loaded before a program (LD_PRELOAD): its k-th allocation fails, those of its libraries counted too.
   KL_FAIL_AT is k, counted from 1; with KL_FAIL_ON set all after it fail as well. KL_FAIL_COUNT names a file
   that is told how many allocations were asked for. glibc.
   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic long count;
static long fail_at;
static int fail_on;

/* Whether this one is to fail. */
static int fails(void)
{
    const long k = ++count;
    if (fail_at == 0 || (fail_on ? k < fail_at : k != fail_at)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}
void *memalign(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *const p = fails() ? NULL : __libc_memalign(alignment, size);
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}

/* What the loader and libraries ask for before main is not the program's business. */
__attribute__((constructor)) static void begin(void)
{
    const char *const at = getenv("KL_FAIL_AT");
    count = 0;
    fail_at = at == NULL ? 0 : atol(at);
    fail_on = getenv("KL_FAIL_ON") != NULL;
    unsetenv("LD_PRELOAD"); /* programs that this one starts are not meant */
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    const char *const name = getenv("KL_FAIL_COUNT");
    const int fd = name == NULL ? -1 : open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return;
    const int n = snprintf(text, sizeof text, "%ld\n", (long)count);
    if (write(fd, text, (size_t)n) != n) _exit(1);
    close(fd);
}
