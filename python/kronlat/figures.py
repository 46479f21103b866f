"""The figures of `kronlat plot`, by matplotlib: the library says what is drawn, in panels of numbers.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._c import call, ffi

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .result import Result

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f", "#8856a7")
_BLUE, _ORANGE = "#3a7fc4", "#d5702a"


def numbers(results: Sequence[Result], names: Sequence[str] | None = None) -> dict[str, Any]:
    """The figure as `kronlat plot --json` has it: its panels with titles, axes, series, fits and notes."""
    if not results:
        raise ValueError("there is no result to draw")
    if names is None:
        names = [f"result {k}" for k in range(len(results))]
    texts = [ffi.new("char[]", name.encode()) for name in names]
    if len(texts) != len(results):
        raise ValueError(f"{len(results)} results have {len(texts)} names")
    out = ffi.new("const char **")
    call("result_figure", len(results), [r._c for r in results], texts, out)
    return json.loads(ffi.string(out[0]).decode())


def _real(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def _curves(ax: Axes, panel: dict[str, Any]) -> None:
    pen = -1
    for series in panel["series"]:
        x, y, kind = _real(series["x"]), _real(series["y"]), series["drawn_as"]
        pen += kind != "fit" or pen < 0
        y = np.where(y > 0, y, np.nan) if panel["log_y"] else y
        style: dict[str, Any] = {"color": _COLOURS[pen % len(_COLOURS)], "label": series["name"] or None}
        error = _real(series["error"]) if "error" in series else None
        if kind == "points" and error is not None:
            ax.errorbar(x, y, yerr=error, fmt="o", ms=3, **style)
        elif kind == "points":
            ax.plot(x, y, "o", ms=3, **style)
        elif kind == "fit":
            ax.plot(x, y, "--", lw=1, **style)
        else:
            ax.plot(x, y, "o-" if kind == "points and lines" else "-", ms=3, lw=1.2, **style)
        if kind == "band" and error is not None:
            ax.fill_between(x, y - error, y + error, color=style["color"], alpha=0.25, lw=0)
    for name, axis in (("log_x", ax.xaxis), ("log_y", ax.yaxis)):
        if panel[name]:
            _logarithmic(ax, axis)
    if not panel["log_x"] and panel["x"] in ("sweep", "site", "state", "level", "sites before the cut"):
        ax.xaxis.get_major_locator().set_params(integer=True)  # nothing is half a sweep
    named = sum(bool(series["name"]) for series in panel["series"])
    if named > 4:
        ax.legend(fontsize="xx-small", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    elif named:
        ax.legend(fontsize="x-small", frameon=False)


def _logarithmic(ax: Axes, axis: Any) -> None:
    """Labels at 1, 2 and 5 where the powers of ten alone would be one or two."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    (ax.set_xscale if axis is ax.xaxis else ax.set_yscale)("log")
    low, high = axis.get_data_interval()
    axis.set_minor_formatter(NullFormatter())
    if not 0 < low < high < 100 * low:
        return
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    at = [m * 10.0**k for k in decades for m in (1, 2, 5)]
    axis.set_major_locator(FixedLocator(at))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _plane(ax: Axes, panel: dict[str, Any]) -> None:
    x, y = np.array(panel["plane_x"]), np.array(panel["plane_y"])
    z = _real(panel["plane"]).reshape(len(y), len(x))
    most, least = np.nanmax(z), np.nanmin(z)
    signed = least < -0.02 * max(most, 0) and least < -1e-9
    largest = max(most, -least) or 1.0
    limits = (-largest, largest) if signed else (0.0, largest)
    image = ax.pcolormesh(
        x, y, z, cmap="RdBu" if signed else "Blues", vmin=limits[0], vmax=limits[1], rasterized=True
    )
    ax.figure.colorbar(image, ax=ax)
    if "outline" in panel:
        corner = np.array(panel["outline"]).reshape(-1, 2)
        ax.plot(*np.vstack([corner, corner[:1]]).T, color=_COLOURS[1], lw=1)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), aspect="equal")


