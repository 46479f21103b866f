/* A list in chunks, each with the operators that it reads: what runs a chunk needs only these and x and y
   (nemes2014's third strategy, NoStreamAndStorage). Also where the records of an output may be divided at
   all, for all who share them out.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CHUNK_H
#define KL_CHUNK_H
#include "record/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n doubles from `from` of `at` on go to `to` of the buffer. */
typedef struct kl_copy {
    int at;
    int64_t from, to, n;
} kl_copy;

/* Operands of some records, gathered into one buffer: the records then say KL_AT_STACK. */
typedef struct kl_gather {
    kl_copy *copy; /* [ncopy], ascending; none touches another */
    int64_t ncopy, n; /* n: doubles of the buffer */
} kl_gather;

typedef struct kl_chunk {
    kl_batch list; /* closed; adds to y, never zeroes it */
    kl_gather need;
} kl_chunk;

typedef struct kl_chunks {
    int nchunk;
    kl_chunk *chunk;
    int64_t most, moved; /* doubles of the largest buffer, and of all that is copied in one pass */
} kl_chunks;

/* may[i] = 1, i = 0..last - first: records [first, first + i) and [first + i, last) of the group may be run
   apart, each part with a WORK of its own, and what both make of the segment may be added. */
void kl_group_cuts(const kl_batch *b, const kl_group *g, char *may);

/* The latest record in [first, before) that writes anew, as one run, all of WORK[from .. from + n); -1:
   none. */
int64_t kl_batch_maker(const kl_batch *b, int64_t first, int64_t before, int64_t from, int64_t n);

/* Redirects all operands of b's records that lie where which[at] = 1 to KL_AT_STACK; *out says what the
   buffer there must hold. */
kl_status kl_gather_create(kl_batch *b, const char which[KL_NAT], kl_gather *out, kl_err *err) KL_MUST_CHECK;
void kl_gather_clear(kl_gather *g);

/* Chunks that need at most `budget` doubles of operators that lie where `which` says, unless one piece of
   work alone needs more. Together, in their order, on a y whose segments are zero where b->zero, they do what
   b does. Pieces of work are sorted so that those which read the same operator, and then its neighbours,
   stand together: it is copied once, and copies are long. */
kl_status kl_chunks_create(const kl_batch *b, const char which[KL_NAT], int64_t budget, kl_chunks *out,
                           kl_err *err) KL_MUST_CHECK;
void kl_chunks_clear(kl_chunks *c);

#ifdef __cplusplus
}
#endif
#endif
