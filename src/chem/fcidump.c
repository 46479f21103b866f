/* Reads FCIDUMP files.

   1. The namelist: &FCI KEY = values, ... up to &END or /, over any lines.
   2. All data lines, as they stand.
   3. What the indices mean is decided by the whole: six parts ended by zero lines, spin orbitals, or spatial
      orbitals.
   4. Integrals go to their elements; one that is given twice must be given alike.
   5. Labels of the point group are used if every integral agrees with them.
   SPDX-License-Identifier: Apache-2.0 */
#include "chem/fcidump.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/infile.h"
#include "base/mem.h"
#include "chem/orbsym.h"

enum {
    MAX_LABEL = 2 * KL_FCIDUMP_MAX_ORB,
    MAX_WORD = 96,
    MAX_LINE = 1024,
};

/* What is no larger may stand behind indices that name no integral. */
static const double rounding = 1e-10;
/* Two values of one integral that differ by more are a contradiction, not two roundings. */
static const double repeat_noise = 1e-7;

typedef struct entry {
    double value;
    int32_t line;
    int16_t at[4];
} entry;

typedef struct reader {
    FILE *from;
    const char *name;
    int64_t line;
    kl_fcidump *f;
    int have_norb, have_nelec, have_ms2, have_uhf, header_norb;
    int nlabel, label[MAX_LABEL];
    int64_t nentry, room;
    entry *list;
} reader;

static kl_status refuse(const reader *r, int64_t line, kl_err *err, const char *text)
{
    return kl_fail(err, KL_EINPUT, "%.300s:%lld: %s", r->name, (long long)line, text);
}

static kl_status unreadable(const reader *r, kl_err *err)
{
    return kl_fail(err, KL_EIO, "%.300s cannot be read: %s", r->name, strerror(errno));
}

#define REFUSE(r, at_line, ...)                      \
    do {                                             \
        char text_[512];                             \
        snprintf(text_, sizeof(text_), __VA_ARGS__); \
        st = refuse((r), (at_line), err, text_);     \
        goto out;                                    \
    } while (0)

/* ---------------------------------------------------------------- 1. the namelist */

typedef enum token { T_WORD, T_EQUALS, T_END, T_EOF, T_LONG } token;

static int next_char(reader *r)
{
    const int c = getc(r->from);
    if (c == '\n') r->line++;
    return c;
}

/* The three bytes that some editors put before a text in UTF-8. */
static int is_order_mark(const reader *r, int c)
{
    return r->line == 1 && (c == 0xef || c == 0xbb || c == 0xbf);
}

static token next_token(reader *r, char word[MAX_WORD])
{
    int c = next_char(r), n = 0;
    while (c == ',' || isspace(c) || is_order_mark(r, c)) c = next_char(r);
    if (c == EOF) return T_EOF;
    if (c == '=') return T_EQUALS;
    if (c == '/') return T_END;
    if (c == '\'' || c == '"') { /* a string: of no interest to us, but it may hold anything */
        const int quote = c;
        do c = next_char(r);
        while (c != quote && c != '\n' && c != EOF);
        memcpy(word, "''", 3);
        return T_WORD;
    }
    while (c != EOF && !isspace(c) && c != ',' && c != '=' && c != '/') {
        if (n == MAX_WORD - 1) return T_LONG;
        word[n++] = c != 0 ? (char)toupper(c) : '?'; /* what follows a byte of zero must not be hidden */
        c = next_char(r);
    }
    if (c == '\n') r->line--;
    if (c != EOF) ungetc(c, r->from);
    word[n] = '\0';
    return strcmp(word, "&END") == 0 || strcmp(word, "$END") == 0 ? T_END : T_WORD;
}

static int is_fci(const char *word) { return strcmp(word, "&FCI") == 0 || strcmp(word, "$FCI") == 0; }

