"""The C library: its header as cffi reads it, its calls, and its failures as exceptions.

The library lies beside the package; `$KRONLAT_LIBRARY` names another build of it (one with CUDA, say).
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import cffi

from .errors import KronlatError, error_of

_HERE = Path(__file__).parent


def _declarations() -> str:
    """The part of kronlat.h that needs no preprocessor: of the installed package, or of the source tree."""
    for path in (_HERE / "kronlat.h", _HERE.parents[1] / "include" / "kronlat.h"):
        if path.exists():
            text = path.read_text(encoding="utf-8")
            begin, end = "/* ---- plain declarations", "/* ---- end of the plain declarations"
            return text[text.index(begin) : text.index(end)]
    raise ImportError(f"kronlat.h is missing beside {_HERE}")


def _library() -> str:
    """Path of the shared library."""
    given = os.environ.get("KRONLAT_LIBRARY")
    if given:
        return given
    for folder in (".kronlat.mesonpy.libs", "kronlat.libs"):
        for path in sorted((_HERE.parent / folder).glob("libkronlat*.so*")):
            return str(path)
    raise ImportError(f"libkronlat is missing beside {_HERE}; $KRONLAT_LIBRARY may name it")


ffi = cffi.FFI()
ffi.cdef(_declarations())
lib = ffi.dlopen(_library())

_local = threading.local()


def _error() -> Any:
    """The error handle of this thread."""
    if not hasattr(_local, "error"):
        _local.error = ffi.gc(lib.kronlat_error_create(), lib.kronlat_error_destroy)
    return _local.error


def attempt(name: str, *args: Any) -> KronlatError | None:
    """Calls kronlat_NAME(*args, error); what it failed by, or None."""
    status = getattr(lib, "kronlat_" + name)(*args, _error())
    if status == lib.KRONLAT_OK:
        return None
    return error_of(status, ffi.string(lib.kronlat_error_message(_error())).decode(errors="replace"))


def call(name: str, *args: Any) -> None:
    """Calls kronlat_NAME(*args, error); raises what it failed by."""
    failure = attempt(name, *args)
    if failure is not None:
        raise failure


def create(kind: str, name: str, *args: Any) -> Any:
    """Handle of `kind` that kronlat_NAME(*args, &handle, error) makes; it is destroyed with the object."""
    out = ffi.new(f"kronlat_{kind} **")
    call(name, *args, out)
    return owned(kind, out[0])


def owned(kind: str, handle: Any) -> Any:
    """The handle, destroyed with the object."""
    return ffi.gc(handle, getattr(lib, f"kronlat_{kind}_destroy"))


def text(value: Any) -> bytes:
    """A C string of str, number or path."""
    return os.fspath(value).encode() if isinstance(value, os.PathLike) else str(value).encode()


def version() -> str:
    """Version of the library."""
    return ffi.string(lib.kronlat_version()).decode()
