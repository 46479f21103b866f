/* Models found by name and by file. The two writers of the generator's tables, C text and memory, make the
   same model; no compiler, no Lua and no folder is needed for the second; every refusal has its one line.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "model/modelread.h"
#include <unistd.h>

static char root[] = "/tmp/kronlat_model_XXXXXX", mine[64];

static const char good[] = "-- H = J sum_<ij> Sz_i Sz_j\nstructural { S = 1/2 }\nsite(spin(S))\nconserve "
                           "\"Sz\"\nparameters { J = 1 }\nbond(\"nn\", J * Sz(i)*Sz(j))\n";

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static kl_tables *find(const char *what, const char *const *structural)
{
    kl_tables *t = NULL;
    kl_err err = {""};
    if (kl_modelread_find(what, structural, &t, &err) != KL_OK) fail_msg("%s: %s", what, err.text);
    return t;
}

static void refuse(const char *what, const char *const *structural, const char *const *words)
{
    kl_tables *t = NULL;
    kl_err err = {""};
    if (kl_modelread_find(what, structural, &t, &err) == KL_OK) fail_msg("%s was found", what);
    assert_null(t);
    assert_null(strchr(err.text, '\n'));
    for (; *words != NULL; words++)
        if (strstr(err.text, *words) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, *words);
    core_no_memory();
}

/* ---- both writers ---- */

#define SAME(a, b)                                                   \
    do {                                                             \
        if ((a) != (b)) fail_msg("%s: %s is not %s", where, #a, #b); \
    } while (0)

static void same_text(const char *where, const char *a, const char *b)
{
    if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0))
        fail_msg("%s: \"%s\" is not \"%s\"", where, a ? a : "(none)", b ? b : "(none)");
}

static void same_shift(const char *where, const int *a, const int *b)
{
    for (int q = 0; q < KL_MAX_CHARGE; q++) SAME(a[q], b[q]);
}

static void same_op(const char *where, const kl_site_op *a, const kl_site_op *b)
{
    same_text(where, a->name, b->name);
    same_shift(where, a->shift, b->shift);
    SAME(a->odd, b->odd);
    SAME(a->adjoint, b->adjoint);
    SAME(a->adjoint_factor, b->adjoint_factor);
    SAME(a->named, b->named);
    SAME(a->nelem, b->nelem);
    for (int k = 0; k < a->nelem; k++) {
        SAME(a->elem[k].row, b->elem[k].row);
        SAME(a->elem[k].col, b->elem[k].col);
        SAME(a->elem[k].value, b->elem[k].value);
    }
}

static void same_type(const char *where, const kl_site_type *a, const kl_site_type *b)
{
    same_text(where, a->name, b->name);
    same_text(where, a->where, b->where);
    SAME(a->dim, b->dim);
    for (int s = 0; s < a->dim; s++) {
        same_text(where, a->state_name[s], b->state_name[s]);
        same_shift(where, a->state_charge[s], b->state_charge[s]);
    }
    SAME(a->nop, b->nop);
    for (int k = 0; k < a->nop; k++) same_op(where, &a->op[k], &b->op[k]);
    for (int k = 0; k < a->nop * a->nop; k++) {
        SAME(a->product[k].op, b->product[k].op);
        SAME(a->product[k].factor, b->product[k].factor);
    }
}

static void same_coef(const char *where, const kl_coef *a, const kl_coef *b)
{
    SAME(a->nstep, b->nstep);
    for (int k = 0; k < a->nstep; k++) {
        SAME(a->step[k].op, b->step[k].op);
        SAME(a->step[k].a, b->step[k].a);
        SAME(a->step[k].b, b->step[k].b);
        SAME(a->step[k].value, b->step[k].value);
    }
}

static void same_term(const char *where, const kl_model *m, const kl_term_def *a, const kl_term_def *b)
{
    SAME(a->place, b->place);
    same_text(where, a->where, b->where);
    SAME(a->distance, b->distance);
    SAME(a->nslot, b->nslot);
    SAME(a->sites == NULL, b->sites == NULL);
    for (int s = 0; a->sites != NULL && s < a->nslot; s++) same_text(where, a->sites[s], b->sites[s]);
    SAME(a->nfactor, b->nfactor);
    for (int f = 0; f < a->nfactor; f++) {
        SAME(a->factor[f].slot, b->factor[f].slot);
        for (int t = 0; t < m->ntype; t++) SAME(a->factor[f].op[t], b->factor[f].op[t]);
    }
    for (int mask = 0; mask < 1 << a->nfactor; mask++) {
        SAME(a->split[mask].kept, b->split[mask].kept);
        SAME(a->split[mask].sign, b->split[mask].sign);
        SAME(a->split[mask].left_minus, b->split[mask].left_minus);
        SAME(a->split[mask].right_minus, b->split[mask].right_minus);
    }
    same_coef(where, &a->coef, &b->coef);
    SAME(a->plus_hc, b->plus_hc);
    SAME(a->line, b->line);
    same_text(where, a->text, b->text);
}