/* .TRUE., T, 1; *known: 0 where it is neither that nor false. */
static int is_true(const char *word, int *known)
{
    const char *p = word[0] == '.' ? word + 1 : word;
    const int yes = *p == 'T' || strcmp(p, "1") == 0;
    *known = yes || *p == 'F' || strcmp(p, "0") == 0;
    return yes;
}

static kl_status take_value(reader *r, const char *key, const char *text, kl_err *err)
{
    kl_status st = KL_OK;
    int64_t count = 1, value = 0;
    char number[MAX_WORD];
    snprintf(number, sizeof(number), "%s", text);
    if (strcmp(key, "UHF") == 0) {
        int known;
        r->f->unrestricted |= is_true(text, &known);
        if (!known) REFUSE(r, r->line, "UHF is '%s'; allowed: .TRUE. and .FALSE.", text);
        return KL_OK;
    }
    const int is_norb = strcmp(key, "NORB") == 0, is_label = strcmp(key, "ORBSYM") == 0;
    if (!is_norb && !is_label && strcmp(key, "NELEC") != 0 && strcmp(key, "MS2") != 0 &&
        strcmp(key, "ISYM") != 0 && strcmp(key, "IUHF") != 0)
        return KL_OK; /* other programs' own */
    char *star = strchr(number, '*');
    const char *digits = number;
    if (star != NULL) {
        *star = '\0';
        digits = star + 1;
        if (!kl_parse_int(number, &count) || count < 0 || count > MAX_LABEL)
            REFUSE(r, r->line, "%s: '%s' is no repeated value", key, text);
    }
    if (!kl_parse_int(digits, &value)) REFUSE(r, r->line, "%s is '%s'; an integer is needed", key, text);
    if (is_norb) {
        if (r->have_norb)
            REFUSE(r, r->line, "NORB is given twice, %d and then %lld", r->header_norb, (long long)value);
        if (value < 1 || value > 2 * KL_FCIDUMP_MAX_ORB)
            REFUSE(r, r->line, "NORB is %lld; allowed: 1 to %d", (long long)value, KL_FCIDUMP_MAX_ORB);
        r->header_norb = (int)value;
        r->have_norb = 1;
    } else if (is_label) {
        if (value < -8 || value > 1000000)
            REFUSE(r, r->line, "ORBSYM holds %lld; labels are 1 to 8, or 0 to 7", (long long)value);
        if (r->nlabel + count > MAX_LABEL)
            REFUSE(r, r->line, "ORBSYM has more than %d labels", (int)MAX_LABEL);
        for (int64_t i = 0; i < count; i++) r->label[r->nlabel++] = (int)value;
    } else if (strcmp(key, "NELEC") == 0) {
        if (r->have_nelec || count != 1)
            REFUSE(r, r->line, "NELEC holds more than one number: %d and %lld", r->f->nelec,
                   (long long)value);
        r->have_nelec = 1;
        if (value < 0 || value > 2 * KL_FCIDUMP_MAX_ORB)
            REFUSE(r, r->line, "NELEC is %lld; allowed: 0 (not said) to 2 NORB", (long long)value);
        r->f->nelec = (int)value;
    } else if (strcmp(key, "MS2") == 0) {
        if (r->have_ms2 || count != 1)
            REFUSE(r, r->line, "MS2 holds more than one number: %d and %lld", r->f->ms2, (long long)value);
        if (value < -2 * KL_FCIDUMP_MAX_ORB || value > 2 * KL_FCIDUMP_MAX_ORB)
            REFUSE(r, r->line, "MS2 is %lld; allowed: -NELEC to NELEC", (long long)value);
        r->f->ms2 = (int)value;
        r->have_ms2 = 1;
    } else if (strcmp(key, "ISYM") != 0) { /* ISYM: the irrep that somebody wanted; --irrep says it here */
        r->f->unrestricted |= value != 0;
    }
out:
    return st;
}

