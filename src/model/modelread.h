/* Finds a model by name or file, and makes its tables where they are not built in: by the generator, in a box
   of Lua inside the program. Nothing is compiled, loaded or kept on disk.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_MODELREAD_H
#define KL_MODELREAD_H
#include "model/embedded.h"
#include "model/tables.h"

/* what: the name of a model ("hubbard") or the path of a model file (it holds a '/' or ends in ".lua").
   setting: "S=1", "U=4", ... ending in NULL; NULL for none. Those that name structural parameters choose the
   tables, others are not looked at. A name takes the first built-in model that agrees with them (structural
   parameters that are not set keep the values of the build's -Dmodels, in its order); for another variant and
   for a shipped model that is not built in the generator reads the text that the program carries. */
kl_status kl_modelread_find(const char *what, const char *const *setting, kl_tables **out,
                            kl_err *err) KL_MUST_CHECK;

/* The same by the generator, built in or not. path: the file as messages name it; the tables' source is what
   follows its last '/'. */
kl_status kl_modelread_text(const char *path, const char *text, int64_t size, const char *const *setting,
                            kl_tables **out, kl_err *err) KL_MUST_CHECK;

/* The variant of a model that has the total spin S as a charge, built in or by the generator. text: NULL, or
   what is to be read instead of the file `what`. */
kl_status kl_modelread_spin(const char *what, const char *text, int64_t size, const char *const *setting,
                            kl_tables **out, kl_err *err) KL_MUST_CHECK;

/* A shipped model by name, NULL where there is none. */
const kl_embedded *kl_modelread_shipped(const char *name);

#endif
