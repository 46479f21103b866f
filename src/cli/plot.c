/* Energy and discarded weight by sweep, entropy by cut, levels, spectral functions, thermodynamics, and
   measured profiles, as one page of panels. Draws nothing itself: writes a gnuplot script with the data
   inside to gnuplot's input.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/plot.h"
#include "base/atomicfile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PROFILE = 12, MAX_CURVE = 12 };

/* of values about 1: what lies closer together is drawn as one line, not as its noise */
static const double FLAT = 1e-9;

extern char **environ;

static int has_ending(const char *text, const char *ending)
{
    const size_t n = strlen(text), k = strlen(ending);
    return n > k && strcmp(text + n - k, ending) == 0;
}

/* How many bytes of text are one character of UTF-8; 0: none. */
static int utf8_length(const unsigned char *text)
{
    const int n = text[0] < 0x80   ? 1
                  : text[0] < 0xc2 ? 0
                  : text[0] < 0xe0 ? 2
                  : text[0] < 0xf0 ? 3
                  : text[0] < 0xf5 ? 4
                                   : 0;
    for (int k = 1; k < n; k++)
        if ((text[k] & 0xc0) != 0x80) return 0;
    return n;
}

void kl_plot_quote(FILE *to, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;+-=()/_";
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', to);
    while (*at != '\0') {
        const int n = utf8_length(at);
        if (n == 0) fputc('?', to);
        else if (*at < 0x20 || *at == 0x7f) fputc(' ', to);
        else if (n == 1 && strchr(plain, *at) != NULL) fputc(*at, to);
        else
            for (int k = 0; k < n; k++) fprintf(to, "\\%03o", at[k]);
        at += n > 0 ? n : 1;
    }
    fputc('"', to);
}

/* x counts from first to last; each number gets its mark while there is room. */
static void axis_x(FILE *to, const char *x, int first, int last)
{
    fprintf(to, "\nset xrange [%g:%g]; set xtics %s\nset xlabel '%s'\n", first - 0.5, last + 0.5,
            last - first < 20 ? "1" : "autofreq", x);
}

static void panel(FILE *to, const char *title, const char *x, int first, int last, int log_y,
                  const char *style, const char *data)
{
    fprintf(to, "set title ");
    kl_plot_quote(to, title);
    axis_x(to, x, first, last);
    fprintf(to, "%s\nplot %s using 1:2 with %s pointtype 7 pointsize 0.5 notitle\n",
            log_y ? "set logscale y; set format y '%.0e'" : "unset logscale y; set format y '%g'", data,
            style);
}

static void axis_y(FILE *to, int64_t n, const double *y)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t k = 0; k < n; k++) low = fmin(low, y[k]), high = fmax(high, y[k]);
    if (isinf(low) || isinf(high)) fprintf(to, "set yrange [-1:1]\n"); /* not one number to draw */
    else if (high - low <= FLAT * fmax(1.0, fmax(fabs(low), fabs(high))))
        fprintf(to, "set yrange [%.17g:%.17g]\n", low - 1.0, high + 1.0);
    else fprintf(to, "set yrange [*:*]\n");
}

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* A profile is a measured list with a value for each site, momentum or cut. The entropy of a run of DMRG is
   drawn without having been asked for. */
static int is_profile(const kl_result *r, const kl_measured *m)
{
    if (r->dmrg.entropy != NULL && strcmp(m->name, "entropy") == 0) return 0;
    return m->rank == 1 && (m->shape[0] == r->nsite || m->shape[0] == r->nsite - 1) &&
           !begins(m->name, "ed/") && !begins(m->name, "thermal/") &&
           strcmp(m->name, "molecule/order") != 0 && strcmp(m->name, "molecule/irreps") != 0;
}

/* A curve of exact diagonalization: A by frequency, or an average by temperature with its error. */
static int is_curve(const kl_measured *m)
{
    return m->rank == 2 && m->shape[1] == 2 && (begins(m->name, "spectral/") || begins(m->name, "thermal/"));
}

static const kl_measured *find(const kl_result *r, const char *name)
{
    for (int i = 0; i < r->nmeasured; i++)
        if (strcmp(r->measured[i].name, name) == 0) return &r->measured[i];
    return NULL;
}

static const kl_measured *information(const kl_result *r)
{
    const kl_measured *const m = find(r, "molecule/mutual_information");
    return m != NULL && m->rank == 2 && m->shape[0] == r->nsite && m->shape[1] == r->nsite ? m : NULL;
}

