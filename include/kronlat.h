/* Ground and low excited states of strongly correlated lattice models and molecules: DMRG, exact
   diagonalization and configuration interaction from one's own program. docs/library.md shows it by task.

   Rules that hold for all functions:
   - A function that can fail returns a kronlat_status: KRONLAT_OK, or what went wrong; `error`, which may be
     NULL, then says it in one line. A handle that is to be made is NULL after a failure, unless said
     otherwise.
   - Handles are opaque. Who makes one destroys it; destroy accepts NULL. Results, operators and tensors live
     on when their problem is changed or destroyed.
   - Different handles may be used by different threads at once; one handle by one thread at a time. Runs
     share the processors: the second of two that come together works on its caller's thread alone.
   - A program that uses HDF5 itself must not do so while another thread saves or loads, unless its HDF5 is
     built thread-safe.
   - Arrays are row-major, the last index running fastest. The caller owns what it passes in, and it is copied
     before a function returns. Pointers that are handed out belong to the handle and live as long as it does.
   - Sites are numbered from 0 as the lattice numbers them. Energies are in the units of the model's
     parameters, of molecules in hartree.
   - Nothing is printed, no process is ended, no signal is caught and no locale is changed. The calling
     thread's floating-point mode is put back before a function returns.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KRONLAT_H
#define KRONLAT_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- plain declarations from here on: what a reader of C without a preprocessor (Python's cffi) takes
   ---- */

/* The version of the library, as "0.2.0". Belongs to the library. */
const char *kronlat_version(void);

/* ---------------------------------------------------------------- errors */

typedef enum kronlat_status {
    KRONLAT_OK = 0, /* nothing went wrong */
    /* an argument or an option is wrong: the message says what, and what is allowed */
    KRONLAT_BAD_INPUT = 1,
    KRONLAT_NO_MEMORY = 2,      /* the machine, or the limit that was set, has not enough */
    KRONLAT_IO = 3,             /* a file could not be read or written */
    KRONLAT_NOT_CONVERGED = 4,  /* an iteration inside stopped above its tolerance */
    KRONLAT_ABSENT = 5,         /* not built in, or the device is not there */
    KRONLAT_CANCELLED = 6,      /* the cancel callback said so */
    KRONLAT_BROKEN = -1         /* the handle may only be destroyed */
} kronlat_status;

/* What went wrong in the last failing call that it was passed to. One for each thread is enough. */
typedef struct kronlat_error kronlat_error;
/* NULL: no memory. */
kronlat_error *kronlat_error_create(void);
void kronlat_error_destroy(kronlat_error *error);
kronlat_status kronlat_error_status(const kronlat_error *error);
/* One line without a line break; "" when nothing has failed. Lives until the next failure. */
const char *kronlat_error_message(const kronlat_error *error);

/* ---------------------------------------------------------------- problems */

/* A Hamiltonian, the sector that is wanted, and how to go about it. */
typedef struct kronlat_problem kronlat_problem;

/* model: the name of a model that `kronlat models' lists ("hubbard"), or the path of a model file (it holds a
   '/' or ends in ".lua"). The file is read when the problem is first used. */
kronlat_status kronlat_problem_create(const char *model, kronlat_problem **out, kronlat_error *error);
/* The same from the text of a model file; name: what messages call it. */
kronlat_status kronlat_problem_create_text(const char *name, const char *text, kronlat_problem **out,
                                           kronlat_error *error);
/* A molecule, from the FCIDUMP file at `path`; for kronlat_ci and kronlat_dmrg. */
kronlat_status kronlat_problem_create_fcidump(const char *path, kronlat_problem **out, kronlat_error *error);
/* A molecule, from integrals over norb real orthonormal orbitals, in hartree:
     H = core + sum_pq,s h[s][p][q] c+_ps c_qs + 1/2 sum_pqrs,st (pq|rs)_st c+_ps c+_rt c_st c_qs
   unrestricted 0: h[norb][norb] and eri[norb][norb][norb][norb] = (pq|rs), of both spins.
   unrestricted 1: h[2][norb][norb], alpha and beta, and eri[3][norb]..., alpha alpha, beta beta, and alpha
   beta with p, q alpha.
   electrons and ms2 (alpha less beta electrons): of the molecule.
   BAD_INPUT: h is not symmetric, eri has not its 8-fold (alpha beta: 4-fold) symmetry to 1e-10 of its largest
   element, or a number is not finite. */
kronlat_status kronlat_problem_create_integrals(int norb, int electrons, int ms2, int unrestricted,
                                                double core, const double *h, const double *eri,
                                                kronlat_problem **out, kronlat_error *error);
