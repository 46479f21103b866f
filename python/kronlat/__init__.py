"""kronlat: ground and low excited states of lattice models and molecules.

    import kronlat as kl
    r = kl.dmrg("hubbard", lattice="cylinder:8x4", params=dict(U=8), charges=dict(N_up=14, N_dn=14))
    r.energy, r.error, r.measure("corr(Sz,Sz)")

SPDX-License-Identifier: Apache-2.0
"""
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

__version__ = _version()
__all__ = [
    "Absent",
    "BadInput",
    "Cancelled",
    "Fcidump",
    "FileError",
    "Hamiltonian",
    "KronlatError",
    "Lattice",
    "Model",
    "Molecule",
    "NoMemory",
    "NotConverged",
    "Problem",
    "Result",
    "Step",
    "ci",
    "dmrg",
    "ed",
    "hamiltonian",
    "load",
]
