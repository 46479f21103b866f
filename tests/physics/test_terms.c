/* Parameters and term lists: the list, expanded here by plain Kronecker products, equals the oracle's H on
   every lattice and order; the energies are those of textbooks; every refusal says its line. Hand-made tables
   are compared with the generated ones, so that a fault in one shows.
   SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "kl_test.h"
#include "termsetup.h"
#include "model/modelread.h"

/* ---- a model made by hand: spinful electrons with whatever terms a test needs ---- */

enum {
    HAND_OPS = 24,
    HAND_TERMS = 12,
    HAND_FACTORS = 5,
    HAND_KEPT = 400,
};
static kl_elem hand_elem[HAND_OPS][16];
static kl_site_op hand_op[HAND_OPS];
static kl_site_product hand_product[HAND_OPS * HAND_OPS];
static const char *const hand_state[] = {"0", "up", "dn", "updn"};
static const int hand_charge[][KL_MAX_CHARGE] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
static const kl_charge hand_charges[] = {{"N_up", 0, 1, 1, 1, 0}, {"N_dn", 0, 1, 1, 1, 0}};
static const kl_param_def hand_param[] = {{"t", KL_PARAM_SCALAR, 1.0},    {"U", KL_PARAM_SCALAR, 4.0},
                                          {"W", KL_PARAM_SCALAR, 0.7},    {"eps", KL_PARAM_SITE, 0.0},
                                          {"V", KL_PARAM_BOND, 0.0},      {"X", KL_PARAM_BOND, 0.0},
                                          {"alpha", KL_PARAM_SCALAR, 2.0}};
static kl_site_type hand_type[1];
static kl_term_def hand_term[HAND_TERMS];
static kl_factor hand_factor[HAND_TERMS][KL_MAX_FACTOR];
static int hand_index[HAND_OPS]; /* hand_index[k] = k: what a factor's table points at */
static kl_split hand_split[HAND_TERMS][1 << HAND_FACTORS];
static kl_kept hand_kept[HAND_KEPT];
static int hand_string[HAND_KEPT][HAND_FACTORS]; /* the operators of hand_kept, -1 behind the last */
static kl_model hand;

typedef double matrix[4][4];
static matrix hand_matrix[HAND_OPS];

static int add_op(const char *name, matrix m)
{
    const int k = hand_type[0].nop++;
    kl_site_op *o = &hand_op[k];
    assert_true(k < HAND_OPS);
    memcpy(hand_matrix[k], m, sizeof(matrix));
    *o = (kl_site_op){.name = name, .named = 1, .elem = hand_elem[k], .adjoint = -1};
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 4; r++)
            if (m[r][c] != 0.0) {
                for (int q = 0; q < 2; q++) o->shift[q] = hand_charge[r][q] - hand_charge[c][q];
                o->odd = abs(o->shift[0] + o->shift[1]) % 2;
                hand_elem[k][o->nelem++] = (kl_elem){r, c, m[r][c]};
            }
    hand_index[k] = k;
    return k;
}

/* Finds m = factor * op among the operators; KL_OP_ZERO or KL_OP_NONE. */
static int find_op(matrix m, double *factor)
{
    double norm = 0.0;
    *factor = 0.0;
    for (int r = 0; r < 16; r++) norm += fabs(m[r / 4][r % 4]);
    if (norm == 0.0) return KL_OP_ZERO;
    for (int k = 0; k < hand_type[0].nop; k++) {
        const kl_elem *e = hand_elem[k];
        const double f = m[e->row][e->col] / e->value;
        int same = f != 0.0;
        for (int r = 0; r < 16; r++) same &= fabs(m[r / 4][r % 4] - f * hand_matrix[k][r / 4][r % 4]) < 1e-14;
        if (same) {
            *factor = f;
            return k;
        }
    }
    return KL_OP_NONE;
}

static void multiply(matrix a, matrix b, matrix ab)
{
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            ab[r][c] = 0.0;
            for (int k = 0; k < 4; k++) ab[r][c] += a[r][k] * b[k][c];
        }
}

static void make_hand(void)
{
    matrix one = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}},
           cu = {{0, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 0}},
           cd = {{0, 0, 1, 0}, {0, 0, 0, -1}, {0, 0, 0, 0}, {0, 0, 0, 0}}, mu, md, ab;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            mu[r][c] = cu[c][r];
            md[r][c] = cd[c][r];
        }
    memset(hand_op, 0, sizeof hand_op);
    memset(hand_term, 0, sizeof hand_term);
    hand_type[0] = (kl_site_type){.name = "electron by hand",
                                  .dim = 4,
                                  .state_name = hand_state,
                                  .state_charge = hand_charge,
                                  .op = hand_op,
                                  .product = hand_product};
    add_op("1", one);
    add_op("a_up", cu);
    add_op("A_up", mu);
    add_op("a_dn", cd);
    add_op("A_dn", md);
    static const struct {
        const char *name;
        int a, b;
    } more[] = {{"n_up", 2, 1}, {"n_dn", 4, 3}, {"docc", 5, 6},      {"S+", 2, 3},       {"S-", 4, 1},
                {"D", 1, 3},    {"D+", 2, 4},   {"n_dn a_up", 6, 1}, {"n_dn A_up", 6, 2}};
    for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
        multiply(hand_matrix[more[k].a], hand_matrix[more[k].b], ab);
        add_op(more[k].name, ab);
    }
    const int n = hand_type[0].nop;
    for (int a = 0; a < n; a++) {
        matrix t;
        for (int r = 0; r < 16; r++) t[r / 4][r % 4] = hand_matrix[a][r % 4][r / 4];
        hand_op[a].adjoint = find_op(t, &hand_op[a].adjoint_factor);
        for (int b = 0; b < n; b++) {
            kl_site_product *p = &hand_product[a * n + b];
            multiply(hand_matrix[a], hand_matrix[b], ab);
            p->op = find_op(ab, &p->factor);
        }
    }
    hand = (kl_model){"hand",     "", "H",       "hand.lua", 0,         2, hand_charges, 7,
                      hand_param, 1,  hand_type, 0,          hand_kept, 0, hand_term};
}

