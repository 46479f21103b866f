"""Sweeps with a cache, tables, figures.

SPDX-License-Identifier: Apache-2.0
"""

import matplotlib
import numpy as np
import pytest
from conftest import ONE

import kronlat as kl

matplotlib.use("Agg")

LADDER = dict(lattice="ladder:4x2", params=dict(U=4), charges=dict(N_up=4, N_dn=4), **ONE)


@pytest.fixture(scope="module")
def ladder():
    return kl.dmrg("hubbard", accuracy=1e-6, measure=["n", "corr(Sz,Sz)", "structure(Sz,Sz)"], **LADDER)


def test_xarray(ladder):
    ds = ladder.to_xarray()
    assert ds["correlation/Sz,Sz"].dims == ("site", "site_2")
    assert ds["entropy/cut"].dims == ("cut",) and ds.sizes["cut"] == 7
    assert ds["parameter/U"].dims == ("site",)
    assert ds.attrs["model"] == "hubbard" and ds.attrs["lattice"] == "ladder:4x2"
    assert float(ds["energy"][0]) == ladder.energy


def test_pandas(ladder):
    by_site = ladder.to_pandas("site")
    assert list(by_site.columns) == ["x", "y", "n"] and len(by_site) == 8
    assert by_site["n"].sum() == pytest.approx(8, abs=1e-8)
    assert {"m", "energy", "discarded"} <= set(ladder.to_pandas().columns)
    assert ladder.to_pandas("cut").shape == (7, 1)
    with pytest.raises(ValueError, match="known: sweep"):
        ladder.to_pandas("weather")


def test_sweep_is_kept_on_disk(tmp_path):
    calls = []

    def ed(*args, **more):
        calls.append(more["params"])
        return kl.ed(*args, **more)

    grid = dict(U=[0.0, 4.0, 8.0])
    problem = dict(lattice="chain:2", charges=dict(N_up=1, N_dn=1), cache=tmp_path, **ONE)
    first = kl.sweep(ed, "hubbard", grid, **problem)
    again = kl.sweep(ed, "hubbard", grid, **problem)
    assert len(calls) == 3 and len(list(tmp_path.iterdir())) == 3
    exact = [(U - np.sqrt(U * U + 16)) / 2 for U in grid["U"]]
    for s in (first, again):
        assert np.allclose(s.to_pandas()["energy"], exact, atol=1e-12)
    # another parameter is another run
    kl.sweep(ed, "hubbard", grid, params=dict(t=2), **problem)
    assert len(calls) == 6
    table = first.to_xarray(twice=lambda r: 2 * r.energy)
    assert float(table["twice"].sel(U=4.0)) == pytest.approx(2 * exact[1])


def test_sweep_over_sites_and_following(tmp_path):
    s = kl.sweep(kl.dmrg, "heisenberg", {"lattice": [4, 6], "Delta": [1.0, 0.5]}, charges=dict(Sz=0), **ONE)
    assert [p["lattice"] for p in s.points] == [4, 4, 6, 6] and len(s) == 4
    assert s[0].energy == pytest.approx(-1.6160254037844386, abs=1e-9)
    t = kl.sweep(
        kl.dmrg, "heisenberg", {"Delta": [1.0, 0.5]}, lattice=6, charges=dict(Sz=0), follow=True, **ONE
    )
    assert t[1].energy == pytest.approx(s[3].energy, abs=1e-7)
    assert repr(t) == "<sweep over Delta = [1.0, 0.5]: 2 results>"


def test_model_file_is_part_of_the_key(tmp_path):
    from kronlat.sweep import key_of

    path = tmp_path / "mine.lua"
    keys = set()
    for text in ("-- H = 1\n", "-- H = 2\n"):
        path.write_text(text)
        keys.add(key_of("ed", dict(model=path)))
        keys.add(key_of("ed", dict(model=path, threads=2)))
    assert len(keys) == 2


BONDS = [
    "mutual",
    "energies(nn)",
    "density(0,1)",
    "bond(nn,n_up(i)*n_dn(j))",
    'corr("rung",n_up(i)*n_dn(j),hc)',
    'connected("rung",n_up(i)*n_dn(j),n_up(i)*n_dn(j))',
]


def test_bonds_and_density_matrices():
    problem = dict(lattice="ladder:3x2", params=dict(U=4), charges=dict(N_up=3, N_dn=3), **ONE)
    r = kl.dmrg("hubbard", accuracy=1e-9, measure=BONDS, **problem)
    exact = kl.ed("hubbard", measure=BONDS, **problem)
    kinds = ("mutual", "energies", "density", "bondcorr", "bondconnected")
    shared = [n for n in exact if n.split("/")[0] in kinds]
    assert len(shared) == 5
    for name in shared:
        assert np.abs(r[name] - exact[name]).max() < 1e-4, name
    onsite = 4 * r.measure("n_up*n_dn").sum()
    assert r["energies/nn"].sum() + onsite == pytest.approx(r.energy, abs=1e-6)
    assert np.trace(r["density/0,1"]) == pytest.approx(1, abs=1e-10)
    w = np.linalg.eigvalsh(r["density/0,1"])
    mutual = r["mutual"]
    pair = -(w[w > 1e-14] * np.log(w[w > 1e-14])).sum()
    assert mutual[0, 0] + mutual[1, 1] - pair == pytest.approx(mutual[0, 1], abs=1e-9)
    assert r.to_xarray()["mutual"].dims == ("site", "site_2")
    assert r.to_xarray()["bond/vector"].dims == ("bond", "axis")
    assert r.to_xarray()["bond/class/rung"].dims == ("bond",)
    titles = " ".join(ax.get_title() for ax in r.plot().axes)
    for wanted in ("energy on bonds nn", "n↓(j)⟩ on bonds nn", "on bonds rung", "mutual information"):
        assert wanted in titles.replace("\n", " "), titles
    chain = kl.dmrg("heisenberg", lattice=8, charges=dict(Sz=0), measure="bond(nn)", **ONE)
    assert any(ax.get_title() == "⟨S·S⟩ on bonds nn" for ax in chain.plot().axes)


