"""Runs of every method, against energies known otherwise.

SPDX-License-Identifier: Apache-2.0
"""

import math
import os
import signal
import threading

import numpy as np
import pytest
from conftest import ONE

import kronlat as kl

HALF_FILLED = dict(params=dict(U=2), charges=dict(N_up=3, N_dn=3), **ONE)
BETHE_32 = -13.997315618224327  # Heisenberg chain of 32, open


def test_ground_state_of_the_chain():
    r = kl.dmrg("heisenberg", lattice=32, charges=dict(Sz=0), accuracy=1e-11, **ONE)
    assert abs(r.energy - BETHE_32) < 1e-10 * abs(BETHE_32)
    assert abs(r.energy - BETHE_32) <= r.error + 1e-12
    assert (r.method, r.converged, r.finished, r.states) == ("dmrg", True, True, 1)


def test_two_sites_of_hubbard():
    for U in (0.0, 4.0, 8.0):
        r = kl.ed("hubbard", lattice="chain:2", params=dict(U=U), charges=dict(N_up=1, N_dn=1), **ONE)
        assert abs(r.energy - (U - math.sqrt(U * U + 16)) / 2) < 1e-12


def test_ed_and_dmrg_agree_in_what_they_measure():
    what = ["n_up", "corr(Sz,Sz)"]
    exact = kl.ed("hubbard", lattice="ladder:3x2", measure=what, **HALF_FILLED)
    near = kl.dmrg("hubbard", lattice="ladder:3x2", measure=what, accuracy=1e-12, **HALF_FILLED)
    assert abs(exact.energy - near.energy) < 1e-10
    for name in ("local/n_up", "correlation/Sz,Sz"):
        assert np.abs(exact[name] - near[name]).max() < 1e-6
    assert np.allclose(near["correlation/Sz,Sz"], near.measure("corr(Sz,Sz)"), atol=1e-14)
    assert near.measure("docc").shape == (6,)
    assert "local/docc" in near
    assert near["site/xy"].tolist() == [[x, y] for x in range(3) for y in range(2)]
    assert near["parameter/U"].tolist() == [2.0] * 6
    assert near["charge/N_up"] == 3


def test_total_spin(tmp_path):
    system, path = dict(lattice=6, params=dict(U=4), **ONE), tmp_path / "spin.h5"
    r = kl.dmrg("hubbard", charges=dict(N=6, S=1), measure=["corr(Sz,Sz)"], **system)
    exact = kl.ed("hubbard", charges=dict(N_up=4, N_dn=2), measure=["corr(Sz,Sz)"], **system)
    assert abs(r.energy - exact.energy) < 1e-8
    assert np.abs(r["correlation/Sz,Sz"] - exact["correlation/Sz,Sz"]).max() < 1e-4
    r.save(path)
    back = kl.load(path)
    assert back.energy == r.energy
    assert np.allclose(back.measure("docc"), r.measure("docc"), atol=1e-13)
    assert r.problem.local_states(0) == exact.problem.local_states(0)
    for start in (r, back):
        plain = kl.dmrg("hubbard", charges=dict(N_up=4, N_dn=2), start=start, **system)
        assert abs(plain.energy - exact.energy) < 1e-8
    psi, same = plain.mps(centre=2), r.mps(centre=3)
    assert psi.charge_names == same.charge_names == ["N_up", "N_dn"]
    assert abs(abs(psi.overlap(same)) - 1) < 1e-7
    assert abs(plain.problem.mpo().expectation(same) - exact.energy) < 1e-8
    with pytest.raises(kl.BadInput, match="of this problem with Sz"):
        r.problem.mpo()
    with pytest.raises(kl.BadInput, match="holds a state without S"):
        kl.dmrg("hubbard", charges=dict(N=6, S=1), start=plain, **system)
    with pytest.raises(kl.BadInput, match="take --charge N_up=4 --charge N_dn=2"):
        kl.hamiltonian("hubbard", charges=dict(N=6, S=1), **system)


def test_excited_states_and_vectors():
    problem = dict(lattice="ring:8", charges=dict(Sz=0), **ONE)
    r = kl.ed("heisenberg", states=3, keep_vectors=True, **problem)
    h = kl.hamiltonian("heisenberg", **problem)
    for k in range(3):
        x = r.vector(k)
        assert np.abs(h @ x - r.energies[k] * x).max() < 1e-5
    assert abs(r.vector(0) @ r.vector(1)) < 1e-8
    with pytest.raises(kl.BadInput, match="keeps no vectors"):
        kl.ed("heisenberg", **problem).vector()


