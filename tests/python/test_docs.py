"""What docs say about Python runs as it stands there.

SPDX-License-Identifier: Apache-2.0
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_python_md():
    found = blocks("python.md")
    assert len(found) >= 2
    names = {}
    for block in found:
        exec(block, names)
    assert names["r"].converged


def test_idioms():
    names = {}
    (setup,) = blocks("python-idioms.md")
    exec(setup, names)
    rows = [
        line
        for line in (DOCS / "python-idioms.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    lines = [re.search(r"\| `([^`]*)` \|$", row).group(1) for row in rows if row.endswith("` |")]
    assert len(lines) == len(rows) - 2 * 4  # all but four headings
    for line in lines:
        try:
            exec(line, names)
        except Exception as failure:
            raise AssertionError(f"{line}\n{failure}") from failure
    # models that were only written down are whole
    kl = names["kl"]
    for model, charges in (
        (names["m"], dict(Sz=0)),
        (names["m2"], dict(Sz=0)),
        (names["f"], dict(N_up=3, N_dn=3)),
    ):
        assert kl.ed(model, lattice=6, charges=charges).converged
    hubbard = kl.ed(lattice=6, charges=dict(N_up=3, N_dn=3), **names["hubbard"]).energy
    assert kl.ed(names["f"], lattice=6, charges=dict(N_up=3, N_dn=3)).energy == pytest.approx(
        hubbard, abs=1e-10
    )