int kl_fcidump_is(const char *path)
{
    FILE *from = NULL;
    kl_err ignored;
    char word[MAX_WORD] = "";
    struct stat info;
    /* of a pipe the first word would be gone */
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    if (kl_infile_open(path, &from, &ignored) != KL_OK) return 0;
    reader r = {.from = from, .name = path, .line = 1};
    const int begins = next_token(&r, word) == T_WORD && is_fci(word);
    fclose(from);
    return begins;
}

static kl_status read_header(reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    char word[MAX_WORD] = "", key[MAX_WORD] = "", pending[MAX_WORD] = "";
    token t = next_token(r, word);
    if (t == T_EOF && ferror(r->from)) return unreadable(r, err);
    if (t != T_WORD || !is_fci(word)) REFUSE(r, r->line, "an FCIDUMP file begins with &FCI, not '%s'", word);
    do {
        t = next_token(r, word);
        if (t == T_EOF && ferror(r->from)) return unreadable(r, err);
        if (t == T_EOF) REFUSE(r, r->line, "the file ends inside the header; &END or / is missing");
        if (t == T_LONG)
            REFUSE(r, r->line, "a word of the header is longer than %d characters", MAX_WORD - 1);
        if (t == T_EQUALS) {
            if (pending[0] == '\0') REFUSE(r, r->line, "'=' without a name before it");
            memcpy(key, pending, sizeof(key));
            pending[0] = '\0';
            continue;
        }
        if (pending[0] != '\0') {
            if (key[0] == '\0') REFUSE(r, r->line, "'%s' stands in the header without NAME=", pending);
            KL_TRY(take_value(r, key, pending, err));
        }
        pending[0] = '\0';
        if (t == T_WORD) memcpy(pending, word, sizeof(pending));
    } while (t != T_END);
    if (!r->have_norb) REFUSE(r, r->line, "the header has no NORB");
out:
    return st;
}

/* ---------------------------------------------------------------- 2. data lines */

/* "0.1D+01", "1.5e-3", "0.123-105" (Fortran drops the letter before three digits), "(a,0.0)". */
static int parse_value(char *text, double *out, int *complex_part)
{
    char plain[MAX_WORD + 2];
    double imaginary = 0;
    *complex_part = 0;
    if (text[0] == '(') {
        char *comma = strchr(text, ','), *close = strchr(text, ')');
        if (comma == NULL || close == NULL || close < comma || close[1] != '\0') return 0;
        *comma = *close = '\0';
        int none;
        if (comma[1] == '(' || !parse_value(comma + 1, &imaginary, &none)) return 0;
        *complex_part = imaginary != 0;
        text++;
    }
    int n = 0, seen_exponent = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (n > MAX_WORD - 2) return 0;
        const char c = (char)toupper((unsigned char)*p);
        if (strchr("0123456789.+-DE", c) == NULL) return 0;
        if (c == 'D' || c == 'E') {
            plain[n++] = 'e';
            seen_exponent = 1;
            continue;
        }
        if ((c == '+' || c == '-') && p > text && !seen_exponent) {
            plain[n++] = 'e';
            seen_exponent = 1;
        }
        plain[n++] = c;
    }
    plain[n] = '\0';
    return kl_parse_double(plain, out) && isfinite(*out);
}

/* The next word of *p, cut off; NULL at the end of the line. A complex number in brackets is one word. */
static char *cut_word(char **p)
{
    char *start = *p;
    while (isspace((unsigned char)*start) || *start == ',') start++;
    if (*start == '\0') return NULL;
    char *end = start;
    if (*start == '(')
        while (*end != '\0' && *end != ')') end++;
    while (*end != '\0' && !isspace((unsigned char)*end) && *end != ',') end++;
    *p = *end == '\0' ? end : end + 1;
    *end = '\0';
    return start;
}

