"""Blocks in files (H9): damaged, stale, cut off, evicted, and with the process or the machine gone at any step."""

import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.hybrid import block_file
from kvproof.refimpl.hybrid.block_file import PosixFiles, StaleFileError, encode_file, file_bytes, layout_fingerprint
from kvproof.refimpl.hybrid.file_store import MAX_KEY_BYTES, FileStore
from tests.refimpl import crash_child

LAYOUT = layout_fingerprint({"dtype": "float32", "block_tokens": (4, 8)})
OTHER = layout_fingerprint({"dtype": "float32", "block_tokens": (4, 16)})
KEY, CONTENT = b"key", bytes(range(1, 31))


def make(directory: Path, *, layout: bytes = LAYOUT, capacity: int = 10_000, ops=None) -> FileStore:
    return FileStore(directory, layout=layout, capacity=capacity, ops=ops)


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def open_files(directory: Path) -> int:
    """How many files of a directory this process has open, removed ones and the directory itself among them."""
    numbers = os.listdir("/proc/self/fd")
    return sum(os.path.realpath(f"/proc/self/fd/{number}").startswith(str(directory)) for number in numbers)


class CountingFiles(PosixFiles):
    """Notes how much was asked for of each file, and how much there was."""

    def __init__(self) -> None:
        self.asked: dict[int, int] = {}
        self.sizes: dict[int, int] = {}

    def open(self, path):
        file = super().open(path)
        self.asked[file], self.sizes[file] = 0, os.fstat(file).st_size
        return file

    def read(self, file, count):
        self.asked[file] += count
        assert self.asked[file] <= self.sizes[file], "read past the end"
        return super().read(file, count)


class TestStoring:
    def test_what_was_stored_is_served_also_after_a_restart(self, tmp_path):
        store = make(tmp_path / "new" / "directory")
        assert store.put(KEY, CONTENT)
        assert store.put(b"empty", b"")
        for again in (store, make(tmp_path / "new" / "directory")):
            assert KEY in again
            assert (again.load(KEY), again.load(b"empty"), again.load(b"other")) == (CONTENT, b"", None)
            assert not again.faults

    def test_a_file_as_large_as_its_store_is_stored(self, tmp_path):
        store = make(tmp_path, capacity=file_bytes(len(KEY), len(CONTENT)))
        assert store.put(KEY, CONTENT)
        assert store.load(KEY) == CONTENT
        store = make(tmp_path, capacity=file_bytes(len(KEY), len(CONTENT)))
        assert store.load(KEY) == CONTENT
        with pytest.raises(RefusedError, match="never fit"):
            store.put(KEY + b"s", CONTENT)

    def test_a_file_is_for_its_owner_to_write_for_all_to_read_and_for_nobody_to_run(self, tmp_path):
        """So other processes may look, as far as the one that stores allows it by its mask."""
        mask = os.umask(0)
        try:
            assert make(tmp_path).put(KEY, CONTENT)
        finally:
            os.umask(mask)
        assert only_file(tmp_path).stat().st_mode & 0o777 == 0o644

    def test_its_steps_are_these_and_nothing_is_served_before_the_last(self, tmp_path):
        store = make(tmp_path)
        seen = []
        for step in store.putting(KEY, CONTENT):
            seen.append((step, KEY in store, sorted(path.suffix for path in tmp_path.iterdir())))
        assert seen == [
            ("created", False, [".tmp"]),
            ("written", False, [".tmp"]),
            ("synced", False, [".tmp"]),
            ("renamed", False, [".kv"]),
            ("durable", True, [".kv"]),
        ]
        assert list(store.putting(KEY, CONTENT)) == []

    @pytest.mark.parametrize("steps", [1, 2, 3, 4])
    def test_giving_up_between_two_steps_leaves_nothing(self, tmp_path, steps):
        store = make(tmp_path)
        before = store.snapshot()
        putting = store.putting(KEY, CONTENT)
        for _ in range(steps):
            next(putting)
        assert not store.put(KEY, CONTENT)  # It is being written.
        putting.close()
        assert store.snapshot() == before
        assert store.put(KEY, CONTENT)

    @pytest.mark.parametrize("name", ["create", "write", "sync", "close", "rename", "sync_directory"])
    def test_a_disk_that_refuses_any_step_stores_nothing_and_leaves_nothing(self, tmp_path, name, monkeypatch):
        store = make(tmp_path)
        before = store.snapshot()
        with monkeypatch.context() as broken:

            def refuse(self, *args):
                raise OSError(28, "no space left")

            broken.setattr(PosixFiles, name, refuse)
            assert not store.put(KEY, CONTENT)
        assert store.snapshot() == before
        assert open_files(tmp_path) == (name == "close")  # What the system would not close stays open.
        assert store.put(KEY, CONTENT)

    def test_no_file_is_closed_twice(self, tmp_path):
        closed = []

        class Noting(PosixFiles):
            def close(self, file):
                closed.append(file)
                super().close(file)

            def rename(self, old, new):
                raise OSError(28, "no space left")

        assert not make(tmp_path, ops=Noting()).put(KEY, CONTENT)
        assert len(closed) == 1  # By then the number may be that of another thread's file.

    def test_what_is_synced_is_the_file_and_then_its_directory(self, tmp_path, monkeypatch):
        synced, sync = [], os.fsync

        def noting(file):
            synced.append(os.path.realpath(f"/proc/self/fd/{file}"))
            sync(file)

        monkeypatch.setattr(os, "fsync", noting)
        assert make(tmp_path).put(KEY, CONTENT)
        assert [Path(name).suffix for name in synced] == [".tmp", ""]
        assert synced[1] == str(tmp_path)

    def test_a_new_directory_is_there_for_good_before_it_is_used(self, tmp_path):
        synced = []

        class Noting(PosixFiles):
            def sync_directory(self, path):
                synced.append(path)
                super().sync_directory(path)

        store = make(tmp_path / "new", ops=Noting())
        make(tmp_path / "new", ops=Noting())
        assert synced == [tmp_path]
        assert store.put(KEY, CONTENT)
        assert synced == [tmp_path, tmp_path / "new"]

    def test_illegal_calls(self, tmp_path):
        store = make(tmp_path, capacity=200)
        before = store.snapshot()
        for illegal in (
            lambda: store.put(b"", CONTENT),
            lambda: store.put(b"k" * (MAX_KEY_BYTES + 1), CONTENT),
            lambda: store.put(KEY, bytes(200)),
            lambda: store.unpin(KEY),
            lambda: make(tmp_path, layout=b"short"),
        ):
            with pytest.raises(RefusedError):
                illegal()
            assert store.snapshot() == before
        assert not store.pin(KEY)
        assert make(tmp_path / "longest").put(b"\xff" * MAX_KEY_BYTES, CONTENT)


