/* Options: every value lands in its field, and each mistake gets its one line with the option's name; job
   files take the same road.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/commandline.h"
#include "run/job.h"
#include "run/optiontable.h"
#include "base/json.h"
#include "base/mem.h"
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MAX_WORDS = 64 };

/* Splits a line at blanks (no quotes), as a shell would. */
static kl_status parse(const char *line, kl_options **o, kl_err *err)
{
    char copy[512], *words[MAX_WORDS + 1];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok(copy, " "); w != NULL && n < MAX_WORDS; w = strtok(NULL, " ")) words[n++] = w;
    words[n] = NULL;
    return kl_commandline_parse(n, words, o, err);
}

static kl_options *good(const char *line)
{
    kl_options *o = NULL;
    kl_err err = {""};
    if (parse(line, &o, &err) != KL_OK || kl_options_check(o, &err) != KL_OK)
        fail_msg("%s: %s", line, err.text);
    return o;
}

static void test_values(void **state)
{
    (void)state;
    kl_options *o = good("dmrg hubbard --sites 32 -p U=4 --parameter=t=1/2 --charge N_up=16 --charge "
                         "N_dn=scan --m 512 --m-min 10 --discard 1e-9 --states 2 "
                         "--strategy l11r --solver lanczos --seed 5 --threads 3 --exec host --start neel -o "
                         "x.h5 --json --checkpoint-every 7.5 --pin Sz@0=-0.5");
    assert_int_equal(o->command, KL_CMD_DMRG);
    assert_string_equal(o->model, "hubbard");
    assert_int_equal(o->sites, 32);
    assert_int_equal(o->parameter.n, 2);
    assert_string_equal(o->parameter.text[1], "t=1/2");
    assert_string_equal(o->charge.text[1], "N_dn=scan");
    assert_true(o->m == 512 && o->m_min == 10 && o->discard == 1e-9 && o->states == 2 && o->seed == 5 &&
                o->threads == 3);
    assert_string_equal(o->strategy, "l11r");
    assert_string_equal(o->solver, "lanczos");
    assert_string_equal(o->output, "x.h5");
    assert_true(o->json && !o->verbose && o->checkpoint_every == 7.5);
    assert_string_equal(o->pin.text[0], "Sz@0=-0.5");
    const char *name, *value;
    char number[40];
    int n = 0, seen = 0;
    while (kl_options_given(o, n, &name, &value, number)) {
        seen += strcmp(name, "parameter") == 0 && strcmp(value, "t=1/2") == 0;
        assert_true(strcmp(name, "output") != 0 && strcmp(name, "json") != 0);
        n++;
    }
    assert_int_equal(seen, 1);
    kl_options_destroy(&o);

    /* what --resume must know: all that is to be found, not where and how it is told */
    o = good("ci f.fcidump --density --matrix m.mtx --output r.h5");
    for (n = seen = 0; kl_options_given(o, n, &name, &value, number); n++)
        seen += strcmp(name, "density") == 0 || strcmp(name, "matrix") == 0;
    assert_int_equal(seen, 2);
    kl_options_destroy(&o);

    o = good("dmrg m --sites 4 --schedule 64:1e-4*2,256:1e-6:1e-5,512*3");
    assert_int_equal(o->nschedule, 6);
    assert_true(o->schedule_row[1].m == 64 && o->schedule_row[1].noise == 1e-4 &&
                o->schedule_row[1].tol == 0);
    assert_true(o->schedule_row[2].m == 256 && o->schedule_row[2].tol == 1e-5 &&
                o->schedule_row[5].m == 512 && o->schedule_row[5].noise == 0);
    kl_options_destroy(&o);

    kl_err err = {""};
    /* the file knows the model, and main asks it before the check */
    assert_int_equal(parse("dmrg --resume a.h5", &o, &err), KL_OK);
    kl_options_destroy(&o);
    assert_int_equal(kl_mem_live_total(), 0);
}

