/* The table of options, its reader for argp and for job files, and the help made from it. Does not know
   models: names of parameters and charges are checked where the model is known.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FROM_JOB = 1, FROM_COMMAND_LINE = 2 };

/* ---------------------------------------------------------------- commands */

typedef enum subject {
    SUBJECT_NONE,
    SUBJECT_MODEL,
    SUBJECT_OPTIONAL_MODEL,
    SUBJECT_FILE,
    SUBJECT_ANY
} subject;

typedef struct command_row {
    const char *name;
    subject subject;
    const char *args;    /* as the usage line shows it */
    const char *summary; /* a line */
    const char *text;    /* behind the options: an example, and what a reader would ask next */
} command_row;

static const command_row command_table[KL_NCMD] = {
    /* ORDER KL_CMD */
    {"dmrg", SUBJECT_MODEL, "MODEL", "Find ground or low excited states of a model by DMRG.",
     "Example: the Hubbard chain of 32 sites at half filling, its energy to nine digits:\n"
     "  kronlat dmrg hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16\n\n"
     "MODEL is a name that `kronlat models' lists, or the path of a model file. Every conserved charge must "
     "be given; leave them out to be told "
     "what is allowed. With neither --m, --schedule nor --accuracy the wanted accuracy is 1e-9, relative. "
     "Result and checkpoints go to one HDF5 file.\n\n"
     "Exit status: 0 when the run ended, converged or not (the report says which); 2 for bad input, no "
     "memory or no disk; 130 when interrupted "
     "(the checkpoint is kept)."},
    {"ed", SUBJECT_MODEL, "MODEL", "Find the lowest states of a sector exactly, or all of them.",
     "Example: the Hubbard model on a 4x4 torus, ten electrons, 19 million states:\n"
     "  kronlat ed hubbard --lattice torus:4x4 -p U=4 --charge N_up=5 --charge N_dn=5\n\n"
     "`kronlat plan --method ed' says size, memory and time before. With one state and no --solver the "
     "energy is found by Lanczos with three vectors, its "
     "error told; --measure, --output or --states makes the states themselves. --measure takes here: A (an "
     "operator of the model, on every site), "
     "corr(A,B), connected(A,B), structure(A,B) and entropy (of the two halves of the sites in their "
     "order).\n\n"
     "Spectral function of an operator at a site or a momentum (in units of 2 pi / length), and "
     "thermodynamics of all sectors of N:\n"
     "  kronlat ed hubbard --lattice ring:8 -p U=8 --charge N_up=4 --charge N_dn=4 --spectral cdag_up@0 "
     "--spectral 'Sz@q=4,0' --broadening 0.05\n"
     "  kronlat ed heisenberg --sites 16 --charge scan --temperatures 0.1:2:0.1 --samples 30\n\n"
     "A file named by --output gets a checkpoint every minute; `kronlat ed --resume FILE' goes on.\n\n"
     "No lattice symmetry is used, so that a sector is as large as its charges leave it: a 6x6 Heisenberg "
     "torus is out of reach."},
    {"ci", SUBJECT_FILE, "FCIDUMP",
     "Find low states of a molecule from its integrals by configuration interaction.",
     "Examples:\n"
     "  kronlat ci n2.fcidump --space cisd --roots 3\n"
     "  kronlat ci n2.fcidump --space full --irrep 1\n"
     "  kronlat ci h2o.fcidump --plan\n\n"
     "FCIDUMP holds integrals over real orbitals, restricted or unrestricted (IUHF=1), with labels of the "
     "point group where it has them. Irreps are "
     "numbered as in ORBSYM; without --irrep the lowest states of all are found. Truncated spaces store H in "
     "one of the formats of mahmoud2018; full ones "
     "(and active spaces) need no matrix. A result file is written where --output names one."},
    {"run", SUBJECT_FILE, "JOB.lua", "Do what a job file says.",
     "Example, job.lua:\n"
     "  return { model = \"hubbard\", sites = 32, p = { U = 4 }, charge = { N_up = 16, N_dn = 16 }, m = 512 "
     "}\n\n"
     "Keys are the long names of the options of `kronlat dmrg' with _ for -, and model, p and command "
     "(\"dmrg\", \"ed\", \"ci\", \"plan\" or \"growth\"); for ci the file goes by "
     "fcidump: return { command = \"ci\", fcidump = \"n2.fcidump\", space = \"cisd\", roots = 3 }. "
     "Options typed behind the file win over it. A job may compute (string, table and math are there) but "
     "reaches no files."},
    {"plan", SUBJECT_MODEL, "MODEL",
     "Say what a run would need, before it runs: sectors, records, memory, time, where the work is.",
     "Example:\n  kronlat plan hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16 --m 512"},
    {"explain", SUBJECT_MODEL, "MODEL",
     "Say which executor and kernel each operation of a run takes, and why; launches and memory.",
     "Example:\n  kronlat explain hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16 --m 2048 "
     "--exec offload\n\n"
     "Shapes are those of the middle bond, or with --method ed of the sector. Nothing is solved: a list is "
     "taken apart as it would be before a run."},
    {"growth", SUBJECT_MODEL, "MODEL",
     "Infinite-lattice DMRG on its own, with a report in the form of nemes2014, Table 5 and Figs. 1-2.",
     "Example: 14 iterations from 4 to 30 sites:\n  kronlat growth hubbard --sites 30 --m 256 -p U=1 "
     "--charge N_up=15 --charge N_dn=15\n\n"
     "Charges are those of the full length; shorter chains take the nearest charge that they can have."},
    {"models", SUBJECT_OPTIONAL_MODEL, "[MODEL]",
     "List the models, or show one: formula, charges, parameters, operators, terms.",
     "Example:\n  kronlat models heisenberg -p S=1"},
    {"devices", SUBJECT_NONE, "",
     "Say what this program computes with here: cores, instruction set, BLAS and LAPACK really loaded.",
     NULL},
    {"measure", SUBJECT_FILE, "RESULT.h5", "Measure on the state in a result file, and write that into it.",
     "Example:\n  kronlat measure hubbard.h5 --measure 'corr(cdag_up,c_up)' --measure 'structure(Sz,Sz)' "
     "--measure entropy\n\n"
     "What can be measured, A and B being operators that `kronlat models MODEL' lists, or n_up*n_dn, "
     "(Sp+Sm)/2, expipi(Sz) = exp(i pi Sz):\n"
     "  A                      <A_i> of every site\n"
     "  corr(A,B)              <A_i B_j> of all pairs; connected(A,B): less <A_i><B_j>\n"
     "  string(A,S,B)          <A_i S ... S B_j>, S on the sites between\n"
     "  structure(A,B)         the Fourier transform of corr(A,B) on the lattice's momenta\n"
     "  product(A@0,B@5,...)   one product on given sites; product(A@0,B@5;S): S on the sites between\n"
     "  populations            probability of each state of each site\n"
     "  entropy, spectrum      entanglement entropy and squared Schmidt values of every cut\n"
     "  energy, variance       <H>, and its two-site variance\n"
     "  overlap(OTHER.h5)      with the states in another result"},
    {"show", SUBJECT_FILE, "RESULT.h5", "Print what a result file holds.",
     "Example:\n  kronlat show hubbard.h5 --json"},
    {"plot", SUBJECT_FILE, "RESULT.h5",
     "Plot a result by gnuplot: energy by sweep, discarded weight, entropy, measured profiles.",
     "Example:\n  kronlat plot hubbard.h5 --output hubbard.svg\n\nThe ending of FILE chooses the format: "
     ".svg, .png or .pdf."},
    {"bench", SUBJECT_ANY, "...", "Measure speed; every time has a checked answer beside it.", NULL},
    {"tune", SUBJECT_ANY, "[--output FILE]",
     "Measure every operation on host and devices once, for --exec auto.", NULL},
};

const char *kl_command_name(kl_command command)
{
    return command < KL_NCMD ? command_table[command].name : NULL;
}

/* ---------------------------------------------------------------- options */

typedef enum value_kind {
    AS_FLAG,
    AS_INT,
    AS_REAL,
    AS_BYTES,
    AS_TEXT,
    AS_CHOICE,
    AS_NAMED /* list of NAME=VALUE */,
    AS_LIST /* of texts */
} value_kind;