class TestEviction:
    def test_the_least_recently_used_goes_first_and_the_pinned_never(self, tmp_path):
        size = file_bytes(1, 10)
        store = make(tmp_path, capacity=3 * size)
        for key in (b"a", b"b", b"c"):
            assert store.put(key, bytes(10))
        assert store.load(b"a") == bytes(10)
        assert store.put(b"b", bytes(10))
        assert store.put(b"d", bytes(10))
        assert b"c" not in store
        assert all(store.pin(key) for key in (b"a", b"b", b"d"))
        before = store.snapshot()
        assert not store.put(b"e", bytes(10))
        assert store.snapshot() == before
        store.unpin(b"b")
        assert store.put(b"e", bytes(10))
        assert {key for key in (b"a", b"b", b"c", b"d", b"e") if key in store} == {b"a", b"d", b"e"}
        assert sum(store.snapshot().files.values()) == store.snapshot().index.used == 3 * size

    def test_a_restart_keeps_the_newest_that_fit(self, tmp_path):
        size = file_bytes(1, 10)
        store = make(tmp_path)
        for age, key in enumerate((b"a", b"b", b"c", b"d")):
            store.put(key, bytes(10))
            os.utime(next(tmp_path.glob(f"{key.hex()}-*")), ns=(age, age))
        store.put(b"f", bytes(200))
        again = make(tmp_path, capacity=2 * size)
        assert {key for key in (b"a", b"b", b"c", b"d", b"f") if key in again} == {b"c", b"d"}
        assert len(again.snapshot().files) == 2

    def test_fits_holds_for_every_key(self, tmp_path):
        store = make(tmp_path, capacity=500)
        most = max(size for size in range(600) if store.fits(size))
        assert store.put(b"k" * MAX_KEY_BYTES, bytes(most))
        with pytest.raises(RefusedError):
            store.put(b"q" * MAX_KEY_BYTES, bytes(most + 1))