static void test_sweeps(void **state)
{
    (void)state;
    kl_err err = {""};
    int n;
    double *v;
    assert_int_equal(kl_options_sweep("U=0:8:0.5", &n, &v, &err), KL_OK);
    assert_true(n == 17 && v[0] == 0 && fabs(v[16] - 8) < 1e-12);
    kl_free(&v);
    assert_int_equal(kl_options_sweep("U=0:1:0.1", &n, &v, &err), KL_OK);
    assert_int_equal(n, 11); /* ten steps of 0.1 are a little less than 1 */
    kl_free(&v);
    assert_int_equal(kl_options_sweep("h=1:-1:-0.5", &n, &v, &err), KL_OK);
    assert_true(n == 5 && v[4] == -1);
    kl_free(&v);
    assert_int_equal(kl_options_sweep("U=1,1/2,4", &n, &v, &err), KL_OK);
    assert_true(n == 3 && v[1] == 0.5);
    kl_free(&v);
    static const char *const bad[] = {"U",       "U=",         "U=1:2",  "U=1:2:0", "U=1:2:-1",  "U=1:2:1:1",
                                      "U=a:2:1", "U=0:1:1e-9", "U=1,,2", "=1,2",    "U=nan:1:1", "U=0:inf:1"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(kl_options_sweep(bad[k], &n, &v, &err), KL_EINPUT);
        assert_null(v);
    }
    assert_int_equal(kl_mem_live_total(), 0);
}

