/* `kronlat bench`: speed, with a checked answer beside every time.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_BENCH_H
#define KL_BENCH_H

/* argv[0] is "bench"; returns the program's exit status. */
int kl_bench_main(int argc, char **argv);

#endif