/* The kept operator of a string, made with its adjoint if it is new. (A B C ...)^+ is ... C^+ B^+ A^+: every
   pair of odd ones is exchanged. */
static int keep(const int *string)
{
    int k = 0, adjoint[HAND_FACTORS], nodd = 0;
    while (k < hand.nkept && memcmp(hand_string[k], string, sizeof hand_string[k]) != 0) k++;
    if (k < hand.nkept) return k;
    assert_true(++hand.nkept <= HAND_KEPT);
    memcpy(hand_string[k], string, sizeof hand_string[k]);
    memcpy(adjoint, string, sizeof adjoint);
    hand_kept[k] = (kl_kept){.name = "by hand", .adjoint_factor = 1.0};
    for (int f = 0; f < HAND_FACTORS && string[f] >= 0; f++) {
        const kl_site_op *o = &hand_op[string[f]];
        for (int q = 0; q < 2; q++) hand_kept[k].shift[q] += o->shift[q];
        hand_kept[k].adjoint_factor *= o->adjoint_factor * (o->odd && nodd % 2 ? -1.0 : 1.0);
        nodd += o->odd;
        adjoint[f] = o->adjoint;
    }
    hand_kept[k].odd = nodd % 2;
    hand_kept[k].adjoint = keep(adjoint);
    return k;
}

/* Every sign by counting the odd pairs that are exchanged. */
static void make_split(const kl_term_def *d, kl_split *row)
{
    const int n = d->nfactor;
    assert_true(n <= HAND_FACTORS);
    for (int mask = 0; mask < 1 << n; mask++) {
        int string[HAND_FACTORS] = {-1, -1, -1, -1, -1}, count = 0;
        row[mask] = (kl_split){.sign = 1};
        for (int f = 0; f < n; f++)
            if (mask >> f & 1) string[count++] = *d->factor[f].op;
        row[mask].kept = keep(string);
        for (int f = 0; f < n; f++)
            for (int g = 0; g < n; g++) {
                if ((mask >> f & 1) || !(mask >> g & 1) || !hand_op[*d->factor[f].op].odd ||
                    !hand_op[*d->factor[g].op].odd)
                    continue;
                if (f < g) row[mask].sign = -row[mask].sign, row[mask].left_minus ^= 1u << f;
                else row[mask].right_minus ^= 1u << f;
            }
    }
}

static int op_named(const char *name)
{
    const int k = kl_site_op_find(&hand_type[0], name);
    if (k < 0) fail_msg("no operator %s", name);
    return k;
}

/* words: "A_up.0 a_up.1", the operator and its slot. */
static void add_term(kl_place place, const char *where, int nslot, kl_coef coef, const char *words,
                     int plus_hc)
{
    kl_term_def *d = &hand_term[hand.nterm];
    *d = (kl_term_def){.place = place,
                       .where = where,
                       .nslot = nslot,
                       .factor = hand_factor[hand.nterm],
                       .coef = coef,
                       .plus_hc = plus_hc,
                       .line = 10 + hand.nterm,
                       .text = words};
    for (const char *c = words; *c != 0;) {
        char name[32];
        const size_t n = strcspn(c, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, c);
        hand_factor[hand.nterm][d->nfactor++] = (kl_factor){c[n + 1] - '0', &hand_index[op_named(name)]};
        c += n + 2;
        c += *c == ' ';
    }
    if (hand.nkept == 0) keep((const int[HAND_FACTORS]){-1, -1, -1, -1, -1});
    make_split(d, hand_split[hand.nterm]);
    d->split = hand_split[hand.nterm];
    assert_true(++hand.nterm <= HAND_TERMS);
}