class TestDamage:
    """Whatever is wrong with a file, nothing of it is served, nothing is read past its end, and it can be mended."""

    def check(self, directory: Path, fault: str | None = None) -> None:
        self.check_files(directory, fault)
        assert open_files(directory) == 0

    def check_files(self, directory: Path, fault: str | None) -> None:
        ops = CountingFiles()
        store = make(directory, ops=ops)
        assert store.load(KEY) is None
        assert sum(store.faults.values()) == 1
        assert fault is None or store.faults[fault] == 1
        assert (KEY in store, list(directory.iterdir())) == (False, [])
        assert store.snapshot().index.used == 0
        assert store.put(KEY, CONTENT)
        assert store.load(KEY) == CONTENT

    def damaged(self, directory: Path, change) -> Path:
        store = make(directory)
        store.put(KEY, CONTENT)
        path = only_file(directory)
        path.write_bytes(change(path.read_bytes()))
        return path

    def test_cut_off_anywhere(self, tmp_path):
        for length in range(len(encode_file(KEY, CONTENT, LAYOUT))):
            self.damaged(tmp_path / str(length), lambda data: data[:length])  # noqa: B023 - called at once
            self.check(tmp_path / str(length), "size")

    def test_zeros_from_anywhere(self, tmp_path):
        size = len(encode_file(KEY, CONTENT, LAYOUT))
        for start in range(size):
            self.damaged(tmp_path / str(start), lambda data: data[:start] + bytes(size - start))  # noqa: B023
            self.check(tmp_path / str(start))

    def test_any_bit_turned(self, tmp_path):
        for bit in range(0, 8 * len(encode_file(KEY, CONTENT, LAYOUT)), 3):  # Each byte, and each bit of some.

            def turn(data: bytes) -> bytes:
                value = int.from_bytes(data, "little") ^ (1 << bit)  # noqa: B023
                return value.to_bytes(len(data), "little")

            path = tmp_path / "file"
            path.write_bytes(turn(encode_file(KEY, CONTENT, LAYOUT)))
            with pytest.raises(StaleFileError):  # The reader alone, which is faster than a store each.
                block_file.read_file(CountingFiles(), path, KEY, LAYOUT)

    @pytest.mark.parametrize("fault", get_args(block_file.Fault))
    def test_what_is_wrong_is_said_in_a_sentence(self, fault):
        """For who sees it in a log; the store counts it by its name."""
        error = StaleFileError(fault)
        assert error.fault == fault
        assert {fault, "file", "wrong"} <= set(str(error).split())

    def test_a_file_of_just_a_header_is_read_as_one(self, tmp_path):
        """It is not too short: of a key and a content of no bytes it is all, and else it says what is wrong with it."""
        path = tmp_path / "file"
        path.write_bytes(encode_file(b"", b"", LAYOUT))
        assert block_file.read_file(CountingFiles(), path, b"", LAYOUT) == b""
        with pytest.raises(StaleFileError, match="layout"):
            block_file.read_file(CountingFiles(), path, b"", OTHER)

    def test_too_long(self, tmp_path):
        self.damaged(tmp_path, lambda data: data + b"more")
        self.check(tmp_path, "size")

    def test_a_length_that_is_absurd(self, tmp_path):
        def absurd(data: bytes) -> bytes:
            return data[:12] + struct.pack("<Q", 2**63) + data[20:]

        self.damaged(tmp_path, absurd)
        self.check(tmp_path, "size")

    def test_the_file_of_another_key(self, tmp_path):
        self.damaged(tmp_path / "same length", lambda data: encode_file(b"yek", CONTENT, LAYOUT))
        self.check(tmp_path / "same length", "key")
        self.damaged(tmp_path / "longer", lambda data: encode_file(b"longer", CONTENT, LAYOUT))
        self.check(tmp_path / "longer", "key")

    def test_another_format(self, tmp_path):
        self.damaged(tmp_path, lambda data: b"KVBLOCK\x02" + data[8:])
        self.check(tmp_path, "format")

    def test_another_layout_under_the_right_name(self, tmp_path):
        self.damaged(tmp_path, lambda data: encode_file(KEY, CONTENT, OTHER))
        self.check(tmp_path, "layout")

    def test_a_file_that_is_gone(self, tmp_path):
        store = make(tmp_path)
        store.put(KEY, CONTENT)
        only_file(tmp_path).unlink()
        assert store.load(KEY) is None
        assert store.faults == {"unreadable": 1}
        assert store.put(KEY, CONTENT)

    def test_a_file_that_cannot_be_read_now_is_left_for_a_restart(self, tmp_path, monkeypatch):
        store = make(tmp_path)
        store.put(KEY, CONTENT)
        with monkeypatch.context() as broken:

            def refuse(self, *args):
                raise OSError(5, "input/output error")

            broken.setattr(PosixFiles, "read", refuse)
            assert store.load(KEY) is None
        assert KEY not in store
        assert make(tmp_path).load(KEY) == CONTENT

    def test_one_that_others_pin_keeps_its_place_until_they_are_done(self, tmp_path):
        path = self.damaged(tmp_path, lambda data: data[:-1])
        store = make(tmp_path)
        assert store.pin(KEY)
        assert store.load(KEY) is None
        assert (KEY in store, path.exists(), store.put(KEY, CONTENT)) == (False, False, False)
        store.unpin(KEY)
        assert store.snapshot().index.used == 0
        assert store.put(KEY, CONTENT)

    @pytest.mark.parametrize(("length", "fault"), [(70, "checksum"), (53, "key"), (10, "size"), (0, "size")])
    def test_a_file_that_shrinks_under_the_reader(self, tmp_path, length, fault):
        class Shrinking(PosixFiles):
            def size(self, file):
                size = super().size(file)
                os.truncate(only_file(tmp_path), length)
                return size

        store = make(tmp_path, ops=Shrinking())
        store.put(KEY, CONTENT)
        assert store.load(KEY) is None
        assert store.faults == {fault: 1}

    @given(st.binary(max_size=200))
    def test_garbage(self, tmp_path_factory, data):
        path = tmp_path_factory.getbasetemp() / "garbage"
        path.write_bytes(data)
        with pytest.raises(StaleFileError):
            block_file.read_file(CountingFiles(), path, KEY, LAYOUT)


