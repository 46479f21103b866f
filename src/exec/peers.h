/* Devices of several processes of one host that write into each other's memory, by their copy engines,
   during other work. Nobody waits on the host: what one device has to know of another one's progress are
   numbers that the other writes beside its data.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_PEERS_H
#define KL_PEERS_H
#include "exec/exec.h"

enum { KL_PEER_NAME = 64 };

typedef struct kl_peers {
    /* n numbers, 0 at first, and a name by which another process of this host reaches them */
    kl_status (*make)(kl_exec *ex, int64_t n, kl_dptr *at, char name[KL_PEER_NAME], kl_err *err);
    void (*drop)(kl_exec *ex, kl_dptr *at);
    kl_status (*reach)(kl_exec *ex, const char name[KL_PEER_NAME], kl_dptr *there, kl_err *err);
    void (*leave)(kl_exec *ex, kl_dptr *there);
    /* What is aside is done in the order in which it is asked for, at the same time as all else. begin: from
       now on not before what the executor was asked for until now; end: what it is asked for from now on
       comes after all that is aside. */
    void (*begin)(kl_exec *ex);
    void (*end)(kl_exec *ex);
    /* aside: nrow rows of n numbers */
    void (*put)(kl_exec *ex, int64_t nrow, int64_t n, kl_dptr from, int64_t ldf, kl_dptr to, int64_t ldt);
    /* A count of 32 bits, in the place of a number: set after, and waited for before, what is asked for,
       aside or not; it has come when it is `count' or later. */
    void (*tell)(kl_exec *ex, int aside, kl_dptr at, uint32_t count);
    void (*await)(kl_exec *ex, int aside, kl_dptr at, uint32_t count);
    /* whether all that was asked for could be asked for */
    kl_status (*check)(kl_exec *ex, kl_err *err);
} kl_peers;

#endif
