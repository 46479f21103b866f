"""The notebooks of examples/, executed; those that take longer with KRONLAT_LONG in the environment (the
meson test `notebooks`).

SPDX-License-Identifier: Apache-2.0
"""

import os
from pathlib import Path

import pytest

QUICK = ["chain_and_gap", "own_model"]
LONG = ["ladder_with_pairs", "frustrated_lattice", "spectra_and_heat", "molecule"]
LATER = pytest.mark.skipif("KRONLAT_LONG" not in os.environ, reason="takes longer: KRONLAT_LONG=1")
FOLDER = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", QUICK + [pytest.param(name, marks=LATER) for name in LONG])
def test_notebook(name, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert any("image/png" in o.get("data", {}) for o in outputs)
    shown = os.environ.get("KRONLAT_NOTEBOOKS")
    if shown:
        nbformat.write(notebook, Path(shown) / f"{name}.ipynb")


def test_all_are_listed():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(QUICK + LONG)