class TestRestart:
    def test_what_does_not_fit_a_smaller_store_goes_and_the_rest_is_found(self, tmp_path):
        old = make(tmp_path)
        for key, content in [(b"great", bytes(1000)), (b"small", CONTENT), (b"big", bytes(900)), (b"slight", CONTENT)]:
            assert old.put(key, content)
        again = make(tmp_path, capacity=500)
        assert [again.load(key) for key in (b"great", b"small", b"big", b"slight")] == [None, CONTENT, None, CONTENT]
        assert len(list(tmp_path.iterdir())) == 2

    def test_all_is_found_whatever_else_lies_between(self, tmp_path):
        """In whatever order the directory names its files."""
        old, others = make(tmp_path), make(tmp_path, layout=OTHER)
        keys = [f"key {number}".encode() for number in range(5)]
        for key in keys:
            assert old.put(key, CONTENT)
            assert others.put(key, CONTENT)
        for number in range(20):
            (tmp_path / f"{number} of somebody else").touch()
        again = make(tmp_path)
        assert [again.load(key) for key in keys] == [CONTENT] * 5

    def test_another_layout_is_a_miss_and_is_left_alone(self, tmp_path):
        old = make(tmp_path)
        old.put(KEY, CONTENT)
        new = make(tmp_path, layout=OTHER)
        assert KEY not in new
        assert new.load(KEY) is None
        assert not new.faults
        assert new.put(KEY, b"other")
        assert (new.load(KEY), make(tmp_path).load(KEY)) == (b"other", CONTENT)

    def test_what_was_not_finished_is_removed_and_what_is_not_ours_is_not(self, tmp_path):
        store = make(tmp_path)
        store.put(KEY, CONTENT)
        path = only_file(tmp_path)
        (tmp_path / (path.name + ".tmp")).write_bytes(b"half")
        others = ["README", "ab.kv", f"ab-{OTHER.hex()}.kv.tmp", f"xyz-{LAYOUT.hex()}.kv"]
        for name in others:
            (tmp_path / name).write_bytes(b"not ours")
        again = make(tmp_path)
        assert sorted(item.name for item in tmp_path.iterdir()) == sorted([path.name, *others])
        assert again.load(KEY) == CONTENT

    def test_layouts_differ_where_the_facts_do(self):
        facts: dict[str, object] = {"dtype": "float32", "groups": (4, 8)}
        assert layout_fingerprint(facts) == layout_fingerprint({"groups": (4, 8), "dtype": "float32"})
        different: list[dict[str, object]] = [
            facts | {"groups": (48,)},
            facts | {"dtype": "float16"},
            facts | {"rank": 0},
            {"dtype": "float32"},
        ]
        assert len({layout_fingerprint(each) for each in [facts, *different]}) == 5


