/* One target of a fuzzer, with libFuzzer's entry: fuzz_main.c drives it for some seconds, libFuzzer (clang
   -fsanitize=fuzzer) for longer.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_FUZZ_H
#define KL_FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What fuzz_main.c puts into mutations, ending in NULL: each target has its own. */
extern const char *const kl_fuzz_words[];

/* A file of these bytes in memory, for readers that take a path, which holds until the next call. */
const char *kl_fuzz_file(const uint8_t *data, size_t size);

/* Ends the program where a reader left memory, a canary or a refusal that is not one line. */
void kl_fuzz_check(int refused, const char *text);

#endif