/* The next line without its end; *got: 0 where there is none. A byte of zero would hide what follows it. */
static kl_status read_line(reader *r, char line[MAX_LINE], int *got, kl_err *err)
{
    kl_status st = KL_OK;
    int c = getc(r->from), n = 0;
    *got = c != EOF;
    for (; c != EOF && c != '\n'; c = getc(r->from)) {
        if (c == 0) REFUSE(r, r->line, "the line has a byte of zero; is this text?");
        if (n == MAX_LINE - 2) REFUSE(r, r->line, "the line is longer than %d characters", MAX_LINE - 2);
        line[n++] = (char)c;
    }
    line[n] = '\0';
    if (ferror(r->from)) *got = 0;
out:
    return st;
}

static kl_status read_data(reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    char line[MAX_LINE];
    const int64_t first = r->line;
    for (;;) {
        int got;
        KL_TRY(read_line(r, line, &got, err));
        if (!got) break;
        const int64_t here = r->line++;
        char *rest = line, *word = cut_word(&rest);
        if (word == NULL) continue;
        if (here == first)
            REFUSE(r, here, "'%.40s' behind the end of the header; data begin on a new line", word);
        entry e = {.line = here < INT32_MAX ? (int32_t)here : INT32_MAX};
        int complex_part = 0;
        char shown[48];
        snprintf(shown, sizeof(shown), "%.40s", word);
        if (!parse_value(word, &e.value, &complex_part))
            REFUSE(r, here, "'%s' is not a finite number", shown);
        if (complex_part)
            REFUSE(r, here, "the integral is complex; only real ones are supported (choose real orbitals)");
        for (int k = 0; k < 4; k++) {
            int64_t index = 0;
            word = cut_word(&rest);
            if (word == NULL) REFUSE(r, here, "%d of 4 indices; a line is 'value i j k l'", k);
            if (!kl_parse_int(word, &index))
                REFUSE(r, here, "index %d is '%.40s'; an integer is needed", k + 1, word);
            if (index < 0 || index > 2 * KL_FCIDUMP_MAX_ORB ||
                (index > r->header_norb && !r->f->unrestricted) || index > 2 * (int64_t)r->header_norb)
                REFUSE(r, here, "index %d is %lld; allowed: 0 to NORB = %d", k + 1, (long long)index,
                       r->header_norb);
            e.at[k] = (int16_t)index;
        }
        if ((word = cut_word(&rest)) != NULL) REFUSE(r, here, "'%.40s' behind the four indices", word);
        const int two = e.at[0] > 0 && e.at[1] > 0,
                  orbital_energy = e.at[0] > 0 && e.at[1] == 0 && e.at[2] == 0 && e.at[3] == 0;
        const int none = e.at[0] == 0 && e.at[1] == 0 && e.at[2] == 0 && e.at[3] == 0;
        if (!none && !orbital_energy && !(two && (e.at[2] > 0) == (e.at[3] > 0)))
            REFUSE(r, here,
                   "indices %d %d %d %d name no integral: i j k l, i j 0 0, i 0 0 0 (orbital energy) and 0 0 "
                   "0 0 (core) do",
                   e.at[0], e.at[1], e.at[2], e.at[3]);
        if (orbital_energy) continue;
        if (r->nentry == r->room) {
            r->room = r->room > 0 ? 2 * r->room : 1024;
            KL_TRY(kl_realloc(&r->list, r->room, KL_MEM_MISC, err));
        }
        r->list[r->nentry++] = e;
    }
    if (ferror(r->from)) st = unreadable(r, err);
out:
    return st;
}

/* ---------------------------------------------------------------- 3., 4. meaning */

/* NaN marks what no line has given. */
static kl_status put(const reader *r, const entry *e, double *place, double *mirror, kl_err *err)
{
    kl_status st = KL_OK;
    if (!isnan(*place) && fabs(*place - e->value) > repeat_noise)
        REFUSE(r, e->line,
               "integral %d %d %d %d is %.12g here and %.12g on an earlier line (perhaps in another order of "
               "its indices)",
               e->at[0], e->at[1], e->at[2], e->at[3], e->value, *place);
    if (isnan(*place)) *place = *mirror = e->value;
out:
    return st;
}

