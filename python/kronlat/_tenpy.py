"""Chains of tensors to and from TeNPy: flat arrays in the order of its local states; it finds the charges.

Both count fermionic modes in the same order, with all signs in the numbers, so that none is added here.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from .tensors import MPO, MPS, Bond, Chain, cut_blocks, state_charges

# Labels of SpinHalfFermionSite and SpinHalfSite; others have the same words on both sides.
_USUAL = {"0": ["empty", "0"], "dn": ["down", "dn"], "updn": ["full"]}


def _sites(chain: Chain, sites: Any) -> list[Any]:
    given = list(sites) if isinstance(sites, (list, tuple)) else [sites] * len(chain.sites)
    if len(given) != len(chain.sites):
        raise ValueError(f"{len(given)} sites of TeNPy for {len(chain.sites)} positions")
    return given


def _places(chain: Chain, position: int, site: Any, names: Mapping[str, str] | None) -> list[int]:
    """[state here]: its index there."""
    places = []
    for name in chain.local_states[position]:
        words = [names[name]] if names is not None else _USUAL.get(name, [name])
        found = [w for w in words if w in site.state_labels]
        if not found:
            raise ValueError(f"state {name!r}: the site of TeNPy has {', '.join(site.state_labels)}")
        places.append(site.state_index(found[0]))
    return places


def mps_to_tenpy(mps: MPS, sites: Any, names: Mapping[str, str] | None) -> Any:
    from tenpy.networks.mps import MPS as Theirs

    given, flat = _sites(mps, sites), []
    for p, site in enumerate(given):
        tensor = np.zeros((site.dim, mps.bonds[p].dim, mps.bonds[p + 1].dim))
        tensor[_places(mps, p, site, names)] = mps.dense(p).transpose(1, 0, 2)
        flat.append(tensor)
    psi = Theirs.from_Bflat(given, flat, bc="finite", permute=False, form=None)
    psi.canonical_form()
    return psi


def mps_from_tenpy(psi: Any, like: MPS, names: Mapping[str, str] | None) -> MPS:
    """Sectors come from the charges that states of `like` have: bonds are sorted by them."""
    n = len(like.sites)
    if psi.L != n:
        raise ValueError(f"{psi.L} sites of TeNPy for {n} positions")
    states = [state_charges(like, p) for p in range(n)]
    bonds, blocks, order = [like.bonds[0]], [], np.zeros(1, dtype=int)
    left_charge = like.bonds[0].charges[[0]]
    for p in range(n):
        b = _flat(psi, p)[order]
        tensor = b[:, _places(like, p, psi.sites[p], names), :]
        # a state of the right bond has the charge of any of its entries
        largest = np.abs(tensor).reshape(-1, tensor.shape[2]).argmax(axis=0)
        i, s = np.unravel_index(largest, tensor.shape[:2])
        charge = left_charge[i] + states[p][s]
        order = np.lexsort(charge.T[::-1])
        right_charge = charge[order]
        charges, dims = np.unique(right_charge, axis=0, return_counts=True)
        bonds.append(Bond(charges, dims))
        blocks.append(cut_blocks(tensor[:, :, order], bonds[-2], bonds[-1]))
        left_charge = right_charge
    fields = {k: getattr(like, k) for k in ("sites", "local_states", "charge_names", "moduli")}
    return MPS(bonds=bonds, blocks=blocks, **fields)


def _flat(psi: Any, p: int) -> np.ndarray:
    """[left][state][right] of a position; the first one carries the wavefunction."""
    b = psi.get_B(p, form="Th" if p == 0 else "B").copy()
    b.itranspose(["vL", "p", "vR"])
    array = b.to_ndarray()
    if np.abs(array.imag).max() > 1e-12:
        raise ValueError("the state of TeNPy is complex")
    return array.real


def mpo_to_tenpy(mpo: MPO, sites: Any, names: Mapping[str, str] | None) -> Any:
    import tenpy.linalg.np_conserved as npc
    from tenpy.networks.mpo import MPO as Theirs

    given, tensors = _sites(mpo, sites), []
    left = None
    for p, site in enumerate(given):
        w = mpo.dense(p)
        at = _places(mpo, p, site, names)
        flat = np.zeros((w.shape[0], w.shape[3], site.dim, site.dim))
        flat[np.ix_(range(w.shape[0]), range(w.shape[3]), at, at)] = w.transpose(0, 3, 1, 2)
        if left is None:
            left = npc.LegCharge.from_trivial(1, site.leg.chinfo)
        legs = [left, None, site.leg, site.leg.conj()]
        legs = npc.detect_legcharge(flat, site.leg.chinfo, legs, qconj=-1)
        tensors.append(npc.Array.from_ndarray(flat, legs, labels=["wL", "wR", "p", "p*"]))
        left = legs[1].conj()
    n = len(given)
    return Theirs(given, tensors, "finite", [0] + [None] * n, [None] * n + [0])