def test_water(data):
    # PySCF 2.14, FCI in STO-3G
    r = kl.ci(data / "h2o-sto3g.fcidump", space="full", residual=1e-8, density=True, **ONE)
    assert abs(r.energy - -75.0125782411) < 1e-9
    assert abs(np.trace(r["density_alpha"]) - 5) < 1e-10


def test_converged_means_the_state():
    dimers = dict(lattice="ring:8", params=dict(J2=0.5), charges=dict(Sz=0), output=None, **ONE)
    one = kl.dmrg("j1j2", **dimers)
    assert (one.converged, one.energy_converged) == (False, True) and "not told apart" in repr(one)
    assert abs(one.energy + 3) < 1e-11
    assert kl.dmrg("j1j2", states=2, **dimers).converged


def test_files(tmp_path):
    path = tmp_path / "run.h5"
    r = kl.dmrg("hubbard", lattice="chain:6", pin={"n_up@0": 0.3}, output=path, **HALF_FILLED)
    back = kl.load(path)
    assert back.energy == r.energy
    assert np.allclose(back.measure("docc"), r.measure("docc"), atol=1e-12)
    again = kl.dmrg("hubbard", lattice="chain:6", pin={"n_up@0": 0.3}, start=back, **HALF_FILLED)
    assert abs(again.energy - r.energy) < 1e-8
    r.save(tmp_path / "copy.h5")
    assert kl.load(tmp_path / "copy.h5").energy == r.energy
    with pytest.raises(kl.FileError, match="nowhere.h5"):
        kl.load(tmp_path / "nowhere.h5")


def test_mistakes_get_one_line():
    with pytest.raises(kl.BadInput, match="did you mean hubbard") as caught:
        kl.dmrg("hubbart", lattice=4)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="N_up, N_dn of model hubbard are not given"):
        kl.dmrg("hubbard", lattice=4)
    with pytest.raises(kl.BadInput, match="accuracy"):
        kl.dmrg("hubbard", lattice=4, accuracy=2)
    exact = kl.ed("hubbard", lattice="chain:2", charges=dict(N_up=1, N_dn=1), measure=["n"], **ONE)
    with pytest.raises(KeyError, match="no 'n' .did you mean 'local/n'.., only: energy"):
        exact["n"]
    with pytest.raises(KeyError, match="no 'nothing', only: energy"):
        exact["nothing"]
    with pytest.raises(ValueError, match="no fraction"):
        kl.ed("heisenberg", lattice=4, charges=dict(Sz=0.123456789))
    with pytest.raises(TypeError, match="a model is"):
        kl.ed(3, lattice=4)


def test_progress_is_told_and_may_raise():
    steps = []
    r = kl.dmrg("heisenberg", lattice=12, charges=dict(Sz=0), progress=steps.append, **ONE)
    assert {s.stage for s in steps} == {"bond", "sweep"}
    assert steps[-1].energy >= r.energy - r.error - 1e-9
    bonds = [s for s in steps if s.stage == "bond"]
    assert all(1 <= s.done <= s.of for s in bonds) and bonds[0].sweep == 1

    def fails(step):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kl.dmrg("heisenberg", lattice=12, charges=dict(Sz=0), progress=fails, **ONE)


def test_interrupt_keeps_what_was_found():
    def press(step):
        if step.stage == "sweep" and step.done == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        kl.dmrg("heisenberg", lattice=32, charges=dict(Sz=0), accuracy=1e-12, progress=press, **ONE)
    assert isinstance(caught.value, kl.Cancelled)
    found = caught.value.result
    assert not found.finished
    assert len(found["sweep/energy"]) >= 2
    # and a run after it is as ever
    assert kl.dmrg("heisenberg", lattice=4, charges=dict(Sz=0), **ONE).converged


def test_bar(capsys):
    kl.dmrg("heisenberg", lattice=12, charges=dict(Sz=0), progress=True, **ONE)
    assert "sweep" in capsys.readouterr().err


