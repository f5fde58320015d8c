"""The one trace format: JSON lines.

A header, then one line per operation, then a closing line that says how many operations there were, so that a
truncated file is always noticed::

    {"format":"kvproof-trace","version":1,"subject":"Pool","level":"pool","sizes":{"Block":4},"dialect":{},"kit":"0.1.0"}
    {"op":"allocate","args":{"request":0,"n":2},"result":[1,2],"snapshot":{"free":[3,4]}} {"end":true,"operations":1}

A proof counterexample, an explored path, a fuzz failure and an engine run are all traces. Traces are made to be sent
around: ``read_trace`` accepts complete files of this format within the limits of `untrusted`, and never evaluates
anything; ``write_trace`` writes a whole file or none, and none that it would not read.
"""

import contextlib
import errno
import math
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ..untrusted import limits
from ..untrusted.reading import UnreadableError, check_json, decode_json, read_bounded, values_in

FORMAT: Final = "kvproof-trace"
"""The name in the first line of every trace file."""

VERSION: Final = 1
"""The newest version of the format that this kit writes and reads."""

JsonValue = Any
"""``None``, a truth value, an integer, a finite float, text, a list or tuple, or a dict with text keys.
A tuple is written as an array and read back as a list."""


class TraceError(Exception):
    """A trace cannot be read or written. The message is one sentence that says what is wrong and how to mend it."""


