/* The rows of the table of options, and how one is found. A row stands for an option of some commands; in
   each group the order is the one of the help.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/optiontable.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    SYSTEM = KL_GROUP_SYSTEM,
    ACCURACY = KL_GROUP_ACCURACY,
    RUN = KL_GROUP_RUN,
    MACHINE = KL_GROUP_MACHINE,
    OUTPUT = KL_GROUP_OUTPUT,
    HELP = KL_GROUP_HELP,
    RARE = KL_RARE
};

#define B(command) KL_BIT(KL_CMD_##command)
#define INTEGRALS (B(DMRG_MOLECULE) | B(PLAN_MOLECULE) | B(EXPLAIN_MOLECULE))
#define SWEEPS (B(DMRG) | B(BENCH_DMRG) | B(BENCH_RUN) | B(DMRG_MOLECULE))
#define PLANS (B(PLAN) | B(EXPLAIN) | B(PLAN_MOLECULE) | B(EXPLAIN_MOLECULE))
#define TENSORS (SWEEPS | PLANS)
#define EXACTLY (B(ED) | B(PLAN_ED) | B(EXPLAIN_ED) | B(BENCH_ED))
#define LATTICES ((TENSORS & ~INTEGRALS) | EXACTLY | B(BENCH_HX))
#define MOLECULES (B(CI) | B(EXPLAIN_CI) | B(BENCH_CI))
#define STORES (B(ED) | B(CI))
#define FILES (B(DMRG) | B(ED) | B(CI) | B(DMRG_MOLECULE))
#define METHODS ((PLANS & ~INTEGRALS) | B(PLAN_ED) | B(EXPLAIN_ED) | B(EXPLAIN_CI))
#define EXPLAINS (B(EXPLAIN) | B(EXPLAIN_ED) | B(EXPLAIN_CI))
#define DEVICES (B(BENCH_OFFLOAD) | B(BENCH_CUDA))
#define TALL (B(BENCH_GEMV_TRANS) | B(BENCH_GEMV_NORMAL))
#define COMPARED (B(BENCH_DMRG) | B(BENCH_ED) | B(BENCH_CI))
#define EXECS (LATTICES | B(GROWTH) | B(MEASURE) | MOLECULES | INTEGRALS)

#define AT(field) offsetof(kl_options, field)
#define FLAG(n, l, g, c, f, h) \
    {.name = n, .letter = l, .group = g, .commands = c, .kind = KL_VALUE_FLAG, .offset = AT(f), .help = h}
#define NUMBER(n, l, a, g, c, f, k, from, to, h) \
    {.name = n,                                  \
     .letter = l,                                \
     .arg = a,                                   \
     .group = g,                                 \
     .commands = c,                              \
     .kind = KL_VALUE_##k,                       \
     .offset = AT(f),                            \
     .min = from,                                \
     .max = to,                                  \
     .help = h}
#define TEXT(n, l, a, g, c, f, s, h) \
    {.name = n,                      \
     .letter = l,                    \
     .arg = a,                       \
     .group = g,                     \
     .commands = c,                  \
     .kind = KL_VALUE_TEXT,          \
     .offset = AT(f),                \
     .syntax = KL_SYNTAX_##s,        \
     .help = h}
#define CHOICE(n, a, g, c, f, words, h) \
    {.name = n,                         \
     .arg = a,                          \
     .group = g,                        \
     .commands = c,                     \
     .kind = KL_VALUE_CHOICE,           \
     .offset = AT(f),                   \
     .allowed = words,                  \
     .help = h}
#define NAMED(n, l, a, g, c, f, form, h) \
    {.name = n,                          \
     .letter = l,                        \
     .arg = a,                           \
     .group = g,                         \
     .commands = c,                      \
     .kind = KL_VALUE_NAMED,             \
     .offset = AT(f),                    \
     .allowed = form,                    \
     .help = h}
#define LIST(n, l, a, g, c, f, h) \
    {.name = n,                   \
     .letter = l,                 \
     .arg = a,                    \
     .group = g,                  \
     .commands = c,               \
     .kind = KL_VALUE_LIST,       \
     .offset = AT(f),             \
     .syntax = KL_SYNTAX_FILLED,  \
     .help = h}

/* clang-format off */
const kl_option_row kl_option_table[] = {
    NUMBER("sites", 'n', "N", SYSTEM, LATTICES | B(GROWTH) | B(LATTICE), sites, INT, 1, 1000000,
           "chain of N sites (with --lattice ring: a ring)"),
    TEXT("lattice", 0, "SPEC", SYSTEM, LATTICES, lattice, FILLED,
         "chain, ring, chain:N, ring:N, ladder:LxW, square:LxW, cylinder:LxW, torus:LxW (length x width or "
         "circumference), kagome:YC6x8, triangular, honeycomb, lieb, checkerboard, diamond:N, tilted tori "
         "(torus:4,2x-2,4), or a Lua file of sites and bonds; docs/lattices.md, `kronlat lattice SPEC --plot'"),
    NAMED("parameter", 'p', "NAME=VALUE", SYSTEM, LATTICES | B(GROWTH) | B(MODELS), parameter, "NAME=VALUE",
          "parameter of the model, structural ones included (S=1); for arrays also NAME=@FILE, "
          "'NAME=uniform(a,b)', 'NAME=normal(mean,sigma)' or NAME=a,b,..."),
    NAMED("charge", 0, "NAME=VALUE", SYSTEM, B(DMRG) | B(ED), charge, "NAME=VALUE, NAME=scan or scan",
          "conserved charge of the state, a number or a part of the sites (N_up=sites/2), several as "
          "N_up=2,N_dn=2; scan (or NAME=scan) tries all "
          "values, NAME=FROM:TO or NAME=A,B,... some, and marks the lowest energy"),
    NAMED("charge", 0, "NAME=VALUE", SYSTEM, (LATTICES & ~(B(DMRG) | B(ED))) | B(GROWTH), charge,
          "NAME=VALUE, NAME=scan or scan", "conserved charge of the state; plan: scan, NAME=scan and the like, too"),
    NAMED("charge", 0, "S=VALUE", SYSTEM, INTEGRALS, charge, "S=VALUE",
          "total spin of the state, 0, 1/2, 1, ...: runs in its multiplets, of restricted orbitals (Sz alone)"),
    TEXT("space", 0, "NAME", SYSTEM, MOLECULES, space, FILLED,
         "determinants: cis, cid, cisd (usual), cisdt, cisdtq, level:N, full, or cas:ELECTRONS,ORBITALS"),
    NUMBER("roots", 0, "N", SYSTEM, MOLECULES, roots, INT, 1, 1000000, "the N lowest states (1)"),
    TEXT("space", 0, "NAME", SYSTEM, INTEGRALS, space, FILLED,
         "orbitals: full (all that are not frozen), or cas:ELECTRONS,ORBITALS, the others frozen or left out"),
    CHOICE("irrep", "N", SYSTEM, INTEGRALS, irrep, "all|1|2|3|4|5|6|7|8",
           "irrep of the state, as in ORBSYM (that of the reference); all: one run for each"),
    CHOICE("irrep", "N", SYSTEM, MOLECULES, irrep, "all|1|2|3|4|5|6|7|8",
           "irrep of the states, as in ORBSYM (all)"),
    NUMBER("frozen", 0, "N", SYSTEM, MOLECULES | INTEGRALS, frozen, INT, 0, 1000,
           "the N lowest orbitals stay doubly occupied (0)"),
    NUMBER("ms2", 0, "N", SYSTEM, MOLECULES | INTEGRALS, ms2, INT, -1000, 1000,
           "alpha less beta electrons (the file's MS2)"),
    NUMBER("electrons", 0, "N", SYSTEM | RARE, MOLECULES | INTEGRALS, electrons, INT, 1, 2000,
           "electrons, where the file's NELEC is not what is wanted"),
    LIST("reference", 0, "OCC", SYSTEM | RARE, B(CI) | B(EXPLAIN_CI), reference,
         "determinant that excitations start from, 2 u d or 0 for each orbital: 2222ud00; once for each; "
         "lowest: the one of lowest energy (the file's own: its first orbitals)"),
    LIST("reference", 0, "OCC", SYSTEM | RARE, INTEGRALS, reference,
         "the one determinant to start from, 2 u d or 0 for each orbital of the file: 2222ud00 (lowest: the "
         "400 that weigh most in a small CI)"),
    NUMBER("threshold", 0, "X", SYSTEM | RARE, INTEGRALS, threshold, REAL, 0, 1,
           "leave out terms of H below X, hartree; the report tells what that changes at most (1e-12)"),
    TEXT("order", 0, "HOW", SYSTEM | RARE, INTEGRALS, order, FILLED,
         "order of the orbitals: fiedler (by exchange integrals), mutual (by their mutual information in a "
         "small configuration interaction), genetic (fiedler, and improved), canonical (the file's), or the "
         "orbitals themselves from 1: 2,1,3,..."),
    TEXT("order", 0, "HOW", SYSTEM | RARE, LATTICES | B(LATTICE), order, ORDER,
         "order in which the sites are met: column (as numbered), snake, fiedler, or the sites themselves: "
         "0,2,1,..."),
    FLAG("double-bonds", 0, SYSTEM | RARE, LATTICES | B(LATTICE), double_bonds,
         "a bond that closes a circumference of 2 counts twice"),
    NAMED("pin", 0, "OP@SITE=VALUE", SYSTEM | RARE, LATTICES, pin, "OP@SITE=VALUE, OP@SITE*OP@SITE=VALUE",
          "add VALUE * OP at a site to H, a pinning field: 'Sz@0=-0.5'"),

    NUMBER("accuracy", 0, "E", ACCURACY, B(DMRG_MOLECULE), accuracy, REAL, 1e-12, 0.1,
           "wanted error of the energy, hartree; m, sweeps, noise and tolerances follow from it (1e-5)"),
    NUMBER("accuracy", 0, "REL", ACCURACY, SWEEPS & ~INTEGRALS, accuracy, REAL, 1e-14, 0.1,
           "wanted relative error of the energy; m, sweeps, noise and tolerances follow from it (1e-9)"),
    NUMBER("accuracy", 0, "REL", ACCURACY, B(ED) | B(BENCH_ED), accuracy, REAL, 1e-14, 0.1,
           "wanted relative error of the energy (1e-10)"),
    NUMBER("residual", 0, "R", ACCURACY, MOLECULES & ~B(EXPLAIN_CI), residual, REAL, 1e-14, 1,
           "wanted |H x - E x|, hartree; the energy's error goes with its square (1e-6)"),
    NUMBER("m", 'm', "M", ACCURACY, TENSORS | B(GROWTH) | B(BENCH_HX), m, INT, 1, 1000000,
           "keep at most M states (dmrg on a device: up to a sixteenth more, see --full-sectors)"),
    TEXT("schedule", 0, "LIST", ACCURACY, TENSORS, schedule, SCHEDULE,
         "sweeps as m[:noise[:tol]][*count],...: '64:1e-4*2,256:1e-6,512*4'"),
    NUMBER("states", 0, "N", ACCURACY, TENSORS, states, INT, 1, 16,
           "the N lowest states of the sector, state-averaged, at most 16 (1); ed takes any number"),
    NUMBER("states", 0, "N", ACCURACY, EXACTLY, states, INT, 1, 1000000,
           "the N lowest states of the sector (1); --solver lobpcg: at most 16"),
    NUMBER("discard", 0, "W", ACCURACY | RARE, SWEEPS, discard, REAL, 0, 0.1,
           "truncate to the discarded weight W, with --m as the largest m"),
    NUMBER("m-min", 0, "M", ACCURACY | RARE, SWEEPS, m_min, INT, 1, 1000000,
           "keep at least M states where --discard would allow fewer"),
    NUMBER("max-sweeps", 0, "N", ACCURACY | RARE, SWEEPS, max_sweeps, INT, 1, 100000, "sweeps at most (100)"),

    CHOICE("method", "NAME", RUN, METHODS & ~EXPLAINS, method, "dmrg|ed", "of which method (dmrg)"),
    CHOICE("method", "NAME", RUN, EXPLAINS, method, "dmrg|ed|ci", "of which method (dmrg)"),
    LIST("measure", 0, "WHAT", RUN, B(DMRG) | B(MEASURE), measure,
         "measure at the end, once for each: an operator (Sz), corr(Sp,Sm), string(Sz,expipi(Sz),Sz), "
         "structure(Sz,Sz), product(Sz@0,Sz@5), populations, entropy, spectrum, variance, ...; `kronlat "
         "measure --help' lists them"),
    LIST("measure", 0, "WHAT", RUN, B(DMRG_MOLECULE), measure,
         "measure at the end, once for each: an operator of each orbital (n_up, docc, Sz), corr(Sz,Sz), "
         "corr(cdag_up,c_up) (one-body density matrix), populations, entropy, spectrum, variance, ...; `kronlat "
         "measure --help' lists them"),
    LIST("measure", 0, "WHAT", RUN, B(ED), measure,
         "measure at the end, once for each: an operator (Sz), corr(Sp,Sm), string(Sz,expipi(Sz),Sz), "
         "structure(Sz,Sz), product(Sz@0,Sz@5), populations, entropy, variance, ...; `kronlat measure --help' "
         "lists them"),
    TEXT("start", 0, "FILE", RUN, B(DMRG_MOLECULE), start, FILE,
         "RESULT.h5 of the same orbitals in the same order (the reference, noise opening what it lacks)"),
    TEXT("start", 0, "WHAT", RUN, B(DMRG), start, START,
         "neel, product:STATE,STATE,... (repeated along the lattice), with S path:SPIN,SPIN,... (of the part "
         "left of each cut, from S to 0: path:0,1/2; behind a colon repeated), or RESULT.h5: another m or "
         "other parameters are welcome"),
    TEXT("sweep-parameter", 0, "NAME=FROM:TO:STEP", RUN, B(DMRG) | B(ED), sweep_parameter, SWEEP,
         "one run for each value (or NAME=a,b,...) of a parameter, in dmrg each starting from the state before; of "
         "sites, of seed (of random arrays) and of structural parameters (n_max=2:8:2) each by itself; and "
         "each with its file: --output 'run{sites}.h5'"),
    LIST("spectral", 0, "OP@WHERE", RUN, B(ED), spectral,
         "spectral function of an operator, once for each: cdag_up@3 at a site, 'Sz@q=2,0' at a momentum of "
         "the lattice"),
    NUMBER("broadening", 0, "ETA", RUN, B(ED), broadening, REAL, 1e-306, 1e306,
           "half width of its peaks (0.1)"),
    TEXT("frequencies", 0, "FROM:TO:STEP", RUN, B(ED), frequencies, VALUES,
         "where it is wanted, counted from the lowest energy (all weight)"),
    TEXT("temperatures", 0, "FROM:TO:STEP", RUN, B(ED), temperatures, VALUES,
         "energy, heat capacity, entropy, and susceptibilities of charges that are scanned, by "
         "finite-temperature Lanczos; summed over --charge scan"),
    NUMBER("samples", 0, "R", RUN, B(ED), samples, INT, 1, 100000,
           "random states in each sector, which also make the error bars (20)"),
    FLAG("density", 0, RUN, B(CI), density, "one-body density matrices and natural occupations"),
    FLAG("two-body", 0, RUN, B(DMRG_MOLECULE), two_body,
         "two-body density matrices, too, by spin and of both, at the end"),
    FLAG("plan", 0, RUN, B(CI), plan,
         "only say what there is: determinants and singlet configuration state functions by level and irrep, "
         "memory"),
    CHOICE("solver", "NAME", RUN | RARE, TENSORS, solver, "davidson|lanczos", "eigensolver (davidson)"),
    CHOICE("solver", "NAME", RUN | RARE, EXACTLY, solver, "davidson|lanczos|lobpcg|full",
           "eigensolver; full: all states of a sector of up to 10000, by LAPACK"),
    CHOICE("strategy", "NAME", RUN | RARE, TENSORS | B(GROWTH), strategy, "auto|lr|l11r",
           "superblock from two enlarged blocks (lr) or from block, site, site, block (l11r)"),
    CHOICE("truncation", "NAME", RUN | RARE, TENSORS, truncation, "auto|exact|products",
           "find the states that are kept by full decompositions (exact), or of large sectors by products from the "
           "basis of the sweep before (auto)"),
    CHOICE("sites-per-step", "N", RUN | RARE, TENSORS, sites_per_step, "1|2|auto",
           "sites optimized together: two; or, in sweeps without noise but the first, and some with it, one, the "
           "bond ahead expanded before by states that H leads to (1, and auto, the default)"),
    CHOICE("inversion", "NAME", RUN | RARE, TENSORS, inversion, "auto|off",
           "where H is its own image when positions are counted from the other end: sweep over one half of the "
           "lattice, of which the other is the image (auto), or over all of it (off)"),
    FLAG("full-sectors", 0, RUN | RARE, TENSORS, full_sectors,
         "keep even sectors, and a sixteenth of m more that fills large ones up to multiples of 8, 16 or 32, "
         "as runs on a device do: what to compare their energies with"),
    FLAG("infinite", 0, RUN | RARE, B(DMRG), infinite, "infinite-lattice growth only, as `kronlat growth'"),
    CHOICE("form", "NAME", RUN | RARE, EXACTLY, form, "auto|sites|flavours",
           "halves of the system that are sites, or the two flavours of electrons (auto: flavours where "
           "densities alone couple them); the order of the states, and of a stored matrix's rows, follows"),
    CHOICE("precondition", "NAME", RUN | RARE, B(ED) | B(BENCH_ED), precondition, "diagonal|neumann|none",
           "davidson and lobpcg divide residuals by the diagonal of H, by its Neumann expansion (which takes "
           "products with H), or not at all (diagonal)"),
    NUMBER("neumann-order", 0, "K", RUN | RARE, B(ED) | B(BENCH_ED), neumann_order, INT, 1, 50,
           "terms of the Neumann expansion behind the diagonal (2)"),
    NUMBER("steps", 0, "M", RUN | RARE, B(ED), steps, INT, 2, 5000,
           "Lanczos steps of a sample (100), or levels of a spectral function (1000), at most"),
    NUMBER("max-products", 0, "N", RUN | RARE, SWEEPS | B(PLAN) | B(PLAN_MOLECULE), max_products, INT, 1, 1e9,
           "products with H at every bond at most; sweeps of a --schedule without noise make fewer, where the "
           "next one would gain little of what truncation takes"),
    NUMBER("max-products", 0, "N", RUN | RARE, B(ED) | B(BENCH_ED), max_products, INT, 1, 1e9,
           "products with H at most (2000; of more than 16 states 500 for each)"),
    /* as many as LAPACK diagonalizes (base/dense.c); what the vectors need is told where it is too much */
    NUMBER("basis", 0, "N", RUN | RARE, TENSORS | EXACTLY | MOLECULES | B(GROWTH), basis, INT, 3, 32766,
           "vectors in the eigensolver's basis (20)"),
    CHOICE("store", "HOW", RUN | RARE, B(ED) | B(EXPLAIN_ED) | B(BENCH_CI), store, "auto|matrix|direct",
           "keep H as a matrix, or multiply directly (auto)"),
    CHOICE("store", "HOW", RUN | RARE, B(CI) | B(EXPLAIN_CI), store, "auto|matrix|direct|mixed",
           "keep H as a matrix, multiply directly, or keep the rows that --memory has room for (mixed); auto: "
           "direct for full spaces, else mixed"),
    CHOICE("format", "NAME", RUN | RARE, STORES | B(EXPLAIN_CI), format, "csr|ell|ellr|sell|sellr|hybrid",
           "of the stored matrix (csr)"),
    NUMBER("boundary", 0, "N", RUN | RARE, STORES, boundary, INT, 1, 1e9,
           "hybrid: non-zeros of each row that go to its ELL part (chosen)"),
    NUMBER("slice", 0, "ROWS", RUN | RARE, STORES, slice, INT, 1, 65536, "sliced ELL: rows of a slice (32)"),
    NUMBER("sigma", 0, "ROWS", RUN | RARE, STORES, sigma, INT, 1, 1e9,
           "sliced ELL: rows that are sorted by length together (1: none)"),
    FLAG("half", 0, RUN | RARE, STORES | B(BENCH_CI), half,
         "store one half of the symmetric matrix (csr and hybrid)"),
    NUMBER("pspace", 0, "N", RUN | RARE, MOLECULES & ~B(EXPLAIN_CI), pspace, INT, 1, 5000,
           "determinants of the dense block that starts and preconditions the solver (about 130)"),
    TEXT("matrix", 0, "FILE", RUN | RARE, B(CI), matrix, FILE,
         "write the stored matrix in Matrix Market form (FILE-2 and so on for further irreps)"),
    TEXT("arrays", 0, "FILE", RUN | RARE, B(CI), arrays, FILE,
         "write the arrays of the stored matrix in its format, and the non-zeros of each row, as HDF5 "
         "(FILE-2 and so on for further irreps)"),
    NUMBER("seed", 0, "N", RUN | RARE,
           LATTICES | INTEGRALS | B(GROWTH) | B(CI), seed, INT, 1, 9007199254740992.0,
           "of random numbers (1): start vectors, random arrays"),

    TEXT("replay", 0, "FILE", RUN, B(BENCH_REPLAY), bench.replay, FILE, "lists that --save-records wrote"),
    NUMBER("exact", 0, "E", RUN, COMPARED | B(BENCH_RUN), bench.exact, REAL, -1e300, 1e300,
           "the energy to compare with"),
    LIST("beside", 0, "COMMAND", RUN, COMPARED, bench.beside,
         "run COMMAND in the same minute and compare with what it prints: of dmrg lines with 'rel.err X ... "
         "cpu S' (without a model once for each case, in order), of ed and ci 'H v ... R M states/s' and "
         "'E ...'"),
    TEXT("beside", 0, "PROGRAM", RUN, B(BENCH_RUN), bench.program, FILE,
         "another build's program, which makes the same run in turn with this one"),
    NUMBER("rounds", 0, "N", RUN, B(BENCH_RUN), bench.rounds, INT, 1, 100, "runs of each program (1)"),
    NUMBER("rounds", 0, "N", RUN, B(BENCH_AUTO), bench.rounds, INT, 1, 100,
           "runs of each choice (3, more of short ones)"),
    NUMBER("rows", 0, "N", RUN, B(BENCH_CI), bench.rows, INT, 16384, 16777216,
           "of the matrix without a file (32768); from 262145 on 60 and about 27 non-zeros a row; 1048576 "
           "takes 12 GB"),
    NUMBER("number", 0, "K", RUN, B(BENCH_CI), bench.number, INT, 1, 10,
           "which of the paper's ten of that size (1)"),
    FLAG("tables", 0, RUN, B(BENCH_CI), bench.tables,
         "all ten: their statistics, memory of every format and its formula, and the paper's comparison "
         "of speed on a device; with FCIDUMP the matrices of that molecule behind them"),
    NUMBER("seconds", 0, "S", RUN, B(BENCH_CI), bench.seconds, REAL, 0, 3600,
           "time spent on one line (0.3)"),
    NUMBER("elements", 0, "N", RUN, DEVICES, bench.elements, INT, 4000, 4e9,
           "length of the vectors of the streaming operations (200000000)"),
    LIST("m", 'm', "M", RUN, DEVICES, bench.m, "states of the superblocks, repeatable (2048 and 4096)"),
    TEXT("only", 0, "TEXT", RUN, DEVICES, bench.only, FILLED,
         "lines whose names contain it: \"dot\", \"V^T x\", \"400 shapes\", \"hubbard\", \"m=2048\", "
         "\"heisenberg m=4096 l11r\""),
    TEXT("only", 0, "TEXT", RUN, B(BENCH_COMPARE), bench.only, FILLED, "operations whose names contain it"),
    TEXT("only", 0, "TEXT", RUN, B(BENCH_AUTO), bench.only, FILLED,
         "runs with a word that contains it: \"ci\", \"ring:24\""),
    TEXT("only", 0, "TEXT", RUN, B(TUNE), bench.only, FILLED,
         "operations whose names contain it; what the table has of others stays"),
    NUMBER("only", 0, "N", RUN, B(BENCH_REPLAY), bench.list, INT, 1, 1e9,
           "the list of that number alone, from 1"),
    FLAG("shapes", 0, RUN, DEVICES, bench.shapes, "products of given shapes alone"),
    FLAG("own", 0, RUN, DEVICES, bench.own, "lists by our best kernel only, and by CUDA's"),
    FLAG("quick", 0, RUN, DEVICES, bench.quick, "of products burst rates only, after less rest"),
    FLAG("quick", 0, RUN, B(BENCH_COMPARE) | B(TUNE), bench.quick, "small sizes alone"),
    FLAG("quick", 0, RUN, B(BENCH_AUTO), bench.quick, "the shortest runs alone"),
    FLAG("host", 0, RUN, DEVICES, bench.host,
         "lists on the host too, all threads, as the answer to compare with (else the plain OpenMP kernels, "
         "or cuBLAS product by product)"),
    LIST("height", 0, "N", RUN, TALL, bench.height,
         "rows of V, repeatable (100000, 500000, 2000000, on a GPU 5000000 and 20000000)"),
    LIST("width", 0, "W", RUN, TALL, bench.width, "columns, repeatable (1 to 32)"),
    LIST("belt", 0, "W", RUN, B(BENCH_GEMV_TRANS), bench.belt,
         "columns of a pass, repeatable, for widths beyond it (8 and 16)"),
    NUMBER("csr", 0, "GB", RUN, B(BENCH_REPLAY), bench.csr, REAL, 0, 1e6,
           "largest matrix to be assembled (1); 0: none"),
    TEXT("from", 0, "FILE", RUN, B(BENCH_COMPARE), bench.from, FILE,
         "nothing is measured: the table of an earlier run, as --csv wrote it, maybe on another machine"),

    NUMBER("threads", 0, "N", MACHINE,
           EXECS | B(PLAN_ED) | B(BENCH_COMPARE) | B(BENCH_REPLAY) | B(TUNE), threads, INT, 1, 4096,
           "threads (as many as cores, or OMP_NUM_THREADS where that is less)"),
    CHOICE("exec", "WHERE", MACHINE, EXECS & ~B(PLAN_ED), exec, "auto|host|offload|cuda",
           "where it runs (auto)"),
    CHOICE("exec", "WHERE", MACHINE, TALL, exec, "host|cuda|offload",
           "whose kernels (cuda); beside offload's, the library and the ceiling are CUDA's; the host's loops and BLAS are measured in any case, up to 2000000 rows"),
    CHOICE("exec", "WHERE", MACHINE, B(BENCH_REPLAY), exec, "cuda|offload",
           "a device in addition to the processor (none)"),
    NUMBER("memory", 0, "GB", MACHINE | RARE, STORES | B(EXPLAIN_CI), memory, REAL, 1e-6, 1e9,
           "largest matrix to store (half of the machine's memory)"),
    CHOICE("projection", "HOW", MACHINE | RARE, TENSORS | B(GROWTH) | B(MEASURE), projection,
           "auto|grouped|4streams|concat|batched|nostreams|library|nostorage",
           "cuda: how lists of products are run: our kernel, one launch a level (grouped), or cuBLAS, as in "
           "nemes2014 (4streams, nostreams), after products of one output were joined (concat; batched: all "
           "of a level in one call), or by its grouped calls (library); with operators left on the host and "
           "streamed in (nostorage); auto takes what the tune table has seen to be fastest, our kernel where "
           "there is none, and streams what does not fit; host and offload, asked for by name, have concat "
           "too"),
    LIST("projection", 0, "HOW", MACHINE, B(BENCH_REPLAY), bench.projection,
         "one of CUDA's ways alone, repeatable (all): grouped, 4streams, concat, batched, "
         "nostreams, library, nostorage"),
    TEXT("hybrid", 0, "STEPS", MACHINE | RARE, TENSORS | B(GROWTH), hybrid, FILLED,
         "with a device, let the host do its share of H x: auto, or SIZE:RATIO,...: the device is so many "
         "times faster on matrices from SIZE on"),
    LIST("hybrid", 0, "STEPS", MACHINE, B(BENCH_REPLAY), bench.hybrid,
         "shares of both, as for `kronlat dmrg' (auto); repeatable"),
    NUMBER("ranks", 0, "N", MACHINE, B(PLAN) | B(PLAN_MOLECULE) | B(PLAN_ED), ranks, INT, 1, 65536,
           "say what up to N ranks (processes of MPI) would take, too: time, memory, traffic, efficiency"),
    NUMBER("device", 0, "N", MACHINE | RARE, EXECS & ~B(PLAN_ED), device, INT, 0, 1023,
           "which device to take, from 0 (the first that is visible; of several ranks on a machine each its own, "
           "in turn)"),
    NUMBER("device-memory", 0, "BYTES", MACHINE | RARE, EXECS & ~B(PLAN_ED), device_memory, BYTES, 1e6, 1e15,
           "take BYTES of the device's memory at most, 4e9, 4GB or 2GiB (all that is free); operators and "
           "parts of an eigensolver's basis that do not fit stay on the host"),
    NUMBER("host-memory", 0, "BYTES", MACHINE | RARE, B(DMRG) | B(DMRG_MOLECULE), host_memory, BYTES, 1e6,
           1e15,
           "keep to BYTES of the host's memory where files help: operators of cuts that are far wait on disk "
           "and are read ahead (all in memory); a bond takes what it needs"),
    TEXT("scratch", 0, "FOLDER", MACHINE | RARE, B(DMRG) | B(DMRG_MOLECULE), scratch, FILLED,
         "folder of these files, which have no names and leave nothing behind (that of TMPDIR, else /var/tmp)"),

    TEXT("output", 'o', "FILE", OUTPUT, B(DMRG) | B(DMRG_MOLECULE), output, FILE,
         "file to write, an older one is replaced; a new name is made up where none is given, and none means "
         "no file"),
    TEXT("output", 'o', "FILE", OUTPUT, B(ED) | B(CI), output, FILE,
         "file to write, an older one is replaced (no file)"),
    TEXT("output", 'o', "FILE", OUTPUT, B(PLOT), output, FILE,
         "file to write, an older one is replaced (RESULT.svg)"),
    TEXT("output", 'o', "FILE", OUTPUT, B(TUNE), output, FILE,
         "the table (tune-table in the cache folder)"),
    TEXT("resume", 0, "FILE", OUTPUT, FILES, resume, FILE,
         "go on from the checkpoint in FILE, and write there"),
    TEXT("csv", 0, "FILE", OUTPUT, B(BENCH_COMPARE) | TALL, bench.csv, FILE,
         "write all measurements, one a line"),
    TEXT("csv", 0, "FILE", OUTPUT, B(BENCH_CI), bench.csv, FILE,
         "with --tables: write them, one number a line, as `kronlat plot' takes them"),
    TEXT("json", 0, "FILE", OUTPUT, B(BENCH_COMPARE) | B(BENCH_REPLAY), bench.json, FILE,
         "write all measurements as JSON"),
    TEXT("plot", 0, "FILE", OUTPUT, B(BENCH_COMPARE), bench.plot, FILE,
         "plot times over sizes, by gnuplot: .svg, .png or .pdf"),
    TEXT("plot", 0, "FILE", OUTPUT, B(PLAN) | B(PLAN_MOLECULE), bench.plot, FILE,
         "draw the work by pairs of patches, and how it is distributed, by gnuplot: .svg, .png or .pdf"),
    TEXT("plot", 0, "FILE", OUTPUT, B(GROWTH), bench.plot, FILE,
         "draw sizes, times and rates by iteration, and time by parts, by gnuplot: .svg, .png or .pdf"),
    TEXT("csv", 0, "FILE", OUTPUT, B(PLOT), csv, FILE,
         "write the numbers that are drawn, one a line; - is stdout"),
    TEXT("csv", 0, "FILE", OUTPUT, B(DMRG) | B(ED), csv, FILE,
         "write the table of a sweep or scan, a line a run, as far as it has come; - is stdout, at the end"),
    LIST("gap", 0, "SUM", OUTPUT, B(DMRG) | B(ED), gap,
         "of a sweep or scan: a sum of energies of neighbouring runs, with its error, for each run that has "
         "them: 'E(N+1)+E(N-1)-2E', 'E(Sz+1)-E', 'E(N_up+1,N_dn+1)+E-E(N_up+1)-E(N_dn+1)'"),
    CHOICE("theme", "NAME", OUTPUT, B(PLOT), theme, "light|dark", "colours of the paper (light)"),
    NUMBER("columns", 0, "N", OUTPUT, B(PLOT), columns, INT, 1, 2,
           "panels side by side, as wide as N columns of a paper (2)"),
    FLAG("plot", 0, OUTPUT, B(LATTICE), plot,
         "draw sites, numbers, bonds by class and the path of DMRG into the file of --output"),
    TEXT("output", 'o', "FILE", OUTPUT, B(LATTICE), output, FILE,
         "picture to write, .svg, .png or .pdf; an older one is replaced (lattice.svg)"),
    FLAG("json", 0, OUTPUT,
         FILES | METHODS | INTEGRALS | B(GROWTH) | B(MODELS) | B(LATTICE) | B(PLOT) | B(DEVICES) |
             B(MEASURE) | B(SHOW),
         json,
         "one JSON document on stdout instead of the report (docs/files.md)"),
    FLAG("verbose", 'v', OUTPUT, FILES, verbose,
         "a line for each sweep, or product with H, on stderr, terminal or not"),
    NUMBER("checkpoint-every", 0, "S", OUTPUT | RARE, FILES, checkpoint_every, REAL, 0, 1e9,
           "seconds between checkpoints inside a sweep, or between products with H (60); there is one at "
           "every sweep's end"),
    TEXT("save-records", 0, "FILE", OUTPUT | RARE, B(DMRG) | B(DMRG_MOLECULE) | B(GROWTH), save_records, FILE,
         "write the operation records of H x, at the middle bond of each sweep or of each iteration of "
         "growth; `kronlat bench hx --replay FILE' runs them again"),

    FLAG("help", 'h', HELP, KL_ALL_COMMANDS, help, "this text"),
    FLAG("version", 'V', HELP, KL_ALL_COMMANDS, version, "the program's version"),
};
/* clang-format on */
const int kl_noption = sizeof(kl_option_table) / sizeof(kl_option_table[0]);
_Static_assert(sizeof(kl_option_table) / sizeof(kl_option_table[0]) <= KL_MAX_OPTION,
               "kl_options.given has a place for each row");