static const struct {
    const char *line, *word; /* the message holds the word */
} refused[] = {
    {"dmgr", "did you mean `dmrg'"},
    {"frobnicate", "unknown command 'frobnicate'"},
    {"dmrg", "MODEL is missing"},
    {"dmrg a b", "'a' and 'b'"},
    {"show", "RESULT.h5 is missing"},
    {"devices x", "takes no 'x'"},
    {"dmrg m --stes 4", "did you mean --sites"},
    {"dmrg m --wibble", "unknown option --wibble"},
    {"dmrg m -Z", "unknown option -Z"},
    {"dmrg m -L 8", "unknown option -L; did you mean --sites?"},
    {"dmrg m -U 8",
     "unknown option -U; a parameter is given by --parameter NAME=VALUE, a charge by --charge"},
    {"dmrg m --U 4", "unknown option --U; a parameter is given by --parameter NAME=VALUE, a charge by"},
    {"dmrg m --N_up=4", "unknown option --N_up; a parameter is given by --parameter NAME=VALUE, a charge"},
    {"dmrg m U=4", "'U=4' stands alone; a parameter is given by --parameter U=4, a charge by --charge U=4"},
    {"dmrg m --maxdim 40", "did you mean --m?"},
    {"ed m --maxdim 40", "unknown option --maxdim; `kronlat ed --help'"},
    {"heisenberg", "'heisenberg' is a model, no command; `kronlat dmrg heisenberg'"},
    {"dmrg m --s 4", "dmrg: --s may be --sites, --schedule, --states, --start, --sweep-parameter, "},
    {"plan m --output x", "--output belongs to `kronlat dmrg'"},
    {"dmrg m --sites", "--sites: the value is missing"},
    {"dmrg m -p", "--parameter: the value is missing"},
    {"dmrg m --json=1", "--json: takes no value"},
    {"dmrg m --sites 4 --sites 5", "--sites: given twice"},
    {"dmrg m --sites 0", "--sites: '0'"},
    {"dmrg m --sites -3", "--sites: '-3'"},
    {"dmrg m --sites 99999999", "from 1 to 1000000"},
    {"dmrg m --sites 1e3", "--sites: '1e3'"},
    {"dmrg m --sites 4.5", "--sites: '4.5'"},
    {"dmrg m --sites 99999999999999999999", "--sites"},
    {"dmrg m --m 0", "--m: '0'"},
    {"dmrg m --states 17", "from 1 to 16"},
    {"dmrg m --accuracy 0", "--accuracy: '0'"},
    {"dmrg m --accuracy -1e-9", "--accuracy: '-1e-9'"},
    {"dmrg m --accuracy nan", "--accuracy: 'nan'"},
    {"dmrg m --accuracy 1,5", "--accuracy: '1,5'"},
    {"dmrg m --discard 2", "--discard: '2'"},
    {"dmrg m --checkpoint-every -1", "--checkpoint-every: '-1'"},
    {"dmrg m --strategy rl", "auto lr l11r"},
    {"dmrg m --solver arnoldi", "davidson lanczos"},
    {"dmrg m --exec gpu", "auto host offload cuda"},
    {"dmrg m --order zigzag", "column, snake, fiedler"},
    {"dmrg m --start here", "--start: 'here'"},
    {"dmrg m --start product:", "--start"},
    {"dmrg m -p U", "--parameter: 'U' is not NAME=VALUE"},
    {"dmrg m -p =4", "--parameter: '=4'"},
    {"dmrg m -p U=", "--parameter: 'U='"},
    {"dmrg m -p U=1 -p U=2", "'U=1' and as 'U=2'"},
    {"dmrg m --charge Sz", "--charge: 'Sz'"},
    {"dmrg m --charge scan --charge scan", "given twice"},
    {"dmrg m --schedule 0", "--schedule: m is '0'"},
    {"dmrg m --schedule 10:", "--schedule: noise is ''"},
    {"dmrg m --schedule 10:2", "noise is '2'"},
    {"dmrg m --schedule 10:0:0", "tol is '0'"},
    {"dmrg m --schedule 10*0", "count is '0'"},
    {"dmrg m --schedule 10*1000000", "count"},
    {"dmrg m --schedule 10:1e-3", "last sweep"},
    {"dmrg m --schedule ,", "--schedule"},
    {"ed m --broadening 0.1", "--broadening has no effect without --spectral"},
    {"ed m --steps 10", "--steps has no effect without --spectral or --temperatures"},
    {"ed m --format ell", "--format has no effect without --store matrix"},
    {"ed m --store matrix --format ell --slice 4", "--slice has no effect without --format sell|sellr"},
    {"ed m --precondition none", "--precondition has no effect without --solver davidson|lobpcg or --states"},
    {"ed m --checkpoint-every 4", "--checkpoint-every has no effect without --output"},
    {"dmrg m --m 8 --m-min 4", "--m-min has no effect without --discard"},
    {"ci f --boundary 3", "--boundary has no effect without --format hybrid"},
    {"dmrg m --schedule 10 --m 10", "--schedule and --m exclude each other"},
    {"dmrg m --schedule 10 --accuracy 1e-5", "--schedule and --accuracy"},
    {"dmrg m --resume a.h5 --start b.h5", "--resume and --start"},
    {"dmrg m --resume a.h5 --output b.h5", "--resume and --output"},
    {"dmrg m --infinite --output b.h5", "--infinite and --output"},
    {"dmrg m --m 10 --m-min 20 --discard 1e-8", "--m-min: 20 is above --m 10"},
    {"dmrg m --states 4 --basis 5", "at least 6"},
    {"dmrg m --sweep-parameter U", "--sweep-parameter: 'U'"},
    {"dmrg m --output=", "--output: the value is empty"},
    {"dmrg m --spectral Sz@0", "dmrg: --spectral belongs to `kronlat ed'; `kronlat dmrg --help' lists"},
    {"dmrg m --boundary 3", "--boundary belongs to `kronlat ed'"},
    {"dmrg m --method ed", "--method belongs to `kronlat plan'"},
    {"dmrg m --roots 2", "unknown option --roots; did you mean --states?"},
    {"ci m --states 2", "unknown option --states; did you mean --roots?"},
    {"ed m --m 4", "--m belongs to `kronlat dmrg'"},
    {"ed m --projection grouped", "--projection belongs to `kronlat dmrg'"},
    {"plan --method ed m --m 4",
     "plan --method ed: --m belongs to `kronlat plan'; `kronlat plan --help' lists"},
    {"plan m --strategy lr --method=ed", "--strategy belongs to `kronlat plan'"},
    {"plan m --form sites",
     "plan: --form belongs to `kronlat plan --method ed'; `kronlat plan --help' lists"},
    {"plan --method ed m --threads 2 --spectral x@0", "--spectral belongs to `kronlat ed'"},
    {"explain --method ed m --schedule 4", "--schedule belongs to `kronlat explain'"},
    {"plan m --accuracy 1e-5", "--accuracy belongs to `kronlat dmrg'"},
    {"plan m --solver lobpcg", "allowed: davidson lanczos"},
    {"plan ed m", "it is kronlat plan --method ed m"},
    {"bench speed", "bench: 'speed' is not one of gemm, gemv_trans, gemv_normal, compare, dmrg, ed, ci, run, "
                    "auto, hx, offload, cuda"},
    {"bench gemm x", "bench gemm: takes no 'x'"},
    {"bench dmrg m --output x", "bench dmrg: --output belongs to `kronlat dmrg'"},
    {"bench hx m --csr 1",
     "bench hx: --csr belongs to `kronlat bench hx --replay'; `kronlat bench hx --help'"},
    {"bench offload --elements 3", "--elements: '3' was given; allowed: an integer from 4000 to 4000000000"},
    {"bench compare --csv", "--csv: the value is missing; it takes FILE"},
    {"bench ci --seconds x", "--seconds: 'x'"},
    {"tune --csv x", "tune: --csv belongs to `kronlat dmrg'"},
    {"tune x", "tune: takes no 'x'"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        kl_options *o = NULL;
        kl_err err = {""};
        kl_status st = parse(refused[k].line, &o, &err);
        if (st == KL_OK) st = kl_options_check(o, &err);
        if (st != KL_EINPUT || strstr(err.text, refused[k].word) == NULL)
            fail_msg("%s: status %d, \"%s\" lacks \"%s\"", refused[k].line, (int)st, err.text,
                     refused[k].word);
        assert_null(strchr(err.text, '\n'));
        kl_options_destroy(&o);
        assert_int_equal(kl_mem_live_total(), 0);
    }
}