def test_products_over_letters():
    words = ["product(cdag_up@i,c_up@j+1)", "product(n_up@k,n_dn@0,n_up@i)"]
    problem = dict(lattice=6, params=dict(U=4), charges=dict(N_up=3, N_dn=3), measure=words, **ONE)
    r, exact = kl.dmrg("hubbard", accuracy=1e-10, **problem), kl.ed("hubbard", **problem)
    for word, shape, dims in zip(words, ((6, 5), (6, 6)), (("i", "j"), ("k", "i"))):
        name = word.replace("(", "/").rstrip(")")
        assert r[name].shape == exact[name].shape == shape
        assert np.abs(r[name] - exact[name]).max() < 1e-5
        assert r.to_xarray()[name].dims == dims


def test_figures(ladder, tmp_path):
    figure = ladder.plot()
    titles = [ax.get_title() for ax in figure.axes]
    for wanted in ("entanglement entropy", "⟨n⟩ by site", "structure factor of ⟨Sᶻ Sᶻ⟩"):
        assert wanted in titles
    assert any(t.startswith("correlation ⟨Sᶻ Sᶻ⟩ with site") for t in titles)
    told = [p["title"] for p in kl.figures.numbers([ladder])["panels"]]
    assert told == [t.replace("\n", " ") for t in titles if t]
    cuts = figure.axes[titles.index("entanglement entropy")]
    assert all(tick == int(tick) for tick in cuts.get_xticks())
    figure.savefig(tmp_path / "ladder.png", dpi=60)
    assert (tmp_path / "ladder.png").stat().st_size > 10000


def test_figures_of_several_results():
    sizes = [8, 12, 16, 24]
    rs = [kl.dmrg("heisenberg", lattice=n, charges=dict(Sz=0), states=2, accuracy=1e-8, **ONE) for n in sizes]
    gap = next(p for p in kl.figures.numbers(rs)["panels"] if p["title"] == "gap against size")
    points, fit, limit = gap["series"]
    assert sorted(points["x"]) == sorted(1 / n for n in sizes)
    assert sorted(points["y"]) == pytest.approx(sorted(r.energies[1] - r.energies[0] for r in rs), abs=1e-12)
    assert abs(limit["y"][0]) < 0.1 + limit["error"][0]
    axes = {ax.get_title(): ax for ax in kl.plot(rs).axes}
    assert axes["gap against size"].get_xlabel().startswith("1 / L\nlimit ")
    assert len(kl.plot(rs[0]).axes) == len(rs[0].plot().axes)
    with pytest.raises(ValueError):
        kl.plot([])
    with pytest.raises(ValueError):
        kl.plot(rs, names=["one"])


def test_figures_of_spectra_and_heat():
    spectrum = kl.ed("heisenberg", lattice="ring:8", charges=dict(Sz=0), spectral="Sz@q=4", states=2, **ONE)
    heat = kl.ed("heisenberg", lattice="ring:6", charges="scan", temperatures="0.2:2:0.2", samples=4, **ONE)
    assert len(spectrum.plot().axes) >= 2
    assert len(heat.plot(columns=1).axes) >= 3


def test_gaps_of_a_sweep():
    charges = [dict(N_up=u, N_dn=d) for u, d in [(2, 2), (3, 2), (2, 3), (3, 3), (1, 2)]]
    s = kl.sweep(kl.ed, "hubbard", {"U": [0.0, 4.0], "charges": charges}, lattice=4, **ONE)
    value, error = s.gap("E(N_up+1)+E(N_up-1)-2E")
    for k, u in enumerate([0, 5]):  # the others lack a neighbour
        e = [r.energy for r in s.results[u : u + 5]]
        assert value[u] == pytest.approx(e[1] + e[4] - 2 * e[0], abs=1e-12)
        assert error[u] == pytest.approx(s[u + 1].error + s[u + 4].error + 2 * s[u].error)
    assert np.isnan(value[[1, 2, 3, 4, 6, 7, 8, 9]]).all() and np.isnan(error[1])
    pairs = s.gap("(E(N_up+1, N_dn+1) + E)/2 - 1/2 * (E(N_up+1) + E(N_dn+1))")[0]
    assert pairs[0] == pytest.approx((s[3].energy + s[0].energy - s[1].energy - s[2].energy) / 2, abs=1e-12)
    assert s.gap("E(U+4) - E")[0][0] == pytest.approx(s[5].energy - s[0].energy)
    for formula, wrong in [
        ("E(N+1)-E", "known: U, N_up, N_dn"),
        ("E(U+1", "at the end"),
        ("2E E", "'E' stands"),
    ]:
        with pytest.raises(kl.BadInput, match=wrong):
            s.gap(formula)
    spins = kl.sweep(kl.ed, "heisenberg", {"charges": [dict(Sz=q) for q in ("1/2", "3/2")]}, lattice=5, **ONE)
    assert spins.gap("E(Sz+1)-E")[0][0] == pytest.approx(spins[1].energy - spins[0].energy)
