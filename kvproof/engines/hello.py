"""What a worker says first: which engine it drives, and what it can do and tell."""

from collections.abc import Collection

import msgspec

from ..judge.record import PROTOCOL, Hello
from ..untrusted import limits
from ..untrusted.reading import UnreadableError, decode_json

__all__ = ["read_hello"]


class _Hello(msgspec.Struct):
    hello: Hello


class _Version(msgspec.Struct):
    protocol: int


class _Versioned(msgspec.Struct):
    hello: _Version


def read_hello(line: bytes) -> Hello:
    """Read a hello; of another version of the protocol only that is read, as the rest may be anything.

    Raises:
        UnreadableError: it is none, or names more or larger things than an engine has.
    """
    protocol = decode_json(line, _Versioned).hello.protocol
    if protocol != PROTOCOL:
        return Hello(protocol, "", "", [])
    hello = decode_json(line, _Hello).hello
    _check_names([hello.engine, hello.version], "engine and version")
    _check_names(hello.levels, "levels")
    _check_names(hello.capabilities, "capabilities")
    for can in hello.capabilities.values():
        for what in (can.operations, can.options, can.tenants, can.visible, *can.visible.values()):
            _check_names(what, "capabilities")
        if max((len(can.block_tokens), can.tokens_per_grow, *can.block_tokens)) > limits.BLOCK_TOKENS:
            raise UnreadableError(f"block_tokens and tokens_per_grow are up to {limits.BLOCK_TOKENS:,}")
    return hello


def _check_names(names: Collection[str], what: str) -> None:
    """Make sure that there are not too many names, and that each is one.

    Raises:
        UnreadableError: there are, or one is not.
    """
    if len(names) > limits.NAMES or any(len(name) > limits.NAME_LETTERS for name in names):
        raise UnreadableError(f"{what} are up to {limits.NAMES:,} names of {limits.NAME_LETTERS} letters")
