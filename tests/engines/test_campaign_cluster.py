"""Campaigns on a Ray cluster: here one of two nodes, both on this machine, of which one is lost."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvproof.cli import main as cli
from kvproof.cli.campaign import running
from kvproof.cli.campaign.causes import causes_of
from kvproof.cli.campaign.cluster import Relay, cluster
from kvproof.cli.campaign.hunters import HunterProcess
from kvproof.cli.campaign.running import Campaign
from kvproof.cli.campaign.slices import Order
from kvproof.cli.campaign.store import Asked, Store
from kvproof.cli.hunting import Plan, open_target
from kvproof.errors import UsageError
from kvproof.version import kit_version

from .test_campaign import RIGHT, WRONG

HEAD, OTHER = "127.0.0.2", "127.0.0.3"
"""All of 127 is this machine alone; for the usual address of it Ray takes that under which others know it."""

_PATIENCE = 300
"""Seconds after which what is waited for will not come: the machine may stand still, and nothing is timed here."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of two nodes with a processor each."""
    ray, utils = pytest.importorskip("ray"), pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Ray has all that it starts give way to whatever else runs: where others compute, a start then takes minutes.
        patch.setenv("RAY_worker_niceness", "0")
        args = {"num_cpus": 1, "node_ip_address": HEAD, "include_dashboard": False}
        nodes = utils.Cluster(initialize_head=True, head_node_args=args)
        nodes.add_node(num_cpus=1, node_ip_address=OTHER)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


def plan_of(target: str) -> Plan:
    return Plan(open_target(target), target, ("requests",), 0, 600.0)


@pytest.mark.slow
def test_two_nodes_hunt_and_one_that_is_lost_loses_no_finding(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_SHORTEST", 4.0), ("_LONGEST", 4.0), ("_LEAST", 1.0)):
        monkeypatch.setattr(running, name, value)
    store = Store.begun(tmp_path / "campaign", Asked([WRONG, RIGHT]))
    both, until = {WRONG, RIGHT}, time.monotonic() + _PATIENCE
    with (
        cluster(nodes.address, 0) as hunters,
        Campaign(store, [plan_of(WRONG), plan_of(RIGHT)], 600.0, hunters) as campaign,
    ):
        assert hunters.jobs == 2
        while not (store.sightings() and len(campaign.running) == 2 and all(e.level for e in campaign.running)):
            campaign.go_on()
            assert time.monotonic() < until
        nodes.remove_node(nodes.worker_nodes.copy().pop(), allow_graceful=False)
        before = set(store.slices())
        while not campaign.lost or {s.target for name, s in store.slices().items() if name not in before} < both:
            campaign.go_on()
            assert time.monotonic() < until, "one processor serves both by turns"
        # Before Ray has noticed that a machine is gone it may place the next hunter there.
        assert campaign.lost in (1, 2)
        assert not campaign.gaps, "what is left of the cluster goes on"
    assert {seen.target for seen in store.sightings().values()} == {WRONG}
    # Two that hunt the same target side by side may both meet a thing: it is seen twice, and told once. What a slice
    # had no time to make small may need less than it says, and be another's cause: the summary says that of it.
    told = [cause.finding for cause in causes_of(store)]
    once = {finding.violation.signature: finding for finding in told if not finding.unfinished}
    assert len(once) == sum(not finding.unfinished for finding in told), [(f.violation, f.needs) for f in told]
    nodes.add_node(num_cpus=1, node_ip_address=OTHER)


@pytest.mark.slow
def test_the_command_hunts_on_a_cluster(nodes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "folder")
    assert cli.run(["hunt", WRONG, RIGHT, "--minutes", "0.1", "--ray", nodes.address, "--into", folder]) == 1
    assert "new: P6 content of a cached block" in capsys.readouterr().err
    assert cli.run(["hunt", "--report", folder, "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {seen["target"] for cause in told["causes"] for seen in cause["seen"]} == {WRONG}


def test_no_cluster_is_said_in_a_sentence_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    folder = tmp_path / "folder"
    assert cli.run(["hunt", RIGHT, "--minutes", "1", "--ray", "127.0.0.1:1", "--into", str(folder)]) == 2
    assert capsys.readouterr().err.startswith("kvproof: --ray 127.0.0.1:1: no cluster answers there")
    assert not folder.exists()


# A relay, without a cluster


def ordered(store: Store, target: str) -> Order:
    return Order(store.root, store.new_name(), plan_of(target), 0.0)


def test_another_version_is_refused_by_name(tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "campaign", Asked([RIGHT]))
    relay = Relay((RIGHT, ("requests",)), store.asked, "0.0.0")
    relay.begin(ordered(store, RIGHT), {})
    heard = relay.hear()
    relay.end()
    assert not heard.is_alive
    assert heard.told[0].failed.endswith(f"kvproof is {kit_version()} there and 0.0.0 here")


@pytest.mark.slow
def test_a_hunter_that_is_killed_beside_its_relay_is_lost_and_its_files_are_not(tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "campaign", Asked([WRONG]))
    relay = Relay((WRONG, ("requests",)), store.asked, kit_version())
    relay.begin(ordered(store, WRONG), {})
    files: dict[str, bytes] = {}
    until = time.monotonic() + _PATIENCE
    while not any(name.startswith("sightings/") for name in files):
        files |= relay.hear().files
        assert time.monotonic() < until
    hunter = relay._hunter
    assert isinstance(hunter, HunterProcess)
    hunter.process.kill()
    hunter.process.join()
    heard = relay.hear()
    relay.end()
    assert not heard.is_alive
    assert heard.how_lost == f"status {-signal.SIGKILL}"
    for name, content in (files | heard.files).items():
        store.take(name, content)
    assert store.sightings()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sightings/x.json", b"{}"),
        ("slices/x.json", b"["),
        ("../campaign.json", b"{}"),
        ("slices/../../x.json", b"{}"),
        ("elsewhere/x.json", b"{}"),
    ],
)
def test_what_a_node_sends_is_read_before_it_is_kept(name: str, content: bytes, tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "campaign", Asked([RIGHT]))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="is no file of a campaign"):
        store.take(name, content)
    assert sorted(tmp_path.rglob("*")) == before
