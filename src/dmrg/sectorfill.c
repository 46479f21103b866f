/* Sector dimensions rounded to tiles: see sectorfill.h.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/sectorfill.h"

int kl_sector_unit(int dim) { return dim <= 24 ? 2 : dim <= 48 ? 8 : dim <= 112 ? 16 : 32; }

static int rounded(int dim, int unit, int there)
{
    const int up = (dim + unit - 1) / unit * unit;
    return up < there ? up : there;
}

int kl_sector_even(int dim, int there) { return rounded(dim, 2, there); }

void kl_sectors_fill(int nsec, int *dim, const int *there, int64_t more)
{
    for (int unit = 32; unit >= 8; unit /= 2) /* below 8, even is all */
        for (int c = 0; c < nsec; c++) {
            const int full = rounded(dim[c], unit, there[c]);
            if (kl_sector_unit(dim[c]) != unit || full - dim[c] > more) continue;
            more -= full - dim[c];
            dim[c] = full;
        }
}
