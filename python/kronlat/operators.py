"""The words of model files as Python names: `from kronlat.operators import Sp, Sm, Sz, i, j, hc, spin`.

Whatever name is asked for is there: operators, sites, functions, kinds of sites (docs/models.md lists them).
They add, multiply and take arguments as in a model file; the model tells which of them exist.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

# How tightly the outermost operation of an expression binds.
_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 6)


class Expr:
    """A piece of a model file: `text`, as it stands there."""

    def __init__(self, text: str, level: int = _ATOM):
        self.text = text
        self._level = level

    def __call__(self, *args: Any, **entries: Any) -> Expr:
        """X(i, "up"); with named entries a table: matrices(states=["a", "b"], X=[[0, 1], [1, 0]])."""
        if entries:
            return Expr(f"{self.text}{_table(entries)}")
        return Expr(f"{self.text}({', '.join(lua(a) for a in args)})")

    def __add__(self, other: Any) -> Expr:
        return _join(self, "+", other, _SUM)

    def __radd__(self, other: Any) -> Expr:
        return _join(other, "+", self, _SUM)

    def __sub__(self, other: Any) -> Expr:
        return _join(self, "-", other, _SUM)

    def __rsub__(self, other: Any) -> Expr:
        return _join(other, "-", self, _SUM)

    def __mul__(self, other: Any) -> Expr:
        return _join(self, "*", other, _PRODUCT)

    def __rmul__(self, other: Any) -> Expr:
        return _join(other, "*", self, _PRODUCT)

    def __truediv__(self, other: Any) -> Expr:
        return _join(self, "/", other, _PRODUCT)

    def __rtruediv__(self, other: Any) -> Expr:
        return _join(other, "/", self, _PRODUCT)

    def __pow__(self, other: Any) -> Expr:
        return _join(self, "^", other, _POWER)

    def __rpow__(self, other: Any) -> Expr:
        return _join(other, "^", self, _POWER)

    def __neg__(self) -> Expr:
        return Expr("-" + _bracket(self, _SIGN), _SIGN)

    def __repr__(self) -> str:
        return self.text


def _bracket(x: Expr, level: int) -> str:
    return f"({x.text})" if x._level < level else x.text


def _join(a: Any, sign: str, b: Any, level: int) -> Expr:
    """a SIGN b; brackets stay where Python had them, for `hc` stands for what is left of it in its own."""
    left = level + 1 if sign == "^" else level
    return Expr(f"{_bracket(_expr(a), left)} {sign} {_bracket(_expr(b), level + 1)}", level)


def _expr(x: Any) -> Expr:
    """A number or an expression as one."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, Fraction) and x.denominator != 1:
        return Expr(f"{x.numerator}/{x.denominator}", _PRODUCT if x >= 0 else _SUM)
    if isinstance(x, Real):
        value = int(x) if isinstance(x, (Integral, Fraction)) else float(x)
        return Expr(repr(value), _ATOM if value >= 0 else _SUM)
    raise TypeError(f"{x!r} is no number and no expression of kronlat.operators")


def _table(entries: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {lua(value)}" for name, value in entries.items()) + " }"


def lua(x: Any) -> str:
    """A value as a model file writes it: texts quoted, lists, arrays and mappings as tables."""
    if isinstance(x, str):
        return '"' + x.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(x, dict):
        return _table(x)
    if isinstance(x, (list, tuple, np.ndarray)):
        return "{" + ", ".join(lua(entry) for entry in x) + "}"
    return _expr(x).text


# What `import *` brings; any other word, sum and exp of models among them, is asked for by name.
__all__ = (
    "spin pauli electron fermion boson product without matrices hc adj mod S_dot_S sum_pairs per_site "
    "per_bond i j k l at Sz Sp Sm Sx iSy c cdag b bdag n docc c_up cdag_up n_up c_dn cdag_dn n_dn"
).split()


def __getattr__(name: str) -> Expr:
    if name.startswith("__"):
        raise AttributeError(name)
    return Expr(name)