/* Coefficients by hand. The parameters are those of hand_param, by index. */
enum { T, U, W, EPS, V, X, ALPHA };
#define NUMBER(v) {KL_COEF_NUMBER, 0, 0, v}
#define SCALAR(p) {KL_COEF_SCALAR, p, 0, 0.0}
#define MUL(a, b) {KL_COEF_MUL, a, b, 0.0}
#define COEF(...)                                                                                  \
    {                                                                                              \
        sizeof((const kl_coef_step[]){__VA_ARGS__}) / sizeof(kl_coef_step), (const kl_coef_step[]) \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
static const kl_coef minus_t = COEF(NUMBER(-1.0), SCALAR(T), MUL(0, 1));
static const kl_coef get_u = COEF(SCALAR(U));
static const kl_coef get_w = COEF(SCALAR(W));
static const kl_coef minus_w = COEF(NUMBER(-1.0), SCALAR(W), MUL(0, 1));
static const kl_coef get_eps = COEF({KL_COEF_AT_SITE, EPS, 0, 0.0});
static const kl_coef get_v = COEF({KL_COEF_AT_BOND, V, 0, 0.0});
/* X / r */
static const kl_coef get_x =
    COEF({KL_COEF_AT_BOND, X, 0, 0.0}, {KL_COEF_R, 0, 0, 0.0}, {KL_COEF_DIV, 0, 1, 0.0});
/* 0.3 r^-alpha */
static const kl_coef decay = COEF({KL_COEF_R, 0, 0, 0.0}, SCALAR(ALPHA), NUMBER(-1.0), MUL(2, 1),
                                  {KL_COEF_POW, 0, 3, 0.0}, NUMBER(0.3), MUL(5, 4));
static const kl_coef infinite =
    COEF(NUMBER(1.0), {KL_COEF_R, 0, 0, 0.0}, SCALAR(ALPHA), NUMBER(-1.0), MUL(3, 2),
         {KL_COEF_ADD, 1, 4, 0.0}, {KL_COEF_DIV, 0, 5, 0.0}); /* 1 / (r - alpha) */
static const kl_coef hand_pairing = COEF(NUMBER(0.8), SCALAR(W), MUL(0, 1));

/* ---- helpers ---- */

static double energy(const kl_model *m, const char *lattice, const char *order, const char *const *sets,
                     const int *charge)
{
    term_setup s = term_make(m, lattice, order, sets);
    oracle *o = oracle_create(m, s.lat, s.par);
    double w = NAN;
    assert_int_equal(oracle_energies(o, charge, 1, &w, NULL), 1);
    oracle_destroy(&o);
    term_drop(&s);
    return w;
}

static void hubbard_terms(const char *bonds)
{
    make_hand();
    add_term(KL_PLACE_BOND, bonds, 2, minus_t, "A_up.0 a_up.1", 1);
    add_term(KL_PLACE_BOND, bonds, 2, minus_t, "A_dn.0 a_dn.1", 1);
    add_term(KL_PLACE_SITE, NULL, 1, get_u, "A_up.0 a_up.0 A_dn.0 a_dn.0", 0);
}

/* ---- tests ---- */

/* Programs that would read outside of what a term has, one at a time: term 0 is on a bond, term 2 on a
   site. */
static void check_wrong_coefs(void)
{
    const struct {
        int term;
        kl_coef coef;
        const char *word;
    } wrong[] = {
        {0, {0, NULL}, "too many steps or none"},
        {0, {0, (const kl_coef_step[]){SCALAR(T)}}, "too many steps or none"},
        {0, {KL_MAX_STEP + 1, (const kl_coef_step[]){SCALAR(T)}}, "too many steps or none"},
        {0, COEF({KL_COEF_NKIND, 0, 0, 0.0}), "unknown operation"},
        {0, COEF({(kl_coef_op)-1, 0, 0, 0.0}), "unknown operation"},
        {0, COEF(SCALAR(7)), "not there"},
        {0, COEF(SCALAR(-1)), "not there"},
        {0, COEF(SCALAR(EPS)), "another kind"},
        {0, COEF({KL_COEF_AT_SITE, T, 0, 0.0}), "another kind"},
        {0, COEF({KL_COEF_AT_SITE, V, 0, 0.0}), "another kind"},
        {0, COEF({KL_COEF_AT_BOND, EPS, 0, 0.0}), "another kind"},
        {0, COEF({KL_COEF_AT_SITE, EPS, 2, 0.0}), "not there"},
        {0, COEF({KL_COEF_AT_SITE, EPS, -1, 0.0}), "not there"},
        {0, COEF({KL_COEF_SITE, -100000000, 0, 0.0}), "not there"},
        {0, COEF({KL_COEF_SITE, 2, 0, 0.0}), "not there"},
        {2, COEF({KL_COEF_SITE, 1, 0, 0.0}), "not there"},
        {2, COEF({KL_COEF_AT_BOND, V, 0, 0.0}), "no bond"},
        {0, COEF(SCALAR(T), {KL_COEF_ADD, 0, 1, 0.0}), "not there"},
        {0, COEF(SCALAR(T), {KL_COEF_ADD, -1, 0, 0.0}), "not there"},
        {0, COEF({KL_COEF_EXP, 0, 0, 0.0}), "not there"},
        {0, COEF(NUMBER(NAN)), "not finite"},
        {0, COEF(NUMBER(INFINITY)), "not finite"},
    };
    kl_err err = {""};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        const kl_coef right = hand_term[wrong[k].term].coef;
        hand_term[wrong[k].term].coef = wrong[k].coef;
        core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"hand.lua:1", wrong[k].word, NULL});
        hand_term[wrong[k].term].coef = right;
    }
    assert_int_equal(kl_model_check(&hand, &err), KL_OK);
}

static void test_model_check(void **state)
{
    kl_err err = {""};
    (void)state;
    for (int k = 0; k < kl_models_nbuiltin; k++)
        if (kl_model_check(kl_models_builtin[k], &err) != KL_OK) fail_msg("%s", err.text);
    hubbard_terms("nn");
    if (kl_model_check(&hand, &err) != KL_OK) fail_msg("%s", err.text);
    assert_int_equal(kl_model_check(NULL, &err), KL_EINPUT);

    hand_op[1].shift[0] = 1;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"op[1] a_up", "N_up", NULL});
    hand_op[1].shift[0] = -1;
    hand_op[1].odd = 0;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"op[1] a_up", "parity", NULL});
    hand_op[1].odd = 1;
    hand_op[4].adjoint_factor = -1.0;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"adjoint", NULL});
    hand_op[4].adjoint_factor = 1.0;
    const kl_elem swap = hand_elem[1][0];
    hand_elem[1][0] = hand_elem[1][1];
    hand_elem[1][1] = swap;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"out of order", NULL});
    hand_elem[1][1] = hand_elem[1][0];
    hand_elem[1][0] = swap;
    kl_site_product *p = &hand_product[2 * hand_type[0].nop + 1];
    p->factor = -1.0;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"product[2][1]", "A_up", NULL});
    p->factor = 1.0;
    p->op = KL_OP_ZERO;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"product[2][1]", NULL});
    p->op = op_named("n_up");
    hand_factor[0][0].slot = 2;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"term[0]", "hand.lua:10", NULL});
    hand_factor[0][0].slot = 0;
    assert_int_equal(kl_model_check(&hand, &err), KL_OK);
    /* Symbolic records: one entry wrong at a time. Row 1 of term 0 has A_up on the left, a_up on the
       right. */
    kl_split *const row = &hand_split[0][1], right = *row;
    kl_kept *const kept = &hand_kept[row->kept], was = *kept;
    static const struct {
        kl_split row;
        const char *word;
    } wrong_row[] = {{{-1, 1, 0, 2}, "no block keeps"},          {{HAND_KEPT, 1, 0, 2}, "no block keeps"},
                     {{0, 1, 0, 2}, "shift, parity or adjoint"}, {{-2, -1, 0, 2}, "superblock"},
                     {{-2, 1, 2, 2}, "growing left block"},      {{-2, 1, 0, 0}, "growing right block"},
                     {{-2, 1, 1, 2}, "growing left block"},      {{-2, 1, 0, 6}, "growing right block"}};
    assert_true(right.sign == 1 && right.left_minus == 0 && right.right_minus == 2);
    for (size_t k = 0; k < sizeof wrong_row / sizeof *wrong_row; k++) {
        *row = wrong_row[k].row;
        if (row->kept == -2) row->kept = right.kept;
        core_refused(kl_model_check(&hand, &err), &err,
                     (const char *[]){"term[0]", "hand.lua:10", wrong_row[k].word, NULL});
    }
    *row = right;
    kl_kept wrong_kept[] = {was, was, was, was, was, was};
    wrong_kept[0].shift[1] = 1;
    wrong_kept[1].odd = 0;
    wrong_kept[2].adjoint_factor = -1.0;
    wrong_kept[3].adjoint = 0;
    wrong_kept[4].adjoint = hand.nkept;
    wrong_kept[5].name = NULL;
    for (size_t k = 0; k < sizeof wrong_kept / sizeof *wrong_kept; k++) {
        *kept = wrong_kept[k];
        core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"kept[", NULL});
    }
    *kept = was;
    hand_kept[0].adjoint_factor = -1.0;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"kept[0]", NULL});
    hand_kept[0].adjoint_factor = 1.0;
    hand_split[0][0].kept = row->kept;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"term[0]", NULL});
    hand_split[0][0].kept = 0;
    hand_term[0].split = NULL;
    core_refused(kl_model_check(&hand, &err), &err, (const char *[]){"term[0]", "symbolic records", NULL});
    hand_term[0].split = hand_split[0];
    assert_int_equal(kl_model_check(&hand, &err), KL_OK);
    check_wrong_coefs();
    core_no_memory();
}

