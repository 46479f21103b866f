"""kronlat: ground and low excited states of lattice models and molecules.

    import kronlat as kl
    r = kl.dmrg("hubbard", lattice="cylinder:8x4", params=dict(U=8), charges=dict(N_up=14, N_dn=14))
    r.energy, r.error, r.measure("corr(Sz,Sz)")

SPDX-License-Identifier: Apache-2.0
"""

from importlib import import_module as _import_module

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

__version__ = _version()


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
    "hamiltonian",
    "load",
    "sweep",
]