typedef struct option_row {
    const char *name;
    int letter;             /* short form, 0 for none */
    const char *arg;        /* NULL for a flag */
    int group;              /* heading in the help */
    unsigned commands;      /* bits 1 << KL_CMD_* */
    value_kind kind;
    size_t offset;          /* of its field in kl_options */
    double min, max;        /* AS_INT, AS_REAL: allowed values, both included */
    const char *allowed;    /* AS_CHOICE: "a|b|c"; AS_NAMED: what an entry looks like */
    kl_status (*check)(kl_options *o, const char *where, const char *value, kl_err *err);
    const char *help;
} option_row;

static kl_status check_schedule(kl_options *o, const char *where, const char *value, kl_err *err);
static kl_status check_order(kl_options *o, const char *where, const char *value, kl_err *err);
static kl_status check_start(kl_options *o, const char *where, const char *value, kl_err *err);
static kl_status check_sweep(kl_options *o, const char *where, const char *value, kl_err *err);
static kl_status check_not_empty(kl_options *o, const char *where, const char *value, kl_err *err);
static kl_status check_list(kl_options *o, const char *where, const char *value, kl_err *err);

#define BIT(name) (1u << KL_CMD_##name)
#define AT(field) offsetof(kl_options, field)

static const char *const group_title[] = {
    NULL, "The system:", "Accuracy:", "The run:", "The machine:", "Output:", NULL};
enum { G_SYSTEM = 1, G_ACCURACY, G_RUN, G_MACHINE, G_OUTPUT, G_HELP };
enum {
    RUNS = BIT(DMRG) | BIT(RUN),
    SWEEPS = RUNS | BIT(PLAN) | BIT(EXPLAIN),
    SETS = SWEEPS | BIT(ED),
    STORES = RUNS | BIT(ED) | BIT(CI),
    ALL = (1u << KL_NCMD) - 1
};