/* irrep[norb] of each orbital of such a molecule, 0 to 7, the product of two irreps being their exclusive or.
   Without this call no symmetry is used. BAD_INPUT: integrals break the symmetry. */
kronlat_status kronlat_problem_set_irreps(kronlat_problem *problem, int norb, const int *irrep,
                                          kronlat_error *error);
/* The system that the result file of DMRG or ED at `path` is of: model, lattice, parameters, charges and how
   it was run, as its file says; not what was measured and where it was written. BAD_INPUT: another file, or
   one of a model or a lattice that was handed over in memory. */
kronlat_status kronlat_problem_create_result(const char *path, kronlat_problem **out, kronlat_error *error);
void kronlat_problem_destroy(kronlat_problem *problem);

/* Sets an option by its name in job files (docs/manual.md, `kronlat dmrg --help'): "sites" "32", "lattice"
   "torus:4x4", "parameter" "U=4", "charge" "N_up=16", "m" "512", "states" "2", "measure" "corr(Sz,Sz)",
   "threads" "8", "output" "run.h5". A later value replaces an earlier one; "parameter", "charge" and "pin" do
   so by the name before '='; "measure", "spectral" and "reference" are added to. Flags take "true" or
   "false". value NULL: the option is no longer set. An option that only other methods take is ignored by a
   run. Not here: "command" and "model", "fcidump", "json", "verbose", and the commands' own "plan",
   "infinite" and "sweep_parameter". Without "output" nothing is written; with it the result, and checkpoints
   that "resume" goes on from. */
kronlat_status kronlat_problem_set(kronlat_problem *problem, const char *option, const char *value,
                                   kronlat_error *error);
/* 1: an option of several values, each with a call of kronlat_problem_set ("measure", "charge"). 0: of one
   value, or unknown. */
int kronlat_option_is_list(const char *option);
/* 1: the method ("dmrg", "ed", "ci") takes this option; 0: its runs ignore it, or there is no such one. */
int kronlat_option_is_of(const char *option, const char *method);
/* The parameter `name` of the model. value[n]: one number of a scalar; of an array parameter or coupling one
   for each site, in the lattice's numbering, or for each bond of the classes whose terms use it, in the order
   of site pairs (i, j), i < j. */
kronlat_status kronlat_problem_set_parameter(kronlat_problem *problem, const char *name, int64_t n,
                                             const double *value, kronlat_error *error);
/* The charge `name` of the state is numerator / denominator: Sz = 1/2 is ("Sz", 1, 2). */
kronlat_status kronlat_problem_set_charge(kronlat_problem *problem, const char *name, int64_t numerator,
                                          int64_t denominator, kronlat_error *error);
/* The lattice by its sites and classed bonds, instead of the options "sites" and "lattice". name: what
   reports and files call it. xy[nsite][2]: coordinates, NULL: none. site_class[nsite]: NULL, or the class of
   each site (NULL or "": none). bond[nbond][2]: different sites; a term that tells its two sites apart runs
   from the first to the second. bond_class[nbond]: the class of each, or several with a blank between them
   ("nn leg"); NULL: all are "nn". */
kronlat_status kronlat_problem_set_lattice(kronlat_problem *problem, const char *name, int nsite,
                                           const double *xy, const char *const *site_class, int64_t nbond,
                                           const int *bond, const char *const *bond_class,
                                           kronlat_error *error);

/* *nsite: how many sites; *ncharge: how many charges. What is still missing for a run need not be there. */
kronlat_status kronlat_problem_sites(kronlat_problem *problem, int *nsite, kronlat_error *error);
kronlat_status kronlat_problem_charges(kronlat_problem *problem, int *ncharge, kronlat_error *error);
/* *name of charge c < ncharge, and its unit: the value of a stored integer v is v * *numerator /
   *denominator. *modulus: 0, or n where the charge counts modulo n. Any pointer may be NULL. */
kronlat_status kronlat_problem_charge(kronlat_problem *problem, int c, const char **name, int *numerator,
                                      int *denominator, int *modulus, kronlat_error *error);
/* *dimension: local states of a site, in the order in which tensors and kronlat_operator_state count them;
   *name of one of them ("up", "dn", "0", "updn"), which belongs to the problem until it is changed. */
kronlat_status kronlat_problem_site_dimension(kronlat_problem *problem, int site, int *dimension,
                                              kronlat_error *error);
kronlat_status kronlat_problem_site_state(kronlat_problem *problem, int site, int state, const char **name,
                                          kronlat_error *error);

/* ---------------------------------------------------------------- while a run goes on */