/* Block $information: the mutual information of orbitals in the order along the sites. */
static int write_information(FILE *to, const kl_result *r)
{
    const kl_measured *const m = information(r);
    if (m == NULL) return 0;
    fprintf(to, "$information << EOD\n");
    for (int i = 0; i < r->nsite; i++)
        for (int j = 0; j < r->nsite; j++)
            fprintf(to, "%.17g%c", m->data[r->order[i] * m->shape[1] + r->order[j]],
                    j < r->nsite - 1 ? ' ' : '\n');
    fprintf(to, "EOD\n");
    return 1;
}

static void information_panel(FILE *to, const kl_result *r)
{
    fprintf(to, "set title 'mutual information of orbitals, in their order along the sites'");
    axis_x(to, "position", 0, r->nsite - 1);
    fprintf(to,
            "unset logscale y; set format y '%%g'; set yrange [-0.5:%g]; unset grid\n"
            "set palette defined (0 'white', 0.3 'gold', 1 'dark-red'); set cbrange [0:*]\n"
            "plot $information matrix with image notitle\nset grid\n",
            r->nsite - 0.5);
}

/* Blocks $curve0, $curve1, ... of x, y, error; and $levels of number and energy above the lowest. Return how
   many curves and levels there are. */
static int write_curves(FILE *to, const kl_result *r)
{
    const kl_measured *const t = find(r, "thermal/temperature");
    int n = 0;
    for (int i = 0; i < r->nmeasured && n < MAX_CURVE; i++) {
        const kl_measured *const m = &r->measured[i];
        const int thermal = begins(m->name, "thermal/");
        if (!is_curve(m) || (thermal && (t == NULL || t->rank != 1 || t->shape[0] != m->shape[0]))) continue;
        fprintf(to, "$curve%d << EOD\n", n++);
        for (int64_t k = 0; k < m->shape[0]; k++) {
            if (thermal)
                fprintf(to, "%.17g %.17g %.17g\n", t->data[k], m->data[2 * k],
                        isfinite(m->data[2 * k + 1]) ? m->data[2 * k + 1] : 0.0);
            else fprintf(to, "%.17g %.17g 0\n", m->data[2 * k], m->data[2 * k + 1]);
        }
        fprintf(to, "EOD\n");
    }
    return n;
}

static int write_levels(FILE *to, const kl_result *r)
{
    const kl_measured *const all = find(r, "ed/spectrum");
    const int64_t n = all != NULL && all->rank == 1 ? all->shape[0] : r->dmrg.nrow == 0 ? r->dmrg.nstate : 0;
    const double *const e = all != NULL && all->rank == 1 ? all->data : r->dmrg.energy;
    if (n < 2) return 0;
    fprintf(to, "$levels << EOD\n");
    for (int64_t k = 0; k < n; k++) fprintf(to, "%lld %.17g\n", (long long)k, e[k] - e[0]);
    fprintf(to, "EOD\n");
    return (int)n;
}

static void curve_panels(FILE *to, const kl_result *r, int ncurve)
{
    int n = 0;
    for (int i = 0; i < r->nmeasured && n < ncurve; i++) {
        const kl_measured *const m = &r->measured[i];
        if (!is_curve(m)) continue;
        fprintf(to, "set title ");
        kl_plot_quote(to, m->name);
        fprintf(to,
                "\nunset logscale y; set format y '%%g'; set xrange [*:*]; set xtics autofreq\nset xlabel "
                "'%s'\nplot $curve%d using 1:2%s\n",
                m->name[0] == 't' ? "temperature" : "frequency", n,
                m->name[0] == 't' ? ":3 with yerrorlines pointtype 7 pointsize 0.3 notitle"
                                  : " with lines notitle");
        n++;
    }
}

void kl_plot_page(FILE *to, const char *terminal, int pixels_x, int pixels_y)
{
    fprintf(to, "set encoding utf8\n");
    if (strcmp(terminal, "pdfcairo") == 0)
        fprintf(to, "set terminal pdfcairo noenhanced size %gin,%gin\n", pixels_x / 100.0, pixels_y / 100.0);
    else
        fprintf(to, "set terminal %s noenhanced size %d,%d background 'white'\n", terminal, pixels_x,
                pixels_y);
}