class Operation(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One operation: its name and arguments, and where they were recorded its result and the state after it."""

    op: str
    args: dict[str, JsonValue]
    result: JsonValue | UnsetType = UNSET
    snapshot: dict[str, JsonValue] | UnsetType = UNSET


class Trace(msgspec.Struct):
    """A sequence of operations on one machine or engine, with what is needed to run it again."""

    subject: str
    """The machine (``Pool``) or engine (``refimpl``, ``vllm==0.33.0``) that it was recorded on."""
    level: str
    """Which calls the operations are: ``machine``, ``pool``, ``manager``, ``offload``, ``scheduler``."""
    operations: list[Operation]
    sizes: dict[str, int] = {}
    """Elements per sort, and other sizes that the subject was made with."""
    dialect: dict[str, JsonValue] = {}
    """The parameters and dialects that the subject was made with."""
    kit: str = ""
    """The version of kvproof that recorded it."""
    seed: int | None = None
    note: str | None = None
    """What there is to see in it, in one line."""
    initial: dict[str, JsonValue] | None = None
    """The state before the first operation, where it is not the subject's initial state or was recorded too."""


class _Label(msgspec.Struct):
    """What every version of the format has in its first line."""

    format: str
    version: int


class _Header(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The first line of version 1: a trace without its operations."""

    format: Literal["kvproof-trace"]
    version: Literal[1]
    subject: str
    level: str
    sizes: dict[str, int]
    dialect: dict[str, JsonValue]
    kit: str
    seed: int | None = None
    note: str | None = None
    initial: dict[str, JsonValue] | None = None


class _End(msgspec.Struct, forbid_unknown_fields=True):
    """The last line."""

    end: Literal[True]
    operations: int


_Line = TypeVar("_Line", _Header, Operation, _End)

_HEADER_FIELDS = ("subject", "level", "sizes", "dialect", "kit", "seed", "note", "initial")


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Return the trace in the file at ``path``.

    Raises:
        TraceError: the file cannot be read, or is not a complete trace of a version that this kit knows.
    """
    try:
        data = read_bounded(path, limits.TRACE_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnreadableError as error:
        raise TraceError(f"{path}: the file is {error}; give a shorter trace") from error
    return decode_trace(data, name=str(path))


def decode_trace(data: bytes, *, name: str = "trace") -> Trace:
    """Return the trace in ``data``, the content of a file that messages call ``name``.

    Raises:
        TraceError: as ``read_trace``.
    """
    if data.count(b"\n") > limits.OPERATIONS + 2:
        raise TraceError(f"{name}: more than {limits.OPERATIONS:,} operations; give a shorter trace")
    if values_in(data) > limits.VALUES:
        raise TraceError(f"{name}: more than {limits.VALUES:,} values; give a shorter trace")
    lines = data.split(b"\n")
    header = _decode_header(lines[0], name, complete=len(lines) > 1)
    operations: list[Operation] = []
    for number, line in enumerate(lines[1:-1], start=2):
        if line.lstrip(b" \t{").startswith(b'"end"'):
            end = _decode(line, _End, name, number)
            if end.operations != len(operations):
                raise TraceError(
                    f"{name}, line {number}: the closing line counts {end.operations} operations but "
                    f"{len(operations)} stand before it; record the trace again"
                )
            if number != len(lines) - 1 or lines[-1]:
                raise TraceError(f"{name}, line {number + 1}: text after the closing line; delete what follows it")
            return _assemble(header, operations)
        operations.append(_decode(line, Operation, name, number))
    raise TraceError(
        f"{name}, line {len(lines)}: the trace is truncated (no closing line after {len(operations)} complete "
        "operations); copy or record it again"
    )


def write_trace(path: str | os.PathLike[str], trace: Trace) -> None:
    """Write ``trace`` to the file at ``path``, whole or not at all; a file that stands there is replaced.

    Raises:
        TraceError: a value has no place in JSON, or the file cannot be written.
    """
    _write(path, encode_trace(trace))


def write_itf(path: str | os.PathLike[str], trace: Trace) -> None:
    """Write ``trace`` to the file at ``path`` in the Informal Trace Format, whole or not at all.

    Raises:
        TraceError: as `to_itf`, or the file cannot be written.
    """
    _write(path, msgspec.json.encode(to_itf(trace)) + b"\n")


def encode_trace(trace: Trace) -> bytes:
    """Return the content of a trace file.

    Raises:
        TraceError: a value has no place in JSON.
    """
    header = _Header(FORMAT, VERSION, **{field: getattr(trace, field) for field in _HEADER_FIELDS})
    lines: list[object] = [header, *trace.operations, _End(end=True, operations=len(trace.operations))]
    encoded: list[bytes] = []
    for number, line in enumerate(lines, start=1):
        where = "the header" if number == 1 else f"operation {number - 1}"
        _check_values(line, where)
        try:
            encoded.append(msgspec.json.encode(line))
            decode_json(encoded[-1], type(line), once=False)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"{where} cannot be written as JSON: {error}") from error
    if len(trace.operations) > limits.OPERATIONS:
        raise TraceError(f"{len(trace.operations):,} operations are too many for a trace; record {limits.OPERATIONS:,}")
    return b"\n".join((*encoded, b""))


def _write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, or say in a sentence why not."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written ({error.strerror or error})") from error


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Put ``data`` in the file at ``path``, whole or not at all: a temporary file beside it, then a rename."""
    target = Path(path).resolve()  # A link stays a link.
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "it is not a regular file")
    # Of a long name a part: the temporary one is longer.
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):  # A file system without permissions.
            Path(temporary).chmod(_mode_for(target))
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_itf(trace: Trace) -> dict[str, JsonValue]:
    """Return the trace in the Informal Trace Format (Apalache's ADR 15), for existing viewers.

    The states are the snapshots, the initial one included where it was recorded; each state names the operation that
    led to it under ``#meta``.

    Raises:
        TraceError: no snapshots were recorded, they do not all have the same fields, or a field has a name that the
            format keeps for itself.
    """
    states: list[tuple[dict[str, JsonValue], dict[str, JsonValue]]] = []
    if trace.initial is not None:
        states.append(({"index": 0}, trace.initial))
    for index, operation in enumerate(trace.operations, start=1):
        if isinstance(operation.snapshot, UnsetType):
            continue
        meta: dict[str, JsonValue] = {"index": index, "action": operation.op, "args": operation.args}
        if operation.result is not UNSET:
            meta["result"] = operation.result
        states.append((meta, operation.snapshot))
    if not states:
        raise TraceError("the trace holds no snapshots, which the Informal Trace Format needs; record it with them")
    fields = list(states[0][1])
    for meta, state in states:
        if set(state) != set(fields):
            raise TraceError(
                f"the snapshot after operation {meta['index']} has other fields than the first one, and the Informal "
                "Trace Format needs the same in every state; record the trace again with one version of the kit"
            )
    if reserved := [field for field in fields if field.startswith("#")]:
        raise TraceError(
            f"the snapshots have a field {reserved[0]}, a name that the Informal Trace Format keeps for itself; "
            "record the trace again"
        )
    return {
        "#meta": {
            "format": "ITF",
            "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
            "description": trace.note or f"{trace.subject}, level {trace.level}",
        },
        "params": [],
        "vars": fields,
        "states": [{"#meta": meta, **{field: _itf_value(state[field]) for field in fields}} for meta, state in states],
    }


def _itf_value(value: JsonValue) -> JsonValue:
    """Return ``value`` as the Informal Trace Format writes it."""
    if value is None or isinstance(value, float):
        return {"#unserializable": str(value)}
    if isinstance(value, int) and not isinstance(value, bool):
        return {"#bigint": str(value)}
    if isinstance(value, Mapping):
        if any(key.startswith("#") for key in value):
            return {"#map": [[key, _itf_value(item)] for key, item in value.items()]}
        return {key: _itf_value(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_itf_value(item) for item in value]
    return value


def _decode_header(line: bytes, name: str, *, complete: bool) -> _Header:
    """Return the first line, or say whether the file is foreign, newer or damaged."""
    foreign = TraceError(f"{name}, line 1: this is not a kvproof trace; give a file that kvproof recorded")
    if not line:
        if complete:
            raise foreign
        raise TraceError(f"{name}, line 1: the file is empty; copy or record the trace again")
    try:
        check_json(line)
    except UnreadableError as error:
        raise TraceError(f"{name}, line 1: {error}; record the trace again") from error
    try:
        label = decode_json(line, _Label, once=False)  # What stands twice is said of the whole line.
    except UnreadableError as error:
        if not complete and line.startswith(b'{"format":"kvproof-trace"'[: len(line)]):
            raise TraceError(
                f"{name}, line 1: the trace is truncated within its header; copy or record it again"
            ) from error
        raise foreign from error
    if label.format != FORMAT:
        raise foreign
    if label.version > VERSION:
        raise TraceError(
            f"{name}, line 1: the trace is in version {label.version} of the format and this kit reads up to "
            f"{VERSION}; install a newer kvproof"
        )
    return _decode(line, _Header, name, 1)


def _decode(line: bytes, kind: type[_Line], name: str, number: int) -> _Line:
    """Return one line of the file as ``kind``."""
    try:
        return decode_json(line, kind)
    except UnreadableError as error:
        raise TraceError(f"{name}, line {number}: {error}; record the trace again") from error


def _assemble(header: _Header, operations: Iterable[Operation]) -> Trace:
    """Return the trace of a header and its operations."""
    return Trace(operations=list(operations), **{field: getattr(header, field) for field in _HEADER_FIELDS})


def _check_values(line: object, where: str) -> None:
    """Refuse what JSON would silently change: numbers that are not finite, keys that are not text, other objects."""
    values = [(getattr(line, field), 0) for field in getattr(line, "__struct_fields__", ())]
    while values:
        value, depth = values.pop()
        if depth >= limits.DEPTH:
            raise TraceError(f"{where} is nested more than {limits.DEPTH} deep; record flatter values")
        if value is None or value is UNSET or isinstance(value, bool | int | str):
            continue
        if isinstance(value, float) and math.isfinite(value):
            continue
        if isinstance(value, list | tuple):
            values.extend((item, depth + 1) for item in value)
        elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
            values.extend((item, depth + 1) for item in value.values())
        else:
            raise TraceError(f"{where} holds {value!r}, which JSON cannot hold; record numbers, text, lists and dicts")


def _mode_for(target: Path) -> int:
    """Return the permissions of the file that is replaced, or what a new file gets."""
    try:
        return target.stat().st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