static kl_status put_two(const reader *r, const entry *e, int bra_spin, int ket_spin, const int at[4],
                         kl_err *err)
{
    kl_fcidump *const f = r->f;
    const int64_t bra = kl_pair(at[0], at[1]), ket = kl_pair(at[2], at[3]);
    if (bra_spin != ket_spin) {
        double *const place =
            bra_spin == 0 ? &f->eri[2][bra * f->npair + ket] : &f->eri[2][ket * f->npair + bra];
        return put(r, e, place, place, err);
    }
    double *const m = f->eri[bra_spin];
    return put(r, e, &m[bra * f->npair + ket], &m[ket * f->npair + bra], err);
}

static kl_status put_one(const reader *r, const entry *e, int spin, int p, int q, kl_err *err)
{
    kl_fcidump *const f = r->f;
    return put(r, e, &f->h[spin][p * f->norb + q], &f->h[spin][q * f->norb + p], err);
}

static kl_status put_core(const reader *r, const entry *e, kl_err *err)
{
    kl_status st = KL_OK;
    if (!isnan(r->f->core) && fabs(r->f->core - e->value) > repeat_noise)
        REFUSE(r, e->line,
               "the core energy is %.12g here and %.12g on an earlier line (six parts ended by zero lines "
               "need IUHF=1 in the header)",
               e->value, r->f->core);
    r->f->core = e->value;
out:
    return st;
}

static kl_status place_parts(const reader *r, kl_err *err)
{
    static const char *const part_name[] = {"(aa|aa)", "(bb|bb)", "(aa|bb)", "h alpha", "h beta", "core"};
    kl_status st = KL_OK;
    int part = 0;
    for (int64_t i = 0; i < r->nentry; i++) {
        const entry *const e = &r->list[i];
        const int at[4] = {e->at[0] - 1, e->at[1] - 1, e->at[2] - 1, e->at[3] - 1};
        for (int k = 0; k < 4; k++)
            if (at[k] >= r->f->norb)
                REFUSE(r, e->line, "index %d is %d; allowed: 0 to NORB = %d", k + 1, at[k] + 1, r->f->norb);
        if (at[0] < 0) {
            if (part == 5) KL_TRY(put_core(r, e, err));
            else if (e->value != 0)
                REFUSE(r, e->line, "a value of %.12g ends part %s of an unrestricted file; 0 is expected",
                       e->value, part_name[part]);
            else part++;
            continue;
        }
        if (part == 5 || (part < 3) != (at[2] >= 0))
            REFUSE(r, e->line, "a %s integral in part %d (%s) of an unrestricted file",
                   at[2] >= 0 ? "two-electron" : "one-electron", part + 1, part_name[part]);
        if (part < 3) KL_TRY(put_two(r, e, part == 1, part >= 1, at, err));
        else KL_TRY(put_one(r, e, part - 3, at[0], at[1], err));
    }
    if (part < 5)
        REFUSE(r, r->line - 1, "the file ends in part %d (%s) of the six of an unrestricted file", part + 1,
               part_name[part]);
out:
    return st;
}

static kl_status place_spin_orbitals(const reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = 0; i < r->nentry; i++) {
        const entry *const e = &r->list[i];
        int at[4], spin[4];
        for (int k = 0; k < 4; k++) {
            at[k] = e->at[k] > 0 ? (e->at[k] - 1) / 2 : -1;
            spin[k] = e->at[k] > 0 ? (e->at[k] - 1) % 2 : 0;
        }
        if (at[0] < 0) {
            KL_TRY(put_core(r, e, err));
            continue;
        }
        if (spin[0] != spin[1] || spin[2] != spin[3]) {
            if (fabs(e->value) <= rounding) continue;
            REFUSE(r, e->line,
                   "indices %d %d %d %d mix spins (odd: alpha, even: beta), which no spin-free integral does",
                   e->at[0], e->at[1], e->at[2], e->at[3]);
        }
        if (at[2] < 0) KL_TRY(put_one(r, e, spin[0], at[0], at[1], err));
        else KL_TRY(put_two(r, e, spin[0], spin[2], at, err));
    }