typedef enum kronlat_stage {
    KRONLAT_STAGE_BOND = 1, /* DMRG has optimized a bond */
    KRONLAT_STAGE_SWEEP = 2, /* DMRG has done a sweep: forward and backward over all bonds */
    KRONLAT_STAGE_PRODUCT = 3, /* a product with H: of exact diagonalization or configuration interaction */
    KRONLAT_STAGE_LEVEL = 4, /* a level of a spectral function */
    KRONLAT_STAGE_SAMPLE = 5, /* a step of a random state of thermodynamics */
    KRONLAT_STAGE_BLOCK = 6 /* an irrep of configuration interaction is built or solved */
} kronlat_stage;

/* What a progress callback is told; good during the call alone. */
typedef struct kronlat_progress kronlat_progress;
kronlat_stage kronlat_progress_stage(const kronlat_progress *progress);
/* Bonds, sweeps, products, ... so far, from 1 on, and of how many; 0: not known. */
int64_t kronlat_progress_done(const kronlat_progress *progress);
int64_t kronlat_progress_of(const kronlat_progress *progress);
/* BOND and SWEEP: the sweep, from 1 on, and the states kept. Else 0. */
int kronlat_progress_sweep(const kronlat_progress *progress);
int kronlat_progress_states(const kronlat_progress *progress);
/* The lowest energy so far; and |H x - E x|, SWEEP: the change of the energy. NaN where there is none. */
double kronlat_progress_energy(const kronlat_progress *progress);
double kronlat_progress_residual(const kronlat_progress *progress);

/* Called on the thread of the run, between its steps; `self` is handed on. NULL: nobody is told. The callback
   may not use the problem. */
void kronlat_problem_on_progress(kronlat_problem *problem,
                                 void (*told)(void *self, const kronlat_progress *progress), void *self);
/* Asked at every step, and while files are waited for: nonzero ends the run with KRONLAT_CANCELLED. */
void kronlat_problem_on_cancel(kronlat_problem *problem, int (*asked)(void *self), void *self);
/* What is worth knowing and no failure, such as a checkpoint that could not be written: one line. */
void kronlat_problem_on_note(kronlat_problem *problem, void (*told)(void *self, const char *text),
                             void *self);

/* ---------------------------------------------------------------- runs */

/* What a run found: energies, measurements, and states where they were kept. */
typedef struct kronlat_result kronlat_result;

/* The lowest "states" states of the sector by DMRG, ED or CI. Every charge must have been set (ED with
   "temperatures": or be "scan"). start: NULL, or a result of DMRG of the same model, lattice and charges
   whose state the run begins with; it is copied. *out after a failure: NULL; but what was found stands in it
   after CANCELLED (not finished; it can be saved, and gone on from by "resume" where it is of DMRG), and
   where the run was done and only a measurement, or the file that "output" names, failed. BAD_INPUT: an
   option, a charge or a measurement that the model has not; ABSENT: a device that is not there. */
kronlat_status kronlat_dmrg(kronlat_problem *problem, const kronlat_result *start, kronlat_result **out,
                            kronlat_error *error);
kronlat_status kronlat_ed(kronlat_problem *problem, kronlat_result **out, kronlat_error *error);
/* Those energies alone, which takes less time and memory where many sectors are looked at: nothing is
   measured, no state is kept, and no file is read or written. As kronlat_ed else. */
kronlat_status kronlat_ed_energies(kronlat_problem *problem, kronlat_result **out, kronlat_error *error);
kronlat_status kronlat_ci(kronlat_problem *problem, kronlat_result **out, kronlat_error *error);
/* keep nonzero: kronlat_ed keeps the states themselves, for kronlat_result_vector, and kronlat_ci for
   kronlat_result_determinants. */
void kronlat_problem_keep_vectors(kronlat_problem *problem, int keep);

/* ---------------------------------------------------------------- results */

void kronlat_result_destroy(kronlat_result *result);
/* "dmrg", "ed" or "ci". */
const char *kronlat_result_method(const kronlat_result *result);
/* 1: the run came to its end; 0: it was cancelled, or the file held a checkpoint. */
int kronlat_result_finished(const kronlat_result *result);
/* 1: the wanted accuracy was reached, and no other state lies within the error bar of DMRG's energy. */
int kronlat_result_converged(const kronlat_result *result);
/* 1: the wanted accuracy was reached. Where kronlat_result_converged says 0 beside it, other states lie
   within the error bar, and what is kept and measured may be a mixture of them. */
int kronlat_result_energy_converged(const kronlat_result *result);
/* States found. */
int kronlat_result_states(const kronlat_result *result);
/* Energy of a state, from the lowest on, and how far it may be off: of DMRG an estimate, of ED a bound, of CI
   the residual. NaN: there is no such state. */
