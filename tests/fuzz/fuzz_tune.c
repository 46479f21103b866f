/* Tune tables, and what is asked of them.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "run/tune.h"
#include "config.h"

const char *const kl_fuzz_words[] = {"kronlat " KL_VERSION " threads 2\n",
                                     "offload -\n",
                                     "cuda -\n",
                                     "cuda NVIDIA H100\n",
                                     "copy ",
                                     "axpy ",
                                     "dots ",
                                     "combine ",
                                     "fuse ",
                                     "spmv ",
                                     "list ",
                                     "eigen ",
                                     "sweep ",
                                     "1024 ",
                                     "projection ",
                                     "grouped ",
                                     "tiled ",
                                     "9223372036854775807",
                                     "-1 ",
                                     "0 ",
                                     "1e-300 ",
                                     "1e309 ",
                                     "nan ",
                                     "\n",
                                     " ",
                                     "\xff",
                                     NULL};

/* A text without the first line, which names the version, gets the one of this version. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char first[] = "kronlat " KL_VERSION " threads 2\n";
    const size_t n = size > 0 && data[0] == 'k' ? 0 : sizeof first - 1;
    uint8_t *const text = malloc(n + size + 1);
    kl_tune *const t = malloc(sizeof *t);
    if (text == NULL || t == NULL) abort();
    memcpy(text, first, n);
    if (size > 0) memcpy(text + n, data, size);
    kl_err err = {""};
    const kl_status st = kl_tune_read(kl_fuzz_file(text, n + size), t, &err);
    free(text);
    for (int what = 0; st == KL_OK && what < KL_NTIMED; what++) {
        char why[512];
        int64_t from;
        for (int64_t at = 1; at < INT64_MAX / 1000; at *= 1000)
            (void)kl_tune_choose(t, (kl_timed)what, at, why, sizeof why);
        (void)kl_tune_from(t, (kl_timed)what, &from, why, sizeof why);
        (void)kl_tune_way(t, 1000.0);
    }
    if (st == KL_OK) {
        kl_mixed_time times[KL_TUNE_MOST];
        (void)kl_tune_times(t, 0, 1, times);
    }
    free(t);
    kl_fuzz_check(st != KL_OK, err.text);
    return 0;
}
