/* Finds a model by name or file: built in, or generated and compiled into the user's cache and loaded from there. Never uses a shell.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MODELCACHE_H
#define KL_MODELCACHE_H
#include "model.h"

typedef enum kl_model_origin {
    KL_MODEL_BUILTIN,  /* compiled into this program */
    KL_MODEL_CACHED,   /* loaded from the cache */
    KL_MODEL_COMPILED, /* generated and compiled just now, and kept in the cache */
} kl_model_origin;

typedef struct kl_modelcache_info {
    kl_model_origin origin;
    char source[1024]; /* model file; "" for a built-in one */
    char object[1024]; /* shared object; "" for a built-in one */
} kl_modelcache_info;

/* Folder with the generator, or one line that says where it was looked for: $KRONLAT_DATA, the installed share, the source tree the program was
   built in. Model files are in its sibling models/, the headers of generated code in its sibling src/. */
kl_status kl_modelcache_gen_dir(char *dir, size_t size, kl_err *err) KL_MUST_CHECK;

/* what: the name of a model ("hubbard") or the path of a model file (it holds a '/' or ends in ".lua").
   structural: "S=1", "F=3/2", ... ending in NULL; NULL for none. gen_dir: NULL finds it. info may be NULL. *out stays loaded until the program ends.
   A name takes the first built-in model that agrees with every structural parameter asked for (those not asked for keep the values of the build's
   -Dmodels, in its order); another variant, a model that is not built in, and a file are generated and compiled on demand.
   Cache: $KRONLAT_CACHE, $XDG_CACHE_HOME/kronlat or ~/.cache/kronlat, owned by the user and writable by nobody else. Its files are named by the
   content of model, generator and headers, the structural parameters, KL_MODEL_ABI and the machine's kind, sealed by a checksum, written beside and renamed.
   Interpreter: $KRONLAT_LUA, that of the build, lua5.4 and its other names. Compiler: $CC (words, no shell), that of the build, cc, gcc, clang. */
kl_status kl_model_find(const char *what, const char *const *structural, const char *gen_dir, const kl_model **out, kl_modelcache_info *info,
                        kl_err *err) KL_MUST_CHECK;

#endif
