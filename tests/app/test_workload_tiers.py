"""Replaying with a host tier: hit rates that must come out, each rule of it against a target that breaks it."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproof.cli import main as cli
from kvproof.cli.workload import plot
from kvproof.workload.replay import Replay, Result
from kvproof.workload.requests import Request, Workload, read_workload
from kvproof.workload.target import HostCounts, Key, RefimplHostTarget, RefimplTarget, Started

from .test_workload import DATA, make_lines, workload_of, write_lines


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "small.jsonl", make_lines(1))


def replay(work: Workload, target: RefimplTarget, **options: Any) -> Result:
    return Replay(work, target, check=options.pop("check", "every")).run(**options)


@given(
    seed=st.integers(0, 1000),
    spare=st.integers(0, 40),
    host=st.integers(1, 60),
    order=st.sampled_from(["append", "split"]),
    token_ms=st.sampled_from([None, 0.0, 20.0, 300.0]),
)
def test_no_violation_and_no_hit_lost(seed: int, spare: int, host: int, order: Any, token_ms: float | None) -> None:
    work = workload_of(make_lines(seed, requests=12))
    size = work.largest_request + spare
    options: dict[str, Any] = {} if token_ms is None else {"overlap": True, "token_ms": token_ms}
    plain = replay(work, RefimplTarget(size, free_order=order), **options)
    tiered = replay(work, RefimplHostTarget(size, host, free_order=order), **options)
    assert plain.violation is None
    assert tiered.violation is None
    assert (tiered.hit_rate, tiered.waits) >= (plain.hit_rate, plain.waits)
    assert tiered.waits == plain.waits


@given(seed=st.integers(0, 1000), spare=st.integers(0, 10), overlap=st.booleans())
def test_a_host_for_everything_finds_what_an_unlimited_device_finds(seed: int, spare: int, overlap: bool) -> None:
    work = workload_of(make_lines(seed, requests=12))
    everything = replay(work, RefimplTarget(work.total_blocks), overlap=overlap)
    target = RefimplHostTarget(work.largest_request + spare, work.total_blocks)
    tiered = replay(work, target, overlap=overlap)
    assert tiered.violation is None
    assert tiered.hit_tokens == everything.hit_tokens
    assert tiered.host is not None
    assert (tiered.host.evictions, tiered.host.thrash_rate) == (0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hit_rate"), [("conversation_trace.jsonl", "0.373380"), ("synthetic_trace.jsonl", "0.650431")]
)
def test_real_trace_with_a_host_for_everything(name: str, hit_rate: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the published trace {name} does not lie beside the repository")
    work = read_workload(path)
    result = replay(work, RefimplHostTarget(1000, work.total_blocks), check="sampled")
    assert result.violation is None
    assert f"{result.hit_rate:.6f}" == hit_rate


def test_counters_are_those_of_the_rules(small: Path) -> None:
    work = read_workload(small)
    result = replay(work, RefimplHostTarget(20, 60, base_latency=5, bandwidth=Fraction(3, 10)))
    host = result.host
    assert host is not None
    assert host.reloaded > 0
    # 512 tokens at 3/10 per time unit: 1706.67, rounded up for each block (M7).
    assert host.latency == host.reloaded * (5 + 1707)
    assert host.mirrored - host.evictions == 60
    assert host.thrash_rate == host.evictions / host.mirrored


# Each rule bites.

whole_counts = RefimplHostTarget.counts


class Storing(RefimplHostTarget):
    """M1: a request that leaves is stored."""

    def finish(self, request: Request) -> None:
        self._manager.mirror(request.index)
        super().finish(request)
        self._manager.host.store(b"left" + bytes([request.index]))


class Forgetful(RefimplHostTarget):
    """M2: from some request on nothing is mirrored."""

    def mirror(self, request: Request) -> None:
        if request.index < 20:
            super().mirror(request)


class Untouched(RefimplHostTarget):
    """M2: what is on the host already is not touched."""

    def mirror(self, request: Request) -> None:
        host = self._manager.host
        before = host.keys()
        super().mirror(request)
        after = host.keys()
        for key in sorted(after, key=lambda key: before.index(key) if key in before else len(before)):
            host.touch(key)


class Moving(RefimplHostTarget):
    """M2: mirroring changes the order of the device's queue."""

    def mirror(self, request: Request) -> None:
        super().mirror(request)
        if request.index >= 20:
            first = self.view().free[:1]
            self._pool.touch(first)
            self._pool.free(first)


class Larger(RefimplHostTarget):
    """M3: the host keeps more than it may."""

    def __init__(self, capacity: int, host_capacity: int) -> None:
        super().__init__(capacity, host_capacity + 1)
        self.host_capacity = host_capacity


class Nearsighted(RefimplHostTarget):
    """M4: the lookup ends at the first block that the device has lost."""

    def start(self, request: Request) -> Started | None:
        host, self._manager.host = self._manager.host, type(self._manager.host)(1)
        answer = super().start(request)
        self._manager.host = host
        return answer


class Greedy(RefimplHostTarget):
    """M6: a reload takes a block that the lookup has found."""

    def start(self, request: Request) -> Started | None:
        answer = super().start(request)
        if answer is None or not 0 < answer.reloaded < answer.hits:
            return answer
        table = list(answer.table)
        table[answer.hits - answer.reloaded] = table[0]
        return answer._replace(table=table)


