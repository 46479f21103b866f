"""Lattices from arrays of bonds.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ._c import call, ffi, text


class Lattice:
    """Sites and bonds of one's own.

    bonds: [bond][2] sites from 0 on, or {class: [bond][2]}; a pair may be in several classes. The attribute
        has them by the lower site, then by the higher: the order of arrays by bond.
    sites: their number; None: the largest number in bonds + 1.
    xy: [site][2] coordinates, in units of the lattice constant; None: none.
    classes: [site] name of a class, "" for none; or {class: sites}.
    """

    def __init__(
        self,
        bonds: Any,
        sites: int | None = None,
        xy: Any = None,
        classes: Sequence[str] | Mapping[str, Sequence[int]] | None = None,
        name: str = "lattice",
    ):
        groups = bonds if isinstance(bonds, Mapping) else {"nn": bonds}
        found: dict[tuple[int, int], list[str]] = {}
        for label, pairs in groups.items():
            given = np.asarray(pairs)
            array = given.astype(np.intc) if given.dtype.kind in "iufb" else None
            if array is None or not np.array_equal(array, given):
                raise ValueError(f"bonds of class {label} are between sites by number, whole ones from 0 on")
            if array.size and (array.ndim != 2 or array.shape[1] != 2):
                raise ValueError(
                    f"bonds of class {label} have shape {array.shape}; wanted: (bonds, 2). "
                    "A chain is lattice=N with a whole number N"
                )
            for i, j in array.reshape(-1, 2).tolist():
                key = (j, i) if (j, i) in found else (i, j)
                found.setdefault(key, []).append(label)
        self.name = name
        order = sorted(found, key=sorted)
        self.bonds = np.array(order, dtype=np.intc).reshape(-1, 2)  #: [bond][2]
        self.bond_classes = [" ".join(found[pair]) for pair in order]  #: [bond]
        self.sorted = order == list(found)  #: whether they were given in this order
        highest = int(self.bonds.max()) + 1 if len(found) else 0
        self.xy = None if xy is None else np.ascontiguousarray(xy, dtype=float)  #: [site][2], or None
        self.sites = sites or (len(self.xy) if self.xy is not None else highest)
        if self.xy is not None and self.xy.shape != (self.sites, 2):
            raise ValueError(f"xy has shape {self.xy.shape}; wanted: ({self.sites}, 2)")
        if highest > self.sites:
            raise ValueError(f"a bond leads to site {highest - 1}; there are {self.sites}, from 0 on")
        self.site_classes = [""] * self.sites  #: [site]
        if isinstance(classes, Mapping):
            for label, members in classes.items():
                for site in members:
                    self.site_classes[site] = label
        elif classes is not None:
            self.site_classes = list(classes)
            if len(self.site_classes) != self.sites:
                raise ValueError(f"{len(self.site_classes)} classes for {self.sites} sites")

    @classmethod
    def from_matrix(cls, adjacency: Any, **more: Any) -> Lattice:
        """Bonds where a symmetric [site][site] matrix is not 0; dense, or sparse of scipy."""
        from scipy.sparse import coo_array

        matrix = coo_array(adjacency)
        pairs = np.stack([matrix.row, matrix.col], axis=1)
        upper = pairs[pairs[:, 0] < pairs[:, 1]]
        return cls(upper[np.lexsort(upper.T[::-1])], sites=matrix.shape[0], **more)

    def _give_to(self, problem: Any) -> None:
        site_classes = [ffi.new("char[]", text(c)) for c in self.site_classes]
        bond_classes = [ffi.new("char[]", text(c)) for c in self.bond_classes]
        call(
            "problem_set_lattice",
            problem,
            text(self.name),
            self.sites,
            ffi.NULL if self.xy is None else ffi.from_buffer("double[]", self.xy),
            ffi.new("const char *[]", site_classes),
            len(self.bonds),
            ffi.from_buffer("int[]", self.bonds) if len(self.bonds) else ffi.NULL,
            ffi.new("const char *[]", bond_classes) if bond_classes else ffi.NULL,
        )

    def _key(self) -> list[Any]:
        """What tells two lattices apart."""
        xy = None if self.xy is None else self.xy.tolist()
        return [self.name, self.sites, xy, self.site_classes, self.bonds.tolist(), self.bond_classes]

    def __repr__(self) -> str:
        return f"Lattice({self.name!r}, {self.sites} sites, {len(self.bonds)} bonds)"