def test_any_thread_may_call_anything(tmp_path):
    size = file_bytes(1, 100)
    store = make(tmp_path, capacity=3 * size)
    contents = {bytes([number]): bytes([number]) * 100 for number in range(1, 6)}

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            key = rng.choice(list(contents))
            store.put(key, contents[key])
            if store.pin(key):
                assert store.load(key) == contents[key]
                store.unpin(key)
            assert store.load(rng.choice(list(contents))) in (None, *contents.values())

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, seed) for seed in range(4)]:
            done.result()
    state = store.snapshot()
    assert (state.index.pinned, sum(state.files.values())) == ({}, state.index.used)
    assert not store.faults


def test_killed_at_every_step(tmp_path):
    """The process is gone: all that it wrote is there. What was acknowledged and not evicted is served."""
    subprocess.run([sys.executable, crash_child.__file__, str(tmp_path)], check=True, timeout=60)
    directories = sorted(path for path in tmp_path.iterdir() if path.suffix != ".acks")
    killed = {}
    for directory in directories:
        acks = directory.with_name(directory.name + ".acks")
        acknowledged = list(acks.read_bytes()) if acks.exists() else []
        killed[directory.name] = len(acknowledged)
        before = {path.name for path in directory.iterdir()}
        store = FileStore(directory, layout=crash_child.LAYOUT, capacity=crash_child.CAPACITY)
        served = [number for number in crash_child.BLOCKS if crash_child.key(number) in store]
        for number in served:
            assert store.load(crash_child.key(number)) == crash_child.content(number)
        assert not store.faults
        assert not any(name.endswith(".tmp") for name in store.snapshot().files), before
        # To make room for the block after the last acknowledged one, the oldest may have gone.
        following = len(acknowledged) < len(crash_child.BLOCKS)
        kept = fitting(acknowledged, crash_child.content(len(acknowledged)) if following else None)
        assert set(kept) <= set(served)
    assert set(killed.values()) == {0, 1, 2, 3, 4, 5}
    assert len(killed) > 3 * 6 * 5


def fitting(numbers: list[int], following: bytes | None) -> list[int]:
    """Which of the blocks, the newest first, find room beside the one that follows."""
    room = crash_child.CAPACITY - (0 if following is None else file_bytes(7, len(following)))
    kept = []
    for number in reversed(numbers):
        room -= file_bytes(7, len(crash_child.content(number)))
        if room < 0:
            break
        kept.append(number)
    return kept


# The machine is gone: what was not synced is there in part, or not at all, or as zeros.


class PowerLossError(BaseException):
    """The end: nothing catches it, and after it nothing reaches the disk."""