static void write_script(FILE *to, const void *self, const char *terminal)
{
    const kl_result *const r = self;
    const kl_dmrg_result *d = &r->dmrg;
    char charges[512], title[1024], energy[40] = ""; /* a checkpoint may have none yet */
    int npanel = 0, nprofile = 0;
    double best = INFINITY;
    for (int i = 0; i < d->nrow; i++) best = fmin(best, d->row[i].energy[0]);

    /* The last point of an energy that only falls would be log 0: it is left out, as are discarded weights of
       0. */
    int falling = 0, discarding = 0;
    fprintf(to, "$energy << EOD\n");
    for (int i = 0; i < d->nrow; i++)
        if (d->row[i].energy[0] > best) {
            fprintf(to, "%d %.17g\n", i + 1, d->row[i].energy[0] - best);
            falling++;
        }
    fprintf(to, "EOD\n$discarded << EOD\n");
    for (int i = 0; i < d->nrow; i++)
        if (d->row[i].discarded > 0) {
            fprintf(to, "%d %.17g\n", i + 1, d->row[i].discarded);
            discarding++;
        }
    fprintf(to, "EOD\n$entropy << EOD\n");
    for (int i = 0; d->entropy != NULL && i < r->nsite - 1; i++)
        fprintf(to, "%g %.17g\n", i + 0.5, d->entropy[i]);
    fprintf(to, "EOD\n");
    for (int i = 0; i < r->nmeasured && nprofile < MAX_PROFILE; i++) {
        const kl_measured *m = &r->measured[i];
        if (!is_profile(r, m)) continue;
        fprintf(to, "$profile%d << EOD\n", nprofile++);
        for (int64_t k = 0; k < m->shape[0]; k++)
            fprintf(to, "%g %.17g\n", (double)k + (m->shape[0] < r->nsite ? 0.5 : 0.0), m->data[k]);
        fprintf(to, "EOD\n");
    }
    const int levels = write_levels(to, r), ncurve = write_curves(to, r), mutual = write_information(to, r);
    npanel = (levels > 0) + ncurve + (falling > 0) + (discarding > 0) + (d->entropy != NULL && r->nsite > 1) +
             nprofile + mutual;
    if (npanel == 0) npanel = 1;

    const int columns = npanel > 1 ? 2 : 1, rows = (npanel + columns - 1) / columns;
    const int pixels_x = 520 * columns, pixels_y = 360 * rows + 40;
    kl_plot_page(to, terminal, pixels_x, pixels_y);
    kl_result_print_charges(r, charges, sizeof(charges));
    const double told = r->finished ? d->energy[0] : best;
    if (isfinite(told)) snprintf(energy, sizeof(energy), ", E = %.12g", told);
    snprintf(title, sizeof(title), "%s%s%s%s, %s, %d sites%s%s%s", r->model, r->variant[0] != '\0' ? "(" : "",
             r->variant, r->variant[0] != '\0' ? ")" : "", r->lattice, r->nsite,
             charges[0] != '\0' ? ", " : "", charges, energy);
    fprintf(to, "set grid\nset multiplot layout %d,%d title ", rows, columns);
    kl_plot_quote(to, title);
    fputc('\n', to);
    if (falling > 0)
        panel(to, "energy above the lowest sweep", "sweep", 1, d->nrow, 1, "linespoints", "$energy");
    if (discarding > 0) panel(to, "discarded weight", "sweep", 1, d->nrow, 1, "linespoints", "$discarded");
    if (d->entropy != NULL && r->nsite > 1)
        panel(to, "entanglement entropy", "position", 0, r->nsite - 1, 0, "linespoints", "$entropy");
    if (levels) panel(to, "energy above the lowest state", "state", 0, levels - 1, 0, "points", "$levels");
    curve_panels(to, r, ncurve);
    nprofile = 0;
    for (int i = 0; i < r->nmeasured && nprofile < MAX_PROFILE; i++) {
        char data[32];
        if (!is_profile(r, &r->measured[i])) continue;
        snprintf(data, sizeof(data), "$profile%d", nprofile++);
        const kl_measured *const m = &r->measured[i];
        axis_y(to, m->shape[0], m->data);
        panel(to, m->name,
              m->shape[0] < r->nsite          ? "position"
              : strstr(m->name, "structure/") ? "momentum, in units of 2 pi / length"
                                              : "site",
              0, r->nsite - 1, 0, "linespoints", data);
    }
    if (mutual) information_panel(to, r);
    if (mutual + levels + ncurve + falling + discarding + nprofile == 0 && d->entropy == NULL)
        fprintf(to, "set yrange [0:1]\nplot [0:1] -1 notitle\n");
    fprintf(to, "unset multiplot\nunset output\n");
}

/* Starts gnuplot reading from *to. What it draws goes to the descriptor `page`, so that it opens no file and
   no name reaches it; its complaints go to a file that nobody else sees. The user's own start-up file is left
   out (-d). */
