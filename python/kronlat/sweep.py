"""Runs over values of parameters, with their results kept on disk.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import gaps as _gaps
from . import run as _run
from ._c import version
from .result import Result

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas
    import xarray

# How a run goes about it changes no result that is worth another run.
_HOW = {"threads", "exec", "progress", "output", "device_memory"}


class Sweep(Sequence[Result]):
    """Results in the order of the points; `points` are {name: value}."""

    def __init__(
        self, over: Mapping[str, Sequence[Any]], points: list[dict[str, Any]], results: list[Result]
    ):
        self.over = {name: list(values) for name, values in over.items()}
        self.points = points
        self.results = results

    def __repr__(self) -> str:
        over = ", ".join(f"{name} = {values!r}" for name, values in self.over.items())
        return f"<sweep over {over}: {len(self)} results>"

    def __getitem__(self, k: Any) -> Any:
        return self.results[k]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def gap(self, formula: str) -> tuple[np.ndarray, np.ndarray]:
        """A sum of energies of neighbouring runs and its error, for each point: "E(N+1)+E(N-1)-2E" is the
        charge gap of sectors that differ in N. E is the point's energy, E(NAME+1) that of the point whose
        charge or value is larger by 1, and equal in all others; nan where that is not in the sweep."""
        terms, rows = _gaps.read(formula), [_gaps.flat(point) for point in self.points]
        found = np.full((2, len(self)), np.nan)
        for k, row in enumerate(rows):
            _gaps.check(formula, terms, row)
            at = [_gaps.neighbour(rows, row, shifts) for _, shifts in terms]
            if min(at) >= 0:
                found[0, k] = sum(float(c) * self.results[i].energy for (c, _), i in zip(terms, at))
                found[1, k] = sum(abs(float(c)) * self.results[i].error for (c, _), i in zip(terms, at))
        return found[0], found[1]

    def to_pandas(self, **more: Callable[[Result], float]) -> pandas.DataFrame:
        """A row for each point: its values, energy, error, and further columns that functions compute."""
        import pandas as pd

        rows = []
        for point, r in zip(self.points, self.results):
            found = {name: function(r) for name, function in more.items()}
            rows.append({**point, "energy": r.energy, "error": r.error, "converged": r.converged, **found})
        return pd.DataFrame(rows)

    def plot(self, columns: int = 2, width: float = 7.0) -> matplotlib.figure.Figure:
        """All results in one figure, as kl.plot."""
        from .figures import overview

        names = [", ".join(f"{name} = {value}" for name, value in point.items()) for point in self.points]
        return overview(self.results, names, columns, width)

    def to_xarray(self, **more: Callable[[Result], float]) -> xarray.Dataset:
        """The same on the grid of the values."""
        return self.to_pandas(**more).set_index(list(self.over)).to_xarray()


def _plain(x: Any) -> Any:
    """x for JSON."""
    if hasattr(x, "_key"):
        return x._key()
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, (Fraction, os.PathLike)):
        return str(x)
    raise TypeError(f"{type(x).__name__} cannot be part of a cache's key")


def key_of(method: str, arguments: Mapping[str, Any]) -> str:
    """What names a run in a cache: all that its result depends on, the text of a model file included."""
    known = {name: value for name, value in arguments.items() if name not in _HOW}
    model = known["model"]
    if isinstance(model, (str, os.PathLike)) and str(model).endswith(".lua"):
        known["model"] = Path(model).read_text(encoding="utf-8")
    text = json.dumps([version(), method, known], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def sweep(
    run: Callable[..., Result],
    model: Any,
    over: Mapping[str, Sequence[Any]],
    *,
    cache: str | os.PathLike[str] | None = None,
    follow: bool = False,
    **arguments: Any,
) -> Sweep:
    """run(model, ...) for all combinations of values: kl.sweep(kl.ed, "ising", {"h": [0, 1]}, lattice=8).

    over: {name: values}; "lattice", "charges", "seed" (of random arrays) and options (m, accuracy, ...) that
        `arguments` has are these, other names parameters of the model.
    cache: folder of results; a point that is there already is read, not run.
    follow: start each run of DMRG from the state of the one before.
    """
    folder = Path(cache) if cache is not None else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    points = [dict(zip(over, values)) for values in itertools.product(*over.values())]
    results: list[Result] = []
    for point in points:
        call = {"model": model, **arguments, "params": dict(arguments.get("params") or {})}
        for name, value in point.items():
            if name in arguments or name in ("lattice", "charges", "seed"):
                call[name] = value
            else:
                call["params"][name] = value
        path = folder / f"{key_of(run.__name__, call)}.h5" if folder is not None else None
        if path is not None and path.exists():
            results.append(_run.load(path))
            continue
        if follow and results:
            call["start"] = results[-1]
        results.append(run(**call))
        if path is not None:
            results[-1].save(path)
    return Sweep(over, points, results)
