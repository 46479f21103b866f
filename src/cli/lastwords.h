/* One line where HDF5 or BLIS ends the program instead of telling its caller.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_LASTWORDS_H
#define KL_LASTWORDS_H

/* From here on a crash or exit inside HDF5 becomes a line on stderr and the status given. HDF5 (1.10.8, and
   later ones) calls exit(-1) where it has no memory to register an object, and calls itself without end where
   it has none to describe an error; neither can be caught in the call. BLIS aborts where it has no memory. */
void kl_lastwords_prepare(int status);

/* Tells the line, in any thread, without the buffers of stdio. */
void kl_lastwords_tell(const char *line);
/* Ends the program there and then, in any thread, after `line' where there is one. */
void kl_lastwords_end(const char *line);

#endif