def test_threads_of_python_run_side_by_side():
    energies = {}

    def run(J):
        energies[J] = kl.ed("heisenberg", lattice=10, params=dict(J=J), charges=dict(Sz=0), **ONE).energy

    threads = [threading.Thread(target=run, args=(J,)) for J in (1.0, 2.0, 3.0)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for J in (2.0, 3.0):
        assert abs(energies[J] - J * energies[1.0]) < 1e-10


def test_what_is_meant_is_said():
    problem = dict(lattice=6, charges=dict(N_up=3, N_dn=3), **ONE)
    with pytest.raises(kl.BadInput, match=r"params=dict\(U=...\)"):
        kl.dmrg("hubbard", U=4, **problem)
    with pytest.raises(kl.BadInput, match="did you mean accuracy"):
        kl.dmrg("hubbard", acuracy=1e-6, **problem)
    for charges in ("scan", dict(N_up="scan", N_dn=3), dict(N_up="2:3", N_dn=3), dict(N_up="2,3", N_dn=3)):
        for run in (kl.ed, kl.dmrg):
            with pytest.raises(kl.BadInput, match="kl.sweep"):
                run("hubbard", lattice=6, charges=charges, **ONE)
    charges = [dict(N_up=n, N_dn=3) for n in (2, 3)]
    sectors = kl.sweep(kl.ed, "hubbard", {"charges": charges}, lattice=6, **ONE)
    single = [kl.ed("hubbard", lattice=6, charges=c, **ONE).energy for c in charges]
    assert [r.energy for r in sectors] == single
    pytest.importorskip("matplotlib").use("Agg")
    assert "energy per site" in [ax.get_title() for ax in sectors.plot().axes]


def test_lists_are_not_cut_to_their_last_entry():
    r = kl.dmrg("heisenberg", lattice=12, charges=dict(Sz=0), schedule=["8:1e-4", 12, 16], **ONE)
    assert len(r["sweep/m"]) == 3
    with pytest.raises(kl.BadInput, match="m: '10,20' was given"):
        kl.dmrg("heisenberg", lattice=12, charges=dict(Sz=0), m=[10, 20], **ONE)
    order = np.array([0, 2, 1, 3])
    ordered = kl.dmrg("heisenberg", lattice=4, charges=dict(Sz=0), order=order, **ONE)
    assert abs(ordered.energy + 1.6160254) < 1e-6
    warm = kl.ed("heisenberg", lattice=6, charges="scan", temperatures=[0.5, 1, 2], **ONE)
    assert warm["thermal/temperature"].tolist() == [0.5, 1, 2]
    with pytest.raises(kl.BadInput, match="charge Sz is None"):
        kl.dmrg("heisenberg", lattice=4, charges=dict(Sz=None))
    with pytest.raises(ValueError, match="whole number N"):
        kl.dmrg("heisenberg", lattice=4.0, charges=dict(Sz=0))


def test_wrong_kinds_of_arguments_get_one_line():
    wanted = {"lattice is 8.5": dict(lattice=8.5), "sites=9 another one": dict(sites=9)}
    wanted |= {"charges is 3": dict(charges=3), r"params is \[1, 2\]": dict(params=[1, 2])}
    wanted |= {"parameter J is None": dict(params=dict(J=None))}
    for message, wrong in wanted.items():
        with pytest.raises(kl.BadInput, match=message):
            kl.dmrg("heisenberg", **(dict(lattice=8, charges=dict(Sz=0)) | wrong))
    with pytest.raises(ValueError, match="between sites by number"):
        kl.ed("heisenberg", lattice=[(0, 1), (1, "a")], charges=dict(Sz=0))
    with pytest.raises(TypeError, match="a Result or several"):
        kl.plot(3)


def test_options_of_other_methods_are_refused():
    chain = dict(lattice=6, charges=dict(Sz=0), **ONE)
    with pytest.raises(kl.BadInput, match="spectral belongs to kl.ed, not to kl.dmrg"):
        kl.dmrg("heisenberg", spectral=["Sz@0"], **chain)
    with pytest.raises(kl.BadInput, match="max_sweeps belongs to kl.dmrg, not to kl.ed"):
        kl.ed("heisenberg", max_sweeps=3, **chain)
    with pytest.raises(kl.BadInput, match="sites belongs to kl.dmrg and kl.ed, not to kl.ci"):
        kl.ci("molecule.fcidump", sites=3)
    assert kl.ed("heisenberg", m=None, device_memory="1GB", **chain).converged


def test_sweep_over_seeds():
    over = kl.sweep(
        kl.ed, "heisenberg", {"seed": [1, 2]}, lattice=6, params=dict(h="uniform(-3,3)"), charges=dict(Sz=0)
    )
    one = kl.ed("heisenberg", lattice=6, params=dict(h="uniform(-3,3)"), charges=dict(Sz=0), seed=2, **ONE)
    assert abs(over[1].energy - one.energy) < 1e-12
    assert abs(over[0].energy - one.energy) > 1e-3
