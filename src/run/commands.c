/* The table of commands: names, what they are about, and what stands behind the options in their help.
   SPDX-License-Identifier: Apache-2.0 */
#include "run/optiontable.h"

/* clang-format off */
const kl_command_row kl_command_table[KL_NCMD_ALL] = { /* ORDER KL_CMD */
    {"dmrg", KL_SUBJECT_MODEL, "MODEL|FCIDUMP",
     "Find ground or low excited states of a model or a molecule by DMRG.",
     "Example: the Hubbard chain of 32 sites at half filling, its energy to nine digits:\n"
     "  kronlat dmrg hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16\n\n"
     "MODEL is a name that `kronlat models' lists, or the path of a model file. Every conserved charge must "
     "be given; leave them out to be told what is allowed. With neither --m, --schedule nor --accuracy the "
     "wanted accuracy is 1e-9, relative. Result and checkpoints go to one HDF5 file.\n\n"
     "A file that begins with &FCI is a molecule: its orbitals are the sites, its electrons and the irrep the "
     "charges, and the wanted accuracy is 1e-5 hartree:\n"
     "  kronlat dmrg n2.fcidump --frozen 2 --accuracy 1e-6\n\n"
     "Exit status: 0 when the run ended, converged or not (the report says which); 2 for bad input, no "
     "memory or no disk; 130 when interrupted (the checkpoint is kept)."},
    {"ed", KL_SUBJECT_MODEL, "MODEL", "Find the lowest states of a sector exactly, or all of them.",
     "Example: the Hubbard model on a 4x4 torus, ten electrons, 19 million states:\n"
     "  kronlat ed hubbard --lattice torus:4x4 -p U=4 --charge N_up=5 --charge N_dn=5\n\n"
     "`kronlat plan --method ed' says size, memory and time before. With one state and no --solver the "
     "energy is found by Lanczos with three vectors, its error told; --measure, --output or --states makes "
     "the states themselves. --measure takes what that of dmrg takes (`kronlat measure --help' lists it) but "
     "spectrum and overlap; entropy is that of the two halves of the sites in their order.\n\n"
     "Spectral function of an operator at a site or a momentum (in units of 2 pi / length), and "
     "thermodynamics of all sectors of N:\n"
     "  kronlat ed hubbard --lattice ring:8 -p U=8 --charge N_up=4 --charge N_dn=4 "
     "--spectral cdag_up@0 --spectral 'Sz@q=4,0' --broadening 0.05\n"
     "  kronlat ed heisenberg --sites 16 --charge scan --temperatures 0.1:2:0.1 --samples 30\n\n"
     "A file named by --output gets a checkpoint every minute; `kronlat ed --resume FILE' goes on.\n\n"
     "No lattice symmetry is used, so that a sector is as large as its charges leave it: a 6x6 Heisenberg "
     "torus is out of reach."},
    {"ci", KL_SUBJECT_FILE, "FCIDUMP",
     "Find low states of a molecule from its integrals by configuration interaction.",
     "Examples:\n"
     "  kronlat ci n2.fcidump --space cisd --roots 3\n"
     "  kronlat ci n2.fcidump --space full --irrep 1\n"
     "  kronlat ci h2o.fcidump --plan\n\n"
     "FCIDUMP holds integrals over real orbitals, restricted or unrestricted (IUHF=1), with labels of the "
     "point group where it has them. Irreps are numbered as in ORBSYM; without --irrep the lowest states of "
     "all are found. Truncated spaces store H in one of the formats of mahmoud2018, as much of it as "
     "--memory has room for, and make the other elements as they are needed; full ones (and active "
     "spaces) need no matrix. A result file is written where --output names one."},
    {"run", KL_SUBJECT_FILE, "JOB.lua", "Do what a job file says.",
     "Example, job.lua:\n"
     "  return { model = \"hubbard\", sites = 32, p = { U = 4 }, charge = { N_up = 16, N_dn = 16 }, "
     "m = 512 }\n\n"
     "Keys are the long names of the options of the job's command with _ for -, and model, p and command "
     "(\"dmrg\", \"ed\", \"ci\", \"plan\" or \"growth\"; \"dmrg\" where none is named); a molecule's file "
     "goes by fcidump: return { command = \"ci\", fcidump = \"n2.fcidump\", space = \"cisd\" }. A job "
     "may compute (string, table and math are there) but reaches no files.\n\n"
     "Any option of the job's command may be typed behind the file and wins over it: `kronlat dmrg --help' "
     "and so on list them. `kronlat plan JOB.lua' says what the job would need."},
    {"plan", KL_SUBJECT_MODEL, "MODEL|FCIDUMP|JOB.lua",
     "Say what a run would need, before it runs: sectors, records, memory, time, where the work is.",
     "Examples:\n"
     "  kronlat plan hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16 --m 512\n"
     "  kronlat plan --method ed hubbard --lattice torus:4x4 -p U=4 --charge N_up=5 --charge N_dn=5\n"
     "  kronlat plan n2.fcidump --m 2000"},
    {"explain", KL_SUBJECT_MODEL, "MODEL|FCIDUMP",
     "Say which executor and kernel each operation of a run takes, and why; launches and memory.",
     "Example:\n"
     "  kronlat explain hubbard --sites 32 -p U=4 --charge N_up=16 --charge N_dn=16 --m 2048 "
     "--exec offload\n\n"
     "Shapes are those of the middle bond, or with --method ed of the sector, with --method ci of the largest "
     "irrep. Nothing is solved: a list is taken apart as it would be before a run. Under --exec auto it says "
     "how long the tune table expects all products to take on each executor."},
    {"growth", KL_SUBJECT_MODEL, "MODEL",
     "Infinite-lattice DMRG on its own, with a report in the form of nemes2014, Table 5 and Figs. 1-2.",
     "Example: 14 iterations from 4 to 30 sites:\n"
     "  kronlat growth hubbard --sites 30 --m 256 -p U=1 --charge N_up=15 --charge N_dn=15\n\n"
     "Charges are those of the full length; shorter chains take the nearest charge that they can have."},
    {"models", KL_SUBJECT_OPTIONAL_MODEL, "[MODEL]",
     "List the models, or show one: formula, charges, parameters, operators, terms.",
     "Example:\n  kronlat models heisenberg -p S=1"},
    {"lattice", KL_SUBJECT_FILE, "SPEC|FILE.lua",
     "Show a lattice: sites and their numbers, classes of bonds and sites, the order of DMRG; or draw it.",
     "Examples:\n"
     "  kronlat lattice kagome:YC6x8 --plot\n"
     "  kronlat lattice torus:4,2x-2,4 --json\n"
     "  kronlat lattice chain --sites 16\n\n"
     "docs/lattices.md has all forms."},
    {"devices", KL_SUBJECT_NONE, "",
     "Say what this program computes with here: cores, instruction set, BLAS and LAPACK really loaded, GPUs.",
     NULL},
    {"measure", KL_SUBJECT_FILE, "RESULT.h5",
     "Measure on the state in a result file, and write that into it.",
     "Example:\n"
     "  kronlat measure hubbard.h5 --measure 'corr(cdag_up,c_up)' --measure 'structure(Sz,Sz)' "
     "--measure entropy\n\n"
     "What can be measured, A and B being operators that `kronlat models MODEL' lists, or n_up*n_dn, "
     "(Sp+Sm)/2, adj(Sp), expipi(Sz) = exp(i pi Sz):\n"
     "  A                      <A_i> of every site\n"
     "  corr(A,B)              <A_i B_j> of all pairs; connected(A,B): less <A_i><B_j>\n"
     "  string(A,S,B)          <A_i S ... S B_j>, S on the sites numbered between\n"
     "  structure(A,B)         the Fourier transform of corr(A,B) on the lattice's momenta\n"
     "  product(A@0,B@5,...)   one product on given sites; product(A@0,B@5;S): S on the sites between\n"
     "  bond(CLASS,X)          <X> by bond, X of its ends: Sz(i)*Sz(j); bond(CLASS): S.S\n"
     "  corr(\"CLASS\",X,Y)      <X_b Y_c> of all pairs of bonds; hc in the place of Y: the adjoint of X\n"
     "  populations            probability of each state of each site\n"
     "  entropy, spectrum      entanglement entropy and squared Schmidt values of every cut\n"
     "  energy, variance       <H>, and its two-site variance\n"
     "  overlap(OTHER.h5)      with the states in another result"},
    {"show", KL_SUBJECT_FILE, "RESULT.h5", "Print what a result file holds.",
     "Example:\n  kronlat show hubbard.h5 --json"},
    {"plot", KL_SUBJECT_FILES, "RESULT.h5 ...|TABLE.csv",
     "Plot results by gnuplot: convergence, entropies, profiles, maps, correlations, spectra; several in one "
     "picture.",
     "Examples:\n"
     "  kronlat plot hubbard.h5 --output hubbard.svg\n"
     "  kronlat plot chain32.h5 chain64.h5 chain128.h5 --output sizes.pdf --columns 1\n"
     "  kronlat plot hubbard.h5 --csv hubbard.csv\n\n"
     "The ending of FILE chooses the format: .svg, .png or .pdf. Several results are drawn as curves side by "
     "side; where their sizes differ, gaps and energies stand against 1/L with their limits, where one "
     "parameter differs, energies and averages against it. Panels that are left out are told. With --csv or "
     "--json alone the numbers are written and nothing is drawn. TABLE.csv: a table as docs/performance has "
     "them."},
    {"bench", KL_SUBJECT_NONE, "WHAT ...", "Measure speed; every time is told with a checked answer.",
     "Examples:\n"
     "  kronlat bench gemm\n"
     "  kronlat bench dmrg hubbard --sites 100 -p U=8 --charge N_up=50 --charge N_dn=50 --accuracy 1e-8 "
     "--exact -32.545776173090661\n\n"
     "`kronlat bench WHAT --help' lists the options of each."},
    {"tune", KL_SUBJECT_NONE, "", "Measure every operation on host and devices once, for --exec auto.",
     "Example:\n  kronlat tune\n\n"
     "The times are kept where `--exec auto' and `kronlat explain' find them: in tune-table in the cache "
     "folder, $KRONLAT_CACHE, $XDG_CACHE_HOME/kronlat or ~/.cache/kronlat."},
    {"completion", KL_SUBJECT_SHELL, "bash|zsh|fish",
     "Print what lets a shell complete commands, options, models and charges.",
     "Example, for the shell that is open:\n  . <(kronlat completion bash)"},
    {"man", KL_SUBJECT_COMMAND, "[COMMAND]",
     "Print the manual page of a command, or of the program, in roff.",
     "Example:\n  kronlat man dmrg | man -l -"},

    {"plan --method ed", KL_SUBJECT_MODEL, "MODEL", "Say what exact diagonalization would need.", NULL},
    {"explain --method ed", KL_SUBJECT_MODEL, "MODEL",
     "Say which executor and kernel each operation of exact diagonalization takes.", NULL},
    {"explain --method ci", KL_SUBJECT_FILE, "FCIDUMP",
     "Say which executor and kernel each operation of configuration interaction takes.", NULL},
    {"dmrg FCIDUMP", KL_SUBJECT_FILE, "FCIDUMP", "Find low states of a molecule by DMRG.", NULL},
    {"plan FCIDUMP", KL_SUBJECT_FILE, "FCIDUMP", "Say what DMRG of a molecule would need.", NULL},
    {"explain FCIDUMP", KL_SUBJECT_FILE, "FCIDUMP",
     "Say which executor and kernel each operation of DMRG of a molecule takes.", NULL},
    {"bench gemm", KL_SUBJECT_NONE, "", "Small dense products, n = 4 to 512: our kernel and the BLAS.", NULL},
    {"bench gemv_trans", KL_SUBJECT_NONE, "",
     "V^T x for all widths and heights, kernels and libraries side by side.", NULL},
    {"bench gemv_normal", KL_SUBJECT_NONE, "",
     "V y for all widths and heights, kernels and libraries side by side.", NULL},
    {"bench compare", KL_SUBJECT_NONE, "",
     "Each operation and size: host, offload, cuda, NVIDIA's library, ceiling; CSV, JSON, plot.", NULL},
    {"bench dmrg", KL_SUBJECT_OPTIONAL_MODEL, "[MODEL]",
     "CPU seconds to a wanted accuracy by the default schedule.",
     "Without a model: Heisenberg, 100 sites, to 1e-10, and Hubbard, 100 sites, U=8, to 1e-8 and 1e-10."},
    {"bench ed", KL_SUBJECT_MODEL, "MODEL",
     "Products with H by each instruction set, and the lowest energy from nothing.", NULL},
    {"bench ci", KL_SUBJECT_OPTIONAL_FILE, "[FCIDUMP | MATRIX.mtx]",
     "Sparse products in every format, and configuration interaction with and without a matrix.",
     "Without a file: a matrix with the statistics of mahmoud2018, Tables 3 to 5 (655 non-zeros a row in the "
     "left tenth, about 295 in the rest). With an FCIDUMP file: building, products in every format (of a "
     "matrix above 2 GB: as it is), without a matrix where the space is full, and the whole run, less the "
     "time of the products shown. On a device: all ways that it knows, with cuSPARSE's best algorithm and "
     "CSR5 for comparison (cuda)."},
    {"bench run", KL_SUBJECT_MODEL, "MODEL",
     "Whole runs of `kronlat dmrg' and their parts, another build's program in turn with this one.",
     "Where a run's time goes: truncation, products with H, the rest of the eigensolver, operators and "
     "lists, growth of blocks, wavefunctions carried on; and its TFLOP/s from begin to end."},
    {"bench auto", KL_SUBJECT_OPTIONAL_FILE, "[FCIDUMP]",
     "Whole runs by --exec auto beside each executor by name, from tiny to full.",
     "Runs of ed, dmrg and, with FCIDUMP, of ci, as processes of their own; all choices have to agree about "
     "the energies. Says how far auto is behind the best single choice. `kronlat tune' comes before."},
    {"bench hx", KL_SUBJECT_MODEL, "MODEL",
     "One H x at the middle bond, strategies lr and l11r, also joined, on one and on all threads.",
     "`kronlat bench hx --replay FILE' runs lists again that --save-records wrote: processor, device with "
     "every projection, both, and the assembled CSR matrix; `kronlat bench hx --replay --help' lists its "
     "options."},
    {"bench hx --replay", KL_SUBJECT_NONE, "FILE",
     "Run the lists of H x again that --save-records wrote, by every way there is.", NULL},
    {"bench offload", KL_SUBJECT_NONE, "",
     "Every operation on the offload device, with ceilings of the same run.",
     "Lists by offload are compared with the same lists by the CUDA module's kernel, where there is one."},
    {"bench cuda", KL_SUBJECT_NONE, "",
     "Every operation by CUDA, and lists by every projection and by cuBLAS.",
     "Lists are compared with one large dgemm."},
};
/* clang-format on */

const kl_command kl_job_command[KL_NJOB_COMMAND] = {KL_CMD_DMRG, KL_CMD_ED, KL_CMD_CI, KL_CMD_PLAN,
                                                    KL_CMD_GROWTH};

const char *kl_command_name(kl_command command)
{
    return command < KL_NCMD_ALL ? kl_command_table[command].name : NULL;
}

kl_command_set kl_commands_taken(kl_command command)
{
    if (command != KL_CMD_RUN) return KL_BIT(command);
    kl_command_set bits = KL_BIT(KL_CMD_RUN) | KL_BIT(KL_CMD_PLAN_ED) | KL_BIT(KL_CMD_DMRG_MOLECULE) |
                          KL_BIT(KL_CMD_PLAN_MOLECULE);
    for (int i = 0; i < KL_NJOB_COMMAND; i++) bits |= KL_BIT(kl_job_command[i]);
    return bits;
}
