/* Makes the tables of a model in memory from the generator's tables, a Lua value (gen/tables.lua says what is
   in it). The memory is one list of blocks, so that tables of a thousand small arrays have one owner. Reads
   data alone: no function of the value is called.
   SPDX-License-Identifier: Apache-2.0 */
#include "model/tables.h"
#include "base/mem.h"
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_BYTES = 1 << 14,
    ALIGN = 16,
    MAX_LIST = 1 << 26,
};

typedef struct kl_tables_block {
    struct kl_tables_block *next;
    int64_t used, size;
    _Alignas(ALIGN) char bytes[];
} block;

/* What runs under protection: failures raise an error of Lua after they have left status and message here. */
typedef struct reader {
    lua_State *L;
    block *own;
    kl_model *m;
    kl_status st;
    kl_err *err;
} reader;

/* Lists of the generator's tables that terms refer to by index. */
typedef struct pools {
    int ncoef, noperators, nsites, nsplit;
    kl_coef *coef; /* [ncoef] */
    const int **operators; /* [noperators][ntype] */
    const char *const **sites; /* [nsites] */
    int *site_count; /* [nsites] */
    const kl_split **split; /* [nsplit] */
    int *split_count; /* [nsplit] */
} pools;

static _Noreturn void leave(reader *r, kl_status st)
{
    r->st = st;
    lua_pushnil(r->L);
    lua_error(r->L);
    __builtin_unreachable();
}

static _Noreturn void fault(reader *r, const char *field, const char *why)
{
    leave(r, kl_fail(r->err, KL_EINPUT, "the generator's tables are broken: %s %s", field, why));
}

/* ---- memory ---- */

static void *take(reader *r, int64_t n, size_t size)
{
    int64_t bytes;
    if (!kl_mul_size(n, (int64_t)size, &bytes) || bytes > INT64_MAX - ALIGN)
        fault(r, "a list", "is too long");
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (r->own == NULL || r->own->size - r->own->used < bytes) {
        block *b = NULL;
        const int64_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        const kl_status st = kl_alloc_bytes((void **)&b, (int64_t)sizeof *b + room, 1, KL_MEM_MISC, r->err);
        if (st != KL_OK) leave(r, st);
        *b = (block){.next = r->own, .size = room};
        r->own = b;
    }
    void *const at = r->own->bytes + r->own->used;
    r->own->used += bytes;
    return at;
}

static void free_blocks(block **own)
{
    while (*own != NULL) {
        block *b = *own;
        *own = b->next;
        kl_free(&b);
    }
}

/* ---- values: each is taken from the table on the stack's top ---- */

/* Copies the text on the stack's top and pops it. */
static const char *pop_text(reader *r, const char *field)
{
    size_t n;
    if (lua_type(r->L, -1) != LUA_TSTRING) fault(r, field, "is not a text");
    const char *text = lua_tolstring(r->L, -1, &n);
    if (strlen(text) != n) fault(r, field, "holds a zero byte");
    char *copy = take(r, (int64_t)n + 1, 1);
    memcpy(copy, text, n);
    lua_pop(r->L, 1);
    return copy;
}

static int pop_whole(reader *r, const char *field)
{
    if (!lua_isinteger(r->L, -1)) fault(r, field, "is not a whole number");
    const lua_Integer v = lua_tointeger(r->L, -1);
    if (v < INT_MIN || v > INT_MAX) fault(r, field, "is too large");
    lua_pop(r->L, 1);
    return (int)v;
}

static double pop_real(reader *r, const char *field)
{
    if (lua_type(r->L, -1) != LUA_TNUMBER) fault(r, field, "is not a number");
    const double v = lua_tonumber(r->L, -1);
    lua_pop(r->L, 1);
    return v;
}

static void get(reader *r, const char *field)
{
    lua_pushstring(r->L, field);
    lua_rawget(r->L, -2);
}