static void test_textbook(void **state)
{
    const kl_model *heis = core_model("heisenberg", "S=1/2"), *spin1 = core_model("heisenberg", "S=1"),
                   *hub = core_model("hubbard", "F=1/2");
    const int singlet[] = {0, 0};
    (void)state;
    expect_near(energy(heis, "ring:4", "column", NULL, singlet), -2.0, 1e-13); /* Heisenberg ring of 4 */
    expect_near(energy(heis, "ring:2", "column", NULL, singlet), -0.75, 1e-14); /* a ring of 2 has one bond */
    /* a 2x2 torus is the ring of 4 */
    expect_near(energy(heis, "torus:2x2", "column", NULL, singlet), -2.0, 1e-13);
    expect_near(energy(heis, "square:2x2", "snake", NULL, singlet), -2.0, 1e-13); /* the open plaquette too */
    expect_near(energy(heis, "chain:6", "column", (const char *[]){"Delta=0", NULL}, singlet),
                cos(M_PI / 7) * -1 - cos(2 * M_PI / 7) - cos(3 * M_PI / 7),
                1e-13); /* XX chain: free fermions of band -cos k */
    expect_near(energy(spin1, "chain:2", "column", NULL, singlet), -2.0, 1e-13); /* two spins 1 */
    for (int u = 0; u <= 8; u += 2) {
        char text[16];
        snprintf(text, sizeof text, "U=%d", u);
        /* two-site Hubbard */
        expect_near(energy(hub, "chain:2", "column", (const char *[]){text, NULL}, (int[]){1, 1}),
                    (u - sqrt(u * u + 16.0)) / 2.0, 1e-13);
    }
    double band = 0.0, ring = 0.0;
    for (int k = 1; k <= 2; k++) band += 2.0 * -2.0 * cos(M_PI * k / 6.0);
    /* free fermions on a chain of 5 */
    expect_near(energy(hub, "chain:5", "column", (const char *[]){"U=0", NULL}, (int[]){2, 2}), band, 1e-12);
    for (int k = -1; k <= 1; k++) ring += 2.0 * -2.0 * cos(2.0 * M_PI * k / 5.0);
    /* free fermions on a ring of 5: the long bond's sign */
    expect_near(energy(hub, "ring:5", "column", (const char *[]){"U=0", NULL}, (int[]){3, 3}), ring, 1e-12);
    /* mu takes the best site */
    expect_near(
        energy(hub, "chain:3", "column", (const char *[]){"U=0", "t=0", "mu=0.5,1,-2", NULL}, (int[]){1, 0}),
        -1.0, 1e-13);
    core_no_memory();
}

static void test_against_oracle(void **state)
{
    static const char *const lattices[] = {"chain:4",   "ring:4",     "ring:3",       "ring:2",
                                           "torus:2x2", "ladder:2x2", "cylinder:2x2", "square:2x2"};
    static const char *const orders[] = {"column", "snake", "fiedler"};
    static const char *const xxz[] = {"J=0.7", "Delta=1.3", "h=normal(0,1)", NULL}, *const hub[] = {
                                                                                        "t=0.9", "U=3",
                                                                                        "mu=uniform(-1,1)",
                                                                                        NULL};
    const kl_model *models[] = {core_model("heisenberg", "S=1/2"), core_model("heisenberg", "S=1"),
                                core_model("hubbard", "F=1/2")};
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++)
            for (size_t w = 0; w < 3; w++) {
                term_setup s = term_make(models[m], lattices[l], orders[w], m < 2 ? xxz : hub);
                oracle *o = oracle_create(models[m], s.lat, s.par);
                term_compare(&s, o);
                oracle_destroy(&o);
                term_drop(&s);
            }
    core_no_memory();
}

/* Products of many odd operators, written unsorted, on coinciding sites, with h.c. of what is its own
   adjoint; bonds of two arrays; pairs; runs. */