class Disk(PosixFiles):
    """Files in a real directory, with books of what would survive; the power goes at one step."""

    def __init__(self, directory: Path, last: int, *, syncs_files: bool = True, syncs_names: bool = True) -> None:
        self.directory = directory
        self.left = last
        self.syncs_files = syncs_files
        self.syncs_names = syncs_names
        self.paths: dict[int, str] = {}
        self.contents: dict[str, bytes] = {}  # Of each file, by the name that it was created under.
        self.synced: set[str] = set()
        self.names: dict[str, str] = {}  # Name -> file, as they would survive.
        self.changes: list[tuple[str, str | None, str | None]] = []  # (file, name gone, name come), not synced yet.
        self.current: dict[str, str] = {}  # Name -> file, as the process sees them.

    def step(self) -> None:
        if self.left <= 0:
            raise PowerLossError
        self.left -= 1

    def create(self, path):
        self.step()
        file = super().create(path)
        name = f"{path.name} {self.left}"
        self.paths[file] = name
        self.contents[name] = b""
        self.current[path.name] = name
        self.changes.append((name, None, path.name))
        return file

    def write(self, file, data):
        self.contents[self.paths[file]] += data
        self.step()
        super().write(file, data)

    def sync(self, file):
        self.step()
        super().sync(file)
        if self.syncs_files:
            self.synced.add(self.paths[file])

    def close(self, file):
        os.close(file)  # For the test's sake also when the power is gone.
        self.step()

    def rename(self, old, new):
        self.step()
        super().rename(old, new)
        name = self.current.pop(old.name)
        self.current[new.name] = name
        self.changes.append((name, old.name, new.name))

    def sync_directory(self, path):
        self.step()
        super().sync_directory(path)
        if path == self.directory and self.syncs_names:
            self.names = survivors(self.names, self.changes)
            self.changes = []

    def remove(self, path):
        self.step()
        super().remove(path)
        if path.name in self.current:
            self.changes.append((self.current.pop(path.name), path.name, None))


def survivors(names: dict[str, str], changes) -> dict[str, str]:
    """The names after some changes."""
    names = dict(names)
    for file, gone, come in changes:
        if gone is not None:
            names.pop(gone, None)
        if come is not None:
            names[come] = file
    return names


def directories_after(disk: Disk) -> Iterator[dict[str, bytes]]:
    """Every directory that may be found: any of the changes of names, and unsynced files cut or zeroed anywhere."""
    for count in range(len(disk.changes) + 1):
        for changes in combinations(disk.changes, count):
            names = survivors(disk.names, changes)
            torn = sorted({file for file in names.values() if file not in disk.synced})
            whole = {name: disk.contents[file] for name, file in names.items()}
            if not torn:
                yield whole
                continue
            file = torn[-1]  # One at a time, the newest; with a disk that syncs there is no other.
            content = disk.contents[file]
            for at in range(len(content) + 1):
                for rest in (b"", bytes(len(content) - at)):
                    yield {name: content[:at] + rest if names[name] == file else data for name, data in whole.items()}


def lose_power(tmp_path: Path, **faults) -> tuple[int, int]:
    """Store two blocks, with the power lost at every step in turn; check what is served after every way to lose it.

    Returns how many directories were checked, and in how many something acknowledged was missing.
    """
    checked = missing = 0
    blocks = {b"first": b"\x01\x02", b"second": b"\x03"}
    for last in range(100):
        directory = tmp_path / f"disk {last}"
        directory.mkdir()
        disk = Disk(directory, last, **faults)
        store = make(directory, ops=disk)
        acknowledged = []
        alive = False
        try:
            for key, content in blocks.items():
                assert store.put(key, content)
                acknowledged.append(key)
            alive = True
        except PowerLossError:
            pass
        for names in directories_after(disk):
            again = restarted(directory, names)
            for key, content in blocks.items():
                got = again.load(key)
                assert got in (None, content), f"served {got!r} for {key!r}"
            missing += any(key not in again for key in acknowledged)
            checked += 1
        if alive:
            return checked, missing
    raise AssertionError("it never ends")


def restarted(directory: Path, names: dict[str, bytes]) -> FileStore:
    """A store that finds these files."""
    for path in directory.iterdir():
        path.unlink()
    for name, data in names.items():
        (directory / name).write_bytes(data)
    return make(directory)


class TestPowerLoss:
    def test_h9_what_was_acknowledged_survives_and_nothing_wrong_is_served(self, tmp_path):
        checked, missing = lose_power(tmp_path)
        assert checked > 100
        assert missing == 0

    @pytest.mark.parametrize("faults", [{"syncs_files": False}, {"syncs_names": False}])
    def test_without_either_sync_something_acknowledged_is_lost(self, tmp_path, faults):
        """Both are needed. Also on a disk that lies about them nothing wrong is served: there is the checksum."""
        _, missing = lose_power(tmp_path, **faults)
        assert missing > 0

    def test_without_checksums_a_torn_file_is_served(self, tmp_path, monkeypatch):
        monkeypatch.setattr(block_file, "_checksum", lambda fields, key, content: bytes(16))
        with pytest.raises(AssertionError, match="served"):
            lose_power(tmp_path, syncs_files=False)