static const char *text(reader *r, const char *field)
{
    get(r, field);
    return pop_text(r, field);
}

static const char *text_or_null(reader *r, const char *field)
{
    get(r, field);
    if (!lua_isnil(r->L, -1)) return pop_text(r, field);
    lua_pop(r->L, 1);
    return NULL;
}

static int whole(reader *r, const char *field)
{
    get(r, field);
    return pop_whole(r, field);
}

static double real(reader *r, const char *field)
{
    get(r, field);
    return pop_real(r, field);
}

/* An index in a list of n entries. */
static int place(reader *r, const char *field, int n)
{
    const int v = whole(r, field);
    if (v < 0 || v >= n) fault(r, field, "is the place of nothing");
    return v;
}

/* The length of the list on the stack's top. */
static int length(reader *r, const char *field)
{
    if (!lua_istable(r->L, -1)) fault(r, field, "is not a list");
    const lua_Unsigned n = lua_rawlen(r->L, -1);
    if (n > MAX_LIST) fault(r, field, "is too long");
    return (int)n;
}

/* Puts the list of this name on the stack; close ends it. */
static int open(reader *r, const char *field)
{
    get(r, field);
    return length(r, field);
}

static void open_item(reader *r, int i)
{
    luaL_checkstack(r->L, 8, NULL);
    lua_rawgeti(r->L, -1, i + 1);
}

static void open_record(reader *r, const char *field, int i)
{
    open_item(r, i);
    if (!lua_istable(r->L, -1)) fault(r, field, "has an entry that is no record");
}

static void close(reader *r) { lua_pop(r->L, 1); }

/* Reads the list on the stack's top, of at most `most` numbers, and returns its length. */
static int read_ints(reader *r, const char *field, int most, int *out)
{
    const int n = length(r, field);
    if (n > most) fault(r, field, "is too long");
    for (int i = 0; i < n; i++) {
        open_item(r, i);
        out[i] = pop_whole(r, field);
    }
    return n;
}

static const char *const *read_texts(reader *r, const char *field)
{
    const int n = length(r, field);
    const char **list = take(r, n, sizeof *list);
    for (int i = 0; i < n; i++) {
        open_item(r, i);
        list[i] = pop_text(r, field);
    }
    return list;
}

/* A name out of a list that ends in NULL: its number. */
static int named(reader *r, const char *field, const char *const *names)
{
    get(r, field);
    const char *word = lua_type(r->L, -1) == LUA_TSTRING ? lua_tostring(r->L, -1) : "";
    int i = 0;
    while (names[i] != NULL && strcmp(names[i], word) != 0) i++;
    if (names[i] == NULL) fault(r, field, "is an unknown word");
    lua_pop(r->L, 1);
    return i;
}

/* Shifts of the charges, by charge. */
static void read_shift(reader *r, int *shift)
{
    open(r, "shift");
    if (read_ints(r, "shift", KL_MAX_CHARGE, shift) != r->m->ncharge)
        fault(r, "shift", "has not one number for each charge");
    close(r);
}

/* ---- the parts of a model ---- */

static void read_charges(reader *r)
{
    const int n = open(r, "charges");
    kl_charge *charge = take(r, n, sizeof *charge);
    for (int q = 0; q < n; q++) {
        open_record(r, "charges", q);
        charge[q] = (kl_charge){text(r, "name"), whole(r, "modulus"), whole(r, "num"),
                                whole(r, "den"), whole(r, "odd"),     whole(r, "spin")};
        close(r);
    }
    close(r);
    r->m->charge = charge;
    r->m->ncharge = n;
    if (n > KL_MAX_CHARGE) fault(r, "charges", "is too long");
}