static void test_signs(void **state)
{
    static const char *const sets[] = {"eps=uniform(-W,W)", "V=uniform(-1,1)", "X=normal(0,W/2)", "U=2.5",
                                       NULL};
    static const char *const lattices[] = {"chain:4", "ring:4", "ring:3", "ring:2"};
    static const char *const orders[] = {"column", "3,1,0,2", "2,0,1,3"};
    kl_err err = {""};
    (void)state;
    hubbard_terms("nn");
    /* its own adjoint: counts twice */
    add_term(KL_PLACE_SITE, NULL, 1, get_eps, "n_up.0", 1);
    /* exchange, written unsorted */
    add_term(KL_PLACE_BOND, "nn", 2, get_v, "A_up.1 A_dn.0 a_dn.1 a_up.0", 1);
    /* correlated hopping, reversed */
    add_term(KL_PLACE_BOND, "nnn", 2, get_x, "a_up.1 n_dn.0 A_up.0", 1);
    add_term(KL_PLACE_PAIR, NULL, 2, decay, "D+.1 D.0", 1);
    add_term(KL_PLACE_RUN, NULL, 3, get_w, "A_up.2 n_dn.1 a_up.0", 1);
    add_term(KL_PLACE_BOND, "nn", 2, minus_w, "A_dn.0 a_up.1 A_up.0 a_dn.1", 1);
    if (kl_model_check(&hand, &err) != KL_OK) fail_msg("%s", err.text);
    for (size_t l = 0; l < 4; l++)
        for (size_t w = 0; w < (l < 2 ? 3 : 1); w++) {
            term_setup s = term_make(&hand, lattices[l], orders[w], sets);
            oracle *o = oracle_create(&hand, s.lat, s.par);
            term_compare(&s, o);
            oracle_destroy(&o);
            term_drop(&s);
        }
    core_no_memory();
}

static void test_orders(void **state)
{
    const kl_model *hub = core_model("hubbard", "F=1/2");
    static const char *const orders[] = {"snake", "fiedler", "5,0,3,1,4,2"};
    (void)state;
    static const char *const lattices[] = {"ladder:3x2", "cylinder:3x2",      "cylinder:3x2 doubled",
                                           "torus:3x2",  "torus:3x2 doubled", "ring:6"};
    for (size_t l = 0; l < sizeof lattices / sizeof *lattices; l++) {
        const double e = energy(hub, lattices[l], "column", NULL, (int[]){3, 2});
        for (size_t w = 0; w < 3; w++)
            expect_near(energy(hub, lattices[l], orders[w], NULL, (int[]){3, 2}), e, 1e-12);
    }
}

/* Translated by one site, a ring or torus has the same energy, also with terms that know the direction of a
   bond. */
static void test_translation(void **state)
{
    static const char *const here[] = {"eps=0.3,-1.1,0.7,0.2", NULL}, *const there[] = {
                                                                          "eps=0.2,0.3,-1.1,0.7", NULL};
    kl_err err = {""};
    (void)state;
    hubbard_terms("nn");
    add_term(KL_PLACE_SITE, NULL, 1, get_eps, "n_up.0", 0);
    /* not symmetric under exchange of its sites */
    add_term(KL_PLACE_BOND, "nn", 2, hand_pairing, "A_up.0 n_dn.1 a_up.1", 1);
    add_term(KL_PLACE_BOND, "nn", 2, hand_pairing, "S+.0 a_up.1 A_dn.1", 1);
    if (kl_model_check(&hand, &err) != KL_OK) fail_msg("%s", err.text);
    for (int q = 1; q < 4; q++)
        expect_near(energy(&hand, "ring:4", "column", here, (int[]){q, 2}),
                    energy(&hand, "ring:4", "column", there, (int[]){q, 2}), 1e-12);

    /* Kitaev ring: e_k = sqrt((2 t cos k + mu)^2 + (2 Delta sin k)^2), E = sum_k [-(2 t cos k + mu) - e_k] /
       2 of either parity; k = 0 is not paired. */
    const kl_embedded *const pairing = kl_modelread_shipped("pairing");
    kl_tables *kitaev = NULL;
    if (kl_modelread_text("pairing.lua", pairing->text, pairing->size, NULL, &kitaev, &err) != KL_OK)
        fail_msg("%s", err.text);
    const double t = 1.0, mu = 0.4, delta = 0.6;
    double even = -(2.0 * t + mu), odd = 0.0; /* N = 5: k = 0 is filled in the odd sector */
    for (int k = 1; k <= 2; k++) {
        const double xi = -2.0 * t * cos(2.0 * M_PI * k / 5.0) - mu;
        odd += xi - sqrt(xi * xi + pow(2.0 * delta * sin(2.0 * M_PI * k / 5.0), 2));
    }
    odd += even;
    /* Kitaev ring of 5 */
    expect_near(energy(kitaev->model, "ring:5", "column",
                       (const char *[]){"t=1", "mu=0.4", "Delta=0.6", "V=0", NULL}, (int[]){1}),
                odd, 1e-12);
    kl_tables_destroy(&kitaev);
}

static void test_double_bonds(void **state)
{
    const kl_model *heis = core_model("heisenberg", "S=1/2");
    (void)state;
    for (int doubled = 0; doubled < 2; doubled++) {
        double w[1];
        term_setup s = term_make(heis, doubled ? "torus:2x2 doubled" : "torus:2x2", "column", NULL);
        assert_int_equal(s.terms->nterm, 12); /* 4 pairs of 3 strings, merged */
        oracle *o = oracle_create(heis, s.lat, s.par);
        term_compare(&s, o);
        assert_int_equal(oracle_energies(o, NULL, 1, w, NULL), 1);
        expect_near(w[0], doubled ? -4.0 : -2.0, 1e-13); /* torus 2x2 */
        oracle_destroy(&o);
        term_drop(&s);
    }
}

