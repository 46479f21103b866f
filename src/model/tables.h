/* The tables of a model and who owns them: compiled into the program, or made in memory from the generator's
   tables (gen/tables.lua). Does not know where a model's text comes from.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KL_TABLES_H
#define KL_TABLES_H
#include "model/model.h"

struct lua_State;

typedef struct kl_tables {
    const kl_model *model;
    struct kl_tables_block *own; /* the memory of the model; NULL: it is compiled in */
} kl_tables;

/* Tables of a model that lives as long as the program. */
kl_status kl_tables_borrow(const kl_model *m, kl_tables **out, kl_err *err) KL_MUST_CHECK;

/* Copies the generator's tables at `index` of the stack into memory, every type, length and index checked,
   and the model by kl_model_check. Raises nothing; may be called inside a protected call. */
kl_status kl_tables_create(struct lua_State *L, int index, kl_tables **out, kl_err *err) KL_MUST_CHECK;

void kl_tables_destroy(kl_tables **t);

#endif