static void read_params(reader *r)
{
    static const char *const kind[] = {"SCALAR", "SITE", "BOND", NULL}; /* ORDER KL_PARAM */
    const int n = open(r, "params");
    kl_param_def *param = take(r, n, sizeof *param);
    for (int k = 0; k < n; k++) {
        open_record(r, "params", k);
        param[k] = (kl_param_def){text(r, "name"), (kl_param_kind)named(r, "kind", kind), real(r, "value")};
        close(r);
    }
    close(r);
    r->m->param = param;
    r->m->nparam = n;
}

static void read_op(reader *r, kl_site_op *o)
{
    o->name = text(r, "name");
    read_shift(r, o->shift);
    o->odd = whole(r, "odd");
    o->adjoint = whole(r, "adjoint");
    o->adjoint_factor = real(r, "adjoint_factor");
    o->named = whole(r, "named");
    o->rank = whole(r, "rank");
    o->nelem = open(r, "elements");
    kl_elem *elem = take(r, o->nelem, sizeof *elem);
    for (int k = 0; k < o->nelem; k++) {
        open_record(r, "elements", k);
        elem[k] = (kl_elem){whole(r, "row"), whole(r, "col"), real(r, "value")};
        close(r);
    }
    close(r);
    o->elem = elem;
}

static const kl_site_product *read_products(reader *r, int nop)
{
    const int64_t n = (int64_t)nop * nop;
    kl_site_product *product = take(r, n, sizeof *product);
    if (open(r, "product_op") != n) fault(r, "product_op", "has not one entry for each product");
    for (int k = 0; k < n; k++) {
        open_item(r, k);
        product[k].op = pop_whole(r, "product_op");
    }
    close(r);
    if (open(r, "product_factor") != n) fault(r, "product_factor", "has not one entry for each product");
    for (int k = 0; k < n; k++) {
        open_item(r, k);
        product[k].factor = pop_real(r, "product_factor");
    }
    close(r);
    return product;
}

/* A list with one number for each state, NULL where there is none of this name. */
static const int *read_steps(reader *r, const char *field, int dim)
{
    get(r, field);
    const int there = !lua_isnil(r->L, -1);
    int *list = NULL;
    if (there) {
        list = take(r, dim, sizeof *list);
        if (read_ints(r, field, dim, list) != dim) fault(r, field, "has not one number for each state");
    }
    close(r);
    return list;
}

/* The same of numbers, n of them. */
static const double *read_numbers(reader *r, const char *field, int64_t n)
{
    get(r, field);
    const int there = !lua_isnil(r->L, -1);
    double *list = NULL;
    if (there) {
        if (length(r, field) != n) fault(r, field, "has not one number for each state and component");
        list = take(r, n, sizeof *list);
        for (int i = 0; i < n; i++) {
            open_item(r, i);
            list[i] = pop_real(r, field);
        }
    }
    close(r);
    return list;
}

static void read_type(reader *r, kl_site_type *t)
{
    t->name = text(r, "name");
    t->where = text_or_null(r, "where");
    t->dim = open(r, "states");
    t->state_name = read_texts(r, "states");
    close(r);
    if (open(r, "charges") != t->dim) fault(r, "charges", "has not one entry for each state");
    int (*charge)[KL_MAX_CHARGE] = take(r, t->dim, sizeof *charge);
    for (int s = 0; s < t->dim; s++) {
        open_item(r, s);
        if (read_ints(r, "charges", KL_MAX_CHARGE, charge[s]) != r->m->ncharge)
            fault(r, "charges", "has not one number for each charge");
        close(r);
    }
    close(r);
    t->state_charge = (const int (*)[KL_MAX_CHARGE])charge;
    t->nop = open(r, "ops");
    kl_site_op *op = take(r, t->nop, sizeof *op);
    for (int a = 0; a < t->nop; a++) {
        open_record(r, "ops", a);
        read_op(r, &op[a]);
        close(r);
    }
    close(r);
    t->op = op;
    t->spin = read_steps(r, "spin", t->dim);
    t->other = read_steps(r, "other", t->dim);
    t->vector = read_numbers(r, "vector", (int64_t)t->dim * t->dim);
    t->product = t->spin != NULL ? NULL : read_products(r, t->nop);
}

