/* What a word of the command line may become: commands, options, values, models and their charges, parameters
   and operators. Anything that cannot be read offers nothing, for nobody reads messages there.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "chem/fcidump.h"
#include "run/optiontable.h"
#include "model/modelread.h"

/* ---------------------------------------------------------------- what the shells run */

static const char bash_script[] =
    "# Completion of kronlat for bash: `kronlat completion bash' prints it. Words come from the program.\n"
    "_kronlat()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} files= word\n"
    "    local current=${line##*[[:space:]]} token=${COMP_WORDS[COMP_CWORD]}\n"
    "    local -a before\n"
    "    read -ra before <<<\"${line%\"$current\"}\"\n"
    "    current=${current#[\\\"\\']}\n"
    "    token=${token#[\\\"\\']}\n"
    "    case $token in [=:@]) token= ;; esac\n"
    "    local cut=${current%\"$token\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r word _; do\n"
    "        case $word in\n"
    "        :file) files=1 ;;\n"
    "        *) COMPREPLY+=(\"${word#\"$cut\"}\") ;;\n"
    "        esac\n"
    "    done < <(\"$1\" completion --words \"${before[@]:1}\" \"$current\" 2>/dev/null)\n"
    "    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:@] ]]; then compopt -o nospace; fi\n"
    "    if [[ $files ]]; then\n"
    "        [[ ${#COMPREPLY[@]} -gt 0 ]] || compopt -o filenames\n"
    "        COMPREPLY+=($(compgen -f -- \"$token\"))\n"
    "    fi\n"
    "}\n"
    "complete -F _kronlat kronlat\n";

static const char zsh_script[] =
    "#compdef kronlat\n"
    "# Completion of kronlat for zsh: `kronlat completion zsh' prints it. Words come from the program.\n"
    "_kronlat()\n"
    "{\n"
    "    local line files=0\n"
    "    local -a plain open shown shown_open\n"
    "    for line in ${(f)\"$(\"${words[1]}\" completion --words \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"}; "
    "do\n"
    "        if [[ $line == :file ]]; then files=1; continue; fi\n"
    "        if [[ ${line%%$'\\t'*} == *[=:@] ]]; then\n"
    "            open+=(\"${line%%$'\\t'*}\")\n"
    "            shown_open+=(\"${line//$'\\t'/  }\")\n"
    "        else\n"
    "            plain+=(\"${line%%$'\\t'*}\")\n"
    "            shown+=(\"${line//$'\\t'/  }\")\n"
    "        fi\n"
    "    done\n"
    "    (( ${#plain} )) && compadd -l -d shown -- \"${plain[@]}\"\n"
    "    (( ${#open} )) && compadd -l -S '' -d shown_open -- \"${open[@]}\"\n"
    "    (( files )) && _files\n"
    "}\n"
    "if [[ ${funcstack[1]} == _kronlat ]]; then _kronlat \"$@\"; else compdef _kronlat kronlat; fi\n";

static const char fish_script[] =
    "# Completion of kronlat for fish: `kronlat completion fish' prints it. Words come from the program.\n"
    "function __kronlat_words\n"
    "    set -l before (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    for line in ($before[1] completion --words $before[2..-1] \"$current\" 2>/dev/null)\n"
    "        if test \"$line\" = :file\n"
    "            __fish_complete_path \"$current\"\n"
    "        else\n"
    "            echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c kronlat -f -a '(__kronlat_words)'\n";

kl_status kl_completion_script(const char *shell, kl_err *err)
{
    static const struct {
        const char *name, *text;
    } row[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strcmp(row[i].name, shell) == 0) {
            fputs(row[i].text, stdout);
            return KL_OK;
        }
    return kl_fail(err, KL_EINPUT, "completion: '%s' is no shell known here; allowed: bash zsh fish", shell);
}

/* ---------------------------------------------------------------- the words */

typedef struct asked {
    int n;
    char **word; /* [n] behind `kronlat' */
    const char *begun; /* what is to be completed */
    const char *prefix; /* "--exec=", when the value stands behind its option */
    size_t nprefix;
    kl_command command;
    int first; /* word behind the command */
} asked;

/* A candidate, where what is typed begins so; note may be NULL, and is cut to the width of a line. */
static void offer(const asked *a, const char *text, const char *end, const char *note)
{
    char all[300];
    snprintf(all, sizeof all, "%s%s", text, end);
    if (strncmp(all, a->begun, strlen(a->begun)) != 0) return;
    printf("%.*s%s", (int)a->nprefix, a->prefix, all);
    if (note != NULL && note[0] != '\0') printf("\t%.70s%s", note, strlen(note) > 70 ? "..." : "");
    printf("\n");
}

static void offer_files(void) { printf(":file\n"); }

static void offer_words(const asked *a, const char *words)
{
    char one[80];
    for (const char *w = words; *w != '\0'; w += strspn(w, "| ")) {
        const size_t length = strcspn(w, "| ");
        snprintf(one, sizeof one, "%.*s", (int)length, w);
        offer(a, one, "", NULL);
        w += length;
    }
}