out:
    return st;
}

static kl_status place_spatial(const reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    for (int64_t i = 0; i < r->nentry; i++) {
        const entry *const e = &r->list[i];
        const int at[4] = {e->at[0] - 1, e->at[1] - 1, e->at[2] - 1, e->at[3] - 1};
        if (at[0] < 0) KL_TRY(put_core(r, e, err));
        else if (at[2] < 0) KL_TRY(put_one(r, e, 0, at[0], at[1], err));
        else KL_TRY(put_two(r, e, 0, 0, at, err));
    }
out:
    return st;
}

static kl_status make_array(double **a, int64_t rows, int64_t columns, kl_err *err)
{
    int64_t n = 0;
    if (!kl_mul_size(rows, columns, &n))
        return kl_fail(err, KL_ENOMEM, "integrals: %lld x %lld do not fit", (long long)rows,
                       (long long)columns);
    const kl_status st = kl_alloc(a, n, KL_MEM_MATRIX, err);
    for (int64_t i = 0; st == KL_OK && i < n; i++) (*a)[i] = NAN;
    return st;
}

static void fill_gaps(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(a[i])) a[i] = 0;
}

static kl_status interpret(reader *r, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *const f = r->f;
    int most = 0, nzero = 0;
    for (int64_t i = 0; i < r->nentry; i++) {
        nzero += r->list[i].at[0] == 0;
        for (int k = 0; k < 4; k++)
            if (r->list[i].at[k] > most) most = r->list[i].at[k];
    }
    const int by_spin = f->unrestricted && nzero <= 1;
    f->norb = r->header_norb;
    if (by_spin && most <= r->header_norb) { /* NORB counts spin orbitals */
        if (f->norb % 2 != 0)
            REFUSE(r, 1, "NORB is %d; unrestricted files by spin orbitals have an even number", f->norb);
        f->norb /= 2;
    }
    if (f->norb > KL_FCIDUMP_MAX_ORB)
        REFUSE(r, 1, "NORB is %d; allowed: 1 to %d", r->header_norb, KL_FCIDUMP_MAX_ORB);
    if (f->nelec > 2 * f->norb)
        REFUSE(r, 1, "NELEC is %d, but %d orbitals hold at most %d electrons", f->nelec, f->norb,
               2 * f->norb);
    f->npair = (int64_t)f->norb * (f->norb + 1) / 2;
    const int nspin = f->unrestricted ? 2 : 1;
    for (int s = 0; s < nspin; s++) KL_TRY(make_array(&f->h[s], f->norb, f->norb, err));
    for (int s = 0; s < (nspin == 2 ? 3 : 1); s++) KL_TRY(make_array(&f->eri[s], f->npair, f->npair, err));
    f->core = NAN;
    if (by_spin) KL_TRY(place_spin_orbitals(r, err));
    else if (f->unrestricted) KL_TRY(place_parts(r, err));
    else KL_TRY(place_spatial(r, err));
    int bare = isnan(f->core) && f->nelec > 0; /* of what stands at the end of a file nothing is there */
    for (int64_t i = 0; i < (int64_t)f->norb * f->norb; i++) bare &= isnan(f->h[0][i]) != 0;
    if (isnan(f->core)) f->core = 0;
    for (int s = 0; s < nspin; s++) fill_gaps(f->h[s], (int64_t)f->norb * f->norb);
    for (int s = 0; s < (nspin == 2 ? 3 : 1); s++) fill_gaps(f->eri[s], f->npair * f->npair);
    if (nspin == 1) {
        f->h[1] = f->h[0];
        f->eri[1] = f->eri[2] = f->eri[0];
    }
    if (!r->have_ms2) f->ms2 = f->nelec % 2;
    if (f->nelec > 0 && ((f->nelec + f->ms2) % 2 != 0 || f->ms2 > f->nelec || f->ms2 < -f->nelec))
        REFUSE(r, 1, "MS2 is %d; %d electrons allow -%d to %d in steps of 2", f->ms2, f->nelec, f->nelec,
               f->nelec);
    if (bare)
        REFUSE(r, r->line,
               "the file ends with neither one-electron integrals (h i j 0 0) nor a core energy (E 0 0 0 0); "
               "is it cut?");
out:
    return st;
}

