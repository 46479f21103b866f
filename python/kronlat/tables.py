"""Results as xarray and pandas.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import xarray

    from .result import Result

# Dimensions of arrays by the first word of their names.
_DIMENSIONS = {
    "energy": ("state",),
    "error": ("state",),
    "energy_kept": ("state",),
    "ed": ("state",),
    "residual": ("state",),
    "s2": ("state",),
    "irrep": ("state",),
    "sweep": ("sweep",),
    "entropy": ("cut",),
    "spectrum": ("cut", "schmidt", "charge"),
    "site": ("site", "axis"),
    "local": ("site",),
    "populations": ("site", "local_state"),
    "correlation": ("site", "site_2"),
    "connected": ("site", "site_2"),
    "string": ("site", "site_2"),
    "structure": ("momentum_x", "momentum_y"),
    "mutual": ("site", "site_2"),
    "density": ("local_state_1", "local_state_2"),
    "density_alpha": ("orbital", "orbital_2"),
    "density_beta": ("orbital", "orbital_2"),
}
_OF_BONDS = ("bond/sites", "bond/vector", "bond/length", "bond/class/")


def _word(name: str) -> str:
    """ "local" of "state_1/local/Sz"."""
    parts = name.split("/")
    return parts[1] if parts[0].startswith("state_") and len(parts) > 1 else parts[0]


def _dims(name: str, shape: tuple[int, ...], sizes: dict[str, int]) -> tuple[str, ...]:
    """Names of an array's dimensions; its own where the usual ones have another length."""
    wanted = _DIMENSIONS.get(_word(name), ())[: len(shape)]
    if _word(name) == "product":  # its letters, in the order in which they come
        wanted = tuple(dict.fromkeys(re.findall(r"@\s*([ijkl])(?=\s*[+,;]|\s*$)", name)))
    if name.startswith("parameter/"):
        wanted = ("site",)
    if name.startswith(_OF_BONDS):  # of all bonds of the lattice; what is measured is of a class
        wanted = ("bond", {"bond/sites": "end", "bond/vector": "axis"}.get(name, ""))[: len(shape)]
    fits = len(wanted) == len(shape) and all(sizes.get(d, n) == n for d, n in zip(wanted, shape))
    return wanted if fits else tuple(f"{name}:{k}" for k in range(len(shape)))


def dataset(r: Result) -> xarray.Dataset:
    """All arrays of a result; its texts are attributes."""
    import numpy as np
    import xarray as xr

    sizes: dict[str, int] = {}
    arrays = {}
    for name in sorted(r, key=lambda name: name.startswith("parameter/")):
        value = np.asarray(r[name])
        dims = _dims(name, value.shape, sizes)
        sizes.update(zip(dims, value.shape))
        arrays[name] = (dims, value)
    texts = {key: r.text(key) for key in ("model", "formula", "lattice", "program")}
    attributes = {key: value for key, value in texts.items() if value is not None}
    return xr.Dataset(arrays, attrs={"method": r.method, "converged": int(r.converged), **attributes})


def frame(r: Result, of: str) -> pandas.DataFrame:
    """A row for each sweep, site, state or cut."""
    import pandas as pd

    columns: dict[str, Any] = {}
    if of == "site" and "site/xy" in r:
        columns["x"], columns["y"] = r["site/xy"].T
    for name in r:
        value = r[name]
        if getattr(value, "ndim", 0) == 1 and _DIMENSIONS.get(_word(name)) == (of,):
            columns[name.removeprefix("local/").removeprefix(f"{of}/")] = value
    if not columns:
        raise ValueError(f"the result has nothing by {of!r}; known: sweep, site, state, cut")
    return pd.DataFrame({name: pd.Series(value) for name, value in columns.items()}).rename_axis(of)
