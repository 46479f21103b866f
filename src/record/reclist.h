/* Record lists as text files: saved from a run, replayed by `kronlat bench hx`. Lists only, no operands: a
   replay takes random ones, for which a record does the same work.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_RECLIST_H
#define KL_RECLIST_H
#include "record/record.h"

typedef struct kl_reclist {
    char title[80];
    kl_batch list;          /* closed; base: nothing */
    int64_t size[KL_NAT];   /* doubles that records read of LEFT, RIGHT and the packs */
} kl_reclist;

/* An empty file; an older one of that name is replaced. Then a list behind what is there, which stays as it
   is where the disk is full; title: a line. */
kl_status kl_reclist_create(const char *path, kl_err *err) KL_MUST_CHECK;
kl_status kl_reclist_append(const char *path, const char *title, const kl_batch *b,
                            kl_err *err) KL_MUST_CHECK;
/* All of a file's lists; *out has *n entries. EINPUT names the line that is no such thing, or whose record
   reaches beyond its operands. */
kl_status kl_reclist_read(const char *path, int *n, kl_reclist **out, kl_err *err) KL_MUST_CHECK;
void kl_reclist_destroy(int n, kl_reclist **list);

#endif