static const option_row option_table[] = {
    {"sites", 'n', "N", G_SYSTEM, SETS | BIT(GROWTH), AS_INT, AT(sites), 1, 1000000, NULL, NULL,
     "chain of N sites (with --lattice ring: a ring)"},
    {"lattice", 0, "SPEC", G_SYSTEM, SETS, AS_TEXT, AT(lattice), 0, 0, NULL, check_not_empty,
     "chain, ring, chain:N, ring:N, ladder:LxW, square:LxW, cylinder:LxW, torus:LxW (length x width or "
     "circumference), or a Lua file that lists "
     "sites and bonds (docs/models.md shows one)"},
    {"double-bonds", 0, NULL, G_SYSTEM, SETS, AS_FLAG, AT(double_bonds), 0, 0, NULL, NULL,
     "a bond that closes a circumference of 2 counts twice"},
    {"order", 0, "HOW", G_SYSTEM, SETS, AS_TEXT, AT(order), 0, 0, NULL, check_order,
     "order in which the sites are met: column (as numbered), snake, fiedler, or the sites themselves: "
     "0,2,1,..."},
    {"parameter", 'p', "NAME=VALUE", G_SYSTEM, SETS | BIT(GROWTH) | BIT(MODELS), AS_NAMED, AT(parameter), 0,
     0, "NAME=VALUE", NULL,
     "parameter of the model, structural ones included (S=1); for arrays also NAME=@FILE, "
     "'NAME=uniform(a,b)', 'NAME=normal(mean,sigma)' or NAME=a,b,..."},
    {"charge", 0, "NAME=VALUE", G_SYSTEM, SETS | BIT(GROWTH), AS_NAMED, AT(charge), 0, 0,
     "NAME=VALUE, NAME=scan or scan", NULL,
     "conserved charge of the state; scan (or NAME=scan) tries all values and marks the lowest energy"},
    {"pin", 0, "OP@SITE=VALUE", G_SYSTEM, SETS, AS_NAMED, AT(pin), 0, 0,
     "OP@SITE=VALUE, OP@SITE*OP@SITE=VALUE", NULL,
     "add VALUE * OP at a site to H, a pinning field: 'Sz@0=-0.5'"},

    {"space", 0, "NAME", G_SYSTEM, BIT(CI) | BIT(RUN), AS_TEXT, AT(space), 0, 0, NULL, check_not_empty,
     "determinants: cis, cid, cisd (usual), cisdt, cisdtq, level:N, full, or cas:ELECTRONS,ORBITALS"},
    {"roots", 0, "N", G_SYSTEM, BIT(CI) | BIT(RUN), AS_INT, AT(roots), 1, 16, NULL, NULL,
     "the N lowest states (1)"},
    {"irrep", 0, "N", G_SYSTEM, BIT(CI) | BIT(RUN), AS_CHOICE, AT(irrep), 0, 0, "all|1|2|3|4|5|6|7|8", NULL,
     "irrep of the states, as in ORBSYM (all)"},
    {"electrons", 0, "N", G_SYSTEM, BIT(CI) | BIT(RUN), AS_INT, AT(electrons), 1, 2000, NULL, NULL,
     "electrons, where the file's NELEC is not what is wanted"},
    {"ms2", 0, "N", G_SYSTEM, BIT(CI) | BIT(RUN), AS_INT, AT(ms2), -1000, 1000, NULL, NULL,
     "alpha less beta electrons (the file's MS2)"},
    {"frozen", 0, "N", G_SYSTEM, BIT(CI) | BIT(RUN), AS_INT, AT(frozen), 0, 1000, NULL, NULL,
     "the N lowest orbitals stay doubly occupied (0)"},
    {"reference", 0, "OCC", G_SYSTEM, BIT(CI) | BIT(RUN), AS_LIST, AT(reference), 0, 0, NULL, check_not_empty,
     "determinant that excitations start from, 2 u d or 0 for each orbital: 2222ud00; once for each (the "
     "determinant of lowest energy)"},

    {"residual", 0, "R", G_ACCURACY, BIT(CI) | BIT(RUN), AS_REAL, AT(residual), 1e-14, 1, NULL, NULL,
     "wanted |H x - E x|, hartree; the energy's error goes with its square (1e-6)"},
    {"accuracy", 0, "REL", G_ACCURACY, SETS, AS_REAL, AT(accuracy), 1e-14, 0.1, NULL, NULL,
     "wanted relative error of the energy; m, sweeps, noise and tolerances follow from it (1e-9)"},
    {"m", 'm', "M", G_ACCURACY, SWEEPS | BIT(GROWTH), AS_INT, AT(m), 1, 1000000, NULL, NULL,
     "keep at most M states (dmrg on a device: up to a sixteenth more, see --full-sectors)"},
    {"m-min", 0, "M", G_ACCURACY, RUNS, AS_INT, AT(m_min), 1, 1000000, NULL, NULL,
     "keep at least M states where --discard would allow fewer"},
    {"schedule", 0, "LIST", G_ACCURACY, SWEEPS, AS_TEXT, AT(schedule), 0, 0, NULL, check_schedule,
     "sweeps as m[:noise[:tol]][*count],...: '64:1e-4*2,256:1e-6,512*4'"},
    {"discard", 0, "W", G_ACCURACY, RUNS, AS_REAL, AT(discard), 0, 0.1, NULL, NULL,
     "truncate to the discarded weight W, with --m as the largest m"},
    {"max-sweeps", 0, "N", G_ACCURACY, RUNS, AS_INT, AT(max_sweeps), 1, 100000, NULL, NULL,
     "sweeps at most (100)"},
    {"states", 0, "N", G_ACCURACY, SETS, AS_INT, AT(states), 1, 16, NULL, NULL,
     "the N lowest states of the sector, state-averaged (1)"},

    {"strategy", 0, "NAME", G_RUN, SWEEPS | BIT(GROWTH), AS_CHOICE, AT(strategy), 0, 0, "auto|lr|l11r", NULL,
     "superblock from two enlarged blocks (lr) or from block, site, site, block (l11r)"},
    {"solver", 0, "NAME", G_RUN, SETS, AS_CHOICE, AT(solver), 0, 0, "davidson|lanczos|lobpcg|full", NULL,
     "davidson or lanczos; for ed also lobpcg, and full: all states of a sector of up to 10000, by LAPACK"},
    {"form", 0, "NAME", G_RUN, SETS, AS_CHOICE, AT(form), 0, 0, "auto|sites|flavours", NULL,
     "ed: halves of the system that are sites, or the two flavours of electrons (auto: flavours where "
     "densities alone couple them)"},
    {"precondition", 0, "NAME", G_RUN, RUNS | BIT(ED), AS_CHOICE, AT(precondition), 0, 0,
     "diagonal|neumann|none", NULL,
     "ed: davidson and lobpcg divide residuals by the diagonal of H, by its Neumann expansion (which takes "
     "products with H), or not at all (diagonal)"},
    {"neumann-order", 0, "K", G_RUN, RUNS | BIT(ED), AS_INT, AT(neumann_order), 1, 50, NULL, NULL,
     "terms of the Neumann expansion behind the diagonal (2)"},
    {"spectral", 0, "OP@WHERE", G_RUN, RUNS | BIT(ED), AS_LIST, AT(spectral), 0, 0, NULL, check_not_empty,
     "ed: spectral function of an operator, once for each: cdag_up@3 at a site, 'Sz@q=2,0' at a momentum of "
     "the lattice"},
    {"broadening", 0, "ETA", G_RUN, RUNS | BIT(ED), AS_REAL, AT(broadening), 1e-6, 1e6, NULL, NULL,
     "half width of its peaks (0.1)"},
    {"frequencies", 0, "FROM:TO:STEP", G_RUN, RUNS | BIT(ED), AS_TEXT, AT(frequencies), 0, 0, NULL,
     check_list, "where it is wanted, counted from the lowest energy (all weight)"},
    {"temperatures", 0, "FROM:TO:STEP", G_RUN, RUNS | BIT(ED), AS_TEXT, AT(temperatures), 0, 0, NULL,
     check_list,
     "ed: energy, heat capacity, entropy, and susceptibilities of charges that are scanned, by "
     "finite-temperature Lanczos; summed over --charge scan"},
    {"samples", 0, "R", G_RUN, RUNS | BIT(ED), AS_INT, AT(samples), 1, 100000, NULL, NULL,
     "random states in each sector, which also make the error bars (20)"},
    {"steps", 0, "M", G_RUN, RUNS | BIT(ED), AS_INT, AT(steps), 2, 5000, NULL, NULL,
     "Lanczos steps of a sample (100), or levels of a spectral function (1000), at most"},
    {"max-products", 0, "N", G_RUN, RUNS | BIT(ED), AS_INT, AT(max_products), 1, 1e9, NULL, NULL,
     "products with H at most: of ed in all (2000), of dmrg at every bond"},
    {"store", 0, "HOW", G_RUN, STORES, AS_CHOICE, AT(store), 0, 0, "auto|matrix|direct", NULL,
     "keep H as a matrix, or multiply directly (ci, auto: direct for full spaces; ed, auto: direct)"},
    {"format", 0, "NAME", G_RUN, STORES, AS_CHOICE, AT(format), 0, 0, "csr|ell|ellr|sell|sellr|hybrid", NULL,
     "of the stored matrix (csr)"},
    {"boundary", 0, "N", G_RUN, STORES, AS_INT, AT(boundary), 1, 1e9, NULL, NULL,
     "hybrid: non-zeros of each row that go to its ELL part (chosen)"},
    {"slice", 0, "ROWS", G_RUN, STORES, AS_INT, AT(slice), 1, 65536, NULL, NULL,
     "sliced ELL: rows of a slice (32)"},
    {"sigma", 0, "ROWS", G_RUN, STORES, AS_INT, AT(sigma), 1, 1e9, NULL, NULL,
     "sliced ELL: rows that are sorted by length together (1: none)"},
    {"half", 0, NULL, G_RUN, STORES, AS_FLAG, AT(half), 0, 0, NULL, NULL,
     "store one half of the symmetric matrix (csr and hybrid)"},
    {"pspace", 0, "N", G_RUN, BIT(CI) | BIT(RUN), AS_INT, AT(pspace), 1, 5000, NULL, NULL,
     "determinants of the dense block that starts and preconditions the solver (about 130)"},
    {"method", 0, "NAME", G_RUN, BIT(PLAN) | BIT(EXPLAIN) | BIT(RUN), AS_CHOICE, AT(method), 0, 0, "dmrg|ed",
     NULL, "plan, explain: of which method (dmrg)"},
    {"basis", 0, "N", G_RUN, RUNS | BIT(EXPLAIN) | BIT(GROWTH) | BIT(ED) | BIT(CI), AS_INT, AT(basis), 3,
     1000, NULL, NULL, "vectors in the eigensolver's basis (20)"},
    {"start", 0, "WHAT", G_RUN, RUNS, AS_TEXT, AT(start), 0, 0, NULL, check_start,
     "neel, product:STATE,STATE,... (repeated along the lattice), or RESULT.h5: another m or other "
     "parameters are welcome"},
    {"seed", 0, "N", G_RUN, SETS | BIT(GROWTH) | BIT(CI), AS_INT, AT(seed), 1, 9007199254740992.0, NULL, NULL,
     "of random numbers (1): start vectors, random arrays"},
    {"sweep-parameter", 0, "NAME=FROM:TO:STEP", G_RUN, RUNS, AS_TEXT, AT(sweep_parameter), 0, 0, NULL,
     check_sweep, "one run for each value (or NAME=a,b,...), each starting from the state before"},
    {"measure", 0, "WHAT", G_RUN, RUNS | BIT(MEASURE) | BIT(ED), AS_LIST, AT(measure), 0, 0, NULL,
     check_not_empty,
     "measure at the end, once for each: an operator (Sz), corr(Sp,Sm), string(Sz,expipi(Sz),Sz), "
     "structure(Sz,Sz), product(Sz@0,Sz@5), populations, "
     "entropy, spectrum, variance, ...; `kronlat measure --help' lists them"},
    {"density", 0, NULL, G_RUN, BIT(CI) | BIT(RUN), AS_FLAG, AT(density), 0, 0, NULL, NULL,
     "one-body density matrices and natural occupations"},
    {"matrix", 0, "FILE", G_RUN, BIT(CI) | BIT(RUN), AS_TEXT, AT(matrix), 0, 0, NULL, check_not_empty,
     "write the stored matrix in Matrix Market form (FILE-2 and so on for further irreps)"},
    {"arrays", 0, "FILE", G_RUN, BIT(CI) | BIT(RUN), AS_TEXT, AT(arrays), 0, 0, NULL, check_not_empty,
     "write the arrays of the stored matrix in its format, and the non-zeros of each row, as HDF5 (FILE-2 "
     "and so on for further irreps)"},
    {"full-sectors", 0, NULL, G_RUN, SWEEPS, AS_FLAG, AT(full_sectors), 0, 0, NULL, NULL,
     "keep even sectors, and a sixteenth of m more that fills large ones up to multiples of 8, 16 or 32, as "
     "runs on a device do: what to compare their energies with"},
    {"infinite", 0, NULL, G_RUN, RUNS, AS_FLAG, AT(infinite), 0, 0, NULL, NULL,
     "infinite-lattice growth only, as `kronlat growth'"},

    {"memory", 0, "GB", G_MACHINE, STORES, AS_REAL, AT(memory), 1e-6, 1e9, NULL, NULL,
     "largest matrix to store (half of the machine's memory)"},
    {"threads", 0, "N", G_MACHINE, SETS | BIT(GROWTH) | BIT(MEASURE) | BIT(CI), AS_INT, AT(threads), 1, 4096,
     NULL, NULL, "threads (as many as cores)"},
    {"exec", 0, "WHERE", G_MACHINE, SETS | BIT(GROWTH) | BIT(MEASURE) | BIT(CI), AS_CHOICE, AT(exec), 0, 0,
     "auto|host|offload|cuda", NULL, "auto, host, offload or cuda (auto)"},
    {"projection", 0, "HOW", G_MACHINE, SETS | BIT(GROWTH) | BIT(MEASURE), AS_CHOICE, AT(projection), 0, 0,
     "auto|grouped|4streams|concat|nostreams|library|nostorage", NULL,
     "cuda: how lists of products are run: our kernel, one launch a level (grouped), or cuBLAS, as in "
     "nemes2014 (4streams, nostreams), after products of one output were joined (concat), or by its grouped "
     "calls (library); with operators left on the host and streamed in (nostorage); auto takes what the tune "
     "table has seen to be fastest, our kernel where there is none, and streams what does not fit"},
    {"hybrid", 0, "STEPS", G_MACHINE, SETS | BIT(GROWTH), AS_TEXT, AT(hybrid), 0, 0, NULL, check_not_empty,
     "with a device, let the host do its share of H x: auto, or SIZE:RATIO,...: the device is so many times "
     "faster on matrices from SIZE on"},
    {"device-memory", 0, "BYTES", G_MACHINE, SETS | BIT(GROWTH) | BIT(MEASURE) | BIT(CI), AS_BYTES,
     AT(device_memory), 1e6, 1e15, NULL, NULL,
     "take BYTES of the device's memory at most, 4e9, 4GB or 2GiB (all that is free); operators and parts of "
     "an eigensolver's basis that do not fit stay on the host"},

    {"output", 'o', "FILE", G_OUTPUT, RUNS | BIT(PLOT) | BIT(ED) | BIT(CI), AS_TEXT, AT(output), 0, 0, NULL,
     check_not_empty,
     "file to write, an older one is replaced; for results a new name is made up where none is given, and "
     "none means no file"},
    {"save-records", 0, "FILE", G_OUTPUT, RUNS | BIT(GROWTH), AS_TEXT, AT(save_records), 0, 0, NULL,
     check_not_empty,
     "write the operation records of H x, at the middle bond of each sweep or of each iteration of growth; "
     "`kronlat bench hx --replay FILE' runs them again"},
    {"plan", 0, NULL, G_OUTPUT, BIT(CI) | BIT(RUN), AS_FLAG, AT(plan), 0, 0, NULL, NULL,
     "only say what there is: determinants and singlet configuration state functions by level and irrep, "
     "memory"},
    {"resume", 0, "FILE", G_OUTPUT, RUNS | BIT(ED) | BIT(CI), AS_TEXT, AT(resume), 0, 0, NULL,
     check_not_empty, "go on from the checkpoint in FILE, and write there"},
    {"checkpoint-every", 0, "S", G_OUTPUT, RUNS | BIT(ED) | BIT(CI), AS_REAL, AT(checkpoint_every), 0, 1e9,
     NULL, NULL,
     "seconds between checkpoints inside a sweep, or between products with H (60); there is one at every "
     "sweep's end"},
    {"json", 0, NULL, G_OUTPUT, ALL & ~BIT(BENCH) & ~BIT(PLOT), AS_FLAG, AT(json), 0, 0, NULL, NULL,
     "one JSON document on stdout instead of the report"},
    {"verbose", 'v', NULL, G_OUTPUT, RUNS | BIT(ED) | BIT(CI), AS_FLAG, AT(verbose), 0, 0, NULL, NULL,
     "a line for each sweep (ci: product) on stderr, terminal or not"},

    {"help", 'h', NULL, G_HELP, ALL & ~BIT(BENCH), AS_FLAG, AT(help), 0, 0, NULL, NULL, "this text"},
    {"version", 'V', NULL, G_HELP, ALL & ~BIT(BENCH), AS_FLAG, AT(version), 0, 0, NULL, NULL,
     "the program's version"},
};
enum { NOPTION = sizeof(option_table) / sizeof(option_table[0]) };
_Static_assert(NOPTION <= KL_MAX_OPTION, "kl_options.given has a place for each row");