static void same_model(const char *where, const kl_model *a, const kl_model *b)
{
    same_text(where, a->name, b->name);
    same_text(where, a->variant, b->variant);
    same_text(where, a->formula, b->formula);
    same_text(where, a->source, b->source);
    SAME(a->hash, b->hash);
    SAME(a->ncharge, b->ncharge);
    for (int q = 0; q < a->ncharge; q++) {
        same_text(where, a->charge[q].name, b->charge[q].name);
        SAME(a->charge[q].modulus, b->charge[q].modulus);
        SAME(a->charge[q].unit_num, b->charge[q].unit_num);
        SAME(a->charge[q].unit_den, b->charge[q].unit_den);
        SAME(a->charge[q].odd, b->charge[q].odd);
    }
    SAME(a->nparam, b->nparam);
    for (int k = 0; k < a->nparam; k++) {
        same_text(where, a->param[k].name, b->param[k].name);
        SAME(a->param[k].kind, b->param[k].kind);
        SAME(a->param[k].value, b->param[k].value);
    }
    SAME(a->ntype, b->ntype);
    for (int t = 0; t < a->ntype; t++) same_type(where, &a->type[t], &b->type[t]);
    SAME(a->nkept, b->nkept);
    for (int i = 0; i < a->nkept; i++) {
        same_text(where, a->kept[i].name, b->kept[i].name);
        same_shift(where, a->kept[i].shift, b->kept[i].shift);
        SAME(a->kept[i].odd, b->kept[i].odd);
        SAME(a->kept[i].adjoint, b->kept[i].adjoint);
        SAME(a->kept[i].adjoint_factor, b->kept[i].adjoint_factor);
    }
    SAME(a->nterm, b->nterm);
    for (int k = 0; k < a->nterm; k++) {
        same_term(where, a, &a->term[k], &b->term[k]);
        for (int j = 0; j < k; j++)
            SAME(a->term[j].split == a->term[k].split,
                 b->term[j].split == b->term[k].split); /* what is shared is shared */
    }
}

/* The built-in table against the one made in memory from the same text and structural parameters. */
static void compare(const kl_model *built)
{
    char variant[256], where[300], path[600];
    const char *structural[16] = {NULL};
    kl_err err = {""};
    kl_tables *made = NULL;
    int n = 0;
    snprintf(where, sizeof where, "%s(%s)", built->name, built->variant);
    snprintf(variant, sizeof variant, "%s", built->variant);
    for (char *place = NULL, *word = strtok_r(variant, ",", &place); word != NULL;
         word = strtok_r(NULL, ",", &place))
        structural[n++] = word;
    const kl_embedded *const shipped = kl_modelread_shipped(built->name);
    if (shipped == NULL) {
        snprintf(path, sizeof path, "%s/../models/%s", kl_test_data(""), built->source);
        made = find(path, structural);
    } else if (kl_modelread_text(built->source, shipped->text, shipped->size, structural, &made, &err) !=
               KL_OK) {
        fail_msg("%s", err.text);
    }
    assert_ptr_not_equal(made->model, built);
    same_model(where, built, made->model);
    kl_tables_destroy(&made);
    core_no_memory();
}

static void test_writers(void **state)
{
    (void)state;
    int shipped = 0, tested = 0;
    while (kl_embedded_models[shipped].name != NULL) shipped++;
    for (int k = 0; k < kl_models_nbuiltin; k++) compare(kl_models_builtin[k]);
    for (int k = 0; k < core_nmodel; k++) compare(core_models[k]);
    for (int s = 0; s < shipped; s++) {
        int there = 0;
        for (int k = 0; k < kl_models_nbuiltin; k++)
            there |= strcmp(kl_models_builtin[k]->name, kl_embedded_models[s].name) == 0;
        tested += there;
    }
    print_message("%d of %d shipped models are built in and were compared\n", tested, shipped);
}

/* ---- names, files, variants ---- */

static void test_builtin(void **state)
{
    static const char *const s[][3] = {
        {NULL}, {"S=0.5", NULL}, {"S=1", NULL}, {"J=2", "S=1", NULL}, {"Q=1", NULL}};
    static const char *const variant[] = {"S=1/2", "S=1/2", "S=1", "S=1",
                                          "S=1/2"}; /* what is not structural is left to kl_params_set */
    (void)state;
    for (int k = 0; k < 5; k++) {
        kl_tables *t = find("heisenberg", s[k]);
        assert_string_equal(t->model->variant, variant[k]);
        assert_null(t->own);
        kl_tables_destroy(&t);
    }
    core_no_memory();
}