double kronlat_result_energy(const kronlat_result *result, int state);
double kronlat_result_error(const kronlat_result *result, int state);

/* what: of DMRG and ED "model", "variant", "formula", "lattice", "command_line", "program" (the version that
   ran). NULL: there is no such text. */
const char *kronlat_result_text(const kronlat_result *result, const char *what);

/* Everything else, by name; docs/library.md lists the names. Of all methods: "energy"[states],
   "error"[states]. What was measured stands under "local/Sz", "correlation/Sz,Sz", of the state k > 0 under
   "state_k/local/Sz". Names from 0 to count - 1; NULL beyond. */
int kronlat_result_count(const kronlat_result *result);
const char *kronlat_result_name(const kronlat_result *result, int i);
/* The array of this name. *rank: 0 (one number) to 4; shape[4]: its extents, the rest 0; *data: row-major,
   the result's. Any of the three may be NULL. BAD_INPUT: there is no such array. */
kronlat_status kronlat_result_array(const kronlat_result *result, const char *name, int *rank, int64_t *shape,
                                    const double **data, kronlat_error *error);
/* Measures more on the states of a result of DMRG, and adds it; what: as the option "measure" says it, or
   several such texts, one a line, which is faster than one call for each. BAD_INPUT: a result without its
   state, or of another method; a text that asks for nothing there is, and then nothing is measured. */
kronlat_status kronlat_result_measure(kronlat_result *result, const char *what, kronlat_error *error);
/* Numbers in a state that is kept; 0: none is. */
int64_t kronlat_result_dimension(const kronlat_result *result);
/* x[n] = state `state` of kronlat_ed, n and order as of kronlat_operator. BAD_INPUT: no vectors were kept, or
   n is not the dimension. */
kronlat_status kronlat_result_vector(const kronlat_result *result, int state, int64_t n, double *x,
                                     kronlat_error *error);

/* State `state` of kronlat_ci: *n determinants, bit p of alpha[i] and beta[i] being orbital p, i < *n, and
   coefficient[i]. A determinant is the product of the creation operators of its alpha orbitals, in ascending
   order, then of its beta orbitals, on the vacuum. Any pointer may be NULL. BAD_INPUT: none were kept. */
kronlat_status kronlat_result_determinants(const kronlat_result *result, int state, int64_t *n,
                                           const uint64_t **alpha, const uint64_t **beta,
                                           const double **coefficient, kronlat_error *error);

/* *json: the figure that `kronlat plot --json' makes of results[n], as numbers with titles, axes, fits and
   notes (docs/json.schema.json); of one, or several of DMRG and ED, which are told apart by names[n] where
   size, parameter and charge do not (NULL: of one). It stays until the next call for results[0] or its
   end. */
kronlat_status kronlat_result_figure(int n, kronlat_result *const *results, const char *const *names,
                                     const char **json, kronlat_error *error);

/* Writes a file at `path` that `kronlat show' reads; an older one is replaced as a whole, or stays as it
   was. */
kronlat_status kronlat_result_save(const kronlat_result *result, const char *path, kronlat_error *error);
/* Reads such a file at `path`. problem: NULL, or the system that it is of: the state then comes along, to
   start from, to be measured, and for its tensors. BAD_INPUT: a damaged file, or one of another system. */
kronlat_status kronlat_result_load(kronlat_problem *problem, const char *path, kronlat_result **out,
                                   kronlat_error *error);

/* ---------------------------------------------------------------- y = H x */

/* H in the sector of the problem's charges, for one's own solver. Basis states are products of local states
   of the sites in the order of positions (kronlat_operator_position), with fermionic modes filled in this
   order and, at a site, in the model's. Of a molecule: H of kronlat_ci in the options' "space" and "irrep";
   sites and positions are the orbitals, local states 0 empty, 1 alpha, 2 beta, 3 both, alpha filled first. */
typedef struct kronlat_operator kronlat_operator;
/* BAD_INPUT: a charge is missing, or the irrep of a molecule that has several. */
kronlat_status kronlat_operator_create(kronlat_problem *problem, kronlat_operator **out,
                                       kronlat_error *error);
void kronlat_operator_destroy(kronlat_operator *op);
/* States of the sector: the length of a vector. */
int64_t kronlat_operator_dimension(const kronlat_operator *op);
int kronlat_operator_sites(const kronlat_operator *op);
/* Where a site comes in the order of the modes, from 0 on. -1: no such site. */
int kronlat_operator_position(const kronlat_operator *op, int site);
/* y[nvector][ldy] = H x[nvector][ldx], the constant of the model included; ldx and ldy at least the
   dimension. y may not overlap x. The same bits for the same x, on any number of threads. */