_Static_assert((int)KL_NCMD_ALL <= 64, "kl_option_row.commands has a bit for each command");

const kl_option_row *kl_option_find(const char *name, size_t length, kl_command_set commands)
{
    for (int i = 0; i < kl_noption; i++) {
        const char *const have = kl_option_table[i].name;
        if (strlen(have) != length || !(kl_option_table[i].commands & commands)) continue;
        size_t k = 0;
        while (k < length && (have[k] == name[k] || (have[k] == '-' && name[k] == '_'))) k++;
        if (k == length) return &kl_option_table[i];
    }
    return NULL;
}

const kl_option_row *kl_option_letter(int letter, kl_command_set commands)
{
    for (int i = 0; i < kl_noption; i++)
        if (kl_option_table[i].letter == letter && kl_option_table[i].commands & commands)
            return &kl_option_table[i];
    return NULL;
}

kl_command kl_command_of_molecule(kl_command command)
{
    switch (command) {
    case KL_CMD_DMRG: return KL_CMD_DMRG_MOLECULE;
    case KL_CMD_PLAN: return KL_CMD_PLAN_MOLECULE;
    case KL_CMD_EXPLAIN: return KL_CMD_EXPLAIN_MOLECULE;
    default: return command;
    }
}

kl_command kl_command_of(const kl_options *o)
{
    const int exact = o->method != NULL && strcmp(o->method, "ed") == 0,
              ci = o->method != NULL && strcmp(o->method, "ci") == 0;
    if (ci && o->command == KL_CMD_EXPLAIN) return KL_CMD_EXPLAIN_CI;
    if (o->molecule) return kl_command_of_molecule(o->command);
    if (exact && o->command == KL_CMD_PLAN) return KL_CMD_PLAN_ED;
    if (exact && o->command == KL_CMD_EXPLAIN) return KL_CMD_EXPLAIN_ED;
    return o->command;
}

