"""h5py, PySCF and NumPy in one process with us, imported before and after.

SPDX-License-Identifier: Apache-2.0
"""

import subprocess
import sys

import pytest

OTHERS = "import h5py, numpy, scipy.linalg, pyscf.gto, pyscf.scf"
OURS = "import kronlat as kl"

WORK = """
import sys
path = sys.argv[1]
r = kl.dmrg("heisenberg", lattice=16, charges=dict(Sz=0), accuracy=1e-11, output=path, threads=2)
assert abs(r.energy - -6.911737145575) < 1e-9, r.energy
with h5py.File(path) as f:
    assert f["result/energy"][0] == r.energy
with h5py.File(path + ".theirs", "w") as f:
    f["x"] = numpy.arange(10.0)
    assert kl.load(path).measure("Sz").shape == (16,)
    assert f["x"][...].sum() == 45
a = numpy.random.default_rng(1).normal(size=(300, 300))
a = a + a.T
w, v = scipy.linalg.eigh(a)
assert abs(a @ v - v * w).max() < 1e-10
assert abs(numpy.linalg.eigvalsh(a) - w).max() < 1e-10
mf = pyscf.scf.RHF(pyscf.gto.M(atom="H 0 0 0; H 0 0 0.74", basis="sto-3g", verbose=0)).run()
assert abs(mf.e_tot - -1.1167593) < 1e-6, mf.e_tot
e = kl.ci(kl.pyscf.molecule(mf), space="full", threads=2).energy
assert abs(e - -1.1372838) < 1e-6, e
again = kl.dmrg("heisenberg", lattice=16, charges=dict(Sz=0), accuracy=1e-11, threads=2)
assert again.energy == r.energy
print("well")
"""


@pytest.mark.parametrize("first, second", [(OTHERS, OURS), (OURS, OTHERS)], ids=["before", "after"])
def test_one_process(tmp_path, first, second):
    pytest.importorskip("pyscf")
    pytest.importorskip("h5py")
    command = [sys.executable, "-c", f"{first}\n{second}\n{WORK}", str(tmp_path / "run.h5")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "well\n", done.stderr