static void test_merging(void **state)
{
    (void)state;
    /* W - W cancels to nothing; n_up n_up = n_up; a_up a_up = 0; A_up a_up + a_up A_up = 1 is not asked for,
       but 1 * 1 is a constant. */
    make_hand();
    add_term(KL_PLACE_SITE, NULL, 1, get_w, "n_up.0", 0);
    add_term(KL_PLACE_SITE, NULL, 1, minus_w, "n_up.0 n_up.0", 0);
    add_term(KL_PLACE_SITE, NULL, 1, get_u, "1.0 1.0", 0);
    add_term(KL_PLACE_SITE, NULL, 1, get_u, "a_up.0 a_up.0", 1);
    term_setup s = term_make(&hand, "chain:5", "column", NULL);
    assert_int_equal(s.terms->nterm, 0);
    expect_near(s.terms->constant, 20.0, 1e-13); /* constant */
    term_drop(&s);

    make_hand();
    add_term(KL_PLACE_SITE, NULL, 1, get_u, "n_up.0", 1);
    add_term(KL_PLACE_BOND, "nn", 2, minus_t, "A_up.0 a_up.1", 1);
    s = term_make(&hand, "chain:3", "2,1,0", NULL);
    assert_int_equal(s.terms->nterm, 7);
    for (int64_t k = 1; k < s.terms->nterm; k++) {
        const kl_op_at *a = &s.terms->op[s.terms->term[k - 1].first],
                       *b = &s.terms->op[s.terms->term[k].first];
        assert_true(a->pos < b->pos || (a->pos == b->pos && a->op != b->op) || a[1].pos < b[1].pos ||
                    a[1].op < b[1].op);
    }
    expect_near(s.terms->term[s.terms->nterm - 1].coef, 8.0, 1e-14); /* n + h.c. = 2 n */
    term_drop(&s);
    core_no_memory();
}

static void test_added(void **state)
{
    const kl_model *hub = core_model("hubbard", "F=1/2");
    kl_err err = {""};
    (void)state;
    term_setup s = term_make(hub, "ring:4", "2,0,3,1", NULL);
    const kl_site_type *t = s.terms->type[0];
    const int cdag = kl_site_op_find(t, "cdag_up"), c = kl_site_op_find(t, "c_up"),
              n = kl_site_op_find(t, "n_dn"), sz = kl_site_op_find(t, "Sz");
    const int64_t before = s.terms->nterm;
    oracle *o = oracle_create(hub, s.lat, s.par);
    const kl_op_at hop[] = {{3, cdag, 0}, {1, n, 0}, {0, c, 0}}, pin[] = {{2, sz, 0}}, bad[] = {{2, cdag, 0}},
                   pair[] = {{0, cdag, 0}, {1, cdag, 0}}, off[] = {{4, sz, 0}},
                   half[] = {{0, cdag, 0}, {1, c, 0}};
    assert_int_equal(kl_terms_add(s.terms, 0.3, 3, hop, 1, &err), KL_OK);
    assert_int_equal(kl_terms_add(s.terms, -0.2, 1, pin, 0, &err), KL_OK);
    assert_int_equal(kl_terms_merge(s.terms, &err), KL_OK);
    oracle_add(o, 0.3, 3, (int[]){3, 1, 0}, (const char *[]){"cdag_up", "n_dn", "c_up"}, 1);
    oracle_add(o, -0.2, 1, (int[]){2}, (const char *[]){"Sz"}, 0);
    term_compare(&s, o);
    assert_int_equal(s.terms->nterm, before + 3);
    oracle_destroy(&o);

    core_refused(kl_terms_add(s.terms, 1.0, 1, off, 0, &err), &err,
                 (const char *[]){"position 4", "0 to 3", NULL});
    core_refused(kl_terms_add(s.terms, NAN, 1, pin, 0, &err), &err, (const char *[]){"finite", NULL});
    assert_int_equal(kl_terms_add(s.terms, 1.0, 1, bad, 1, &err), KL_OK);
    core_refused(kl_terms_merge(s.terms, &err), &err, (const char *[]){"added term", "N_up by", NULL});
    term_drop(&s);
    s = term_make(hub, "ring:4", "column", NULL);
    assert_int_equal(kl_terms_add(s.terms, 1.0, 2, pair, 1, &err), KL_OK);
    core_refused(kl_terms_merge(s.terms, &err), &err,
                 (const char *[]){"c_up(0) * c_up(1)", "N_up by -2", NULL});
    term_drop(&s);
    s = term_make(hub, "ring:4", "column", NULL);
    assert_int_equal(kl_terms_add(s.terms, 1.0, 2, half, 0, &err), KL_OK);
    core_refused(kl_terms_merge(s.terms, &err), &err, (const char *[]){"not Hermitian", "h.c.", NULL});
    term_drop(&s);
    core_no_memory();
}

/* One operator more than strings under construction have room for: refused, nothing written, the list as it
   was; one of the most that there is room for is merged. */
static void test_long_strings(void **state)
{
    enum { LONG = KL_MAX_FACTOR + 1 };
    (void)state;
    kl_err err = {""};
    term_setup s = term_make(core_model("heisenberg", "S=1/2"), "chain:10", "column", NULL);
    kl_op_at op[LONG];
    const int64_t before = s.terms->nterm;
    for (int k = 0; k < LONG; k++)
        op[k] = (kl_op_at){.pos = k, .op = kl_site_op_find(s.terms->type[0], "Sz")};
    core_refused(kl_terms_add(s.terms, 1.0, LONG, op, 0, &err), &err, (const char *[]){"9", "8", NULL});
    for (int n = KL_MAX_FACTOR; n <= LONG; n++) {
        expect_ok(kl_terms_add(s.terms, 0.5, KL_MAX_FACTOR, op, 0, &err), err);
        kl_term *const last = &s.terms->term[s.terms->nterm - 1];
        /* where the string before it ends there is one operator to spare */
        last->first -= n - KL_MAX_FACTOR;
        last->nop = n;
        const kl_status st = kl_terms_merge(s.terms, &err);
        if (n == KL_MAX_FACTOR) expect_ok(st, err);
        else core_refused(st, &err, (const char *[]){"an added term", "9 operators", "1 to 8", NULL});
        assert_int_equal(s.terms->nterm, before + 1 + (n > KL_MAX_FACTOR));
    }
    term_drop(&s);
    core_no_memory();
}