static kl_status start_gnuplot(int page, FILE *complaints, pid_t *pid, FILE **to, kl_err *err)
{
    int ends[2];
    char *const words[] = {"gnuplot", "-d", "-", NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kl_fail(err, KL_EIO, "plot: no pipe to gnuplot: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, page, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(complaints), STDERR_FILENO);
    const int code = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (code != 0) {
        close(ends[1]);
        return code == ENOENT
                   ? kl_fail(err, KL_EABSENT,
                             "plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)")
                   : kl_fail(err, KL_EIO, "plot: gnuplot cannot be started: %s", strerror(code));
    }
    *to = fdopen(ends[1], "w");
    if (*to == NULL) {
        close(ends[1]);
        (void)waitpid(*pid, NULL, 0);
        return kl_fail(err, KL_EIO, "plot: no pipe to gnuplot: %s", strerror(errno));
    }
    return KL_OK;
}

/* gnuplot repeats the command and marks the place before it says "line N: why": that last line is the
   reason. */
static void read_reason(FILE *complaints, char *line, int size)
{
    char next[256];
    line[0] = '\0';
    while (fgets(next, sizeof(next), complaints) != NULL)
        if (strspn(next, " \t\n^") < strlen(next))
            snprintf(line, (size_t)size, "%.*s", (int)strcspn(next, "\n"), next + strspn(next, " \t"));
}

/* 1: the file ends as whole ones of its format do; gnuplot does not fail where a disk is full. */
static int is_whole(int fd, const char *ending)
{
    char tail[64] = "";
    struct stat info;
    if (fstat(fd, &info) != 0) return 0;
    const off_t from = info.st_size < (off_t)sizeof(tail) ? 0 : info.st_size - (off_t)sizeof(tail);
    ssize_t n = pread(fd, tail, sizeof(tail), from);
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == '\r')) n--;
    const ssize_t length = (ssize_t)strlen(ending);
    return n >= length && memcmp(tail + n - length, ending, (size_t)length) == 0;
}

kl_status kl_plot_run(kl_plot_fn *script, const void *self, const char *output, kl_err *err)
{
    kl_status st = KL_OK;
    static const struct {
        const char *name, *terminal, *last; /* last: the end of a whole file, but for line breaks */
    } format[] = {{".svg", "svg", "</svg>"},
                  {".png", "pngcairo", "IEND\xae\x42\x60\x82"},
                  {".pdf", "pdfcairo", "%%EOF"}};
    enum { NFORMAT = sizeof(format) / sizeof(format[0]) };
    int kind = 0;
    while (kind < NFORMAT && !has_ending(output, format[kind].name)) kind++;
    char line[256] = "";
    kl_atomic_file atomic;
    kl_err why;
    FILE *complaints = NULL, *to = NULL;
    pid_t pid = 0;
    int status = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, former;
    if (kind == NFORMAT)
        return kl_fail(err, KL_EINPUT, "--output: '%s' ends in no format; allowed: .svg .png .pdf", output);
    const kl_status named = kl_atomic_open(output, &atomic, &why); /* gnuplot would not say why it cannot */
    if (named == KL_EIO)
        return kl_fail(err, KL_EIO, "--output: %.300s cannot be written: %s", output, why.text);
    if (named != KL_OK) return kl_fail(err, named, "%s", why.text);

    sigaction(SIGPIPE, &ignore, &former); /* gnuplot may end before it has read all */
    complaints = tmpfile();
    if (complaints == NULL) KL_TRY(kl_fail(err, KL_EIO, "plot: no temporary file: %s", strerror(errno)));
    KL_TRY(start_gnuplot(atomic.fd, complaints, &pid, &to, err));
    script(to, self, format[kind].terminal);
    fclose(to);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    rewind(complaints);
    read_reason(complaints, line, sizeof(line));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        KL_TRY(kl_fail(err, KL_EIO, "plot: gnuplot failed: %s", line[0] != '\0' ? line : "no reason given"));
    if (!is_whole(atomic.fd, format[kind].last))
        KL_TRY(kl_fail(err, KL_EIO, "plot: %.300s cannot be written: gnuplot did not finish it: %s", output,
                       line[0] != '\0' ? line : "is the disk full?"));
    if (kl_atomic_publish(&atomic, &why) != KL_OK)
        KL_TRY(kl_fail(err, KL_EIO, "plot: %.300s cannot be written: %s%s%s", output, why.text,
                       line[0] != '\0' ? "; " : "", line));
out:
    kl_atomic_drop(&atomic); /* unless it was published */
    if (complaints != NULL) fclose(complaints);
    sigaction(SIGPIPE, &former, NULL);
    return st;
}

kl_status kl_plot_result(const kl_result *r, const char *output, kl_err *err)
{
    return kl_plot_run(write_script, r, output, err);
}
