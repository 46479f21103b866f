"""A model with lattice, parameters, charges and options: what every method runs on.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import warnings
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from ._c import call, create, ffi, lib, text
from .errors import BadInput
from .lattice import Lattice
from .molecule import Fcidump

if TYPE_CHECKING:
    from .tensors import MPO


def _is_fcidump(model: Any) -> bool:
    """A file that begins with &FCI is a molecule, whatever its name."""
    if not isinstance(model, (str, os.PathLike)) or "\n" in str(model) or not os.path.isfile(model):
        return False
    with open(model, "rb") as file:
        return file.read(1000).lstrip()[:4].upper() == b"&FCI"


def _handle(model: Any) -> Any:
    """A kronlat_problem of a name, a file, the text of a model file, a Model or a Molecule."""
    if _is_fcidump(model):
        model = Fcidump(model)
    if hasattr(model, "_problem"):
        return model._problem()
    if isinstance(model, str) and "\n" in model:
        return create("problem", "problem_create_text", b"model", text(model))
    if isinstance(model, (str, os.PathLike)):
        return create("problem", "problem_create", text(model))
    raise TypeError(f"a model is a name, a file, a text, a Model or a Molecule, not {type(model).__name__}")


def _word(value: Any) -> bytes:
    """A value as job files write it."""
    if isinstance(value, (bool, np.bool_)):
        return b"true" if value else b"false"
    if isinstance(value, Integral):
        return text(int(value))
    if isinstance(value, Real) and not isinstance(value, Fraction):
        return text(repr(float(value)))
    return text(value)


def entries_of(what: str, given: Any) -> Mapping[str, Any]:
    """The mapping {name: value} that params or charges are."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadInput(f"{what} is {given!r}; wanted: {{name: value}}, as in {what}=dict(NAME=VALUE)")
    return given


