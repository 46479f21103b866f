"""Failures of the library as exceptions; each says in one line what is wrong and what is allowed.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations


class KronlatError(Exception):
    """What all of them are. `result` holds what a run had found before it failed, or is None."""

    result: object = None


class BadInput(KronlatError, ValueError):
    """A model, a lattice, an option or a file is wrong."""


class NoMemory(KronlatError, MemoryError):
    """There is not enough memory."""


class FileError(KronlatError, OSError):
    """A file could not be read or written."""


class NotConverged(KronlatError, ArithmeticError):
    """An iteration stopped above its tolerance."""


class Absent(KronlatError, RuntimeError):
    """Not built in, or the device is not there."""


class Cancelled(KeyboardInterrupt):
    """A run was interrupted. `result` holds what it had found, or is None."""

    def __init__(self, message: str = "the run was cancelled", result: object = None):
        super().__init__(message)
        self.result = result


# ORDER kronlat_status
_KINDS = {1: BadInput, 2: NoMemory, 3: FileError, 4: NotConverged, 5: Absent}


def error_of(status: int, message: str) -> KronlatError:
    """The exception for a kronlat_status other than OK."""
    return _KINDS.get(status, KronlatError)(message)
