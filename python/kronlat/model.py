"""Models built in Python: each statement of a model file is a method of the same name.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from typing import Any

from ._c import create, text
from .operators import Expr, lua


class Model:
    """A model file in the making; `text` shows it (docs/models.md tells what the statements mean).

    from kronlat.operators import Sm, Sp, Sz, hc, i, j, spin
    m = Model("H = J sum_<ij> S_i.S_j", name="xxz")
    m.site(spin(0.5))
    m.conserve("Sz")
    J, Delta = m.parameters(J=1, Delta=1)
    m.bond("nn", J * ((Sp(i) * Sm(j) + hc) / 2 + Delta * Sz(i) * Sz(j)))
    """

    def __init__(self, formula: str, name: str = "model"):
        self.name = name
        self._lines = [f"-- {line}" for line in formula.splitlines()]

    @property
    def text(self) -> str:
        """The model file."""
        return "\n".join(self._lines) + "\n"

    def _statement(self, word: str, *args: Any) -> None:
        self._lines.append(f"{word}({', '.join(lua(a) for a in args)})")

    def _numbers(self, word: str, values: dict[str, Any]) -> tuple[Expr, ...] | Expr:
        self._lines.append(f"{word} {lua(values)}")
        names = tuple(Expr(name) for name in values)
        return names[0] if len(names) == 1 else names

    # ---- what there is

    def structural(self, **values: Any) -> Any:
        """Numbers that choose the local space; returns their names, for use in expressions."""
        return self._numbers("structural", values)

    def site(self, *args: Any) -> None:
        """site(spin(0.5)), or site("ends", spin(0.5))."""
        self._statement("site", *args)

    def conserve(self, *charges: str, **named: Any) -> None:
        """conserve("N_up", "N_dn"), or conserve(N=n, Sz=Sz_electron + Sz_spin)."""
        self._statement("conserve", named or list(charges))

    def parameters(self, **values: Any) -> Any:
        """Numbers chosen at run time, with defaults; returns their names: J, h = m.parameters(J=1, h=0)."""
        return self._numbers("parameters", values)

    def define(self, name: str, value: Any) -> Expr:
        """q = m.define("q", Sz * Sz - 2/3), for use as q(i)."""
        self._lines.append(f"{name} = {lua(value)}")
        return Expr(name)

    # ---- terms

    def onsite(self, *args: Any) -> None:
        """onsite(A), or onsite("class", A): a sum over sites i."""
        self._statement("onsite", *args)

    def bond(self, cls: str, term: Any) -> None:
        """A sum over the bonds i, j of a class."""
        self._statement("bond", cls, term)

    def pairs(self, *args: Any) -> None:
        """pairs(A), or pairs(2, A): a sum over pairs i, j at a distance r."""
        self._statement("pairs", *args)

    def run(self, length: int, term: Any) -> None:
        """A sum over runs of consecutive sites i, j, k, l, ... of a chain."""
        self._statement("run", length, term)

    def loop(self, length: int, cls: str, term: Any) -> None:
        """A sum over closed paths of so many bonds of a class: triangles, plaquettes, hexagons."""
        self._statement("loop", length, cls, term)

    def named(self, sites: Any, term: Any) -> None:
        """Once, on these sites."""
        self._statement("named", [str(site) for site in sites], term)

    # ---- for Problem

    def _problem(self) -> Any:
        return create("problem", "problem_create_text", text(self.name), text(self.text))

    def _key(self) -> list[Any]:
        return [self.text]

    def __repr__(self) -> str:
        return self.text