/* ---------------------------------------------------------------- single values */

size_t kl_split_name(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals == NULL ? 0 : (size_t)(equals - text);
}

static kl_status check_not_empty(kl_options *o, const char *where, const char *value, kl_err *err)
{
    (void)o;
    return value[0] == '\0' ? kl_fail(err, KL_EINPUT, "%s: the value is empty", where) : KL_OK;
}

static kl_status check_list(kl_options *o, const char *where, const char *value, kl_err *err)
{
    kl_status st = KL_OK;
    int n = 0;
    double *x = NULL;
    (void)o;
    KL_TRY(kl_options_values(where, value, &n, &x, err));
out:
    kl_free(&x);
    return st;
}

static kl_status check_start(kl_options *o, const char *where, const char *value, kl_err *err)
{
    (void)o;
    const size_t length = strlen(value);
    const int is_file = length > 3 && strcmp(value + length - 3, ".h5") == 0;
    if (strcmp(value, "neel") == 0 || (strncmp(value, "product:", 8) == 0 && value[8] != '\0') || is_file ||
        strchr(value, '/') != NULL)
        return KL_OK;
    return kl_fail(
        err, KL_EINPUT,
        "%s: '%s' is no start; allowed: neel, product:STATE,STATE,..., or a result file (RESULT.h5)", where,
        value);
}

static kl_status check_order(kl_options *o, const char *where, const char *value, kl_err *err)
{
    (void)o;
    static const char *const word[] = {"column", "snake", "fiedler", NULL};
    for (int i = 0; word[i] != NULL; i++)
        if (strcmp(value, word[i]) == 0) return KL_OK;
    if (value[0] != '\0' && value[strspn(value, "0123456789, ")] == '\0') return KL_OK;
    return kl_fail(
        err, KL_EINPUT,
        "%s: '%s' is no order; allowed: column, snake, fiedler, or all sites separated by commas (0,2,1,...)",
        where, value);
}

/* "64:1e-4*2,256" -> rows, one per sweep. */
static kl_status check_schedule(kl_options *o, const char *where, const char *value, kl_err *err)
{
    enum { MAX_ROWS = 100000 };
    kl_status st = KL_OK;
    char item[128];
    int n = 0;
    kl_free(&o->schedule_row);
    o->nschedule = 0;
    for (const char *p = value;; p++) {
        const size_t length = strcspn(p, ",");
        if (length == 0 || length >= sizeof(item)) {
            KL_TRY(kl_fail(err, KL_EINPUT,
                           "%s: '%s' has an empty or overlong entry; an entry is m[:noise[:tol]][*count], as "
                           "in 64:1e-4*2,256*4",
                           where, value));
        }
        memcpy(item, p, length);
        item[length] = '\0';
        p += length;

        char entry[128];
        memcpy(entry, item, length + 1);
        int64_t count = 1, m = 0;
        double noise = 0, tol = 0;
        char *star = strchr(item, '*');
        if (star != NULL) *star++ = '\0';
        char *text_noise = strchr(item, ':');
        if (text_noise != NULL) *text_noise++ = '\0';
        char *text_tol = text_noise == NULL ? NULL : strchr(text_noise, ':');
        if (text_tol != NULL) *text_tol++ = '\0';
        if (!kl_parse_int(item, &m) || m < 1 || m > 1000000)
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: m is '%s' in '%s'; allowed: an integer from 1 to 1000000",
                           where, item, entry));
        if (text_noise != NULL && (!kl_parse_double(text_noise, &noise) || noise < 0 || noise > 1))
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: noise is '%s' in '%s'; allowed: a number from 0 to 1", where,
                           text_noise, entry));
        if (text_tol != NULL && (!kl_parse_double(text_tol, &tol) || tol <= 0 || tol > 1))
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: tol is '%s' in '%s'; allowed: a number above 0, at most 1",
                           where, text_tol, entry));
        if (star != NULL && (!kl_parse_int(star, &count) || count < 1 || count > MAX_ROWS))
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: count is '%s' in '%s'; allowed: an integer from 1 to %d",
                           where, star, entry, (int)MAX_ROWS));
        if (n + count > MAX_ROWS)
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: more than %d sweeps", where, (int)MAX_ROWS));
        KL_TRY(kl_realloc(&o->schedule_row, n + count, KL_MEM_MISC, err));
        for (int64_t i = 0; i < count; i++) o->schedule_row[n++] = (kl_sweep_text){(int)m, noise, tol};
        if (*p == '\0') break;
    }
    if (o->schedule_row[n - 1].noise > 0)
        KL_TRY(kl_fail(
            err, KL_EINPUT,
            "%s: the last sweep of '%s' has noise %g; it must have none, or the energy is the noise's", where,
            value, o->schedule_row[n - 1].noise));
    o->nschedule = n;
out:
    return st;
}

