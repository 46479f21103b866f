"""Sums of energies of neighbouring runs, as --gap of the program: "E(N+1)+E(N-1)-2E".

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from .errors import BadInput

_TOKEN = re.compile(r"\s*(\d+\.?\d*|\.\d+|[A-Za-z_]\w*|[-+*/(),])")
#: a coefficient, and what the run of that energy has more than the row's: {name: number}
Term = tuple[Fraction, dict[str, Fraction]]


class _Reader:
    def __init__(self, formula: str):
        self.formula = formula
        self.tokens: list[str] = []
        at = 0
        text = formula.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match:
                raise self.wrong(text[at:].strip())
            self.tokens.append(match[1])
            at = match.end()

    def wrong(self, found: str) -> BadInput:
        where = f"where '{found[:40]}' stands" if found else "at the end"
        return BadInput(
            f"gap '{self.formula}': no sum of energies {where}; as 'E(N+1)+E(N-1)-2E', E being the energy of "
            "a run, E(N+1) that of the one with N larger by 1"
        )

    def take(self, *wanted: str) -> str:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else ""

    def need(self, what: str) -> None:
        if not self.take(what):
            raise self.wrong("".join(self.tokens))

    def number(self) -> Fraction | None:
        if not self.tokens or not re.match(r"[\d.]", self.tokens[0]):
            return None
        return Fraction(self.tokens.pop(0))

    def divisor(self) -> Fraction:
        x = self.number() if self.take("/") else Fraction(1)
        if not x:
            raise self.wrong("".join(self.tokens))
        return x

    def shift(self) -> tuple[str, Fraction]:
        if not self.tokens or not re.match(r"[A-Za-z_]", self.tokens[0]):
            raise self.wrong("".join(self.tokens))
        name, sign = self.tokens.pop(0), self.take("+", "-")
        if not sign:
            return name, Fraction(0)
        by = self.number()
        if by is None:
            raise self.wrong("".join(self.tokens))
        by /= self.divisor()
        return name, -by if sign == "-" else by

    def energy(self) -> dict[str, Fraction]:
        self.need("E")
        shifts: dict[str, Fraction] = {}
        if self.take("("):
            shifts.update([self.shift()])
            while self.take(","):
                shifts.update([self.shift()])
            self.need(")")
        return shifts

    def sum(self) -> list[Term]:
        terms: list[Term] = []
        sign = self.take("-", "+")
        if sign == "+":
            raise self.wrong("+")
        while True:
            coef = Fraction(-1 if sign == "-" else 1)
            x = self.number()
            if x is not None:
                coef *= x / self.divisor()
                self.take("*")
            if self.take("("):
                inner = self.sum()
                self.need(")")
            else:
                inner = [(Fraction(1), self.energy())]
            coef /= self.divisor()
            terms += [(coef * c, shifts) for c, shifts in inner]
            sign = self.take("-", "+")
            if not sign:
                return terms


def read(formula: str) -> list[Term]:
    """The terms of a sum."""
    reader = _Reader(formula)
    terms = reader.sum()
    if reader.tokens:
        raise reader.wrong("".join(reader.tokens))
    return terms


def _number(x: Any) -> Any:
    try:
        return Fraction(str(x)) if not isinstance(x, float) else x
    except ValueError:
        return x


def flat(point: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a point by name, charges among them."""
    out: dict[str, Any] = {}
    for name, value in point.items():
        if isinstance(value, Mapping):
            out.update({f"{key}": _number(x) for key, x in value.items()})
        else:
            out[name] = _number(value)
    return out


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (Fraction, float)) and isinstance(b, (Fraction, float)):
        return abs(float(a) - float(b)) <= 1e-9 * max(1.0, abs(float(b)))
    return bool(a == b)


def neighbour(
    rows: Sequence[Mapping[str, Any]], row: Mapping[str, Any], shifts: Mapping[str, Fraction]
) -> int:
    """The row with these values moved, or -1."""
    wanted = {}
    for name, value in row.items():
        by = shifts.get(name, Fraction(0))
        wanted[name] = value + (float(by) if isinstance(value, float) else by) if by else value
    for k, other in enumerate(rows):
        if other.keys() == wanted.keys() and all(_equal(other[name], x) for name, x in wanted.items()):
            return k
    return -1


def check(formula: str, terms: Sequence[Term], row: Mapping[str, Any]) -> None:
    """BadInput: a name that the points do not have, or whose values are no numbers."""
    for _, shifts in terms:
        for name in shifts:
            if not isinstance(row.get(name), (Fraction, float)):
                known = ", ".join(key for key, x in row.items() if isinstance(x, (Fraction, float)))
                raise BadInput(f"gap '{formula}': no number is called '{name}' in this sweep; known: {known}")
