"""The methods.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Union

from ._c import attempt, call, ffi, lib, owned, text
from .errors import BadInput, Cancelled
from .molecule import Fcidump
from .problem import Problem, ResultFile, entries_of
from .progress import Step, watching
from .result import Result

Progress = Union[bool, Callable[[Step], None], None]


def _run(method: str, problem: Problem, progress: Progress, *args: Any) -> Result:
    """kronlat_METHOD: a Result; Cancelled, with what was found, by ^C; other exceptions of `progress`."""
    out = ffi.new("kronlat_result **")
    with watching(problem._c, progress) as watch:
        failure = attempt(method, problem._c, *args, out)
    result = None
    if out[0] != ffi.NULL:
        result = Result(owned("result", out[0]), watch.notes)
        result.problem = problem
    if isinstance(watch.raised, KeyboardInterrupt):
        raise Cancelled(result=result) from None
    if watch.raised is not None:
        raise watch.raised
    if failure is not None:
        failure.result = result
        raise failure
    assert result is not None
    return result


def _of(method: str, options: Mapping[str, Any]) -> None:
    """What another method's runs take would be ignored."""
    for name, value in options.items():
        takers = [m for m in ("dmrg", "ed", "ci") if lib.kronlat_option_is_of(text(name), text(m))]
        if value is not None and takers and method not in takers:
            theirs = " and ".join("kl." + m for m in takers)
            raise BadInput(f"{name} belongs to {theirs}, not to kl.{method}")


def _one_sector(charges: Mapping[str, Any] | str | None) -> None:
    """What the program scans is a run for each sector here."""
    words = [charges] if isinstance(charges, str) else list(entries_of("charges", charges).values())
    if any(isinstance(word, str) and (word == "scan" or set(word) & set(":,")) for word in words):
        raise BadInput(
            "charges: a run is for one sector; "
            "kl.sweep(run, model, {'charges': [dict(Sz=0), dict(Sz=1)]}, ...) goes through several"
        )


def dmrg(
    model: Any,
    lattice: Any = None,
    params: Mapping[str, Any] | None = None,
    charges: Mapping[str, Any] | str | None = None,
    *,
    start: Result | str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **options: Any,
) -> Result:
    """Lowest states of a sector by the density matrix renormalization group.

    model, lattice, params, charges: as of Problem.
    start: a Result of the same model, lattice and charges, or what the option `start` takes.
    progress: True: a bar; a function: it is told every Step; None: a bar in notebooks.
    options: accuracy=1e-8, m=512, states=2, measure=["Sz", "corr(Sz,Sz)"], threads=2, output="run.h5", ...
    """
    _of("dmrg", options)
    _one_sector(charges)
    state = start._c if isinstance(start, Result) else ffi.NULL
    if start is not None and state == ffi.NULL:
        options["start"] = start
    return _run("dmrg", Problem(model, lattice, params, charges, **options), progress, state)


def ed(
    model: Any,
    lattice: Any = None,
    params: Mapping[str, Any] | None = None,
    charges: Mapping[str, Any] | str | None = None,
    *,
    keep_vectors: bool = False,
    progress: Progress = None,
    **options: Any,
) -> Result:
    """Lowest states of a sector by exact diagonalization; spectral functions and thermodynamics.

    keep_vectors: Result.vector has the states. Else as dmrg.
    options: states=4, accuracy=1e-12, spectral=["Sz@q=8"], temperatures="0.1:2:0.1", ...
    """
    _of("ed", options)
    if options.get("temperatures") is None:
        _one_sector(charges)
    problem = Problem(model, lattice, params, charges, **options)
    problem.keep_vectors(keep_vectors)
    return _run("ed", problem, progress)


def ci(molecule: Any, *, keep_vectors: bool = False, progress: Progress = None, **options: Any) -> Result:
    """Lowest states of a molecule by configuration interaction.

    molecule: a Molecule, or the name of an FCIDUMP file.
    keep_vectors: Result.determinants has the states.
    options: space="full", roots=2, frozen=1, density=True, residual=1e-8, ...
    """
    _of("ci", options)
    if isinstance(molecule, (str, os.PathLike)):
        molecule = Fcidump(molecule)
    problem = Problem(molecule, **options)
    problem.keep_vectors(keep_vectors)
    return _run("ci", problem, progress)


def load(path: str | os.PathLike[str], problem: Problem | None = None) -> Result:
    """A result that a run or `save` wrote, with its state where the file tells its system.

    problem: what it is of, where model or lattice were handed over in memory.
    """
    if problem is None:
        problem = _problem_in(path)
    out = ffi.new("kronlat_result **")
    call("result_load", ffi.NULL if problem is None else problem._c, text(path), out)
    result = Result(owned("result", out[0]))
    result.problem = problem
    return result


def _problem_in(path: str | os.PathLike[str]) -> Problem | None:
    """The problem of a result file; None: it does not tell one."""
    try:
        return Problem(ResultFile(path))
    except BadInput:
        return None
