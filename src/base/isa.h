/* Which of a kernel's versions this processor runs: told once, for every kernel that is compiled per
   instruction set.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_ISA_H
#define KL_ISA_H
#include "base/base.h"

enum { KL_ISA_AVX512, KL_ISA_AVX2, KL_ISA_GENERIC, KL_NISA }; /* the widest first */

extern const char *const kl_isa_name[KL_NISA]; /* ORDER KL_ISA */

/* The widest set there is, or the one that $KRONLAT_ISA names where the processor has it. */
int kl_isa_choose(void);

/* EINPUT: $KRONLAT_ISA names what is not there. For the program's start; kl_isa_choose takes the widest
   then. */
kl_status kl_isa_check(kl_err *err) KL_MUST_CHECK;

/* From now on numbers below 2.2e-308 are 0 in this thread, and in those that it starts; rounding is to
   nearest and no operation traps, whatever the caller had chosen. A wavefunction's parts that die out would
   otherwise be worked on at a tenth of the speed. Returns the mode that was, for kl_isa_restore_mode. */
uint64_t kl_isa_flush_denormals(void);
void kl_isa_restore_mode(uint64_t mode);

#endif