def _lattice(ax: Axes, panel: dict[str, Any], r: Result) -> None:
    """Areas of circles are the values on sites, widths of lines those on bonds."""
    xy, ends, vector = r["site/xy"], r["bond/sites"].astype(int), r["bond/vector"]
    value = {(b["from"], b["to"]): b["value"] for b in panel.get("bonds", ())}
    near = r["bond/class/nn"] > 0 if "bond/class/nn" in r else np.ones(len(ends), dtype=bool)
    most = max((abs(v) for v in value.values()), default=0) or 1.0
    for (i, j), step, is_near in zip(ends, vector, near):
        v = value.get((i, j))
        if v is None and (value or not is_near):
            continue
        style: dict[str, Any] = {"color": "#c8c8c8", "lw": 0.8, "zorder": 1}
        if v is not None:
            style = {"color": _BLUE if v >= 0 else _ORANGE, "lw": 0.3 + 6 * abs(v) / most, "zorder": 1}
        if np.allclose(xy[j] - xy[i], step):
            ax.plot(*np.array([xy[i], xy[j]]).T, **style)
        else:  # out of the picture, and in again
            ax.plot(*np.array([xy[i], xy[i] + 0.4 * step]).T, **style)
            ax.plot(*np.array([xy[j], xy[j] - 0.4 * step]).T, **style)
    site = _real(panel["sites"]) if "sites" in panel else np.full(len(xy), np.nan)
    largest = np.nanmax(np.abs(site)) if np.isfinite(site).any() else 0.0
    radius = 0.42 * min(np.linalg.norm(vector, axis=1)) if len(vector) else 0.42
    for at, v in zip(xy, site):
        size = 0.06 if not np.isfinite(v) else np.sqrt(abs(v) / (largest or 1.0))
        colour = "#808080" if not np.isfinite(v) else _BLUE if v >= 0 else _ORANGE
        ax.add_patch(_circle(at, radius * size, colour))
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()


def _circle(at: np.ndarray, radius: float, colour: str) -> Any:
    from matplotlib.patches import Circle

    return Circle(tuple(at), radius, color=colour, lw=0, zorder=2)


def _draw(ax: Axes, panel: dict[str, Any], r: Result, letters: int) -> None:
    """letters: about as many as a line below the panel has room for."""
    if "plane" in panel:
        _plane(ax, panel)
    elif "sites" in panel or "bonds" in panel:
        _lattice(ax, panel, r)
    else:
        _curves(ax, panel)
    note = textwrap.fill(panel["note"], letters)
    ax.set_title(textwrap.fill(panel["title"], letters), fontsize="small")
    ax.set_xlabel("\n".join(filter(None, (panel["x"], note))), fontsize="small")
    ax.set_ylabel(panel["y"], fontsize="small")
    ax.tick_params(labelsize="small")
    if not ax.axison:  # which has no label of x either
        ax.text(0.5, -0.02, note, transform=ax.transAxes, ha="center", va="top", fontsize="small")


def overview(
    results: Sequence[Result], names: Sequence[str] | None = None, columns: int = 2, width: float = 7.0
) -> Figure:
    """All panels; width in inches (3.4: one column of a journal, 7: two)."""
    import matplotlib.pyplot as plt

    told = numbers(results, names)
    drawn = told["panels"]
    if not drawn:
        raise ValueError("the result has nothing to draw")
    columns = min(columns, len(drawn))
    rows = -(-len(drawn) // columns)
    size = (width, 0.75 * width / columns * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    # a legend beside one panel makes all of its column narrower
    beside = any(sum(bool(s["name"]) for s in panel["series"]) > 4 for panel in drawn)
    for ax, panel in zip(axes.flat, drawn):
        _draw(ax, panel, results[0], int((10 if beside else 13) * width / columns))
    for ax in axes.flat[len(drawn) :]:
        ax.remove()
    figure.suptitle(textwrap.fill(told["title"], int(14 * width)), fontsize="small")
    return figure