/* A process in a locale with a decimal comma reads the same numbers. */
static void test_locale(void **state)
{
    (void)state;
    static const char *const name[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    const char *have = NULL;
    for (size_t k = 0; k < sizeof name / sizeof *name && have == NULL; k++)
        have = setlocale(LC_NUMERIC, name[k]);
    char folder[] = "test_options.XXXXXX", line[160];
    if (have == NULL && mkdtemp(folder) != NULL) { /* none is installed: made here where that is possible */
        snprintf(line, sizeof line, "localedef -i de_DE -f UTF-8 ./%s/de_DE.UTF-8 >/dev/null 2>&1", folder);
        const int made = system(line) == 0;
        setenv("LOCPATH", folder, 1);
        if (made) have = setlocale(LC_NUMERIC, "de_DE.UTF-8");
        snprintf(line, sizeof line, "rm -rf ./%s", folder);
        assert_int_equal(system(line), 0);
        unsetenv("LOCPATH");
    }
    if (have != NULL) assert_string_equal(localeconv()->decimal_point, ",");
    kl_options *o = good("dmrg m --discard 1.5e-3 --schedule 10:0.5,20");
    assert_true(o->discard == 1.5e-3 && o->schedule_row[0].noise == 0.5);
    kl_options_destroy(&o);
    setlocale(LC_NUMERIC, "C");
    if (have == NULL)
        print_message("# no locale with a decimal comma is installed: read in the C locale only\n");
}

static char file[64];

static kl_status load(const char *text, const char *typed, kl_options **o, kl_err *err)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    char line[256];
    snprintf(line, sizeof line, "run %s %s", file, typed);
    kl_status st = parse(line, o, err);
    int count;
    if (st == KL_OK) st = kl_job_load(file, 0, &count, *o, err);
    if (st == KL_OK) st = kl_options_check(*o, err);
    return st;
}

