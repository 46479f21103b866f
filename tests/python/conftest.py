"""One thread for every run: tests share their processors.

SPDX-License-Identifier: Apache-2.0
"""
from pathlib import Path

import pytest

ONE = dict(threads=1)


@pytest.fixture
def data() -> Path:
    """The folder of test data."""
    return Path(__file__).parents[1] / "data"
