"""States to and from block2 (pyblock2), by the coefficients of determinants: exact, for what can be listed.

Both write a determinant as modes filled site by site, up before dn, so that no sign is added.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .tensors import MPS

# block2's numbers of local states by our names; of spins only the first two are used.
_NUMBERS = {"0": 0, "up": 1, "dn": 2, "updn": 3}


def _numbers(like: MPS) -> np.ndarray:
    """[state here]: block2's number."""
    names = like.local_states[0]
    if any(name not in _NUMBERS for name in names) or any(n != names for n in like.local_states):
        raise ValueError(f"block2 is given electrons; the local states are {', '.join(names)}")
    return np.array([_NUMBERS[name] for name in names])


def to_block2(mps: MPS, driver: Any, states: np.ndarray, tag: str, cutoff: float) -> Any:
    """The state as an MPS of a pyblock2 DMRGDriver (SymmetryTypes.SZ); basis states [n][site]."""
    values = mps.amplitudes(states)
    keep = np.abs(values) > cutoff
    by_position = _numbers(mps)[states[keep]][:, mps.sites]
    dets = np.ascontiguousarray(by_position, dtype=np.uint8)
    return driver.get_mps_from_csf_coefficients(dets, values[keep], tag=tag, iprint=0)


def from_block2(driver: Any, ket: Any, like: MPS, cutoff: float) -> MPS:
    """A state of block2 over the sites, names and charges of another one."""
    dets, values = driver.get_csf_coefficients(ket, cutoff=cutoff, iprint=0)
    places = np.argsort(_numbers(like))
    states = np.empty(dets.shape, dtype=int)
    states[:, like.sites] = places[np.asarray(dets, dtype=int)]
    return MPS.from_amplitudes(states, np.asarray(values), like)