class ResultFile:
    """The system that a result file is of, instead of a model."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = path

    def _problem(self) -> Any:
        return create("problem", "problem_create_result", text(self.path))


class Problem:
    """A Hamiltonian, the sector that is wanted, and options by their names in job files.

    model: a name of `kronlat models`, a file, the text of a model file, a Model, a Molecule, or the name of
        an FCIDUMP file.
    lattice: "cylinder:8x4", a number of sites (a chain), a Lattice, or its bonds [bond][2].
    params: {name: number, array by site or bond, or text}.
    charges: {name: number, Fraction, "1/2" or "scan"}, or "scan".
    """

    def __init__(
        self,
        model: Any,
        lattice: Any = None,
        params: Mapping[str, Any] | None = None,
        charges: Mapping[str, Any] | str | None = None,
        **options: Any,
    ):
        self._c = _handle(model)
        self.model = model
        self.lattice = lattice
        self._own: Lattice | None = None  # where it is no named one
        if lattice is not None:
            self._set_lattice(lattice)
        if isinstance(lattice, Integral) and "sites" in options:
            raise BadInput(f"lattice={lattice} is a number of sites, sites={options['sites']} another one")
        for name, value in entries_of("params", params).items():
            self._set_parameter(name, value)
        if isinstance(charges, str):
            self.set("charge", charges)
        else:
            for name, value in entries_of("charges", charges).items():
                self._set_charge(name, value)
        for name, value in options.items():
            try:
                self.set(name, value)
            except BadInput as failure:
                if "parameters stand in" not in str(failure):  # as a job file has them
                    raise
                raise BadInput(
                    f"unknown option {name}; parameters of the model are given as params=dict({name}=...), "
                    f"charges as charges=dict({name}=...)"
                ) from None

    def __repr__(self) -> str:
        name = self.model if isinstance(self.model, str) and "\n" not in self.model else "model"
        where = "" if self.lattice is None else f", lattice {self.lattice}"
        return f"<Problem {name}{where}>"

    def set(self, option: str, value: Any) -> None:
        """Sets one option. A list, or a mapping NAME=VALUE: each entry by itself where the option may be
        given several times (measure, charge), else one text, as in schedule="64,128". None: nothing."""
        if isinstance(value, Mapping):
            value = [f"{name}={entry}" for name, entry in value.items()]
        if isinstance(value, np.ndarray):
            value = value.tolist()
        entries = value if isinstance(value, (list, tuple)) else [] if value is None else [value]
        if len(entries) > 1 and not lib.kronlat_option_is_list(text(option)):
            entries = [b",".join(map(_word, entries)).decode()]
        for entry in entries:
            call("problem_set", self._c, text(option), _word(entry))

    def _set_lattice(self, lattice: Any) -> None:
        if isinstance(lattice, (str, os.PathLike)):
            self.set("lattice", lattice)
        elif isinstance(lattice, Integral):
            self.set("sites", int(lattice))
        elif isinstance(lattice, Real):
            raise BadInput(f"lattice is {lattice}; a chain is lattice=N with a whole number N")
        else:
            self._own = lattice if isinstance(lattice, Lattice) else Lattice(lattice)
            self._own._give_to(self._c)

    def _set_parameter(self, name: str, value: Any) -> None:
        if isinstance(value, (str, Fraction)):
            self.set("parameter", f"{name}={value}")
            return
        if np.iscomplexobj(value):
            raise BadInput(f"parameter {name}: kronlat computes with real numbers only")
        if value is None:
            raise BadInput(f"parameter {name} is None; wanted: a number, an array or a text")
        array = np.atleast_1d(np.ascontiguousarray(value, dtype=float)).ravel()
        if self._own is not None and not self._own.sorted and array.size == len(self._own.bonds) > 1:
            warnings.warn(
                f"bonds were not given in the order of sites: values of {name} by bond go by Lattice.bonds, "
                "by the lower site, then by the higher",
                stacklevel=4,
            )
        call("problem_set_parameter", self._c, text(name), array.size, ffi.from_buffer("double[]", array))

    def _set_charge(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            self.set("charge", f"{name}={value}")
            return
        if not isinstance(value, Real):
            wanted = "a number, a Fraction or a text such as '1/2'"
            raise BadInput(f"charge {name} is {value!r}; wanted: {wanted}")
        given = Fraction(value if isinstance(value, Rational) else float(value))
        exact = given.limit_denominator(1000)
        if abs(exact - given) > Fraction(1, 10**12):
            raise ValueError(f"charge {name} = {value} is no fraction")
        call("problem_set_charge", self._c, text(name), exact.numerator, exact.denominator)

    @property
    def sites(self) -> int:
        """Number of sites."""
        out = ffi.new("int *")
        call("problem_sites", self._c, out)
        return out[0]

    def _charges(self) -> tuple[list[str], list[int]]:
        """Names and moduli (0: none) of the conserved charges."""
        count, modulus, name = ffi.new("int *"), ffi.new("int *"), ffi.new("const char **")
        call("problem_charges", self._c, count)
        names, moduli = [], []
        for c in range(count[0]):
            call("problem_charge", self._c, c, name, ffi.NULL, ffi.NULL, modulus)
            names.append(ffi.string(name[0]).decode())
            moduli.append(modulus[0])
        return names, moduli

    @property
    def charge_names(self) -> list[str]:
        """Names of the conserved charges."""
        return self._charges()[0]

    def mpo(self) -> MPO:
        """H as a matrix product operator, its constant included."""
        from .tensors import mpo_of

        return mpo_of(self)

    def local_states(self, site: int = 0) -> list[str]:
        """Names of a site's states, in the order in which vectors and tensors count them."""
        count, name = ffi.new("int *"), ffi.new("const char **")
        call("problem_site_dimension", self._c, site, count)
        names = []
        for state in range(count[0]):
            call("problem_site_state", self._c, site, state, name)
            names.append(ffi.string(name[0]).decode())
        return names

    def keep_vectors(self, keep: bool = True) -> None:
        """Whether exact diagonalization keeps the states themselves."""
        lib.kronlat_problem_keep_vectors(self._c, int(keep))