static void read_types(reader *r)
{
    const int n = open(r, "types");
    kl_site_type *type = take(r, n, sizeof *type);
    for (int t = 0; t < n; t++) {
        open_record(r, "types", t);
        read_type(r, &type[t]);
        close(r);
    }
    close(r);
    r->m->type = type;
    r->m->ntype = n;
}

static void read_kept(reader *r)
{
    const int n = open(r, "kept");
    kl_kept *kept = take(r, n, sizeof *kept);
    for (int i = 0; i < n; i++) {
        open_record(r, "kept", i);
        kept[i].name = text(r, "name");
        read_shift(r, kept[i].shift);
        kept[i].odd = whole(r, "odd");
        kept[i].adjoint = whole(r, "adjoint");
        kept[i].adjoint_factor = real(r, "adjoint_factor");
        close(r);
    }
    close(r);
    r->m->kept = kept;
    r->m->nkept = n;
}

static kl_coef read_coef(reader *r)
{
    kl_coef c = {.nstep = open(r, "steps")};
    kl_coef_step *step = take(r, c.nstep, sizeof *step);
    for (int k = 0; k < c.nstep; k++) {
        open_record(r, "steps", k);
        get(r, "op");
        const char *word = lua_type(r->L, -1) == LUA_TSTRING ? lua_tostring(r->L, -1) : "";
        step[k].op = kl_coef_op_of(word); /* kl_coef_fault refuses what there is not */
        close(r);
        step[k].a = whole(r, "a");
        step[k].b = whole(r, "b");
        step[k].value = real(r, "value");
        close(r);
    }
    close(r);
    c.step = step;
    return c;
}

static void read_pools(reader *r, pools *p)
{
    p->ncoef = open(r, "coefs");
    p->coef = take(r, p->ncoef, sizeof *p->coef);
    for (int i = 0; i < p->ncoef; i++) {
        open_record(r, "coefs", i);
        p->coef[i] = read_coef(r);
        close(r);
    }
    close(r);
    p->noperators = open(r, "operators");
    p->operators = take(r, p->noperators, sizeof *p->operators);
    for (int i = 0; i < p->noperators; i++) {
        int *list = take(r, r->m->ntype, sizeof *list);
        open_item(r, i);
        if (read_ints(r, "operators", r->m->ntype, list) != r->m->ntype)
            fault(r, "operators", "has not one number for each site type");
        close(r);
        p->operators[i] = list;
    }
    close(r);
    p->nsites = open(r, "site_lists");
    p->sites = take(r, p->nsites, sizeof *p->sites);
    p->site_count = take(r, p->nsites, sizeof *p->site_count);
    for (int i = 0; i < p->nsites; i++) {
        open_record(r, "site_lists", i);
        p->site_count[i] = open(r, "names");
        p->sites[i] = read_texts(r, "names");
        close(r);
        close(r);
    }
    close(r);
    p->nsplit = open(r, "splits");
    p->split = take(r, p->nsplit, sizeof *p->split);
    p->split_count = take(r, p->nsplit, sizeof *p->split_count);
    for (int i = 0; i < p->nsplit; i++) {
        open_item(r, i);
        const int n = p->split_count[i] = length(r, "splits");
        kl_split *row = take(r, n, sizeof *row);
        for (int k = 0; k < n; k++) {
            open_record(r, "splits", k);
            row[k] = (kl_split){whole(r, "kept"), whole(r, "sign"), (unsigned)whole(r, "left_minus"),
                                (unsigned)whole(r, "right_minus")};
            close(r);
        }
        close(r);
        p->split[i] = row;
    }
    close(r);
}

