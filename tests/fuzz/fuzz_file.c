/* What all targets share: files in memory and what must hold after each.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

const char *kl_fuzz_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) fd = memfd_create("fuzz.lua", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return path;
}

void kl_fuzz_check(int refused, const char *text)
{
    const char *wrong = NULL;
    if (refused && text[0] == '\0') wrong = "a refusal without a reason";
    else if (strchr(text, '\n') != NULL && refused) wrong = "a refusal of several lines";
    else if (access("CANARY", F_OK) == 0) wrong = "there is a canary";
    else if (kl_mem_live_total() != 0) wrong = "memory is left";
    if (wrong == NULL) return;
    fprintf(stderr, "%s: %s\n", wrong, text);
    abort();
}