static void test_refusals(void **state)
{
    kl_err err = {""};
    term_setup s;
    (void)state;
    make_hand();
    add_term(KL_PLACE_BOND, "rung", 2, minus_t, "A_up.0 a_up.1", 1);
    core_refused(term_try(&s, &hand, "chain:4", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "rung", "nn, nnn, d3", NULL});
    term_drop(&s);
    make_hand();
    add_term(KL_PLACE_SITE, "copper", 1, get_u, "n_up.0", 0);
    core_refused(term_try(&s, &hand, "chain:4", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "copper", "ends", NULL});
    term_drop(&s);
    make_hand();
    add_term(KL_PLACE_PAIR, NULL, 2, infinite, "n_up.0 n_up.1", 0);
    core_refused(term_try(&s, &hand, "chain:4", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "inf", "site 0, 2", "distance 2", "alpha=2", NULL});
    term_drop(&s);
    make_hand();
    add_term(KL_PLACE_RUN, NULL, 3, get_w, "n_up.0 n_up.1 n_up.2", 0);
    core_refused(term_try(&s, &hand, "square:2x2", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "runs", NULL});
    term_drop(&s);
    make_hand();
    add_term(KL_PLACE_NAMED, NULL, 2, get_w, "n_up.0 n_up.1", 0);
    hand_term[0].sites = (const char *const[]){"0", "-5"};
    core_refused(term_try(&s, &hand, "chain:4", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "\"-5\"", "0 to 3", NULL});
    term_drop(&s);
    hand_term[0].sites = (const char *const[]){"0", "-1"};
    s = term_make(&hand, "chain:4", "column", NULL);
    assert_int_equal(s.terms->nterm, 1);
    assert_int_equal(s.terms->op[1].pos, 3);
    term_drop(&s);
    make_hand();
    add_term(KL_PLACE_SITE, NULL, 1, get_w, "D.0 n_dn A_up.0", 0);
    core_refused(term_try(&s, &hand, "chain:2", "column", NULL, &err), &err,
                 (const char *[]){"hand.lua:10", "n_dn A_up", "not in the model's tables", NULL});
    term_drop(&s);
    hand_type[0].where = "ends";
    add_term(KL_PLACE_SITE, NULL, 1, get_w, "n_up.0", 0);
    core_refused(term_try(&s, &hand, "chain:4", "column", NULL, &err), &err,
                 (const char *[]){"claims site 1", NULL});
    term_drop(&s);
    core_no_memory();
}

