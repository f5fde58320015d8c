"""A pool in C++ behind ctypes, held to the rules of KV caching: `pytest docs/examples/native-pool`."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest

from kvproof.testing import BlockManager, Request

COMPILER = shutil.which("c++")
if COMPILER is None:
    pytest.skip("there is no C++ compiler (c++) to build the pool with", allow_module_level=True)


def built(*options: str) -> ctypes.CDLL:
    """The library, with these options of the compiler."""
    source, folder = Path(__file__).with_name("pool.cpp"), tempfile.mkdtemp(prefix="native-pool-")
    library = Path(folder) / "pool.so"
    subprocess.run([str(COMPILER), "-std=c++17", "-shared", "-fPIC", *options, source, "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.pool_new.restype = ctypes.c_void_p
    shutil.rmtree(folder)
    return loaded


class TestNative(BlockManager):
    """How kvproof drives the pool. A crash ends a copy of this process, and is a finding."""

    isolated = True
    dialect: ClassVar = {"keep": "all", "take": "head", "free": "append"}
    library: ClassVar[ctypes.CDLL] = built()

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.blocks, self.pool = blocks, ctypes.c_void_p(self.library.pool_new(blocks, block_tokens))

    def __del__(self) -> None:
        self.library.pool_delete(self.pool)

    def lookup(self, request: Request) -> list[int]:
        out = (ctypes.c_int * self.blocks)()
        return out[: self.library.pool_lookup(self.pool, ints(request.tokens), len(request.tokens), out)]

    def allocate(self, request: Request, tokens: int) -> list[int] | None:
        out, found = (ctypes.c_int * self.blocks)(), request.found
        many = self.library.pool_allocate(self.pool, number(request), ints(found), len(found), tokens, out)
        return None if many < 0 else out[:many]

    def commit(self, request: Request, tokens: int) -> None:
        self.library.pool_commit(self.pool, number(request), ints(request.tokens), tokens)

    def free(self, request: Request) -> None:
        self.library.pool_release(self.pool, number(request))

    def ref_counts(self) -> list[int]:
        return [self.library.pool_ref_cnt(self.pool, block) for block in range(self.blocks)]

    def free_queue(self) -> list[int]:
        out = (ctypes.c_int * self.blocks)()
        return out[: self.library.pool_queue(self.pool, out)]


def number(request: Request) -> int:
    """Requests are called r0, r1, r2."""
    return int(request.name[1:])


def ints(numbers: list[int]) -> "ctypes.Array[ctypes.c_int]":
    """An array of C."""
    return (ctypes.c_int * len(numbers))(*numbers)