kl_command_set kl_commands_of_help(kl_command command)
{
    const kl_command molecule = kl_command_of_molecule(command);
    if (command == KL_CMD_PLAN) return B(PLAN) | B(PLAN_ED) | B(PLAN_MOLECULE);
    if (command == KL_CMD_EXPLAIN) return B(EXPLAIN) | B(EXPLAIN_ED) | B(EXPLAIN_CI) | B(EXPLAIN_MOLECULE);
    return KL_BIT(command) | KL_BIT(molecule);
}

const char *kl_option_method_note(kl_command command, const kl_option_row *row)
{
    const kl_command_set all = kl_commands_of_help(command), taken = row->commands & all,
                         exact = B(PLAN_ED) | B(EXPLAIN_ED);
    if (taken == all) return "";
    if ((taken & ~INTEGRALS) == 0) return "FCIDUMP: ";
    if (taken == B(EXPLAIN_CI)) return "--method ci: ";
    if ((taken & ~exact) == 0) return "--method ed: ";
    if ((taken & ~(exact | B(EXPLAIN_CI))) == 0) return "--method ed or ci: ";
    if ((taken & ~(INTEGRALS | B(EXPLAIN_CI))) == 0) return "FCIDUMP, --method ci: ";
    if (taken == KL_BIT(command) && all & exact) return "--method dmrg: ";
    if (taken & INTEGRALS) return command == KL_CMD_EXPLAIN ? "not --method ed or ci: " : "not --method ed: ";
    return "MODEL: ";
}

