/* KL_CLONED: an inner loop compiled for the instruction sets that matter, chosen when the program is loaded.
   Sanitizers cannot run that early.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_CLONES_H
#define KL_CLONES_H

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer)
#define KL_CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#else
#define KL_CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#endif
#ifndef KL_CLONED
#define KL_CLONED
#endif

#endif
