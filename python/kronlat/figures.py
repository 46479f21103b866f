"""The figures of `kronlat plot`, by matplotlib: a panel for each thing that a result tells.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .result import Result

Panel = Callable[["Axes"], None]

_THERMAL = {"thermal/energy": "$E$", "thermal/heat": "$C$", "thermal/entropy": "$S$"}


def _energies(r: Result) -> Panel:
    energy = r["sweep/energy"]

    def draw(ax: Axes) -> None:
        above = energy - r.energy
        shown = above > 1e-14 * abs(r.energy)
        ax.semilogy(np.arange(1, len(energy) + 1)[shown], above[shown], "o-", ms=3)
        ax.set(title="energy above the result", xlabel="sweep", ylabel="$E - E_0$")

    return draw


def _discarded(r: Result) -> Panel:
    weight = r["sweep/discarded"]

    def draw(ax: Axes) -> None:
        sweeps = np.arange(1, len(weight) + 1)[weight > 0]
        ax.semilogy(sweeps, weight[weight > 0], "o-", ms=3)
        ax.set(title="discarded weight", xlabel="sweep", ylabel="weight")

    return draw


def _entropy(r: Result) -> Panel:
    entropy = r["entropy/cut"]

    def draw(ax: Axes) -> None:
        ax.plot(np.arange(1, len(entropy) + 1), entropy, "o-", ms=3)
        ax.set(title="entanglement entropy", xlabel="sites to the left of the cut", ylabel="$S$")

    return draw


def _levels(r: Result) -> Panel:
    energy = r.energies

    def draw(ax: Axes) -> None:
        ax.errorbar(np.arange(len(energy)), energy - energy[0], yerr=r.errors, fmt="_", ms=14)
        ax.set(title="energies above the lowest", xlabel="state", ylabel="$E_k - E_0$")

    return draw


def _is_plane(r: Result) -> bool:
    """Whether the lattice has two directions."""
    return "site/xy" in r and len(np.unique(r["site/xy"][:, 1])) > 1


def _local(r: Result, name: str) -> Panel:
    value, label = r[name], rf"$\langle${name.removeprefix('local/')}$\rangle$"

    def line(ax: Axes) -> None:
        ax.plot(np.arange(len(value)), value, "o-", ms=3)
        ax.set(title=name.removeprefix("local/"), xlabel="site", ylabel=label)

    def plane(ax: Axes) -> None:
        x, y = r["site/xy"].T
        largest = np.abs(value).max() or 1.0
        signed = value.min() < 0
        cmap, lowest = ("coolwarm", -largest) if signed else ("viridis", 0.0)
        areas = 200 * np.abs(value) / largest
        dots = ax.scatter(x, y, s=areas, c=value, cmap=cmap, vmin=lowest, vmax=largest)
        ax.figure.colorbar(dots, ax=ax, label=label)
        ax.margins(0.15)
        ax.set(title=f"{name.removeprefix('local/')}: areas", xlabel="$x$", ylabel="$y$", aspect="equal")

    return plane if _is_plane(r) else line


def _correlation(r: Result, name: str) -> Panel:
    """From the middle site outwards, by distance."""
    value = r[name]
    n = len(value)
    origin = n // 2
    xy = r["site/xy"] if "site/xy" in r else np.stack([np.arange(n), np.zeros(n)], axis=1)
    distance = np.linalg.norm(xy - xy[origin], axis=1)

    def draw(ax: Axes) -> None:
        for sign, marker in ((1, "o"), (-1, "s")):
            at = (distance > 0) & (sign * value[origin] > 0)
            ax.semilogy(distance[at], sign * value[origin][at], marker, ms=3, label="+" if sign > 0 else "-")
        ax.legend(title="sign")
        label = name.split("/", 1)[1].replace(",", "$_i$ ") + "$_j$"
        ax.set(title=f"{label}, i = {origin}", xlabel="distance", ylabel="magnitude")

    return draw


def _class_of(name: str) -> str:
    """ "nn" of "bond/nn,Sz(i)*Sz(j)"."""
    return name.split("/", 1)[1].split(",", 1)[0]


def _bonds(r: Result, name: str) -> Panel | None:
    """A value for each bond of a class: lines on the lattice, or along a chain."""
    among = f"bond/class/{_class_of(name)}"
    if "bond/sites" not in r or among not in r:
        return None
    at = r[among] > 0
    first, vector, value = r["bond/sites"][at, 0].astype(int), r["bond/vector"][at], r[name]
    if len(first) != len(value):
        return None
    start = r["site/xy"][first]
    kind, label = name.split("/", 1)
    title = f"energy on bonds {label}" if kind == "energies" else f"bonds {label}"

    def line(ax: Axes) -> None:
        ax.plot(start[:, 0] + vector[:, 0] / 2, value, "o-", ms=3)
        ax.set(title=title, xlabel="middle of the bond")

    def plane(ax: Axes) -> None:
        largest = np.abs(value).max() or 1.0
        for (x, y), (dx, dy), v in zip(start, vector, value):
            colour = "tab:blue" if v > 0 else "tab:orange"
            ax.plot([x, x + dx], [y, y + dy], lw=6 * abs(v) / largest, color=colour, solid_capstyle="butt")
        ax.plot(*r["site/xy"].T, "o", ms=3, color="gray")
        ax.set(title=f"{title}: largest {largest:.3g}", xlabel="$x$", ylabel="$y$", aspect="equal")

    return plane if _is_plane(r) else line


def _bond_pairs(r: Result, name: str) -> Panel | None:
    """Pairs of bonds in the same row, by their distance along it."""
    among = f"bond/class/{_class_of(name)}"
    if "bond/sites" not in r or among not in r:
        return None
    at = r[among] > 0
    middle = r["site/xy"][r["bond/sites"][at, 0].astype(int)] + r["bond/vector"][at] / 2
    value = r[name]
    if value.shape != (len(middle), len(middle)):
        return None
    along = middle[None, :, 0] - middle[:, None, 0]
    row = (np.abs(middle[None, :, 1] - middle[:, None, 1]) < 1e-6) & (along > 1e-6)
    distance = np.unique(along[row].round(6))
    mean = np.array([value[row & (np.abs(along - d) < 1e-5)].mean() for d in distance])

    def draw(ax: Axes) -> None:
        ax.loglog(distance, np.abs(mean), "o-", ms=3)
        ax.set(title=f"bonds {name.split('/', 1)[1]}", xlabel="distance along the row", ylabel="magnitude")

    return draw if len(distance) else None


def _mutual(r: Result, name: str) -> Panel:
    value = np.array(r[name])
    np.fill_diagonal(value, np.nan)

    def draw(ax: Axes) -> None:
        image = ax.imshow(value, origin="lower", cmap="Blues", vmin=0)
        ax.figure.colorbar(image, ax=ax, label="$I_{ij}$")
        ax.set(title="mutual information", xlabel="site", ylabel="site")

    return draw


def _structure(r: Result, name: str) -> Panel:
    value = r[name]
    title = "structure factor " + name.split("/", 1)[1]

    def line(ax: Axes) -> None:
        ax.plot(2 * np.arange(len(value)) / len(value), value, "o-", ms=3)
        ax.set(title=title, xlabel=r"$q/\pi$", ylabel="$S(q)$")

    def plane(ax: Axes) -> None:
        image = ax.imshow(value.T, origin="lower", extent=(0, 2, 0, 2), aspect="auto", cmap="viridis")
        ax.figure.colorbar(image, ax=ax, label="$S(q)$")
        ax.set(title=title, xlabel=r"$q_x/\pi$", ylabel=r"$q_y/\pi$")

    return line if value.ndim == 1 else plane


def _spectral(r: Result, name: str) -> Panel:
    omega, weight = r[name].T[:2]

    def draw(ax: Axes) -> None:
        ax.plot(omega, weight)
        ax.set(title=name.split("/", 1)[1], xlabel=r"$\omega - E_0$", ylabel=r"$A(\omega)$")

    return draw


def _thermal(r: Result, name: str) -> Panel:
    temperature = r["thermal/temperature"]
    value, error = r[name].T[:2]

    def draw(ax: Axes) -> None:
        ax.plot(temperature, value)
        ax.fill_between(temperature, value - error, value + error, alpha=0.3)
        ax.set(title=name.split("/", 1)[1], xlabel="$T$", ylabel=_THERMAL.get(name, name.split("/", 1)[1]))

    return draw


_BY_NAME: dict[str, Callable[[Any, str], Panel | None]] = {
    "local": _local,
    "correlation": _correlation,
    "connected": _correlation,
    "energies": _bonds,
    "bondcorr": _bond_pairs,
    "bondconnected": _bond_pairs,
    "mutual": _mutual,
    "structure": _structure,
    "spectral": _spectral,
    "thermal": _thermal,
}


_LATTICE = ("bond/sites", "bond/vector", "bond/length", "bond/class/")


def panels(r: Result) -> list[Panel]:
    """Functions that draw into axes."""
    found: list[Panel] = []
    if len(r.energies) > 1:
        found.append(_levels(r))
    if "sweep/energy" in r and len(r["sweep/energy"]):
        found += [_energies(r), _discarded(r)]
    if "entropy/cut" in r:
        found.append(_entropy(r))
    for name in r:
        maker = _BY_NAME.get(name.split("/")[0])
        if name.startswith("bond/") and not name.startswith(_LATTICE):
            maker = _bonds
        if maker is None or name == "thermal/temperature" or np.ndim(r[name]) == 0:
            continue
        panel = maker(r, name)
        if panel is not None:
            found.append(panel)
    return found


def overview(r: Result, columns: int = 2, width: float = 7.0) -> Figure:
    """All panels; width in inches (3.4: one column of a journal, 7: two)."""
    import matplotlib.pyplot as plt

    drawn = panels(r)
    if not drawn:
        raise ValueError("the result has nothing to draw")
    columns = min(columns, len(drawn))
    rows = -(-len(drawn) // columns)
    size = (width, 0.75 * width / columns * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for ax, draw in zip(axes.flat, drawn):
        draw(ax)
    for ax in axes.flat[len(drawn) :]:
        ax.remove()
    return figure