/* The command to name where an option of this name belongs elsewhere: the other method of a plan, another
   part of the same benchmark, else the first of all; KL_NCMD_ALL: nobody takes it. */
static kl_command owner(kl_command command, const char *name)
{
    static const kl_command other[][2] = {
        {KL_CMD_PLAN, KL_CMD_PLAN_ED},         {KL_CMD_PLAN_ED, KL_CMD_PLAN},
        {KL_CMD_EXPLAIN, KL_CMD_EXPLAIN_ED},   {KL_CMD_EXPLAIN_ED, KL_CMD_EXPLAIN},
        {KL_CMD_EXPLAIN_CI, KL_CMD_CI},        {KL_CMD_EXPLAIN, KL_CMD_EXPLAIN_CI},
        {KL_CMD_DMRG, KL_CMD_DMRG_MOLECULE},   {KL_CMD_DMRG_MOLECULE, KL_CMD_DMRG},
        {KL_CMD_PLAN_MOLECULE, KL_CMD_PLAN},   {KL_CMD_EXPLAIN_MOLECULE, KL_CMD_EXPLAIN},
        {KL_CMD_BENCH_HX, KL_CMD_BENCH_REPLAY}};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (other[i][0] == command && kl_option_find(name, length, KL_BIT(other[i][1]))) return other[i][1];
    for (int c = 0; c < KL_NCMD_ALL; c++)
        if (kl_option_find(name, length, KL_BIT(c))) return (kl_command)c;
    return KL_NCMD_ALL;
}

