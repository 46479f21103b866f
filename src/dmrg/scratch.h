/* Numbers that wait in a file of no name, which is gone when it is closed or the program ends.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_SCRATCH_H
#define KL_SCRATCH_H
#include "exec/exec.h"

/* folder: NULL for the one that TMPDIR names, else /var/tmp. *fd is -1 on failure. EIO: the system's reason.
 */
kl_status kl_scratch_write(const char *folder, const double *x, int64_t n, int *fd,
                           kl_err *err) KL_MUST_CHECK;
/* All n of them, to where the executor has them. */
kl_status kl_scratch_read(int fd, kl_exec *ex, kl_dptr x, int64_t n, kl_err *err) KL_MUST_CHECK;
/* They will be read soon. */
void kl_scratch_expect(int fd);
void kl_scratch_close(int *fd); /* -1 on return */

#endif