static void test_jobs(void **state)
{
    (void)state;
    kl_options *o = NULL;
    kl_err err = {""};
    if (load("local L = 6 return { model = 'hubbard', sites = L, p = { U = 4, h = {1, 0.5} }, charge = { N = "
             "L // 2 }, m_min = 3, discard = 1e-9, accuracy = 1e-7, json = true,"
             " schedule = nil, order = {2,1,0}, verbose = false, ['max-sweeps'] = 4 }",
             "--m 99 --sites 8 -p U=7", &o, &err) != KL_OK) {
        if (strstr(err.text, "built without") != NULL) {
            kl_options_destroy(&o);
            skip();
        }
        fail_msg("%s", err.text);
    }
    assert_int_equal(o->command, KL_CMD_DMRG);
    assert_string_equal(o->model, "hubbard");
    /* typed wins */
    assert_true(o->sites == 8 && o->m == 99 && o->m_min == 3 && o->accuracy == 1e-7 && o->json &&
                !o->verbose && o->max_sweeps == 4);
    assert_int_equal(o->parameter.n, 2);
    assert_string_equal(o->parameter.text[0], "U=7");
    assert_string_equal(o->parameter.text[1], "h=1,0.5");
    assert_string_equal(o->charge.text[0], "N=3");
    assert_string_equal(o->order, "2,1,0");
    kl_options_destroy(&o);

    static const struct {
        const char *text, *word;
    } bad[] = {
        {"return { model='a', sitess = 1 }", "did you mean sites?"},
        {"return { model='a', sites = 'x' }", "sites: 'x'"},
        {"return { model='a', sites = {} }", "sites is an empty list"},
        {"return { model='a', lattice = { sites = 3, bonds = { {0, 1} } } }", "lattice is a table"},
        {"return { model='a', p = { h = { [0]=9, 0.1 } } }", "p.h has an entry '0' outside of its list"},
        {"return { model='a', p = { h = { 0.1, x=3 } } }", "p.h has an entry 'x' outside of its list"},
        {"return { model='a', p = { h = { x=3 } } }", "p.h has an entry 'x' outside of its list"},
        {"return { model='a', order = { 1, 0, [4]=2 } }", "order has an entry '4' outside of its list"},
        {"return { model='a', sites = function() end }", "sites is a function"},
        {"return { model='a', json = 1 }", "true or false"},
        {"return { model='a', p = 'U' }", "'U' is not NAME=VALUE"},
        {"return { model='a', command = 'show' }", "allowed: dmrg"},
        {"return { model='a', 7 }", "has no name"},
        {"return { sites = 4 }", "model is missing"},
        {"return { model = 'a\\0b' }", "zero byte"},
        {"return { model = 'a', help = true }", "unknown option help"},
        {"return { model = 'a', U = 4 }",
         "unknown option U; parameters stand in parameter = { NAME = VALUE }"},
        {"return { command = 'plan', model = 'a', output = 'x' }", "output belongs to"},
        {"return 1", "returned a number"},
        {"return", "returned nothing"},
        {"x", "syntax error"},
        {"error 'boo'", "boo"},
        {"error({})", "without a message"},
        {"os.exit(1)", "'os'"},
        {"io.open('x')", "'io'"},
        {"require 'x'", "'require'"},
        {"load('x')", "'load'"},
        {"dofile('/etc/passwd')", "'dofile'"},
        {"print(1)", "'print'"},
        {"\033Lua", "j"},
        {"local s = 'x' while true do s = s .. s end", "more than 16 MB"},
        {"local s, t = ('x'):rep(1 << 20), {} while true do t[#t + 1] = s .. #t end", "allowed: 256 MB"},
        {"return setmetatable({}, { __index = function() error 'trap' end })", "'setmetatable'"},
        {"local t = {} for i = 1, 300 do t = { t } end return t", "has no name"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        err.text[0] = '\0';
        const kl_status st = load(bad[k].text, "", &o, &err);
        if (st == KL_OK || strstr(err.text, bad[k].word) == NULL)
            fail_msg("%s: status %d, \"%s\" lacks \"%s\"", bad[k].text, (int)st, err.text, bad[k].word);
        kl_options_destroy(&o);
        assert_int_equal(kl_mem_live_total(), 0);
    }
    assert_int_equal(load("return {model='a'}", "--output x --resume y", &o, &err), KL_EINPUT);
    kl_options_destroy(&o);
}

/* Options typed behind a job are those of the command that it names. */
static void test_typed_for_a_job(void **state)
{
    (void)state;
    static const struct {
        const char *job, *typed, *word;
    } bad[] = {
        {"return { model='a' }", "--spectral Sz@0", "dmrg: --spectral belongs to `kronlat ed'"},
        {"return { model='a', command='ed' }", "--m 4", "ed: --m belongs to `kronlat dmrg'"},
        {"return { model='a', command='plan' }", "--method ed --m 4",
         "plan --method ed: --m belongs to `kronlat plan'"},
        {"return { model='a', command='plan', method='ed' }", "--m 4", "plan --method ed: --m belongs"},
        {"return { model='a', command='plan', method='ed', m = 4 }", "", "m belongs to `kronlat plan'"},
        {"return { model='a', command='ed' }", "--solver arnoldi", "allowed: davidson lanczos lobpcg full"},
        {"return { model='a' }", "--solver lobpcg", "allowed: davidson lanczos"},
    };
    kl_options *o = NULL;
    kl_err err = {""};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        err.text[0] = '\0';
        const kl_status st = load(bad[k].job, bad[k].typed, &o, &err);
        if (st != KL_EINPUT || strstr(err.text, bad[k].word) == NULL)
            fail_msg("%s %s: \"%s\" lacks \"%s\"", bad[k].job, bad[k].typed, err.text, bad[k].word);
        kl_options_destroy(&o);
        assert_int_equal(kl_mem_live_total(), 0);
    }
    if (load("return { model='a', method='dmrg', command='plan', solver='lanczos' }",
             "--method ed --solver lobpcg", &o, &err) != KL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(o->solver, "lobpcg");
    assert_int_equal(kl_command_of(o), KL_CMD_PLAN_ED);
    kl_options_destroy(&o);
    assert_int_equal(kl_mem_live_total(), 0);
}

/* One row a command and name; every command has its help, and every row somebody who takes it. */
static void test_table(void **state)
{
    (void)state;
    for (int c = 0; c < KL_NCMD_ALL; c++) {
        assert_non_null(kl_command_table[c].summary);
        assert_non_null(kl_command_table[c].args);
        const kl_option_row *const help = kl_option_find("help", 4, KL_BIT(c));
        assert_true(help != NULL && help->letter == 'h');
    }
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const a = &kl_option_table[i];
        assert_true(a->commands != 0 && a->help != NULL && a->help[0] != '\0');
        assert_true((a->kind == KL_VALUE_FLAG) == (a->arg == NULL));
        if (a->kind == KL_VALUE_CHOICE || a->kind == KL_VALUE_NAMED) assert_non_null(a->allowed);
        if (a->kind == KL_VALUE_INT || a->kind == KL_VALUE_REAL) assert_true(a->min < a->max);
        for (int k = 0; k < i; k++) {
            const kl_option_row *const b = &kl_option_table[k];
            if (!(a->commands & b->commands)) continue;
            if (strcmp(a->name, b->name) == 0) fail_msg("two rows of --%s for one command", a->name);
            if (a->letter != 0 && a->letter == b->letter)
                fail_msg("--%s and --%s have one letter", a->name, b->name);
        }
    }
}