/* What other programs call an option of ours; NULL: nothing that this command takes. */
static const char *elsewhere(const char *name, kl_command_set taken)
{
    /* clang-format off */
    static const char *const words[][2] = {
        {"bond-dimension", "m"},
        {"bond-dim", "m"},
        {"bonddim", "m"},
        {"maxdim", "m"},
        {"max-dim", "m"},
        {"chi", "m"},
        {"chi-max", "m"},
        {"L", "sites"},
        {"length", "sites"},
        {"nsites", "sites"},
        {"size", "sites"},
        {"cutoff", "discard"},
        {"tol", "accuracy"},
        {"tolerance", "accuracy"},
        {"eps", "accuracy"},
        {"precision", "accuracy"},
        {"nsweeps", "max-sweeps"},
        {"sweeps", "max-sweeps"},
        {"nstates", "states"},
        {"nroots", "states"},
        {"nroots", "roots"},
        {"roots", "states"},
        {"states", "roots"},
        {"nthreads", "threads"},
        {"observable", "measure"},
        {"observables", "measure"},
        {"gpu", "exec"},
        {"sector", "charge"},
        {"symmetry", "charge"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *const ours = words[i][1];
        if (strcmp(name, words[i][0]) == 0 && kl_option_find(ours, strlen(ours), taken) != NULL) return ours;
    }
    return NULL;
}

/* 1: it looks like a parameter or a charge of a model (J, U, mu, N_up), not like an option. */
static int names_a_number(const char *name) { return isupper((unsigned char)name[0]) || strlen(name) <= 2; }

kl_status kl_option_refuse(kl_command command, const char *where, const char *dashes, const char *name,
                           kl_err *err)
{
    const char *list[KL_MAX_OPTION + 4];
    int n = 0;
    const int in_job = dashes[0] == '\0';
    const kl_command_set taken = kl_commands_taken(command);
    for (int i = 0; i < kl_noption; i++) {
        const kl_option_row *const row = &kl_option_table[i];
        if (row->commands & taken && !(in_job && row->group == KL_GROUP_HELP)) list[n++] = row->name;
    }
    if (in_job) {
        list[n++] = kl_command_table[command].subject == KL_SUBJECT_FILE ? "fcidump" : "model";
        list[n++] = "command";
    }
    list[n] = NULL;
    const char *const help = kl_command_table[command].name;
    const kl_option_row *const known = kl_option_find(name, strlen(name), KL_ALL_COMMANDS);
    const char *const other = elsewhere(name, taken);
    if (in_job && strcmp(name, "method") == 0 && kl_option_find("method", strlen("method"), taken) == NULL)
        return kl_fail(err, KL_EINPUT,
                       "%s: method is for plan and explain; what runs is said by command, as in "
                       "command = \"ed\"",
                       where);
    if (known != NULL && known->group != KL_GROUP_HELP && other == NULL) {
        const char *const there = kl_command_table[owner(command, known->name)].name;
        /* the same command, of a model instead of a molecule */
        const int model = strncmp(help, there, strlen(there)) == 0 && strstr(help, "FCIDUMP") != NULL;
        /* What other methods of a plan take is listed by the one help of all. */
        const int length = (int)strcspn(help, "-F") - (strpbrk(help, "-F") != NULL);
        return kl_fail(err, KL_EINPUT,
                       "%s: %s%s belongs to `kronlat %s%s'; `kronlat %.*s --help' lists what is allowed here",
                       where, dashes, known->name, there, model ? " MODEL" : "", length, help);
    }
    if (other == NULL && names_a_number(name) &&
        kl_option_find("parameter", strlen("parameter"), taken) != NULL)
        return kl_fail(err, KL_EINPUT,
                       in_job ? "%s: unknown option %s%s; parameters stand in parameter = { NAME = VALUE }, "
                                "charges in charge = { NAME = VALUE }"
                              : "%s: unknown option %s%s; a parameter is given by --parameter NAME=VALUE, a "
                                "charge by --charge NAME=VALUE; `kronlat models MODEL' lists both",
                       where, dashes, name);
    const char *const near = other != NULL ? other : kl_closest(name, list);
    if (near != NULL)
        return kl_fail(err, KL_EINPUT, "%s: unknown option %s%s; did you mean %s%s?", where, dashes, name,
                       in_job ? "" : "--", near);
    return kl_fail(err, KL_EINPUT, "%s: unknown option %s%s; `kronlat %s --help' lists them", where, dashes,
                   name, help);
}