static void offer_commands(const asked *a, int from, int to, size_t skip)
{
    for (int c = from; c <= to; c++)
        if (strchr(kl_command_table[c].name + skip, ' ') == NULL)
            offer(a, kl_command_table[c].name + skip, "", kl_command_table[c].summary);
}

static void offer_models(const asked *a)
{
    for (const kl_embedded *m = kl_embedded_models; m->name != NULL; m++) {
        const char *const line = m->text + strspn(m->text, "- ");
        char formula[200];
        snprintf(formula, sizeof formula, "%.*s", (int)strcspn(line, "\r\n"), line);
        offer(a, m->name, "", formula);
    }
    offer_files();
}

/* An option of this command by the word that it stands in; NULL: none. */
static const kl_option_row *row_of(const asked *a, const char *word)
{
    const kl_command_set taken = a->command < KL_NCMD_ALL ? kl_commands_taken(a->command) : 0;
    if (word[0] != '-' || word[1] == '\0') return NULL;
    if (word[1] != '-') return word[2] == '\0' ? kl_option_letter(word[1], taken) : NULL;
    return kl_option_find(word + 2, strcspn(word + 2, "="), taken);
}

/* The model that the line names, by the structural parameters that it gives; NULL: none that can be read. */
static kl_tables *model_of(const asked *a)
{
    enum { MOST = 32 };
    const char *setting[MOST + 1], *name = NULL;
    kl_tables *tables = NULL;
    kl_err why;
    int nsetting = 0;
    for (int i = a->first; i < a->n - 1; i++) {
        const kl_option_row *const row = row_of(a, a->word[i]);
        if (row == NULL && a->word[i][0] != '-' && name == NULL) name = a->word[i];
        if (row == NULL || row->arg == NULL || strchr(a->word[i], '=') != NULL) continue;
        if (++i < a->n - 1 && strcmp(row->name, "parameter") == 0 && nsetting < MOST)
            setting[nsetting++] = a->word[i];
    }
    setting[nsetting] = NULL;
    if (name == NULL || kl_modelread_find(name, setting, &tables, &why) != KL_OK) return NULL;
    return tables;
}

static void offer_charges(const asked *a, const kl_model *m)
{
    for (int c = 0; c < m->ncharge; c++) offer(a, m->charge[c].name, "=", "its value, or scan");
    offer(a, "scan", "", "all sectors");
}

/* Parameters of the model, and the structural ones that chose its tables. */
static void offer_parameters(const asked *a, const kl_model *m)
{
    char name[80];
    for (int p = 0; p < m->nparam; p++) {
        snprintf(name, sizeof name, "%.20g", m->param[p].value);
        offer(a, m->param[p].name, "=", name);
    }
    for (const char *v = m->variant; *v != '\0'; v += strspn(v, ", ")) {
        const size_t length = strcspn(v, ", ");
        snprintf(name, sizeof name, "%.*s", (int)(strcspn(v, "=") < length ? strcspn(v, "=") : length), v);
        offer(a, name, "=", "structural");
        v += length;
    }
}

static void offer_operators(const asked *a, const kl_model *m, const char *end)
{
    for (int t = 0; t < m->ntype; t++)
        for (int k = 0; k < m->type[t].nop; k++) {
            const char *const name = m->type[t].op[k].name;
            int seen = !m->type[t].op[k].named;
            for (int other = 0; other < t && !seen; other++)
                for (int i = 0; i < m->type[other].nop; i++)
                    seen |= m->type[other].op[i].named && strcmp(m->type[other].op[i].name, name) == 0;
            if (!seen) offer(a, name, end, NULL);
        }
}

/* What depends on the model of the line. */
static void offer_of_model(const asked *a, const char *option)
{
    kl_tables *tables = model_of(a);
    const int measured = strcmp(option, "measure") == 0;
    if (measured)
        offer_words(a, a->command == KL_CMD_ED ? "entropy" : "populations entropy spectrum energy variance");
    if (tables == NULL) return;
    if (strcmp(option, "charge") == 0) offer_charges(a, tables->model);
    else if (strcmp(option, "parameter") == 0) offer_parameters(a, tables->model);
    else offer_operators(a, tables->model, measured ? "" : "@");
    kl_tables_destroy(&tables);
}

static void offer_value(const asked *a, const kl_option_row *row)
{
    static const char *const of_model[] = {"charge", "parameter", "measure", "spectral", "pin"};
    static const char *const words[][2] = {
        {"lattice", "chain ring chain: ring: ladder: square: cylinder: torus:"},
        {"order", "column snake fiedler"},
        {"start", "neel product: path:"},
        {"space", "cis cid cisd cisdt cisdtq level: full cas:"},
        {"hybrid", "auto"}};
    if (row->kind == KL_VALUE_CHOICE) offer_words(a, row->allowed);
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        if (strcmp(row->name, of_model[i]) == 0) offer_of_model(a, row->name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(row->name, words[i][0]) == 0) offer_words(a, words[i][1]);
    const int is_lattice = strcmp(row->name, "lattice") == 0;
    if (row->syntax == KL_SYNTAX_FILE || row->syntax == KL_SYNTAX_START || is_lattice) offer_files();
}

