/* A small fuzzer for where libFuzzer is not: runs the files as they are, then mutations of them for some
   seconds. Prints the seed; the input that ended the program is in the file TARGET.last-input.
   SPDX-License-Identifier: Apache-2.0
   Use: fuzz_TARGET SECONDS SEED FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"

enum {
    MOST_FILES = 256,
    MOST_BYTES = 1 << 16,
};

static struct {
    uint8_t data[MOST_BYTES];
    size_t size;
} corpus[MOST_FILES];
static int nfile;
static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = (state ^ (state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % n;
}

static size_t insert(uint8_t *to, size_t size, size_t at, const uint8_t *from, size_t n)
{
    if (size + n > MOST_BYTES) return size;
    memmove(to + at + n, to + at, size - at);
    memcpy(to + at, from, n);
    return size + n;
}

/* Numbers at which readers go wrong, instead of one to eight bytes. */
static void overwrite(uint8_t *to, size_t size, size_t at)
{
    static const uint64_t bad[] = {0,         1,          0x7f,       0x80,       0xff,
                                   0x7fff,    0xffff,     0x7fffffff, 0x80000000, 0xffffffff,
                                   INT64_MAX, UINT64_MAX, 0x10000,    1 << 20,    UINT64_C(1) << 40};
    const uint64_t value = bad[draw(sizeof bad / sizeof *bad)];
    const size_t n = (size_t)1 << draw(4);
    if (size - at >= n) memcpy(to + at, &value, n); /* the low bytes come first */
}

static size_t mutate(uint8_t *to, int nword)
{
    const int of = (int)draw((uint64_t)nfile);
    size_t size = corpus[of].size;
    memcpy(to, corpus[of].data, size);
    for (uint64_t n = draw(5) + 1; n > 0; n--) {
        const size_t at = size > 0 ? draw(size) : 0;
        const int other = (int)draw((uint64_t)nfile);
        const size_t from = corpus[other].size > 0 ? draw(corpus[other].size) : 0, length = draw(40);
        switch (draw(6)) {
        case 0:
            if (size > 0) to[at] = (uint8_t)draw(256);
            break;
        case 3: overwrite(to, size, at); break;
        case 1: /* a piece less */
            if (size - at > length) {
                memmove(to + at, to + at + length, size - at - length);
                size -= length;
            }
            break;
        case 2:
            size = insert(to, size, at, corpus[other].data + from,
                          length < corpus[other].size - from ? length : corpus[other].size - from);
            break;
        default: {
            const char *const w = kl_fuzz_words[draw((uint64_t)nword)];
            size = insert(to, size, at, (const uint8_t *)w, strlen(w));
        }
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "fuzz: SECONDS SEED FILE... are wanted\n"), 2;
    state = strtoull(argv[2], NULL, 10);
    int nword = 0;
    while (kl_fuzz_words[nword] != NULL) nword++;
    const char *const slash = strrchr(argv[0], '/');
    char last[128];
    snprintf(last, sizeof last, "%.100s.last-input", slash != NULL ? slash + 1 : argv[0]);
    for (int i = 3; i < argc && nfile < MOST_FILES; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (f == NULL) continue;
        corpus[nfile].size = fread(corpus[nfile].data, 1, MOST_BYTES, f);
        fclose(f);
        LLVMFuzzerTestOneInput(corpus[nfile].data, corpus[nfile].size);
        nfile++;
    }
    if (nfile == 0) return fprintf(stderr, "fuzz: none of the files can be read\n"), 2;
    static uint8_t input[MOST_BYTES];
    const time_t until = time(NULL) + atoi(argv[1]);
    int64_t rounds = 0;
    for (; time(NULL) < until; rounds++) {
        const size_t size = mutate(input, nword);
        FILE *f = fopen(last, "wb");
        if (f != NULL) {
            fwrite(input, 1, size, f);
            fclose(f);
        }
        LLVMFuzzerTestOneInput(input, size);
    }
    remove(last);
    printf("seed %s: %d files, %lld mutations\n", argv[2], nfile, (long long)rounds);
    return 0;
}