kl_status kl_options_sweep(const char *text, int *n, double **value, kl_err *err)
{
    enum { MAX_VALUES = 10000 };
    kl_status st = KL_OK;
    *n = 0;
    *value = NULL;
    const size_t name = kl_split_name(text);
    const char *rest = name == 0 ? "" : text + name + 1;
    char part[64];
    double bound[3];
    int nbound = 0;
    const char *separator = strchr(rest, ':') != NULL ? ":" : ",";
    if (name == 0) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not NAME=FROM:TO:STEP or NAME=a,b,...", text));
    for (const char *p = rest;; p++) {
        const size_t length = strcspn(p, separator);
        double x = 0;
        snprintf(part, sizeof(part), "%.*s", (int)(length < sizeof(part) ? length : sizeof(part) - 1), p);
        if (length >= sizeof(part) || !kl_parse_double(part, &x))
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not a number in '%s' (NAME=FROM:TO:STEP or NAME=a,b,...)",
                           part, text));
        if (*separator == ':') {
            if (nbound == 3) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' has more than FROM:TO:STEP", text));
            bound[nbound++] = x;
        } else {
            if (*n == MAX_VALUES)
                KL_TRY(kl_fail(err, KL_EINPUT, "'%s' has more than %d values", text, (int)MAX_VALUES));
            KL_TRY(kl_realloc(value, *n + 1, KL_MEM_MISC, err));
            (*value)[(*n)++] = x;
        }
        p += length;
        if (*p == '\0') break;
    }
    if (*separator == ':') {
        if (nbound != 3) KL_TRY(kl_fail(err, KL_EINPUT, "'%s' is not NAME=FROM:TO:STEP", text));
        const double steps = (bound[1] - bound[0]) / bound[2];
        if (bound[2] == 0 || !(steps >= 0))
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s': steps of %g never lead from %g to %g", text, bound[2],
                           bound[0], bound[1]));
        if (steps >= (double)MAX_VALUES)
            KL_TRY(kl_fail(err, KL_EINPUT, "'%s' makes %.0f values, at most %d are allowed", text,
                           floor(steps) + 1, (int)MAX_VALUES));
        const int count = (int)floor(steps + 1e-9) + 1;
        KL_TRY(kl_alloc(value, count, KL_MEM_MISC, err));
        for (int i = 0; i < count; i++) (*value)[i] = bound[0] + i * bound[2];
        *n = count;
    }
out:
    if (st != KL_OK) {
        kl_free(value);
        *n = 0;
    }
    return st;
}

static kl_status check_sweep(kl_options *o, const char *where, const char *value, kl_err *err)
{
    (void)o;
    int n;
    double *list;
    const kl_status st = kl_options_sweep(value, &n, &list, err);
    if (st != KL_OK) return kl_fail(err, st, "%s: %s", where, err->text);
    kl_free(&list);
    return KL_OK;
}

/* "auto|lr|l11r" holds the word. */
static int is_choice(const char *allowed, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = allowed; *p != '\0';) {
        const size_t here = strcspn(p, "|");
        if (here == length && length > 0 && memcmp(p, word, length) == 0) return 1;
        p += here;
        if (*p == '|') p++;
    }
    return 0;
}

static kl_status set_text(char **field, const char *value, kl_err *err)
{
    char *copy = kl_strdup(value);
    if (copy == NULL) return kl_fail(err, KL_ENOMEM, "no memory for the option value '%.40s'", value);
    kl_free(field);
    *field = copy;
    return KL_OK;
}

static kl_status append(kl_text_list *list, const char *value, int from, kl_err *err)
{
    kl_status st = kl_realloc(&list->text, list->n + 1, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    list->text[list->n] = NULL;
    st = set_text(&list->text[list->n], value, err);
    if (st != KL_OK) return st;
    list->n++;
    if (from == FROM_COMMAND_LINE) list->ntyped = list->n;
    return KL_OK;
}

static kl_status add_named(const option_row *row, kl_text_list *list, const char *where, const char *value,
                           int from, kl_err *err)
{
    const size_t name = kl_split_name(value);
    const int bare = strcmp(row->name, "charge") == 0 && strcmp(value, "scan") == 0;
    if ((name == 0 || value[name + 1] == '\0') && !bare)
        return kl_fail(err, KL_EINPUT, "%s: '%s' is not %s", where, value, row->allowed);
    for (int i = 0; i < list->n; i++) {
        const size_t other = kl_split_name(list->text[i]);
        if (other != name || memcmp(list->text[i], value, name) != 0) continue;
        if (from == FROM_JOB && i < list->ntyped) return KL_OK;
        return kl_fail(err, KL_EINPUT, "%s: given twice, as '%s' and as '%s'", where, list->text[i], value);
    }
    return append(list, value, from, err);
}

/* A number, with a unit behind it or without. */
static int read_bytes(const char *value, double *out)
{
    static const char letter[] = "kMGT";
    char number[40];
    const size_t length = strlen(value), unit = strcspn(value, "kKMGTB");
    const char *const at = strchr(letter, value[unit] == 'K' ? 'k' : value[unit]);
    if (unit == 0 || unit >= sizeof number) return 0;
    memcpy(number, value, unit);
    number[unit] = '\0';
    if (!kl_parse_double(number, out)) return 0;
    if (unit == length || strcmp(value + unit, "B") == 0) return 1;
    if (at == NULL || *at == '\0') return 0;
    const int binary = strcmp(value + unit + 1, "iB") == 0;
    if (!binary && strcmp(value + unit + 1, "B") != 0) return 0;
    for (const char *p = letter; p <= at; p++) *out *= binary ? 1024 : 1000;
    return 1;
}

/* Texts stand as they came; the same one twice is one. */
static kl_status add_text(kl_text_list *list, const char *value, int from, kl_err *err)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->text[i], value) == 0) return KL_OK;
    return append(list, value, from, err);
}

/* Stores one value; `where` is how the user knows the place: "--m", "job.lua: m". */
static kl_status set_value(kl_options *o, const option_row *row, const char *where, const char *value,
                           int from, kl_err *err)
{
    const int index = (int)(row - option_table);
    char *const field = (char *)o + row->offset;
    if (row->kind == AS_LIST) {
        kl_status st = row->check != NULL ? row->check(o, where, value, err) : KL_OK;
        if (st == KL_OK) st = add_text((kl_text_list *)(void *)field, value, from, err);
        if (st == KL_OK && o->given[index] < from) o->given[index] = (unsigned char)from;
        return st;
    }
    if (row->kind == AS_NAMED) {
        kl_status st = add_named(row, (kl_text_list *)(void *)field, where, value, from, err);
        if (st == KL_OK && o->given[index] < from) o->given[index] = (unsigned char)from;
        return st;
    }
    if (o->given[index] > from) return KL_OK;
    if (o->given[index] == from && row->kind != AS_FLAG)
        return kl_fail(err, KL_EINPUT, "%s: given twice, the second time as '%s'", where, value);

    kl_status st = KL_OK;
    if (row->check != NULL) st = row->check(o, where, value, err);
    if (st != KL_OK) return st;
    switch (row->kind) {
    case AS_FLAG: *(int *)(void *)field = 1; break;
    case AS_INT: {
        int64_t x = 0;
        if (!kl_parse_int(value, &x) || (double)x < row->min || (double)x > row->max)
            return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: an integer from %.0f to %.0f", where,
                           value, row->min, row->max);
        *(int64_t *)(void *)field = x;
        break;
    }
    case AS_REAL: {
        double x = 0;
        if (!kl_parse_double(value, &x) || !(x >= row->min && x <= row->max))
            return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: a number from %g to %g", where,
                           value, row->min, row->max);
        *(double *)(void *)field = x;
        break;
    }
    case AS_BYTES: {
        double x = 0;
        if (!read_bytes(value, &x) || !(x >= row->min && x <= row->max))
            return kl_fail(err, KL_EINPUT,
                           "%s: '%s' was given; allowed: %g to %g bytes, as a number or with kB, MB, GB, TB, "
                           "KiB, MiB, GiB or TiB behind it",
                           where, value, row->min, row->max);
        *(double *)(void *)field = x;
        break;
    }
    case AS_CHOICE:
        if (!is_choice(row->allowed, value)) {
            char words[128];
            snprintf(words, sizeof(words), "%s", row->allowed);
            for (char *c = words; *c != '\0'; c++)
                if (*c == '|') *c = ' ';
            return kl_fail(err, KL_EINPUT, "%s: '%s' was given; allowed: %s", where, value, words);
        }
        st = set_text((char **)(void *)field, value, err);
        break;
    default: st = set_text((char **)(void *)field, value, err); break;
    }
    if (st == KL_OK) o->given[index] = (unsigned char)from;
    return st;
}

/* ---------------------------------------------------------------- look-up and refusals */

/* Row of an option by its long name (length characters, - and _ alike), any command; NULL if there is
   none. */
static const option_row *find_option(const char *name, size_t length)
{
    for (int i = 0; i < NOPTION; i++) {
        const char *have = option_table[i].name;
        if (strlen(have) != length) continue;
        size_t k = 0;
        while (k < length && (have[k] == name[k] || (have[k] == '-' && name[k] == '_'))) k++;
        if (k == length) return &option_table[i];
    }
    return NULL;
}

/* What DMRG knows by name, so that a job file may hold it, and only exact diagonalization takes. */
static int is_of_ed(const char *name)
{
    static const char *const of_ed[] = {"precondition", "neumann-order", "spectral", "broadening",
                                        "frequencies",  "temperatures",  "samples",  "steps",
                                        "store",        "format",        "boundary", "slice",
                                        "sigma",        "half",          "memory"};
    for (size_t k = 0; k < sizeof(of_ed) / sizeof(of_ed[0]); k++)
        if (strcmp(name, of_ed[k]) == 0) return 1;
    return 0;
}

