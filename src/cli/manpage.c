/* Manual pages in roff, from the tables of commands and options.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/manpage.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "run/optiontable.h"
#include "config.h"

/* Text in which roff shall see no request and no other dash than the one that was typed. */
static void put(const char *text)
{
    if (*text == '.' || *text == '\'') printf("\\&");
    for (const char *c = text; *c != '\0'; c++) {
        switch (*c) {
        case '-': printf("\\-"); break;
        case '\\': printf("\\e"); break;
        case '`': printf("\\(ga"); break;
        case '\'': printf("\\(aq"); break;
        case '^': printf("\\(ha"); break;
        case '~': printf("\\(ti"); break;
        default: putchar(*c); break;
        }
    }
}

static void put_line(const char *request, const char *text)
{
    printf("%s", request);
    put(text);
    printf("\n");
}

/* Paragraphs; lines that begin with blanks keep their shape. */
static void put_paragraphs(const char *text)
{
    int literal = 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char one[2048];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(line, "\n"), line);
        const int is_literal = one[0] == ' ';
        if (is_literal && !literal) printf(".PP\n.nf\n");
        if (!is_literal && literal) printf(".fi\n");
        if (!is_literal && one[0] != '\0') printf(".PP\n");
        if (one[0] != '\0') put_line("", one);
        literal = is_literal;
    }
    if (literal) printf(".fi\n");
}

static void put_option(const kl_option_row *row, const char *note)
{
    printf(".TP\n");
    if (row->letter != 0) printf("\\fB\\-%c\\fR, ", row->letter);
    printf("\\fB");
    char name[80];
    snprintf(name, sizeof name, "--%s", row->name);
    put(name);
    printf("\\fR");
    if (row->arg != NULL) {
        printf(" \\fI");
        put(row->arg);
        printf("\\fR");
    }
    printf("\n");
    put(note);
    put(row->help);
    if (row->kind == KL_VALUE_CHOICE) {
        printf(" [");
        put(row->allowed);
        printf("]");
    }
    printf("\n");
}

/* Options of a command: daily ones first. */
static void put_options(kl_command command)
{
    const kl_command_set taken = kl_commands_of_help(command);
    for (int rare = 0; rare < 2; rare++) {
        int n = 0;
        for (int i = 0; i < kl_noption; i++) {
            const kl_option_row *const row = &kl_option_table[i];
            if (!(row->commands & taken) || ((row->group & KL_RARE) != 0) != rare) continue;
            if (n++ == 0 && rare) printf(".PP\nRarely needed:\n");
            put_option(row, kl_option_method_note(command, row));
        }
    }
}

static void put_synopsis(const kl_command_row *row)
{
    put_line(".B kronlat ", row->name);
    if (row->args[0] != '\0') put_line(".I ", row->args);
    printf("[\\fIOPTION\\fR...]\n");
}

/* Lines are not adjusted: choices make long words. */
static void put_title(const char *name)
{
    printf(".TH KRONLAT");
    if (name != NULL) printf("\\-");
    for (const char *c = name; c != NULL && *c != '\0'; c++) putchar(toupper((unsigned char)*c));
    printf(" 1 \"\" \"kronlat %s\" \"User commands\"\n.ad l\n", KL_VERSION);
}

static void put_end(kl_command self)
{
    printf(
        ".SH EXIT STATUS\n0 when a run ended, converged or not; 2 for bad input, no memory or no disk; 130 "
        "when interrupted.\n.SH SEE ALSO\n");
    for (int c = 0; c < KL_NCMD; c++)
        if (c != (int)self) printf(".BR kronlat\\-%s (1),\n", kl_command_name((kl_command)c));
    printf(self < KL_NCMD ? ".BR kronlat (1)\n" : "and the manual in the documents of kronlat\n");
}

static void program_page(void)
{
    put_title(NULL);
    printf(
        ".SH NAME\nkronlat \\- ground states of strongly correlated lattice models\n.SH SYNOPSIS\n"
        ".B kronlat\n.I COMMAND\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n"
        "Density matrix renormalization group, exact diagonalization and configuration interaction on CPUs "
        "and GPUs, from short descriptions of models.\n.SH COMMANDS\n");
    for (int c = 0; c < KL_NCMD; c++) {
        printf(".TP\n.BR kronlat\\-%s (1)\n", kl_command_name((kl_command)c));
        put_line("", kl_command_table[c].summary);
    }
    printf(".SH EXAMPLE\n.nf\nkronlat dmrg heisenberg \\-\\-sites 32 \\-\\-charge Sz=0\n.fi\n");
    put_end(KL_NCMD);
}

void kl_manpage_print(kl_command command)
{
    if (command >= KL_NCMD) {
        program_page();
        return;
    }
    const kl_command_row *const row = &kl_command_table[command];
    put_title(row->name);
    printf(".SH NAME\nkronlat\\-%s \\- ", row->name);
    char summary[200];
    snprintf(summary, sizeof summary, "%s", row->summary);
    summary[strcspn(summary, ".")] = '\0';
    put(summary);
    printf("\n.SH SYNOPSIS\n");
    put_synopsis(row);
    printf(".SH DESCRIPTION\n");
    put_line("", row->summary);
    if (row->text != NULL) put_paragraphs(row->text);
    printf(".SH OPTIONS\n");
    put_options(command);
    for (int c = KL_CMD_BENCH_GEMM; command == KL_CMD_BENCH && c <= KL_CMD_BENCH_CUDA; c++) {
        const kl_command_row *const what = &kl_command_table[c];
        printf(".SH ");
        for (const char *letter = what->name; *letter != '\0'; letter++) {
            const char upper[2] = {(char)toupper((unsigned char)*letter), '\0'};
            put(upper);
        }
        printf("\n");
        put_synopsis(what);
        printf(".PP\n");
        put_line("", what->summary);
        if (what->text != NULL) put_paragraphs(what->text);
        put_options((kl_command)c);
    }
    put_end(command);
}

kl_status kl_manpage_command(const char *name, kl_command *out, kl_err *err)
{
    *out = KL_CMD_HELP;
    if (name == NULL || strcmp(name, "kronlat") == 0) return KL_OK;
    for (int c = 0; c < KL_NCMD; c++)
        if (strcmp(kl_command_name((kl_command)c), name) == 0) *out = (kl_command)c;
    if (*out != KL_CMD_HELP) return KL_OK;
    return kl_fail(err, KL_EINPUT, "man: '%s' is no command; `kronlat --help' lists them", name);
}