static void read_term(reader *r, const pools *p, kl_term_def *d)
{
    static const char *const places[] = {"SITE",  "BOND", "PAIR", "RUN",
                                         "NAMED", "LOOP", NULL}; /* ORDER KL_PLACE */
    d->place = (kl_place)named(r, "place", places);
    d->where = text_or_null(r, "where");
    d->distance = real(r, "distance");
    d->nslot = whole(r, "nslot");
    if (d->place == KL_PLACE_NAMED) {
        const int list = place(r, "sites", p->nsites);
        if (p->site_count[list] != d->nslot) fault(r, "sites", "has not one name for each site of a term");
        d->sites = p->sites[list];
    }
    d->nfactor = open(r, "factors");
    if (d->nfactor > KL_MAX_FACTOR) fault(r, "factors", "is too long");
    kl_factor *factor = take(r, d->nfactor, sizeof *factor);
    for (int f = 0; f < d->nfactor; f++) {
        open_record(r, "factors", f);
        factor[f] = (kl_factor){whole(r, "slot"), p->operators[place(r, "operators", p->noperators)]};
        close(r);
    }
    close(r);
    d->factor = factor;
    d->rank = read_steps(r, "ranks", d->nfactor);
    d->check = whole(r, "check");
    if (d->rank == NULL) {
        const int split = place(r, "split", p->nsplit);
        if (p->split_count[split] != 1 << d->nfactor)
            fault(r, "split", "has not one row for each cut of a term");
        d->split = p->split[split];
    }
    d->coef = p->coef[place(r, "coef", p->ncoef)];
    d->plus_hc = whole(r, "plus_hc");
    d->line = whole(r, "line");
    d->text = text(r, "text");
}

static void read_terms(reader *r)
{
    pools p = {0};
    read_pools(r, &p);
    const int n = open(r, "terms");
    kl_term_def *term = take(r, n, sizeof *term);
    for (int k = 0; k < n; k++) {
        open_record(r, "terms", k);
        read_term(r, &p, &term[k]);
        close(r);
    }
    close(r);
    r->m->term = term;
    r->m->nterm = n;
}

/* The table is argument 1, the reader argument 2. */
static int read_model(lua_State *L)
{
    reader *const r = lua_touserdata(L, 2);
    lua_settop(L, 1);
    if (!lua_istable(L, 1)) fault(r, "the whole", "is not a table");
    kl_model *m = r->m = take(r, 1, sizeof *m);
    m->name = text(r, "name");
    m->variant = text(r, "variant");
    m->formula = text(r, "formula");
    m->source = text(r, "source");
    get(r, "hash");
    if (!lua_isinteger(L, -1)) fault(r, "hash", "is not a whole number");
    m->hash = (uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    read_charges(r);
    read_params(r);
    read_types(r);
    read_kept(r);
    read_terms(r);
    return 0;
}

kl_status kl_tables_create(lua_State *L, int index, kl_tables **out, kl_err *err)
{
    kl_status st = KL_OK;
    reader r = {.L = L, .err = err};
    *out = NULL;
    index = lua_absindex(L, index);
    lua_pushcfunction(L, read_model);
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, &r);
    const int code = lua_pcall(L, 2, 0, 0);
    if (code != LUA_OK) lua_pop(L, 1);
    KL_TRY(r.st);
    if (code != LUA_OK) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory for the tables of a model"));
    KL_TRY(kl_model_check(r.m, err));
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    **out = (kl_tables){r.m, r.own};
    r.own = NULL;
out:
    free_blocks(&r.own);
    return st;
}

kl_status kl_tables_borrow(const kl_model *m, kl_tables **out, kl_err *err)
{
    kl_status st = KL_OK;
    KL_TRY(kl_model_check(m, err));
    KL_TRY(kl_alloc(out, 1, KL_MEM_MISC, err));
    (*out)->model = m;
out:
    return st;
}

void kl_tables_destroy(kl_tables **t)
{
    if (*t == NULL) return;
    free_blocks(&(*t)->own);
    kl_free(t);
}
