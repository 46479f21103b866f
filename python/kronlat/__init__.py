"""kronlat: ground and low excited states of lattice models and molecules.

    import kronlat as kl
    r = kl.dmrg("hubbard", lattice="cylinder:8x4", params=dict(U=8), charges=dict(N_up=14, N_dn=14))
    r.energy, r.error, r.measure("corr(Sz,Sz)")

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from . import figures
from ._c import version as _version
from .errors import Absent, BadInput, Cancelled, FileError, KronlatError, NoMemory, NotConverged
from .hamiltonian import Hamiltonian, hamiltonian
from .lattice import Lattice
from .model import Model
from .molecule import Fcidump, Molecule
from .problem import Problem
from .progress import Step
from .result import Result
from .run import ci, dmrg, ed, load
from .sweep import Sweep, sweep
from .tensors import MPO, MPS

if TYPE_CHECKING:
    import matplotlib.figure

__version__ = _version()


def plot(
    results: _Sequence[Result] | Result,
    names: _Sequence[str] | None = None,
    columns: int = 2,
    width: float = 7.0,
) -> matplotlib.figure.Figure:
    """`kronlat plot a.h5 b.h5`, by matplotlib: gaps and energies against 1/L with their limits where sizes
    differ, against a parameter or charge in which the results differ, curves side by side."""
    if not isinstance(results, Result) and not hasattr(results, "__iter__"):
        raise TypeError(f"plot takes a Result or several, not {type(results).__name__}")
    return figures.overview([results] if isinstance(results, Result) else results, names, columns, width)


def __getattr__(name: str) -> object:
    """kronlat.pyscf needs PySCF, and is loaded when it is used."""
    if name == "pyscf":
        return _import_module("kronlat.pyscf")
    raise AttributeError(f"module 'kronlat' has no attribute {name!r}")


__all__ = [
    "Absent",
    "BadInput",
    "Cancelled",
    "Fcidump",
    "FileError",
    "Hamiltonian",
    "KronlatError",
    "Lattice",
    "MPO",
    "MPS",
    "Model",
    "Molecule",
    "NoMemory",
    "NotConverged",
    "Problem",
    "Result",
    "Step",
    "Sweep",
    "ci",
    "dmrg",
    "ed",
    "figures",
    "hamiltonian",
    "load",
    "plot",
    "sweep",
]