/* ---------------------------------------------------------------- all of it */

kl_status kl_fcidump_read_stream(FILE *from, const char *name, kl_fcidump **out, kl_err *err)
{
    kl_status st = KL_OK;
    reader *r = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&r, 1, KL_MEM_MISC, err));
    r->from = from;
    r->name = name;
    r->line = 1;
    KL_TRY(kl_alloc(&r->f, 1, KL_MEM_MISC, err));
    KL_TRY(read_header(r, err));
    KL_TRY(read_data(r, err));
    KL_TRY(interpret(r, err));
    st = kl_orbsym_use(r->f, r->nlabel, r->label, err);
    if (st == KL_EINPUT) st = refuse(r, 1, err, err ? err->text : "");
    if (st != KL_OK) goto out;
    *out = r->f;
    r->f = NULL;
out:
    if (r != NULL) {
        kl_fcidump_destroy(&r->f);
        kl_free(&r->list);
    }
    kl_free(&r);
    return st;
}

kl_status kl_fcidump_read(const char *path, kl_fcidump **out, kl_err *err)
{
    *out = NULL;
    FILE *from;
    kl_status st = kl_infile_open(path, &from, err);
    if (st != KL_OK) return st;
    st = kl_fcidump_read_stream(from, path, out, err);
    fclose(from);
    return st;
}

/* Energy of core electrons in the presence of one electron of `spin` in (p, q). */
static double core_field(const kl_fcidump *f, int spin, int p, int q, int ncore, const int *core)
{
    double e = 0;
    const int64_t pq = kl_pair(p, q);
    for (int i = 0; i < ncore; i++) {
        const int k = core[i];
        const int64_t kk = kl_pair(k, k);
        e += f->eri[spin][pq * f->npair + kk] - f->eri[spin][kl_pair(p, k) * f->npair + kl_pair(q, k)];
        e += spin == 0 ? f->eri[2][pq * f->npair + kk] : f->eri[2][kk * f->npair + pq];
    }
    return e;
}

