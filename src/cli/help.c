/* The help of a command, from the table: how it is called, what it is for, the options of every day, those
   that few need, and an example.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/commandline.h"

#include <stdio.h>
#include <string.h>

#include "run/optiontable.h"

/* of the text, and where explanations begin */
enum {
    WIDTH = 96,
    COLUMN = 29,
};

static const char *const group_title[KL_NGROUP] = {NULL,          "The system", "Accuracy", "The run",
                                                   "The machine", "Output",     NULL};

/* Words from column `from' on, lines broken at blanks; the cursor stands at column `at'. */
static void fill(const char *text, int from, int at)
{
    int first = 1;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (!first && at + 1 + length > WIDTH) {
            printf("\n%*s", from, "");
            at = from;
            first = 1;
        }
        printf("%s%.*s", first ? "" : " ", length, text);
        at += length + !first;
        first = 0;
        text += length;
        while (*text == ' ') text++;
    }
    printf("\n");
}

/* Paragraphs; those that begin with blanks stand as they are. */
static void paragraphs(const char *text)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char one[2048];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(line, "\n"), line);
        if (one[0] == ' ' || one[0] == '\0') printf("%s\n", one);
        else fill(one, 0, 0);
    }
}

static void print_option(kl_command command, const kl_option_row *row)
{
    char left[80], text[1024];
    char letter[8] = "    ";
    if (row->letter != 0) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, row->name, row->arg != NULL ? " " : "",
             row->arg != NULL ? row->arg : "");
    const int chosen = row->kind == KL_VALUE_CHOICE;
    snprintf(text, sizeof text, "%s%s%s%s%s", kl_option_method_note(command, row), row->help,
             chosen ? " [" : "", chosen ? row->allowed : "", chosen ? "]" : "");
    printf("%s", left);
    const int used = (int)strlen(left);
    if (used >= COLUMN) printf("\n%*s", COLUMN, "");
    else printf("%*s", COLUMN - used, "");
    fill(text, COLUMN, COLUMN);
}

/* The rows of one command that are daily or rare, with a heading before each group that has some. */
static int print_rows(kl_command command, kl_command_set taken, int rare)
{
    int group = 0, n = 0;
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const row = &kl_option_table[i];
        const int here = row->group & ~KL_RARE;
        if (!(row->commands & taken) || here == KL_GROUP_HELP) continue;
        if (((row->group & KL_RARE) != 0) != rare) continue;
        if (n == 0 && rare) printf("\nRarely needed:\n");
        if (here != group && !rare) printf("\n%s:\n", group_title[here]);
        group = here;
        print_option(command, row);
        n++;
    }
    return n;
}

static void program_help(void)
{
    printf("Usage: kronlat COMMAND ...\n"
           "Ground states of strongly correlated lattice models, from short model descriptions.\n\n");
    for (int c = 0; c < KL_NCMD; c++)
        printf("  %-10s %s\n", kl_command_table[c].name, kl_command_table[c].summary);
    printf("\nExample:\n  kronlat dmrg heisenberg --sites 32 --charge Sz=0\n\n"
           "`kronlat COMMAND --help' tells more of each; `kronlat --version' the version.\n");
}

void kl_commandline_help(kl_command command)
{
    if (command >= KL_NCMD_ALL) {
        program_help();
        return;
    }
    const kl_command_row *const row = &kl_command_table[command];
    const kl_command_set taken = kl_commands_of_help(command);
    printf("Usage: kronlat %s%s%s%s\n", row->name, row->args[0] != '\0' ? " " : "", row->args,
           command == KL_CMD_BENCH ? "" : " [OPTION...]");
    fill(row->summary, 0, 0);
    if (command == KL_CMD_BENCH) {
        printf("\n");
        for (int c = KL_CMD_BENCH_GEMM; c <= KL_CMD_BENCH_CUDA; c++)
            printf("  %-12s %s\n", kl_command_table[c].name + strlen("bench "), kl_command_table[c].summary);
    } else {
        print_rows(command, taken, 0);
        print_rows(command, taken, 1);
        printf("\n");
        for (int i = 0; i < kl_noption; i++)
            if (kl_option_table[i].group == KL_GROUP_HELP) print_option(command, &kl_option_table[i]);
    }
    if (row->text == NULL) return;
    printf("\n");
    paragraphs(row->text);
}