/* Unknown option or one that belongs elsewhere; for a job the keys that are no options are candidates too. */
static kl_status refuse_name(kl_command command, const char *where, const char *dashes, const char *name,
                             kl_err *err)
{
    const char *list[NOPTION + 4];
    int n = 0;
    for (int i = 0; i < NOPTION; i++)
        if ((option_table[i].commands >> command & 1u) &&
            !(dashes[0] == '\0' && option_table[i].group == G_HELP))
            list[n++] = option_table[i].name;
    if (dashes[0] == '\0') {
        list[n++] = command == KL_CMD_CI ? "fcidump" : "model";
        list[n++] = "command";
    }
    list[n] = NULL;
    const option_row *known = find_option(name, strlen(name));
    const char *near = kl_closest(name, list);
    const char *help = command_table[command].name;
    if (known != NULL && known->group != G_HELP) {
        for (int c = 0; c < KL_NCMD; c++)
            if (known->commands >> c & 1u && (!is_of_ed(known->name) || c == KL_CMD_ED))
                return kl_fail(
                    err, KL_EINPUT,
                    "%s: %s%s belongs to `kronlat %s'; `kronlat %s --help' lists what is allowed here", where,
                    dashes, known->name, command_table[c].name, help);
    }
    if (near != NULL)
        return kl_fail(err, KL_EINPUT, "%s: unknown option %s%s; did you mean %s%s?", where, dashes, name,
                       dashes, near);
    return kl_fail(err, KL_EINPUT, "%s: unknown option %s%s; `kronlat %s --help' lists them", where, dashes,
                   name, help);
}

/* argp said no: finds the word that it cannot have understood, by the same table. */
static kl_status explain(kl_command command, int argc, char **argv, kl_err *err)
{
    const char *const where = command_table[command].name;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--") == 0) break;
        if (word[0] != '-' || word[1] == '\0') continue;
        const option_row *row = NULL;
        int inline_value = 0;
        if (word[1] == '-') {
            char name[80];
            const size_t length = strcspn(word + 2, "=");
            snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1),
                     word + 2);
            inline_value = word[2 + length] == '=';
            /* exact, or the only one that begins so, as getopt takes it */
            int matches = 0;
            for (int k = 0; k < NOPTION; k++) {
                if (!(option_table[k].commands >> command & 1u) ||
                    strncmp(option_table[k].name, name, strlen(name)) != 0)
                    continue;
                if (strlen(option_table[k].name) == strlen(name)) {
                    row = &option_table[k];
                    matches = 1;
                    break;
                }
                row = &option_table[k];
                matches++;
            }
            if (matches != 1) return refuse_name(command, where, "--", name, err);
            if (row->arg == NULL && inline_value)
                return kl_fail(err, KL_EINPUT, "--%s: takes no value, '%s' was given", row->name,
                               word + 3 + length);
        } else {
            for (int k = 0; k < NOPTION; k++)
                if ((option_table[k].commands >> command & 1u) && option_table[k].letter == word[1])
                    row = &option_table[k];
            if (row == NULL)
                return kl_fail(err, KL_EINPUT, "%s: unknown option -%c; `kronlat %s --help' lists them",
                               where, word[1], where);
            inline_value = word[2] != '\0';
        }
        if (row->arg != NULL && !inline_value && ++i >= argc)
            return kl_fail(err, KL_EINPUT, "--%s: the value is missing; it takes %s", row->name, row->arg);
    }
    return kl_fail(err, KL_EINPUT, "%s: the options are not understood; `kronlat %s --help' lists them",
                   where, where);
}

/* ---------------------------------------------------------------- argp */

enum { KEY_FIRST = 1000 }; /* keys of options without a letter: KEY_FIRST + row */

typedef struct parse_input {
    kl_options *o;
    kl_status st;
    kl_err *err;
} parse_input;

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
    parse_input *const in = state->input;
    kl_options *const o = in->o;
    const subject takes = command_table[o->command].subject;
    if (key == ARGP_KEY_ARG) {
        char **field = takes == SUBJECT_FILE ? &o->file : &o->model;
        if (takes == SUBJECT_NONE)
            in->st = kl_fail(in->err, KL_EINPUT, "%s: takes no '%s'", kl_command_name(o->command), arg);
        else if (*field != NULL && o->command == KL_CMD_PLAN && strcmp(*field, "ed") == 0)
            in->st = kl_fail(in->err, KL_EINPUT,
                             "plan: of exact diagonalization it is kronlat plan --method ed %s", arg);
        else if (*field != NULL)
            in->st = kl_fail(in->err, KL_EINPUT, "%s: one %s, not two: '%s' and '%s'",
                             kl_command_name(o->command), command_table[o->command].args, *field, arg);
        else if (arg[0] == '\0')
            in->st = kl_fail(in->err, KL_EINPUT, "%s: %s is empty", kl_command_name(o->command),
                             command_table[o->command].args);
        else in->st = set_text(field, arg, in->err);
        return in->st == KL_OK ? 0 : EINVAL;
    }
    for (int i = 0; i < NOPTION; i++) {
        const option_row *row = &option_table[i];
        if (!(row->commands >> o->command & 1u) || key != (row->letter != 0 ? row->letter : KEY_FIRST + i))
            continue;
        char where[64];
        snprintf(where, sizeof(where), "--%s", row->name);
        in->st = set_value(o, row, where, arg == NULL ? "" : arg, FROM_COMMAND_LINE, in->err);
        return in->st == KL_OK ? 0 : EINVAL;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Options of a command as argp wants them, with a heading before each group. */
static void argp_options(kl_command command, struct argp_option *out)
{
    int n = 0, group = 0;
    for (int i = 0; i < NOPTION; i++) {
        const option_row *row = &option_table[i];
        if (!(row->commands >> command & 1u)) continue;
        if (row->group != group) {
            group = row->group;
            if (group_title[group] != NULL)
                out[n++] = (struct argp_option){NULL, 0, NULL, 0, group_title[group], group};
        }
        out[n++] = (struct argp_option){
            row->name, row->letter != 0 ? row->letter : KEY_FIRST + i, row->arg, 0, row->help, group};
    }
    out[n] = (struct argp_option){0};
}

static void make_argp(kl_command command, struct argp_option *options, char *doc, size_t size,
                      struct argp *out)
{
    const command_row *row = &command_table[command];
    argp_options(command, options);
    snprintf(doc, size, "%s%s%s", row->summary, row->text != NULL ? "\v" : "",
             row->text != NULL ? row->text : "");
    *out = (struct argp){options, parse_key, row->args, doc, NULL, NULL, NULL};
}

enum { MAX_ARGP = NOPTION + 16, MAX_DOC = 4096 };

void kl_options_help(kl_command command)
{
    if (command >= KL_NCMD) {
        printf("Usage: kronlat COMMAND ...\nGround states of strongly correlated lattice models, from short "
               "model descriptions.\n\n");
        for (int c = 0; c < KL_NCMD; c++)
            printf("  %-8s %s\n", command_table[c].name, command_table[c].summary);
        printf("\nExample:\n  kronlat dmrg heisenberg --sites 32 --charge Sz=0\n\n`kronlat COMMAND --help' "
               "tells more of each; `kronlat --version' the version.\n");
        return;
    }
    struct argp_option options[MAX_ARGP];
    struct argp argp;
    char doc[MAX_DOC], name[64];
    make_argp(command, options, doc, sizeof(doc), &argp);
    snprintf(name, sizeof(name), "kronlat %s", command_table[command].name);
    setenv("ARGP_HELP_FMT", "no-dup-args-note,rmargin=96", 0); /* argp has no other handle for these */
    argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_PRE_DOC | ARGP_HELP_LONG | ARGP_HELP_POST_DOC,
              name);
}

static kl_status join_words(int argc, char **argv, char **out, kl_err *err)
{
    size_t length = 1;
    for (int i = 0; i < argc; i++) length += strlen(argv[i]) + 3;
    kl_status st = kl_alloc(out, (int64_t)length, KL_MEM_MISC, err);
    if (st != KL_OK) return st;
    char *p = *out;
    for (int i = 0; i < argc; i++) {
        const char *quote = argv[i][0] == '\0' || strpbrk(argv[i], " \t\n()*'\"$@&;|<>") != NULL ? "'" : "";
        p += sprintf(p, "%s%s%s%s", i > 0 ? " " : "", quote, argv[i], quote);
    }
    return KL_OK;
}