static void expect_set(kl_params *p, const char *name, const char *text, const char *const *words)
{
    kl_err err = {""};
    const kl_status st = kl_params_set(p, name, text, 7, &err);
    if (words != NULL) core_refused(st, &err, words);
    else if (st != KL_OK) fail_msg("%s=%s: %s", name, text, err.text);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_params(void **state)
{
    kl_lattice *lat = NULL;
    kl_params *p = NULL;
    kl_err err;
    char path[] = "/tmp/kronlat_params_XXXXXX", at[40];
    (void)state;
    hubbard_terms("nn");
    add_term(KL_PLACE_BOND, "nn", 2, get_v, "n_up.0 n_up.1", 0);
    add_term(KL_PLACE_BOND, "nnn", 2, get_x, "n_up.0 n_up.1", 0);
    assert_int_equal(kl_lattice_create("chain:5", 0, 0, &lat, &err), KL_OK);
    assert_int_equal(kl_params_create(&hand, lat, &p, &err), KL_OK);
    expect_set(p, "U", "1/2", NULL);
    assert_true(p->scalar[1] == 0.5);
    expect_set(p, "u", "1", (const char *[]){"\"u\"", "did you mean U", "t, U, W, eps", NULL});
    expect_set(p, "U", "4x", (const char *[]){"U=\"4x\"", "number", NULL});
    expect_set(p, "U", "nan", (const char *[]){"finite", NULL});
    expect_set(p, "U", "1,2", (const char *[]){"not an array", NULL});
    expect_set(p, "eps", "1,2,3,4,5", NULL);
    for (int i = 0; i < 5; i++) assert_true(p->array[EPS][i] == i + 1.0);
    expect_set(p, "eps", "1,2,3", (const char *[]){"3 numbers", "expected 5", "sites", NULL});
    expect_set(p, "eps", "1,2,3,4,5,6", (const char *[]){"6 numbers", "expected 5", NULL});
    expect_set(p, "eps", "1,2,x,4,5", (const char *[]){"entry 3", "\"x\"", NULL});
    for (int i = 0; i < 5; i++) assert_true(p->array[EPS][i] == i + 1.0); /* refused: unchanged */
    expect_set(p, "eps", "0.25", NULL);
    for (int i = 0; i < 5; i++) assert_true(p->array[EPS][i] == 0.25);

    /* One number per bond of the classes that read the array, in the lattice's order. */
    expect_set(p, "V", "1,2,3,4", NULL);
    expect_set(p, "X", "10,20,30", NULL);
    expect_set(p, "V", "1,2,3", (const char *[]){"expected 4", "bonds", NULL});
    for (int b = 0, v = 0, x = 0; b < lat->nbond; b++) {
        const int reach = lat->bond[b].j - lat->bond[b].i;
        assert_true(p->array[V][b] == (reach == 1 ? ++v : 0.0));
        assert_true(p->array[X][b] == (reach == 2 ? 10.0 * ++x : 0.0));
    }

    /* Random numbers are fixed to the last bit, by seed and name; these are the numbers of every machine. */
    expect_set(p, "W", "2", NULL);
    expect_set(p, "eps", "uniform(-W,W)", NULL);
    double first[5];
    memcpy(first, p->array[EPS], sizeof first);
    for (int i = 0; i < 5; i++) assert_true(first[i] >= -2.0 && first[i] < 2.0);
    expect_set(p, "eps", "uniform( -W/2 , W*0.5 )", NULL);
    for (int i = 0; i < 5; i++) expect_near(p->array[EPS][i], first[i] / 2.0, 1e-15); /* half the box */
    expect_set(p, "eps", "normal(0,1)", NULL);
    assert_true(kl_params_set(p, "eps", "normal(0,1)", 8, &err) == KL_OK && p->array[EPS][0] != first[0]);
    expect_set(p, "eps", "uniform(-Q,1)", (const char *[]){"\"-Q\"", "uniform(-1,1)", NULL});
    expect_set(p, "eps", "uniform(1)", (const char *[]){"expected uniform(a,b)", NULL});
    expect_set(p, "eps", "normal(0,-1)", (const char *[]){"negative", NULL});
    expect_set(p, "eps", "uniform(eps,1)", (const char *[]){"scalar", NULL});

    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(at, sizeof at, "@%s", path);
    write_file(path, "# fields\n1 2\n\n3.5 # middle\n1/2;-1e-3\n");
    expect_set(p, "eps", at, NULL);
    const double want[] = {1, 2, 3.5, 0.5, -1e-3};
    for (int i = 0; i < 5; i++) assert_true(p->array[EPS][i] == want[i]);
    write_file(path, "1 2\n3\n4 five\n");
    expect_set(p, "eps", at, (const char *[]){path, ":3:", "\"five\"", NULL});
    write_file(path, "1 2\n");
    expect_set(p, "eps", at, (const char *[]){path, "2 numbers", "expected 5", NULL});
    remove(path);
    expect_set(p, "eps", at, (const char *[]){path, "cannot be opened", NULL});
    kl_params_destroy(&p);
    kl_lattice_destroy(&lat);
    core_no_memory();
}

/* Moments of the generator, and its first numbers, which no machine may change. */
static void test_random(void **state)
{
    enum { N = 20000 };
    kl_lattice *lat = NULL;
    kl_params *p = NULL;
    kl_err err;
    const double n = N;
    double m1 = 0.0, m2 = 0.0, m4 = 0.0;
    (void)state;
    hubbard_terms("nn");
    assert_int_equal(kl_lattice_create("chain", N, 0, &lat, &err), KL_OK);
    assert_int_equal(kl_params_create(&hand, lat, &p, &err), KL_OK);
    assert_int_equal(kl_params_set(p, "eps", "uniform(0,1)", 1, &err), KL_OK);
    const double *x = p->array[EPS];
    assert_true(x[0] == 0x1.f0561baa53932p-2 && x[1] == 0x1.f44309bdcb932p-1);
    for (int i = 0; i < N; i++) {
        m1 += x[i] / n;
        m2 += x[i] * x[i] / n;
    }
    expect_near(m1, 0.5, 0.01); /* mean of uniform */
    expect_near(m2, 1.0 / 3.0, 0.01); /* square of uniform */
    assert_int_equal(kl_params_set(p, "eps", "normal(0,1)", 1, &err), KL_OK);
    expect_near(x[0], -0.493651685008399, 1e-13); /* a normal deviate */
    expect_near(x[1], 0.0306355915736056, 1e-13); /* a normal deviate */
    assert_true(x[0] == -0x1.f97fd3cae7ccep-2 && x[1] == 0x1.f5eefbf9be73p-6);
    m1 = m2 = 0.0;
    for (int i = 0; i < N; i++) {
        m1 += x[i] / n;
        m2 += x[i] * x[i] / n;
        m4 += pow(x[i], 4) / n;
    }
    expect_near(m1, 0.0, 0.03); /* mean of normal */
    expect_near(m2, 1.0, 0.04); /* square of normal */
    expect_near(m4, 3.0, 0.25); /* fourth power of normal */
    kl_params_destroy(&p);
    kl_lattice_destroy(&lat);
}

/* 2 * 10^5 pairs of an all-to-all term in well under the time a quadratic merge would take. */
static void test_many(void **state)
{
    (void)state;
    hubbard_terms("nn");
    add_term(KL_PLACE_PAIR, NULL, 2, decay, "D+.1 D.0", 1);
    term_setup s = term_make(&hand, "chain:500", "column", NULL);
    assert_int_equal(s.terms->nterm, 500 * 499 + 4 * 499 + 500);
    term_drop(&s);
    hubbard_terms("nn");
    s = term_make(&hand, "chain:10000", "column", NULL);
    assert_int_equal(s.terms->nterm, 4 * 9999 + 10000);
    term_drop(&s);
    core_no_memory();
}

static void test_no_memory(void **state)
{
    const kl_model *hub = core_model("hubbard", "F=1/2");
    kl_err err;
    (void)state;
    for (int64_t k = 1; k < 300; k++) {
        term_setup s;
        kl_mem_fail_after(k);
        const kl_status st = term_try(&s, hub, "ring:3", "column", (const char *[]){"mu=1,2,3", NULL}, &err);
        kl_mem_fail_after(0);
        term_drop(&s);
        core_no_memory();
        if (st == KL_OK) return;
        assert_int_equal(st, KL_ENOMEM);
    }
    fail_msg("more than 300 allocations");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_check),    cmocka_unit_test(test_textbook),
        cmocka_unit_test(test_against_oracle), cmocka_unit_test(test_signs),
        cmocka_unit_test(test_orders),         cmocka_unit_test(test_double_bonds),
        cmocka_unit_test(test_merging),        cmocka_unit_test(test_added),
        cmocka_unit_test(test_long_strings),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_params),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_many),           cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_translation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
