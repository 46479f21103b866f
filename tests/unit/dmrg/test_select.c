/* Which states a truncation keeps, from weights written by hand.
   SPDX-License-Identifier: Apache-2.0 */
#include "dmrg/select.h"
#include "kl_test.h"

enum {
    MOST = 64,
    SECTORS = 4,
};

typedef struct scene {
    kl_weight w[MOST], *sorted[MOST], *spare[MOST];
    int64_t n;
    int kept[SECTORS], room[3 * SECTORS];
} scene;

static void add(scene *s, int sec, double w)
{
    s->w[s->n] = (kl_weight){.w = w, .sec = sec, .column = (int)s->n};
    s->n++;
}

static int64_t select_from(scene *s, const kl_selection *o, int nsec)
{
    for (int64_t i = 0; i < s->n; i++) s->w[i].keep = 0;
    kl_weights_sort(s->n, s->w, s->sorted, s->spare);
    const int64_t n = kl_select(o, s->sorted, s->n, nsec, s->room);
    int64_t marked = 0;
    memset(s->kept, 0, sizeof s->kept);
    for (int64_t i = 0; i < s->n; i++) {
        s->kept[s->w[i].sec] += s->w[i].keep;
        marked += s->w[i].keep;
    }
    expect_eq(n, marked);
    return n;
}

/* Largest first; of equal ones those of the first sector, and there of the last column. */
static void test_order(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        for (int n = 0; n <= MOST; n++) {
            scene s = {.n = 0};
            for (int i = 0; i < n; i++) {
                const double rising = i % 16, falling = 15 - i % 16, mixed = i * 37 % 11;
                add(&s, i / 16, kind == 0 ? rising : kind == 1 ? falling : kind == 2 ? mixed : 1);
            }
            kl_weights_sort(n, s.w, s.sorted, s.spare);
            int seen[MOST] = {0};
            for (int i = 0; i < n; i++) {
                const kl_weight *const a = s.sorted[i], *const b = i > 0 ? s.sorted[i - 1] : NULL;
                seen[a->column]++;
                if (b == NULL) continue;
                expect_true(b->w > a->w || (b->w == a->w && (b->sec < a->sec ||
                                                             (b->sec == a->sec && b->column > a->column))));
            }
            for (int i = 0; i < n; i++) expect_eq(seen[i], 1);
        }
}

static void test_number_and_weight(void **state)
{
    scene s = {.n = 0};
    (void)state;
    for (int i = 0; i < 6; i++) add(&s, i % 2, 1e-2 / (1 << i)); /* 1e-2 .. 3.1e-4 */
    add(&s, 0, 1e-20);
    const double smallest = 1e-2 / 32, next = 1e-2 / 16;
    /* by number; all that are above the floor; at least nstate */
    expect_eq(select_from(&s, &(kl_selection){.m = 4, .nstate = 1, .floor = 1e-17}, 2), 4);
    expect_eq(select_from(&s, &(kl_selection){.m = 100, .nstate = 1, .floor = 1e-17}, 2), 6);
    expect_eq(select_from(&s, &(kl_selection){.m = 100, .nstate = 1}, 2), 7);
    expect_eq(select_from(&s, &(kl_selection){.m = 1, .nstate = 3, .floor = 1e-17}, 2), 3);
    /* by discarded weight: one state, two states, no fewer than m_min */
    kl_selection o = {.m = 100, .m_min = 1, .nstate = 1, .floor = 1e-17, .discard = smallest * 1.5};
    expect_eq(select_from(&s, &o, 2), 5);
    o.discard = (smallest + next) * 1.01;
    expect_eq(select_from(&s, &o, 2), 4);
    o.m_min = 5;
    expect_eq(select_from(&s, &o, 2), 5);
}

static void test_multiplets(void **state)
{
    scene s = {.n = 0};
    (void)state;
    add(&s, 0, 0.5);
    for (int c = 0; c < 3; c++) add(&s, c, 0.1 * (1 + c * 1e-10)); /* a triplet */
    add(&s, 0, 0.05);
    for (int m = 1; m < 6; m++)
        expect_eq(select_from(&s, &(kl_selection){.m = m, .nstate = 1, .floor = 1e-17}, 3), m == 1  ? 1
                                                                                            : m < 5 ? 4
                                                                                                    : 5);
}

/* Sectors that noise opened keep a state each, though their weights are the smallest. */
static void test_reopen(void **state)
{
    scene s = {.n = 0};
    (void)state;
    for (int i = 0; i < 10; i++) add(&s, 0, 0.1 / (1 + i));
    for (int c = 1; c < 4; c++) add(&s, c, 1e-6 / c);
    kl_selection o = {.m = 4, .nstate = 1, .floor = 1e-17};
    expect_eq(select_from(&s, &o, 4), 4);
    o.reopen = 1; /* one and a quarter of m more, the heaviest first */
    expect_eq(select_from(&s, &o, 4), 6);
    expect_true(s.kept[0] == 4 && s.kept[1] == 1 && s.kept[2] == 1 && s.kept[3] == 0);
}

/* Even sectors, and no more states than were asked for; filled up, at most a sixteenth more. */
static void test_even(void **state)
{
    scene s = {.n = 0};
    (void)state;
    for (int i = 0; i < 60; i++) add(&s, i % 3 == 0, 1.0 / (1 + i)); /* 40 of sector 0, 20 of sector 1 */
    for (int m = 16; m < 58; m++) {
        kl_selection o = {.m = m, .nstate = 1, .floor = 1e-17, .even = 1};
        const int64_t n = select_from(&s, &o, 2);
        kl_test_case("m=%d: %d and %d", m, s.kept[0], s.kept[1]);
        expect_true(s.kept[0] % 2 == 0 && s.kept[1] % 2 == 0);
        expect_true(n <= m && n >= m - 2);
        o.full = 1;
        const int64_t full = select_from(&s, &o, 2);
        expect_true(full >= n && full <= n + m / 16);
    }
    kl_selection few = {.m = 9, .nstate = 1, .floor = 1e-17, .even = 1}; /* too few for it: as they come */
    expect_eq(select_from(&s, &few, 2), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_number_and_weight),
                                       cmocka_unit_test(test_multiplets), cmocka_unit_test(test_reopen),
                                       cmocka_unit_test(test_even)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
