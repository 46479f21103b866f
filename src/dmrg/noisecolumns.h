/* Noise as columns of the wavefunctions: a random sample of what H leads to, beside them. A wavefunction of
   one site has few columns, and density matrices with all the noise would have full rank; a sample, whose
   density matrix is on average that of all, has few columns more (Hubig et al., PRB 91, 155115, where they
   are all taken).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_NOISECOLUMNS_H
#define KL_NOISECOLUMNS_H
#include "dmrg/density.h"

typedef struct kl_noise_columns {
    kl_wave wave; /* the wavefunctions with these columns: psi, layout and the other side are those below */
    kl_enlarged *other; /* basis alone: on the other side each sector has some states more, or is new */
    kl_layout layout;
} kl_noise_columns;

/* d: the other side has no site, its grown operators are given. share: noise as a part of the whole weight,
   as kl_density_add_noise has it. Deterministic: yes, on any number of threads; ranks make all of it each. */
kl_status kl_noise_columns_create(kl_exec *ex, const kl_density *d, kl_qn target, double share,
                                  kl_noise_columns *out, kl_err *err) KL_MUST_CHECK;
void kl_noise_columns_clear(kl_exec *ex, kl_noise_columns *n);

#endif
