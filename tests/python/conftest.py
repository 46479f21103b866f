"""One thread for every run: tests share their processors.

SPDX-License-Identifier: Apache-2.0
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of NumPy and PySCF, which read it when they are loaded

import pytest  # noqa: E402

ONE = dict(threads=1)


@pytest.fixture
def data() -> Path:
    """The folder of test data."""
    return Path(__file__).parents[1] / "data"
