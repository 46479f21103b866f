"""States and Hamiltonians as chains of tensors in NumPy blocks; to and from TeNPy and block2.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from ._c import call, create, ffi, lib

if TYPE_CHECKING:
    from .problem import Problem
    from .result import Result


@dataclass
class Bond:
    """Sectors of a bond, each of one charge."""

    charges: np.ndarray  #: [sector][charge], stored integers: in the unit of each charge
    dims: np.ndarray  #: [sector]

    @property
    def offsets(self) -> np.ndarray:
        """[sector]: its first state among all of the bond."""
        return np.concatenate([[0], np.cumsum(self.dims)[:-1]]).astype(int)

    @property
    def dim(self) -> int:
        """States of the bond."""
        return int(self.dims.sum())


@dataclass
class Block:
    """A matrix between two sectors, for given local states. `from_` is None for a state."""

    left: int
    state: int
    from_: int | None
    right: int
    data: np.ndarray  #: [left][right]


@dataclass(repr=False)
class Chain:
    """Tensors A(0) A(1) ... over positions; signs of fermions are in the numbers."""

    sites: list[int]  #: [position] site of the lattice
    local_states: list[list[str]]  #: [position][state] names
    charge_names: list[str]
    moduli: list[int]  #: of each charge; 0: counts without end
    bonds: list[Bond]  #: [position + 1]
    blocks: list[list[Block]]  #: [position]

    def __repr__(self) -> str:
        widest = max(bond.dim for bond in self.bonds)
        charges = ", ".join(self.charge_names) or "none"
        return f"<{type(self).__name__} of {len(self.sites)} sites, widest bond {widest}, charges {charges}>"

    @property
    def dims(self) -> list[int]:
        """[position]: local states."""
        return [len(names) for names in self.local_states]


def _charges(handle: Any) -> tuple[list[str], list[int]]:
    """Names and moduli (0: none) of the charges of bonds."""
    modulus, name = ffi.new("int *"), ffi.new("const char **")
    names, moduli = [], []
    for c in range(lib.kronlat_tensors_charges(handle)):
        call("tensors_charge", handle, c, name, ffi.NULL, ffi.NULL, modulus)
        names.append(ffi.string(name[0]).decode())
        moduli.append(modulus[0])
    return names, moduli


def _read(handle: Any, problem: Problem) -> dict[str, Any]:
    """The fields of a Chain from kronlat_tensors. Blocks are copies, and outlive the handle."""
    names, moduli = _charges(handle)
    n = lib.kronlat_tensors_sites(handle)
    charge, dim = ffi.new("int[]", max(len(names), 1)), ffi.new("int64_t *")
    bonds = []
    for bond in range(n + 1):
        sectors = []
        for sector in range(lib.kronlat_tensors_sectors(handle, bond)):
            call("tensors_sector", handle, bond, sector, charge, dim)
            sectors.append((list(charge)[: len(names)], dim[0]))
        charges = np.array([c for c, _ in sectors], dtype=int).reshape(len(sectors), len(names))
        bonds.append(Bond(charges, np.array([d for _, d in sectors], dtype=int)))
    left, state, source, right = (ffi.new("int *") for _ in range(4))
    data = ffi.new("const double **")
    blocks: list[list[Block]] = []
    for p in range(n):
        blocks.append([])
        for i in range(lib.kronlat_tensors_blocks(handle, p)):
            call("tensors_block", handle, p, i, left, state, source, right, data)
            shape = bonds[p].dims[left[0]], bonds[p + 1].dims[right[0]]
            flat = np.frombuffer(ffi.buffer(data[0], 8 * int(shape[0] * shape[1])), dtype=float)
            origin = source[0] if source[0] >= 0 else None
            blocks[p].append(Block(left[0], state[0], origin, right[0], flat.reshape(shape).copy()))
    sites = [lib.kronlat_tensors_site(handle, p) for p in range(n)]
    local = [problem.local_states(site) for site in sites]
    return dict(
        sites=sites, local_states=local, charge_names=names, moduli=moduli, bonds=bonds, blocks=blocks
    )


@dataclass(repr=False)
class MPS(Chain):
    """A matrix product state: psi(s_0, s_1, ...) = A(0)[s_0] A(1)[s_1] ..."""

    def dense(self, position: int) -> np.ndarray:
        """[left][state][right] of a position."""
        a, b = self.bonds[position], self.bonds[position + 1]
        out = np.zeros((a.dim, self.dims[position], b.dim))
        for block in self.blocks[position]:
            rows, columns = block.data.shape
            i, j = a.offsets[block.left], b.offsets[block.right]
            out[i : i + rows, block.state, j : j + columns] = block.data
        return out

    def overlap(self, other: MPS) -> float:
        """<self|other>, of states over the same positions."""
        env = np.ones((1, 1))
        for p in range(len(self.sites)):
            half = np.tensordot(env, other.dense(p), (1, 0))
            env = np.tensordot(self.dense(p), half, ((0, 1), (0, 1)))
        return float(env[0, 0])

    def vector(self) -> np.ndarray:
        """[states of all sites, the first slowest]: for small systems."""
        out = np.ones((1, 1))
        for p in range(len(self.sites)):
            out = np.tensordot(out, self.dense(p), (1, 0)).reshape(-1, self.bonds[p + 1].dim)
        return out[:, 0]

    def amplitudes(self, states: np.ndarray) -> np.ndarray:
        """[n]: psi of basis states [n][site], such as Hamiltonian.states."""
        tensors = [self.dense(p) for p in range(len(self.sites))]
        out = np.ones((len(states), 1))
        for p, site in enumerate(self.sites):
            out = np.einsum("nl,lnr->nr", out, tensors[p][:, states[:, site], :])
        return out[:, 0]

    def to_tenpy(self, sites: Any, names: Mapping[str, str] | None = None) -> Any:
        """tenpy.networks.mps.MPS over a Site of TeNPy (one, or one for each position).

        names: {state's name here: its label there}; None: those of spins and electrons.
        """
        from . import _tenpy

        return _tenpy.mps_to_tenpy(self, sites, names)

    @classmethod
    def from_tenpy(cls, psi: Any, like: MPS, names: Mapping[str, str] | None = None) -> MPS:
        """The state of TeNPy as an MPS over the sites, names and charges of another one."""
        from . import _tenpy

        return _tenpy.mps_from_tenpy(psi, like, names)

    @classmethod
    def from_amplitudes(cls, states: np.ndarray, values: np.ndarray, like: MPS) -> MPS:
        """The state with psi = values[n] on basis states [n][site], over the sites and charges of `like`.

        By singular value decompositions from the left, sector by sector, of singular values above 1e-14.
        """
        n = len(like.sites)
        by_position = np.asarray(states)[:, like.sites]
        bonds, blocks = [like.bonds[0]], []
        rest, columns = np.unique(by_position, axis=0, return_inverse=True)
        wave = np.zeros((1, len(rest)))  # [left][string of the positions from p on]
        np.add.at(wave[0], columns.reshape(-1), values)
        left = like.bonds[0].charges[[0]]
        for p in range(n):
            tails, column = np.unique(rest[:, 1:], axis=0, return_inverse=True)
            table = np.zeros((len(wave), like.dims[p], len(tails)))
            table[:, rest[:, 0], column.reshape(-1)] = wave
            charge = left[:, None, :] + state_charges(like, p)[None, :, :]
            charge = charge.reshape(-1, left.shape[1])
            rows = table.reshape(-1, len(tails))
            tensors, waves, lefts = [], [], []
            for q in np.unique(charge, axis=0) if p < n - 1 else like.bonds[n].charges:
                at = np.flatnonzero((charge == q).all(axis=1))
                u, s, v = np.linalg.svd(rows[at], full_matrices=False)
                kept = s > 1e-14
                if not kept.any():
                    continue
                tensor = np.zeros((len(rows), kept.sum()))
                tensor[at] = u[:, kept]
                tensors.append(tensor)
                waves.append(s[kept, None] * v[kept])
                lefts.append((q, kept.sum()))
            bonds.append(Bond(np.array([q for q, _ in lefts]), np.array([k for _, k in lefts])))
            whole = np.concatenate(tensors, axis=1)
            wave, rest = np.concatenate(waves), tails
            left = np.repeat(bonds[-1].charges, bonds[-1].dims, axis=0)
            if p == n - 1:
                whole = whole * wave[0, 0]
            blocks.append(cut_blocks(whole.reshape(-1, like.dims[p], whole.shape[1]), bonds[-2], bonds[-1]))
        fields = {k: getattr(like, k) for k in ("sites", "local_states", "charge_names", "moduli")}
        return cls(bonds=bonds, blocks=blocks, **fields)

    def to_block2(self, driver: Any, states: np.ndarray, tag: str = "KRONLAT", cutoff: float = 1e-15) -> Any:
        """MPS of a pyblock2 DMRGDriver; states: the basis, [n][site], such as Hamiltonian.states."""
        from . import _block2

        return _block2.to_block2(self, driver, states, tag, cutoff)

    @classmethod
    def from_block2(cls, driver: Any, ket: Any, like: MPS, cutoff: float = 1e-15) -> MPS:
        """The state of block2 as an MPS over the sites, names and charges of another one."""
        from . import _block2

        return _block2.from_block2(driver, ket, like, cutoff)


@dataclass(repr=False)
class MPO(Chain):
    """A matrix product operator: <s| H |f> = W(0)[s_0][f_0] W(1)[s_1][f_1] ..."""

    def dense(self, position: int) -> np.ndarray:
        """[left][state][from][right] of a position."""
        a, b = self.bonds[position], self.bonds[position + 1]
        d = self.dims[position]
        out = np.zeros((a.dim, d, d, b.dim))
        for block in self.blocks[position]:
            rows, columns = block.data.shape
            i, j = a.offsets[block.left], b.offsets[block.right]
            out[i : i + rows, block.state, block.from_, j : j + columns] = block.data
        return out

    def expectation(self, psi: MPS) -> float:
        """<psi| H |psi>."""
        env = np.ones((1, 1, 1))
        for p in range(len(self.sites)):
            a, w = psi.dense(p), self.dense(p)
            half = np.einsum("bwk,kfr->bwfr", env, a, optimize=True)
            half = np.einsum("bwfr,wsfx->bsxr", half, w, optimize=True)
            env = np.einsum("bsxr,bsy->yxr", half, a, optimize=True)
        return float(env[0, 0, 0])

    def matrix(self) -> np.ndarray:
        """[states][states] of all sites, the first slowest: for small systems."""
        out = np.ones((1, 1, 1))
        for p in range(len(self.sites)):
            out = np.einsum("sfl,lxyr->sxfyr", out, self.dense(p))
            out = out.reshape(out.shape[0] * out.shape[1], -1, out.shape[4])
        return out[:, :, 0]

    def to_tenpy(self, sites: Any, names: Mapping[str, str] | None = None) -> Any:
        """tenpy.networks.mpo.MPO; as MPS.to_tenpy."""
        from . import _tenpy

        return _tenpy.mpo_to_tenpy(self, sites, names)


def state_charges(chain: Chain, position: int) -> np.ndarray:
    """[state][charge] of a position's local states, from the blocks that hold them."""
    if any(chain.moduli):
        raise ValueError("charges that count modulo n are not taken from others")
    out = np.zeros((chain.dims[position], len(chain.charge_names)), dtype=int)
    for block in chain.blocks[position]:
        right = chain.bonds[position + 1].charges[block.right]
        out[block.state] = right - chain.bonds[position].charges[block.left]
    return out


def cut_blocks(tensor: np.ndarray, a: Bond, b: Bond) -> list[Block]:
    """The blocks of a tensor that are not 0."""
    blocks = []
    for left, (i, rows) in enumerate(zip(a.offsets, a.dims)):
        for right, (j, columns) in enumerate(zip(b.offsets, b.dims)):
            for state in range(tensor.shape[1]):
                data = tensor[i : i + rows, state, j : j + columns]
                if np.abs(data).max() > 0:
                    blocks.append(Block(left, state, None, right, np.ascontiguousarray(data)))
    return blocks


def mps_of(result: Result, state: int = 0, centre: int = 0) -> MPS:
    """State of a result of DMRG: left isometries before position centre, right isometries behind it."""
    if result.problem is None:
        raise ValueError("the result does not know its problem; give it to load")
    handle = create("tensors", "result_mps", result._c, state, centre)
    return MPS(**_read(handle, result.problem))


def mpo_of(problem: Problem) -> MPO:
    """H of a problem, its constant included."""
    return MPO(**_read(create("tensors", "problem_mpo", problem._c), problem))