kl_status kl_fcidump_fold(const kl_fcidump *f, int ncore, const int *core, int nactive, const int *active,
                          kl_fcidump **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_fcidump *g = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&g, 1, KL_MEM_MISC, err));
    *g = (kl_fcidump){.norb = nactive,
                      .nelec = f->nelec > 2 * ncore ? f->nelec - 2 * ncore : 0,
                      .ms2 = f->ms2,
                      .unrestricted = f->unrestricted,
                      .nirrep = f->nirrep,
                      .npair = (int64_t)nactive * (nactive + 1) / 2,
                      .core = f->core};
    KL_TRY(kl_alloc(&g->irrep, nactive, KL_MEM_MISC, err));
    for (int p = 0; p < nactive; p++) g->irrep[p] = f->irrep[active[p]];
    for (int s = 0; s < (f->unrestricted ? 2 : 1); s++) {
        KL_TRY(kl_alloc(&g->h[s], (int64_t)nactive * nactive, KL_MEM_MATRIX, err));
        for (int p = 0; p < nactive; p++)
            for (int q = 0; q < nactive; q++)
                g->h[s][p * nactive + q] = f->h[s][active[p] * f->norb + active[q]] +
                                           core_field(f, s, active[p], active[q], ncore, core);
    }
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < ncore; i++)
            g->core +=
                f->h[s][core[i] * f->norb + core[i]] + 0.5 * core_field(f, s, core[i], core[i], ncore, core);
    for (int s = 0; s < (f->unrestricted ? 3 : 1); s++) {
        KL_TRY(kl_alloc(&g->eri[s], g->npair * g->npair, KL_MEM_MATRIX, err));
        for (int p = 0; p < nactive; p++)
            for (int q = 0; q <= p; q++) {
                const double *const from = f->eri[s] + kl_pair(active[p], active[q]) * f->npair;
                double *const to = g->eri[s] + kl_pair(p, q) * g->npair;
                for (int r = 0; r < nactive; r++)
                    for (int t = 0; t <= r; t++) to[kl_pair(r, t)] = from[kl_pair(active[r], active[t])];
            }
    }
    if (!f->unrestricted) {
        g->h[1] = g->h[0];
        g->eri[1] = g->eri[2] = g->eri[0];
    }
    *out = g;
    g = NULL;
out:
    kl_fcidump_destroy(&g);
    return st;
}

void kl_fcidump_destroy(kl_fcidump **fcidump)
{
    kl_fcidump *f = *fcidump;
    if (f == NULL) return;
    if (f->h[1] != f->h[0]) kl_free(&f->h[1]);
    if (f->eri[1] != f->eri[0]) kl_free(&f->eri[1]);
    if (f->eri[2] != f->eri[0]) kl_free(&f->eri[2]);
    kl_free(&f->h[0]);
    kl_free(&f->eri[0]);
    kl_free(&f->irrep);
    kl_free(fcidump);
}

static double pair_of(const kl_fcidump *f, int kind, int p, int q, int r, int s)
{
    return f->eri[kind][kl_pair(p, q) * f->npair + kl_pair(r, s)];
}

double kl_fcidump_energy(const kl_fcidump *f, const unsigned char *up, const unsigned char *dn)
{
    const unsigned char *const occ[2] = {up, dn};
    double e = f->core;
    for (int spin = 0; spin < 2; spin++)
        for (int p = 0; p < f->norb; p++) {
            if (!occ[spin][p]) continue;
            e += f->h[spin][p * f->norb + p];
            for (int q = 0; q < p; q++)
                if (occ[spin][q]) e += pair_of(f, spin, p, p, q, q) - pair_of(f, spin, p, q, q, p);
            for (int q = 0; q < f->norb && spin == 0; q++)
                if (dn[q]) e += pair_of(f, 2, p, p, q, q);
        }
    return e;
}

static uint64_t mix_reals(uint64_t hash, const double *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        uint64_t word;
        memcpy(&word, &x[k], sizeof(word));
        hash = kl_hash_mix(hash, word);
    }
    return hash;
}

uint64_t kl_fcidump_hash(const kl_fcidump *f)
{
    uint64_t hash = KL_HASH_EMPTY;
    const int whole[] = {f->norb, f->nelec, f->ms2, f->unrestricted, f->nirrep};
    for (size_t k = 0; k < sizeof(whole) / sizeof(*whole); k++)
        hash = kl_hash_mix(hash, (uint64_t)(uint32_t)whole[k]);
    for (int p = 0; p < f->norb; p++) hash = kl_hash_mix(hash, (uint64_t)f->irrep[p]);
    hash = mix_reals(hash, &f->core, 1);
    for (int spin = 0; spin < (f->unrestricted ? 2 : 1); spin++)
        hash = mix_reals(hash, f->h[spin], (int64_t)f->norb * f->norb);
    for (int kind = 0; kind < (f->unrestricted ? 3 : 1); kind++)
        hash = mix_reals(hash, f->eri[kind], f->npair * f->npair);
    return hash;
}
