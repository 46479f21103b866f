"""What a run tells while it goes on, and how it is stopped.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from ._c import ffi, lib

# ORDER kronlat_stage, from 1 on
_STAGES = ("", "bond", "sweep", "product", "level", "sample", "block")


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    stage: str  #: "bond", "sweep", "product", "level", "sample" or "block"
    done: int  #: bonds, sweeps, products, ... so far
    of: int  #: and of how many; 0: not known
    sweep: int  #: of DMRG, from 1 on
    states: int  #: kept states of DMRG
    energy: float  #: lowest so far, or nan
    residual: float  #: |H x - E x|, of a sweep the change of the energy; or nan


def _step(progress: Any) -> Step:
    return Step(
        stage=_STAGES[lib.kronlat_progress_stage(progress)],
        done=lib.kronlat_progress_done(progress),
        of=lib.kronlat_progress_of(progress),
        sweep=lib.kronlat_progress_sweep(progress),
        states=lib.kronlat_progress_states(progress),
        energy=lib.kronlat_progress_energy(progress),
        residual=lib.kronlat_progress_residual(progress),
    )


class Bar:
    """A bar of tqdm: the bonds of a sweep, or the products of an eigensolver."""

    def __init__(self, delay: float = 0) -> None:
        """delay: seconds before it is shown."""
        from tqdm.auto import tqdm

        self._bar = tqdm(unit=" step", leave=False, delay=delay)

    def __call__(self, step: Step) -> None:
        bar = self._bar
        if step.stage == "sweep":
            bar.refresh()
            return
        bar.total = step.of or None
        if step.states:
            bar.set_description(f"sweep {step.sweep}, m = {step.states}", refresh=False)
        if step.energy == step.energy:
            bar.set_postfix(E=f"{step.energy:.10g}", refresh=False)
        bar.update(step.done - bar.n)

    def close(self) -> None:
        self._bar.close()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and "IPKernelApp" in found.config


def _listener(progress: bool | Callable[[Step], None] | None) -> Callable[[Step], None] | None:
    """None: in notebooks a bar of what takes long; True: a bar; False: nothing; else what is told all."""
    if callable(progress):
        return progress
    if progress is None and _in_notebook():
        return Bar(delay=1)
    return Bar() if progress else None


class Watch:
    """Callbacks of one run. An exception in Python code under them, ^C included, ends the run."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.notes: list[str] = []

    def _on_error(self, _kind: Any, value: BaseException, _trace: Any) -> None:
        self.raised = self.raised or value


@contextmanager
def watching(problem: Any, progress: bool | Callable[[Step], None] | None) -> Iterator[Watch]:
    """Sets the callbacks of a kronlat_problem for the time of a run."""
    watch = Watch()
    tell = _listener(progress)
    failed = dict(onerror=watch._on_error)
    asked = ffi.callback("int(void *)", lambda _: watch.raised is not None, error=1, **failed)
    noted = ffi.callback(
        "void(void *, const char *)",
        lambda _, text: watch.notes.append(ffi.string(text).decode(errors="replace")),
        **failed,
    )
    told = ffi.NULL
    if tell is not None:
        told = ffi.callback("void(void *, const kronlat_progress *)", lambda _, p: tell(_step(p)), **failed)
    lib.kronlat_problem_on_cancel(problem, asked, ffi.NULL)
    lib.kronlat_problem_on_note(problem, noted, ffi.NULL)
    lib.kronlat_problem_on_progress(problem, told, ffi.NULL)
    try:
        yield watch
    finally:
        lib.kronlat_problem_on_cancel(problem, ffi.NULL, ffi.NULL)
        lib.kronlat_problem_on_note(problem, ffi.NULL, ffi.NULL)
        lib.kronlat_problem_on_progress(problem, ffi.NULL, ffi.NULL)
        if isinstance(tell, Bar):
            tell.close()