kronlat_status kronlat_operator_apply(kronlat_operator *op, int nvector, const double *x, int64_t ldx,
                                      double *y, int64_t ldy, kronlat_error *error);
/* d[dimension]: the diagonal of H. */
kronlat_status kronlat_operator_diagonal(kronlat_operator *op, double *d, kronlat_error *error);
/* state[sites]: local state of each site, by the lattice's numbers, of basis state i; and the number i of
   such a state, -1: it is not of this sector. */
kronlat_status kronlat_operator_state(const kronlat_operator *op, int64_t i, int *state,
                                      kronlat_error *error);
int64_t kronlat_operator_find(const kronlat_operator *op, const int *state);

/* ---------------------------------------------------------------- tensors of states and of H */

/* A chain of site tensors in dense blocks by charge: a matrix product state (MPS), or the Hamiltonian as a
   matrix product operator (MPO). Position p = 0 to sites - 1 has the matrices A(p), between bond p and
   bond p + 1:
     MPS   psi(s_0, s_1, ...) = A(0)[s_0] A(1)[s_1] ...
     MPO   <s| H |f>          = W(0)[s_0][f_0] W(1)[s_1][f_1] ...
   in the basis of kronlat_operator: products of local states in the order of positions, fermionic modes
   filled in this order and, at a site, in the model's. All signs of fermions are in the numbers: chains are
   contracted as plain tensor products are. Both outer bonds have one state. A state of a bond has a charge:
   of an MPS that of the sites to its left; of an MPO what its operators add to the charge there. A block
   joins a sector of the left bond with the sector of the right one whose charge is that of the left, plus
   that of the local state, less that of the local state `from` (of an MPO); other blocks are zero and are not
   listed. */
typedef struct kronlat_tensors kronlat_tensors;

/* State `state` of a result of DMRG, of norm 1. centre: the position before which the matrices are left
   isometries, sum_s A[s]^T A[s] = 1, and behind which they are right isometries, sum_s A[s] A[s]^T = 1.
   With the total spin S it is the component with Sz = S, in states of Sz.
   BAD_INPUT: a result without its state; no such state or position. */
kronlat_status kronlat_result_mps(const kronlat_result *result, int state, int centre, kronlat_tensors **out,
                                  kronlat_error *error);
/* H of the problem, its constant included; charges need not be set. BAD_INPUT: the total spin is a charge. */
kronlat_status kronlat_problem_mpo(kronlat_problem *problem, kronlat_tensors **out, kronlat_error *error);
void kronlat_tensors_destroy(kronlat_tensors *tensors);
int kronlat_tensors_sites(const kronlat_tensors *tensors);
/* Site of a position, as the lattice numbers it; and its local states, numbered as in
   kronlat_problem_site_state. -1: no such position. */
int kronlat_tensors_site(const kronlat_tensors *tensors, int position);
int kronlat_tensors_dimension(const kronlat_tensors *tensors, int position);
/* Charges of a sector: those of the problem, or, of a state with the total spin, those of the component that
   the tensors are of. *name, *numerator, *denominator and *modulus of charge c as kronlat_problem_charge
   tells them. */
int kronlat_tensors_charges(const kronlat_tensors *tensors);
kronlat_status kronlat_tensors_charge(const kronlat_tensors *tensors, int c, const char **name,
                                      int *numerator, int *denominator, int *modulus, kronlat_error *error);
/* Sectors of bond 0 to sites; -1: no such bond. */
int kronlat_tensors_sectors(const kronlat_tensors *tensors, int bond);
/* charge[charges]: of a sector of a bond, in the unit of kronlat_tensors_charge; *dimension: its states.
   Either may be NULL. Sectors come in ascending order of their charges. */
kronlat_status kronlat_tensors_sector(const kronlat_tensors *tensors, int bond, int sector, int *charge,
                                      int64_t *dimension, kronlat_error *error);
/* Blocks of a position; -1: no such position. */
int64_t kronlat_tensors_blocks(const kronlat_tensors *tensors, int position);
/* Block i of a position: its sectors *left and *right, its local states, and *data = [dimension of left]
   [dimension of right], row-major, the handle's. *from: of an MPO the local state that H is applied to,
   *state the one that comes out; of an MPS *from is -1. Any pointer may be NULL. */
kronlat_status kronlat_tensors_block(const kronlat_tensors *tensors, int position, int64_t i, int *left,
                                     int *state, int *from, int *right, const double **data,
                                     kronlat_error *error);

/* ---- end of the plain declarations ---- */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