static void test_lattice_files(void **state)
{
    (void)state;
    kl_err err = {""};
    kl_lattice *lat = NULL;
    FILE *f = fopen(file, "w");
    fputs("return { sites = { {name='A'}, {name='B', x=1}, {x=3, class='end'} }, bonds = { {'A','B'}, {2, 1, "
          "{'nn','far'}}, {0, 2, 'd', r=2.5} } }",
          f);
    fclose(f);
    const kl_status st = kl_job_lattice(file, &lat, &err);
    if (st != KL_OK && strstr(err.text, "built without") != NULL) skip();
    if (st != KL_OK) fail_msg("%s", err.text);
    assert_true(lat->nsite == 3 && lat->nbond == 3 && lat->nbond_class == 3);
    assert_string_equal(lat->site_name[1], "B");
    assert_string_equal(lat->site_class[2], "end");
    assert_true(lat->bond[0].r == 1 && lat->bond[1].r == 2.5 && lat->bond[2].r == 2);
    assert_true(lat->bond[2].i == 1 && lat->bond[2].j == 2 && lat->bond[2].reversed);
    kl_lattice_destroy(&lat);
    static const char *const bad[] = {
        "return { sites = { {}, {}, x = {} }, bonds = { {0,1} } }",
        "return { sites = 2, bonds = { {0,1}, [0]={0,1} } }",
        "return { sites = 2, bonds = { {0,1,{'nn',x='far'}} } }",
        "return 5",
        "return {}",
        "return { sites = 0, bonds = {} }",
        "return { sites = 3 }",
        "return { sites = 2.5, bonds = {} }",
        "return { sites = 3, bonds = { {0,3} } }",
        "return { sites = 3, bonds = { {0,0} } }",
        "return { sites = 3, bonds = { {0,1}, {1,0} } }",
        "return { sites = 3, bond = {} }",
        "return { sites = 3, bonds = { {0,1,7} } }",
        "return { sites = 3, bonds = { {0,1,{7}} } }",
        "return { sites = 3, bonds = { 1 } }",
        "return { sites = { 1, 2 }, bonds = {} }",
        "return { sites = { {name='A'}, {name='A'} }, bonds = {} }",
        "return { sites = 2, bonds = { {0,1,r=-1} } }",
        "return { sites = 2, bonds = { {0,1,r='x'} } }",
        "return { sites = { {x=0/0}, {} }, bonds = {} }",
        "return { sites = 2, bonds = { {'A', 1} } }",
        "return { sites = 1e9, bonds = {} }",
        "return { sites = 2, bonds = { {0,1,{'a','b','c','d','e','f','g','h','i'}} } }",
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        f = fopen(file, "w");
        fputs(bad[k], f);
        fclose(f);
        err.text[0] = '\0';
        if (kl_job_lattice(file, &lat, &err) == KL_OK) fail_msg("%s was accepted", bad[k]);
        assert_null(lat);
        if (strncmp(err.text, file, strlen(file)) != 0)
            fail_msg("%s: \"%s\" does not name the file", bad[k], err.text);
        assert_int_equal(kl_mem_live_total(), 0);
    }
}