kl_status kl_options_parse(int argc, char **argv, kl_options **out, kl_err *err)
{
    kl_status st = KL_OK;
    kl_options *o = NULL;
    *out = NULL;
    KL_TRY(kl_alloc(&o, 1, KL_MEM_MISC, err));
    o->checkpoint_every = 60;
    o->ms2 = KL_NO_MS2;
    KL_TRY(join_words(argc, argv, &o->command_line, err));

    const char *first = argc > 0 ? argv[0] : "--help";
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0)
        o->command = KL_CMD_HELP;
    else if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) o->command = KL_CMD_VERSION;
    else {
        const char *names[KL_NCMD + 1];
        int c = 0;
        for (; c < KL_NCMD && strcmp(first, command_table[c].name) != 0; c++)
            names[c] = command_table[c].name;
        if (c == KL_NCMD) {
            names[c] = NULL;
            const char *near = kl_closest(first, names);
            KL_TRY(kl_fail(err, KL_EINPUT, "unknown command '%s'%s%s%s `kronlat --help' lists them", first,
                           near != NULL ? "; did you mean `" : ";", near != NULL ? near : "",
                           near != NULL ? "'?" : ""));
        }
        o->command = (kl_command)c;
    }

    if (o->command < KL_NCMD && command_table[o->command].subject != SUBJECT_ANY) {
        struct argp_option options[MAX_ARGP];
        struct argp argp;
        char doc[MAX_DOC];
        parse_input in = {o, KL_OK, err};
        make_argp(o->command, options, doc, sizeof(doc), &argp);
        const error_t code = argp_parse(&argp, argc, argv, ARGP_SILENT, NULL, &in);
        if (in.st != KL_OK) KL_TRY(in.st);
        if (code == ENOMEM) KL_TRY(kl_fail(err, KL_ENOMEM, "no memory to read the options"));
        if (code != 0) KL_TRY(explain(o->command, argc, argv, err));
        const subject takes = command_table[o->command].subject;
        if (!o->help && !o->version &&
            ((takes == SUBJECT_MODEL && o->model == NULL && o->resume == NULL) ||
             (takes == SUBJECT_FILE && o->file == NULL && (o->command != KL_CMD_CI || o->resume == NULL))))
            KL_TRY(kl_fail(err, KL_EINPUT, "%s: %s is missing; %s", kl_command_name(o->command),
                           command_table[o->command].args,
                           takes == SUBJECT_MODEL ? "`kronlat models' lists the models"
                                                  : "it is the file to read"));
    }
    *out = o;
    o = NULL;
out:
    kl_options_destroy(&o);
    return st;
}

static void clear_list(kl_text_list *list)
{
    for (int i = 0; i < list->n; i++) kl_free(&list->text[i]);
    kl_free(&list->text);
    list->n = 0;
}

int kl_options_widest(const kl_options *o)
{
    int m = (int)o->m;
    for (int i = 0; i < o->nschedule; i++)
        if (o->schedule_row[i].m > m) m = o->schedule_row[i].m;
    return m;
}

void kl_options_destroy(kl_options **options)
{
    kl_options *o = *options;
    if (o == NULL) return;
    for (int i = 0; i < NOPTION; i++) {
        char *const field = (char *)o + option_table[i].offset;
        if (option_table[i].kind == AS_TEXT || option_table[i].kind == AS_CHOICE)
            kl_free((char **)(void *)field);
        if (option_table[i].kind == AS_NAMED || option_table[i].kind == AS_LIST)
            clear_list((kl_text_list *)(void *)field);
    }
    kl_free(&o->model);
    kl_free(&o->file);
    kl_free(&o->schedule_row);
    kl_free(&o->command_line);
    kl_free(options);
}

/* ---------------------------------------------------------------- job files */

static const option_row *job_row(const kl_options *o, const char *key)
{
    const option_row *row =
        strcmp(key, "p") == 0 ? find_option("parameter", 9) : find_option(key, strlen(key));
    return row != NULL && (row->commands >> o->command & 1u) && row->group != G_HELP ? row : NULL;
}

kl_status kl_options_kind(const kl_options *o, const char *where, const char *key, kl_option_kind *out,
                          kl_err *err)
{
    static const kl_option_kind kind[] = {[AS_FLAG] = KL_OPTION_FLAG,  [AS_INT] = KL_OPTION_INT,
                                          [AS_REAL] = KL_OPTION_REAL,  [AS_BYTES] = KL_OPTION_REAL,
                                          [AS_TEXT] = KL_OPTION_TEXT,  [AS_CHOICE] = KL_OPTION_TEXT,
                                          [AS_NAMED] = KL_OPTION_LIST, [AS_LIST] = KL_OPTION_LIST};
    *out = KL_OPTION_TEXT;
    if (strcmp(key, "model") == 0 || strcmp(key, "command") == 0 ||
        (strcmp(key, "fcidump") == 0 && o->command == KL_CMD_CI))
        return KL_OK;
    const option_row *row = job_row(o, key);
    if (row == NULL) return refuse_name(o->command, where, "", key, err);
    *out = kind[row->kind];
    return KL_OK;
}

kl_status kl_options_set(kl_options *o, const char *where, const char *key, const char *value, kl_err *err)
{
    if (strcmp(key, "model") == 0) return set_text(&o->model, value, err);
    if (strcmp(key, "fcidump") == 0 && o->command == KL_CMD_CI) return set_text(&o->file, value, err);
    if (strcmp(key, "command") == 0) {
        static const kl_command allowed[] = {KL_CMD_DMRG, KL_CMD_ED, KL_CMD_CI, KL_CMD_PLAN, KL_CMD_GROWTH};
        for (int i = 0; i < 5; i++)
            if (strcmp(value, command_table[allowed[i]].name) == 0) {
                o->command = allowed[i];
                return KL_OK;
            }
        return kl_fail(err, KL_EINPUT, "%s: command is '%s'; allowed: dmrg ed ci plan growth", where, value);
    }
    const option_row *row = job_row(o, key);
    if (row == NULL) return refuse_name(o->command, where, "", key, err);
    char place[512];
    snprintf(place, sizeof(place), "%s: %s", where, key);
    return set_value(o, row, place, value, FROM_JOB, err);
}

/* ---------------------------------------------------------------- as a whole */

/* Is `name` given, with one of the values "a|b" where some are named? */
static int is_given(const kl_options *o, const char *name, const char *values)
{
    const option_row *const row = find_option(name, strlen(name));
    if (!o->given[row - option_table] || values == NULL) return o->given[row - option_table];
    const char *const value = *(char *const *)((const char *)o + row->offset);
    const size_t length = strlen(value);
    for (const char *v = values; v != NULL; v = strchr(v, '|') ? strchr(v, '|') + 1 : NULL)
        if (strncmp(v, value, length) == 0 && (v[length] == '\0' || v[length] == '|')) return 1;
    return 0;
}

/* Options that only say how another one is done, without that one. */
static kl_status refuse_idle(const kl_options *o, int is_ed, kl_err *err)
{
    static const struct {
        const char *option, *of, *value, *or_of;
        int ed_only;
    } row[] = {
        {"broadening", "spectral", NULL, NULL, 1},
        {"frequencies", "spectral", NULL, NULL, 1},
        {"samples", "temperatures", NULL, NULL, 1},
        {"steps", "spectral", NULL, "temperatures", 1},
        {"format", "store", "matrix", NULL, 1},
        {"boundary", "store", "matrix", NULL, 1},
        {"slice", "store", "matrix", NULL, 1},
        {"sigma", "store", "matrix", NULL, 1},
        {"half", "store", "matrix", NULL, 1},
        {"memory", "store", "matrix", NULL, 1},
        {"boundary", "format", "hybrid", NULL, 0},
        {"slice", "format", "sell|sellr", NULL, 0},
        {"sigma", "format", "sell|sellr", NULL, 0},
        {"neumann-order", "precondition", "neumann", NULL, 1},
        {"precondition", "solver", "davidson|lobpcg", "states", 1},
        {"m-min", "discard", NULL, NULL, 0},
        {"checkpoint-every", "output", NULL, NULL, 1},
    };
    for (size_t k = 0; k < sizeof(row) / sizeof(row[0]); k++) {
        if ((row[k].ed_only && !is_ed) || !is_given(o, row[k].option, NULL)) continue;
        if (is_given(o, row[k].of, row[k].value) || (row[k].or_of != NULL && is_given(o, row[k].or_of, NULL)))
            continue;
        return kl_fail(err, KL_EINPUT, "--%s has no effect without --%s%s%s%s%s", row[k].option, row[k].of,
                       row[k].value ? " " : "", row[k].value ? row[k].value : "",
                       row[k].or_of ? " or --" : "", row[k].or_of ? row[k].or_of : "");
    }
    return KL_OK;
}

