/* Put before every file of a wheel's library: hypot by its name of 2002, which glibc has had anew since 2.35,
   so that the wheel runs on systems from glibc 2.34 on. The numbers are the same.
   SPDX-License-Identifier: Apache-2.0 */
__asm__(".symver hypot,hypot@GLIBC_2.2.5");