static void offer_options(const asked *a)
{
    const kl_command_set taken = kl_commands_taken(a->command);
    char name[80];
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const row = &kl_option_table[i];
        if (!(row->commands & taken)) continue;
        if (kl_option_find(row->name, strlen(row->name), taken) != row) continue; /* of `run': seen before */
        snprintf(name, sizeof name, "--%s", row->name);
        offer(a, name, "", row->help);
    }
}

static void offer_subject(const asked *a)
{
    switch (kl_command_table[a->command].subject) {
    case KL_SUBJECT_MODEL:
    case KL_SUBJECT_OPTIONAL_MODEL: offer_models(a); break;
    case KL_SUBJECT_FILE:
    case KL_SUBJECT_FILES:
    case KL_SUBJECT_OPTIONAL_FILE: offer_files(); break;
    case KL_SUBJECT_SHELL: offer_words(a, kl_command_table[a->command].args); break;
    case KL_SUBJECT_COMMAND: offer_commands(a, 0, KL_NCMD - 1, 0); break;
    case KL_SUBJECT_NONE: break;
    }
}

/* The command of the line and where its options begin; KL_NCMD_ALL: it is not known. */
static void find_command(asked *a)
{
    a->command = KL_NCMD_ALL;
    a->first = 1;
    for (int c = 0; c < KL_NCMD_ALL; c++) {
        const char *const name = kl_command_name((kl_command)c), *const second = strchr(name, ' ');
        const size_t length = second != NULL ? (size_t)(second - name) : strlen(name);
        if (strlen(a->word[0]) != length || strncmp(a->word[0], name, length) != 0) continue;
        if (second == NULL) a->command = (kl_command)c;
        if (second == NULL || a->n < 3 || strcmp(second + 1, a->word[1]) != 0) continue;
        a->command = (kl_command)c;
        a->first = 2;
    }
    for (int i = 1; i < a->n - 1; i++) {
        const int exact = strcmp(a->word[i], "--method=ed") == 0 ||
                          (strcmp(a->word[i - 1], "--method") == 0 && strcmp(a->word[i], "ed") == 0);
        const int ci = strcmp(a->word[i], "--method=ci") == 0 ||
                       (strcmp(a->word[i - 1], "--method") == 0 && strcmp(a->word[i], "ci") == 0);
        if (exact && a->command == KL_CMD_PLAN) a->command = KL_CMD_PLAN_ED;
        if (exact && a->command == KL_CMD_EXPLAIN) a->command = KL_CMD_EXPLAIN_ED;
        if (ci && (a->command == KL_CMD_EXPLAIN || a->command == KL_CMD_EXPLAIN_MOLECULE))
            a->command = KL_CMD_EXPLAIN_CI;
        if (kl_command_of_molecule(a->command) != a->command && a->word[i][0] != '-' &&
            kl_fcidump_is(a->word[i]))
            a->command = kl_command_of_molecule(a->command);
        if (a->command == KL_CMD_BENCH_HX && strcmp(a->word[i], "--replay") == 0)
            a->command = KL_CMD_BENCH_REPLAY;
    }
}

void kl_completion_words(int n, char **word)
{
    if (n < 1) return;
    asked a = {.n = n, .word = word, .begun = word[n - 1], .prefix = ""};
    if (n == 1) {
        offer_commands(&a, 0, KL_NCMD - 1, 0);
        offer_words(&a, "help --help --version");
        return;
    }
    if (strcmp(word[0], "help") == 0) {
        if (n == 2) offer_commands(&a, 0, KL_NCMD - 1, 0);
        return;
    }
    find_command(&a);
    if (a.command == KL_NCMD_ALL) return;
    const char *const inside = a.begun[0] == '-' ? strchr(a.begun, '=') : NULL;
    const kl_option_row *const here = row_of(&a, a.begun), *const before = row_of(&a, word[n - 2]);
    if (inside != NULL && here != NULL) {
        a.prefix = a.begun;
        a.nprefix = (size_t)(inside + 1 - a.begun);
        a.begun = inside + 1;
        offer_value(&a, here);
    } else if (n - 2 >= a.first && before != NULL && before->arg != NULL && strchr(word[n - 2], '=') == NULL)
        offer_value(&a, before);
    else if (a.begun[0] == '-') offer_options(&a);
    else if (a.command == KL_CMD_BENCH)
        offer_commands(&a, KL_CMD_BENCH_GEMM, KL_CMD_BENCH_CUDA, strlen("bench "));
    else offer_subject(&a);
}