class Slow(RefimplHostTarget):
    """M7: the latency is not what it must be."""

    def counts(self) -> HostCounts:
        counts = whole_counts(self)
        return counts._replace(latency=counts.latency + (counts.reloaded > 0))


class Twice(RefimplHostTarget):
    """M8: a reloaded block counts as two hits."""

    def counts(self) -> HostCounts:
        counts = super().counts()
        return counts._replace(hits=counts.hits + counts.reloaded)


class Silent(RefimplHostTarget):
    """M8: reloads are not told."""

    def start(self, request: Request) -> Started | None:
        answer = super().start(request)
        return answer and answer._replace(reloaded=0)


class Turned(RefimplHostTarget):
    """M4: a lookup turns the host's order round."""

    turned = False

    def start(self, request: Request) -> Started | None:
        self.turned = request.index >= 20
        return super().start(request)

    def host_keys(self) -> list[Key]:
        keys = list(super().host_keys())
        return keys[::-1] if self.turned else keys


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        (Storing, "M1"),
        (Forgetful, "M2"),
        (Untouched, "M2"),
        (Moving, "M2"),
        (Larger, "M3"),
        (Nearsighted, "M4"),
        (Turned, "M4"),
        (Greedy, "M6"),
        (Slow, "M7"),
        (Twice, "M8"),
        (Silent, "M8"),
    ],
)
def test_a_broken_host_tier_is_found(small: Path, target: type[RefimplHostTarget], rule: str) -> None:
    work = read_workload(small)
    sound = replay(work, RefimplHostTarget(20, 60))
    assert sound.violation is None
    result = replay(work, target(20, 60))
    assert result.violation is not None
    assert result.violation.rule == rule


# The command.


def test_the_table_has_both_capacities(small: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "rates.svg"
    arguments = [
        "workload",
        str(small),
        "--capacity",
        "20,60",
        "--host-blocks",
        "0,60,unlimited",
        "--plot",
        str(picture),
    ]
    assert cli.run([*arguments, "--base-latency", "2", "--bandwidth", "64", "--check", "every"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("Hit rate by device blocks", "unlimited", "reloaded", "evicted", "latency"))
    assert "…" not in shown
    first = picture.read_bytes()
    assert first.startswith(b"<?xml")
    assert cli.run([*arguments, "--base-latency", "2", "--bandwidth", "64"]) == 0
    assert picture.read_bytes() == first


def test_no_host_gives_the_figures_of_before(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for more in ([], ["--host-blocks", "0"]):
        assert cli.run(["workload", str(small), "--capacity", "30,60", "--json", "-", *more]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    for report in reports:
        for part in (report, *report["runs"]):
            for timed in ("seconds", "operations_per_second", "target_seconds"):
                part.pop(timed, None)
    assert reports[0] == reports[1]
    assert all(run["host"] is None for run in reports[0]["runs"])


def test_json_tells_what_the_host_did(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["workload", str(small), "--capacity", "30", "--host-blocks", "20,400", "--bandwidth", "1/3"]
    assert cli.run([*arguments, "--overlap", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    few, many = (run["host"] for run in report["runs"])
    assert (few["capacity"], many["capacity"]) == (20, 400)
    assert many["latency"] == many["reloaded"] * 3 * 512
    assert report["hit_rate"] == report["runs"][1]["hit_rate"] > report["runs"][0]["hit_rate"]


def test_a_violation_says_how_to_see_it_again(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefimplHostTarget, "counts", Slow.counts)
    arguments = ["workload", str(small), "--capacity", "20", "--host-blocks", "60", "--bandwidth", "64", "--json", "-"]
    assert cli.run(arguments) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["runs"][0]["violation"]["rule"] == "M7"
    assert "--capacity 20 --host-blocks 60 --limit" in captured.err
    assert "--bandwidth 64" in captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host-blocks", "5,-1"], "--host-blocks 5,-1: '-1' is no number of blocks; write 0,1000 or unlimited"),
        (["--host-blocks", "99999999999"], "--host-blocks 99999999999 is more than 50000000 blocks"),
        (["--host-blocks", "5", "--bandwidth", "0"], "--bandwidth 0 is no number of tokens above 0"),
        (["--host-blocks", "5", "--bandwidth", "nan"], "--bandwidth nan is no number of tokens above 0"),
        (["--host-blocks", "5", "--base-latency", "-1"], "--base-latency"),
        (["--host-blocks", "5", "--target", "spec"], "--target spec has no host tier"),
        (["--plot", "rates.svg"], "give those with --host-blocks"),
        (["--host-blocks", "5", "--plot", "rates.pdf"], "neither an .svg nor a .png"),
        (["--host-blocks", "5", "--plot", "no/such/rates.png"], "give a path in a folder that exists"),
    ],
)
def test_what_cannot_be_asked(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert cli.run(["workload", str(small), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_plot_needs_matplotlib(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    arguments = ["workload", str(small), "--host-blocks", "5", "--plot", str(tmp_path / "rates.svg")]
    assert cli.run(arguments) == 2
    assert "--plot needs matplotlib, which is not installed; run pip install 'kvproof[plot]'" in capsys.readouterr().err