static void test_made(void **state)
{
    (void)state;
    kl_tables *t = find("heisenberg", (const char *[]){"J=1", "S=3/2", "h=@nothing", NULL});
    assert_non_null(t->own);
    assert_string_equal(t->model->variant, "S=3/2");
    assert_string_equal(t->model->name, "heisenberg");
    assert_int_equal(t->model->type[0].dim, 4);
    kl_tables_destroy(&t);

    write_file(mine, good);
    t = find(mine, NULL);
    assert_string_equal(t->model->name, "mine");
    assert_string_equal(t->model->source, "mine.lua");
    assert_int_equal(t->model->nterm, 1);
    const uint64_t first = t->model->hash;
    kl_tables_destroy(&t);
    t = find(mine, (const char *[]){"S=1", NULL});
    assert_int_equal(t->model->type[0].dim, 3);
    assert_true(t->model->hash != first);
    kl_tables_destroy(&t);
    char changed[512];
    snprintf(changed, sizeof changed, "%sonsite(J * Sz(i)^2)\n", good);
    write_file(mine, changed);
    t = find(mine, NULL);
    assert_int_equal(t->model->nterm, 2);
    assert_true(t->model->hash != first);
    kl_tables_destroy(&t);
    core_no_memory();
}

/* Models need no other program, no folder and no variable. */
static void test_alone(void **state)
{
    static const char *const names[] = {"PATH", "HOME", "KRONLAT_DATA", "XDG_CACHE_HOME", "CC"};
    char *kept[5];
    (void)state;
    for (int k = 0; k < 5; k++) {
        kept[k] = getenv(names[k]) != NULL ? strdup(getenv(names[k])) : NULL;
        unsetenv(names[k]);
    }
    setenv("PATH", "/nonexistent", 1);
    write_file(mine, good);
    kl_tables *t = find(mine, NULL);
    kl_tables_destroy(&t);
    t = find("hubbard", (const char *[]){"F=5/2", NULL});
    kl_tables_destroy(&t);
    for (int k = 0; k < 5; k++) {
        if (kept[k] != NULL) setenv(names[k], kept[k], 1);
        free(kept[k]);
    }
    core_no_memory();
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
    char at[80];
    (void)state;
    refuse("hiesenberg", NULL,
           (const char *[]){"\"hiesenberg\"", "did you mean heisenberg?", "hubbard", NULL});
    refuse("/nowhere/x.lua", NULL, (const char *[]){"/nowhere/x.lua", "No such file", NULL});
    refuse(root, NULL, (const char *[]){root, "Is a directory", NULL});
    refuse("/dev/zero", NULL, (const char *[]){"/dev/zero", "no ordinary file", NULL});
    refuse("heisenberg", (const char *[]){"J=2", "S", NULL}, (const char *[]){"\"S\"", "NAME=VALUE", NULL});
    refuse("heisenberg", (const char *[]){"S=0.3", NULL}, (const char *[]){"heisenberg.lua:", NULL});
    write_file(mine, "-- H\nsite(spin(1/2))\nconserve \"Sz\"\nbond(\"nn\", Sp(i)*Sp(j))\n");
    snprintf(at, sizeof at, "%s:4: ", mine);
    refuse(mine, NULL, (const char *[]){at, NULL});
    write_file(mine, "-- H\nsite(\n");
    snprintf(at, sizeof at, "%s:", mine);
    refuse(mine, NULL, (const char *[]){at, NULL});
    write_file(mine, "");
    refuse(mine, NULL, (const char *[]){at, "line 1", NULL});
}

/* What a stranger's model may try: to write C, to read outside of an array, to run without end, to take all
 * memory. */
static void test_hostile(void **state)
{
    static const struct {
        const char *file, *word;
    } cases[] = {
        {"inject_c.lua", "inject_c.lua:6: the coefficient r has no parts"},
        {"model_oob_slot.lua", "model_oob_slot.lua:6: the coefficient i has no parts"},
        {"model_hang_cycle.lua", "model_hang_cycle.lua:6: the coefficient J + N has no parts"},
        {"model_hang_dag.lua", "model_hang_dag.lua:6: a coefficient has more than 4096 parts"},
        {"model_memory.lua", "a text of more than 16 MB"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", kl_test_data("hostile"), cases[k].file);
        refuse(path, NULL, (const char *[]){cases[k].word, NULL});
        assert_int_equal(access("INJECTED", F_OK), -1);
    }
}

/* One allocation fails at a time, of the program or of Lua: the model is made, or refused with nothing left
 * behind. */
static void test_no_memory(void **state)
{
    (void)state;
    write_file(mine, good);
    for (int64_t k = 1; k < 1000000; k += 1 + k / 16) {
        kl_tables *t = NULL;
        kl_err err = {""};
        kl_mem_fail_after(k);
        const kl_status st = kl_modelread_find(mine, NULL, &t, &err);
        const int failed = st != KL_OK;
        kl_mem_fail_after(0);
        kl_tables_destroy(&t);
        core_no_memory();
        if (failed && strchr(err.text, '\n') != NULL) fail_msg("%s", err.text);
    }
}

int main(void)
{
    if (mkdtemp(root) == NULL) return 1;
    snprintf(mine, sizeof mine, "%s/mine.lua", root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin),   cmocka_unit_test(test_made),     cmocka_unit_test(test_writers),
        cmocka_unit_test(test_alone),     cmocka_unit_test(test_refusals), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_no_memory),
    };
    const int bad = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(mine);
    rmdir(root);
    return bad;
}