kl_status kl_options_check(const kl_options *o, kl_err *err)
{
    for (int i = 0; i < NOPTION && o->command == KL_CMD_CI; i++)
        if (o->given[i] && !(option_table[i].commands >> o->command & 1u))
            return refuse_name(o->command, kl_command_name(o->command), "--", option_table[i].name, err);
    if (o->command == KL_CMD_CI && o->model != NULL)
        return kl_fail(err, KL_EINPUT, "ci: model is '%s'; ci has no model, its integrals come from fcidump",
                       o->model);
    if (o->command == KL_CMD_CI && o->file == NULL)
        return kl_fail(err, KL_EINPUT, "ci: fcidump is missing; it is the file to read");
    if (o->command == KL_CMD_CI && o->resume != NULL && o->output != NULL)
        return kl_fail(err, KL_EINPUT,
                       "--resume and --output exclude each other: a resumed run writes to the file that it "
                       "goes on from");
    const int is_ci = o->command == KL_CMD_CI,
              is_ed = o->command == KL_CMD_ED ||
                      (o->command == KL_CMD_PLAN && o->method != NULL && strcmp(o->method, "ed") == 0);
    /* what a file brought along was accepted once */
    if (is_ci && o->resume == NULL) return refuse_idle(o, 0, err);
    if (o->command != KL_CMD_DMRG && o->command != KL_CMD_ED && o->command != KL_CMD_PLAN &&
        o->command != KL_CMD_GROWTH)
        return KL_OK;
    if (!is_ed && o->solver != NULL && strcmp(o->solver, "davidson") != 0 &&
        strcmp(o->solver, "lanczos") != 0)
        return kl_fail(err, KL_EINPUT, "--solver: %s is for `kronlat ed'; allowed here: davidson lanczos",
                       o->solver);
    if (!is_ed && o->form != NULL)
        return kl_fail(err, KL_EINPUT, "--form: %s was given; the option is for `kronlat ed'", o->form);
    for (int i = 0; i < NOPTION && !is_ed; i++)
        if (o->given[i] && is_of_ed(option_table[i].name))
            return kl_fail(err, KL_EINPUT, "--%s: the option is for `kronlat ed'", option_table[i].name);
    if (o->command != KL_CMD_PLAN && o->method != NULL)
        return kl_fail(err, KL_EINPUT, "--method: %s was given; the option is for `kronlat plan'", o->method);
    for (int i = 0; i < NOPTION; i++) /* typed for `run', and the job turned out to be a plan */
        if (o->given[i] && !(option_table[i].commands >> o->command & 1u))
            return refuse_name(o->command, kl_command_name(o->command), "--", option_table[i].name, err);
    if (o->model == NULL)
        return kl_fail(err, KL_EINPUT, "%s: model is missing; `kronlat models' lists the models",
                       kl_command_name(o->command));
    static const char *const rival[][3] = {
        {"schedule", "m", "the schedule says m for each sweep"},
        {"schedule", "accuracy", "the schedule fixes the sweeps, --accuracy makes its own"},
        {"schedule", "max-sweeps", "the schedule fixes the sweeps"},
        {"resume", "start", "a resumed run starts from its checkpoint"},
        {"resume", "output", "a resumed run writes to the file that it goes on from"},
        {"resume", "sweep-parameter", "a checkpoint belongs to one value"},
        {"temperatures", "spectral", "one is for all temperatures, the other for none"},
        {"temperatures", "measure", "a measurement is of single states"},
        {"temperatures", "states", "all states count"},
        {"temperatures", "solver", "typical states have their own"},
        {"temperatures", "accuracy", "its error is that of the samples; give --samples"},
        {"temperatures", "max-products", "give --steps of each of the --samples"},
        {"temperatures", "basis", "typical states keep none"},
        {"infinite", "resume", "growth keeps no checkpoint"},
        {"infinite", "start", "growth starts from random vectors"},
        {"infinite", "sweep-parameter", "growth is one run"},
        {"infinite", "schedule", "growth has no sweeps; give --m"},
        {"infinite", "max-products", "growth solves to its tolerance"},
        {"infinite", "full-sectors", "growth keeps m states and no more"},
        {"infinite", "measure", "growth keeps no state"},
        {"infinite", "output", "growth writes no result file"},
        {"infinite", "lattice", "growth builds chains; give --sites"},
    };
    for (size_t k = 0; k < sizeof(rival) / sizeof(rival[0]); k++) {
        const option_row *a = find_option(rival[k][0], strlen(rival[k][0])),
                         *b = find_option(rival[k][1], strlen(rival[k][1]));
        if (o->given[a - option_table] && o->given[b - option_table])
            return kl_fail(err, KL_EINPUT, "--%s and --%s exclude each other: %s", a->name, b->name,
                           rival[k][2]);
    }
    if (o->resume == NULL) {
        const kl_status st = refuse_idle(o, is_ed, err);
        if (st != KL_OK) return st;
    }
    if (o->m_min > 0 && o->m > 0 && o->m_min > o->m)
        return kl_fail(err, KL_EINPUT, "--m-min: %lld is above --m %lld", (long long)o->m_min,
                       (long long)o->m);
    if (o->basis > 0 && o->basis < o->states + 2)
        return kl_fail(err, KL_EINPUT, "--basis: %lld was given; %lld states need at least %lld",
                       (long long)o->basis, (long long)o->states, (long long)o->states + 2);
    for (int i = 0; i < o->parameter.n && o->sweep_parameter != NULL; i++) {
        const size_t name = kl_split_name(o->sweep_parameter);
        if (kl_split_name(o->parameter.text[i]) == name &&
            memcmp(o->parameter.text[i], o->sweep_parameter, name) == 0)
            return kl_fail(err, KL_EINPUT,
                           "--parameter %s and --sweep-parameter %s: one of them says what %.*s is, not both",
                           o->parameter.text[i], o->sweep_parameter, (int)name, o->sweep_parameter);
    }
    for (int i = 0; i < o->charge.n && o->sweep_parameter != NULL; i++) {
        const size_t name = kl_split_name(o->charge.text[i]);
        if (strcmp(o->charge.text[i] + (name > 0 ? name + 1 : 0), "scan") == 0)
            return kl_fail(
                err, KL_EINPUT,
                "--charge scan and --sweep-parameter exclude each other: run the scan at one value first");
    }
    return KL_OK;
}

int kl_options_given(const kl_options *o, int i, const char **name, const char **value, char number[40])
{
    for (int r = 0; r < NOPTION; r++) {
        const option_row *row = &option_table[r];
        if (!o->given[r] || row->group == G_HELP || row->group == G_OUTPUT) continue;
        const char *field = (const char *)o + row->offset;
        const int count = row->kind == AS_NAMED || row->kind == AS_LIST
                              ? ((const kl_text_list *)(const void *)field)->n
                              : 1;
        if (i >= count) {
            i -= count;
            continue;
        }
        *name = row->name;
        *value = number;
        switch (row->kind) {
        case AS_FLAG: *value = "true"; break;
        case AS_INT: snprintf(number, 40, "%lld", (long long)*(const int64_t *)(const void *)field); break;
        case AS_REAL:
        case AS_BYTES: snprintf(number, 40, "%.17g", *(const double *)(const void *)field); break;
        case AS_NAMED:
        case AS_LIST: *value = ((const kl_text_list *)(const void *)field)->text[i]; break;
        default: *value = *(char *const *)(const void *)field; break;
        }
        return 1;
    }
    return 0;
}

const char *kl_options_typed(const kl_options *o, const char *const *names)
{
    for (; *names != NULL; names++)
        if (o->given[find_option(*names, strlen(*names)) - option_table] == FROM_COMMAND_LINE) return *names;
    return NULL;
}

kl_status kl_options_values(const char *what, const char *text, int *n, double **value, kl_err *err)
{
    char named[256];
    if (snprintf(named, sizeof(named), "%s=%s", what, text) >= (int)sizeof(named))
        return kl_fail(err, KL_EINPUT, "%s: the list is too long", what);
    return kl_options_sweep(named, n, value, err);
}