static void test_json(void **state)
{
    (void)state;
    char text[512];
    FILE *f = fmemopen(text, sizeof text, "w");
    kl_json j = kl_json_begin(f);
    const double x[] = {1.0 / 3, -0.0, INFINITY, 1e-310};
    kl_json_open(&j, NULL, '{');
    kl_json_text(&j, "a\"\\\n\t\x01", "\xc3\xa4\xff\xe2\x82\xac\xed\xa0\x80");
    kl_json_text(&j, "none", NULL);
    kl_json_reals(&j, "x", 4, x);
    kl_json_open(&j, "empty", '{');
    kl_json_close(&j, '}');
    kl_json_open(&j, "list", '[');
    kl_json_close(&j, ']');
    kl_json_int(&j, "n", INT64_MIN);
    kl_json_bool(&j, "yes", 7);
    kl_json_close(&j, '}');
    kl_json_end(&j);
    fclose(f);
    assert_string_equal(
        text,
        "{\n  \"a\\\"\\\\\\n\\t\\u0001\": \"\xc3\xa4\\ufffd\xe2\x82\xac\\ufffd\\ufffd\\ufffd\",\n  \"none\": "
        "null,\n"
        "  \"x\": [0.33333333333333331,-0,null,9.9999999999999694e-311],\n  \"empty\": {},\n  \"list\": [],\n"
        "  \"n\": -9223372036854775808,\n  \"yes\": true\n}\n");
}

static int make_file(void **state)
{
    (void)state;
    snprintf(file, sizeof file, "/tmp/kronlat-job-XXXXXX");
    const int fd = mkstemp(file);
    return fd < 0 ? 1 : close(fd);
}

static int drop_file(void **state)
{
    (void)state;
    return unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_sweeps), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_locale), cmocka_unit_test(test_jobs),   cmocka_unit_test(test_typed_for_a_job),
        cmocka_unit_test(test_table),  cmocka_unit_test(test_json),   cmocka_unit_test(test_lattice_files),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
