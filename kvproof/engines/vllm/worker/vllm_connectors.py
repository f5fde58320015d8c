"""The connectors of a vLLM scheduler, with the moments of their copies in our hands.

`transfer_config` and `configure` are for the time before the scheduler is made. `ModelConnector` stands for what the
model runners do with the connector from then on, in the order of the release's own code: its worker-side connectors,
one per worker, its own life cycle of a step, its own aggregation of what the workers report. Only copying is ours.

A connector's setup is ``{"kind": "simple" | "offloading" | "remote" | "multi", "workers": n, …}``:

- ``simple`` (since 0.19): ``blocks`` of its host pool with the null block, ``lazy``; since 0.28 ``disk``: the pool is a
  file, with so many buffers on the way, and ``bad``: reads and writes of it may fail;
- ``offloading``: ``blocks`` (chunks), ``factor`` (blocks per chunk), ``policy`` (lru, arc), ``threshold`` of sightings,
  ``prompt_only``, ``sync`` (blocks that a step may load at once, since 0.33); since 0.22 ``below`` (chunks of a tier
  below the host, or ``files``) and ``beside`` (chunks of one more there, which is asked behind it); since 0.31
  ``replicated``: above a tier below all workers have the same KV, and share one copy of it;
- ``remote``: a connector of ours, as those that fetch prefills from other engines (`vllm_remote_connector`): ``fail``
  (policy of failed loads: recompute or fail), ``sync``, ``send``;
- ``multi``: ``children``, setups as these without ``workers``.

Each child has a tier of its own: host, host2, ...
"""

import copy
import itertools
from collections.abc import Sequence
from types import SimpleNamespace

import vllm_offloading_connector as offloading
import vllm_remote_connector as remote
import vllm_simple_connector as simple
from level import Level, Refused
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.base import supports_hma
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT
from vllm.v1.worker import kv_connector_model_runner_mixin as mixin
from vllm_common import Keys, event_effects, since, takes
from vllm_side import Side
from vllm_transfers import Transfers

__all__ = ["ModelConnector", "configure", "transfer_config"]

_NAMES = {"simple": simple.NAME, "offloading": offloading.NAME, "remote": remote.NAME, "multi": "MultiConnector"}
_SIDES = {"simple": simple.SimpleSide, "offloading": offloading.OffloadingSide, "remote": remote.RemoteSide}
_OF_FILES = ("FS", "STORAGE")
"""The medium of a tier of files, in 0.26 and later."""
_FULL = "FullAttentionSpec"

_life_cycle = mixin.KVConnectorModelRunnerMixin._get_kv_connector_output
_SAVES_ALWAYS = "wait_for_save" not in takes(_life_cycle)
"""Until 0.31 a step without a forward pass submits no stores."""


# Before the scheduler


def transfer_config(connector: dict) -> dict:
    """Return a configuration of the connector whose sizes are not yet known, as arguments of `KVTransferConfig`."""
    return {**_told(connector, 1, 1), **remote.failure_policy(connector)}


def configure(vllm_config, connector: dict, kv_cache_config) -> None:
    """Put a connector into the configuration of an engine, once its KV cache is planned.

    Raises
    ------
    Refused
        The release does not have it, or does not take it for these groups.
    """
    groups = kv_cache_config.kv_cache_groups
    if len(groups) > 1 and remote.failure_policy(connector) and not since((0, 19)):
        raise Refused("before 0.19 a load is of one group")
    told = _told(connector, _page(kv_cache_config), groups[0].kv_cache_spec.block_size)
    made = _made(KVTransferConfig, **told, **remote.failure_policy(connector))
    try:
        kind = KVConnectorFactory.get_connector_class(made)
    except ValueError as error:
        raise Refused(str(error)) from error
    if not (supports_hma(kind) and _children_support_hybrid(kind, made)):
        if len(groups) > 1 or type(groups[0].kv_cache_spec).__name__ != "FullAttentionSpec":
            raise Refused(f"{told['kv_connector']} takes one group of full attention in this release")
        vllm_config.scheduler_config = copy.copy(vllm_config.scheduler_config)
        vllm_config.scheduler_config.disable_hybrid_kv_cache_manager = True
    vllm_config.kv_transfer_config = made
    vllm_config.parallel_config = copy.copy(vllm_config.parallel_config)
    vllm_config.parallel_config.world_size = connector.get("workers", 1)
    workers = vllm_config.parallel_config.world_size
    if any(offloading.is_replicated(each, workers) for each in (connector, *connector.get("children", ()))):
        offloading.replicate(vllm_config, kv_cache_config)


def _page(kv_cache_config) -> int:
    """Bytes that a device block takes, in the layout of the release."""
    tensors = kv_cache_config.kv_cache_tensors
    overlaid = hasattr(tensors[0], "layers") or getattr(tensors[0], "block_stride", 0)
    size = tensors[0].size if overlaid else sum(tensor.size for tensor in tensors)
    return size // kv_cache_config.num_blocks


def _kinds(kv_cache_config) -> list[str]:
    """The kind of each group, by the name of its class."""
    return [type(group.kv_cache_spec).__name__ for group in kv_cache_config.kv_cache_groups]


def _told(connector: dict, page: int, block: int, workers: int = 0) -> dict:
    """What the release is told of a connector, or of a child."""
    kind = connector["kind"]
    if kind not in _NAMES:
        raise Refused(f"no kind of connector: {kind}")
    told = {"kv_connector": _NAMES[kind], "kv_role": "kv_both"}
    workers = workers or connector.get("workers", 1)
    if kind == "multi":
        extra = {"connectors": [_told(child, page, block, workers) for child in connector["children"]]}
    elif kind == "simple":
        extra = simple.extra_config(connector, page, workers)
    elif kind == "offloading":
        extra = offloading.extra_config(connector, page, workers, block)
    else:
        extra = remote.extra_config(connector)
        told["kv_connector_module_path"] = remote.__name__
    return told | {"kv_connector_extra_config": extra}


def _made(kind, **arguments):
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise Refused(f"{kind.__name__}: {error}") from error


def _children_support_hybrid(kind, made) -> bool:
    ask = getattr(kind, "all_children_support_hma", None)
    return True if ask is None else bool(ask(made))


# Beside the scheduler


class ModelConnector:
    """What the model runners do with the connector of a scheduler."""

    def __init__(self, level: Level, scheduler, connector: dict, keys: Keys, runner: int = 1) -> None:
        self._level, self._keys = level, keys
        self._flushes_first = runner == 1
        self._scheduler_side = scheduler.connector
        workers = connector.get("workers", 1)
        config, kv_cache_config = scheduler.vllm_config, scheduler.kv_cache_config
        events = config.kv_events_config
        self._tells_events = events is not None and events.enable_kv_cache_events
        self._tells_tokens = not getattr(config.model_config, "enable_prompt_embeds", False)
        make = KVConnectorFactory.create_connector
        self._workers = [
            make(_of_rank(config, number), KVConnectorRole.WORKER, kv_cache_config) for number in range(workers)
        ]
        self._transfers = Transfers(level, workers, scheduler.requests)
        self._aggregator = KVOutputAggregator.from_connector(self._workers[0], workers)
        self._steps: list = []
        self._output = None
        self._sides = self._made_sides(connector)
        self.tiers = {tier: told for side in self._sides for tier, told in side.tiers.items()}
        self.notes = {
            "eager": [side.tier for side in self._sides if side.eager],
            "whole": [side.tier for side in self._sides if side.takes_whole_offers],
            "loads": self._goes_on(kv_cache_config),
            "sources": self._sources(kv_cache_config),
        }
        """Which tiers store whatever was computed, unless they are full; which take all that a step offers or nothing;
        where lookups go on; and where hits are said to come from."""
        self.resets = all(side.resets for side in self._sides)
        """Whether a reset of the engine can reset the connector as well: releases before 0.22 to 0.24 could not."""

    def begin_step(self, scheduler_output) -> None:
        """Do what stands before anything else in a step: the first of vLLM's two model runners flushes here."""
        metadata = scheduler_output.kv_connector_metadata
        told = [copy.deepcopy(metadata) if number else metadata for number in range(len(self._workers))]
        self._steps = [_Step(*each, scheduler_output) for each in zip(self._workers, told, strict=True)]
        if self._flushes_first:
            for step in self._steps:
                step.flush()

    def before_forward(self, scheduler_output) -> None:
        """Do what stands right before the forward pass: the second model runner flushes here; bind, begin loads."""
        metadata = scheduler_output.kv_connector_metadata
        # Each worker flushes before it loads. All flush before the first loads, as a copy is over for us when the last
        # worker's part is, and a load at once is told with the first worker's.
        if not self._flushes_first:
            for step in self._steps:
                step.flush()
        for step in self._steps:
            step.begin()
        for side, part in zip(self._sides, getattr(metadata, "metadata", (metadata,)), strict=True):
            side.before_forward(part)

    def after_forward(self, _scheduler_output) -> None:
        """Do what stands behind the forward pass: begin copies, and ask for those that ended."""
        outputs = [step.end() for step in self._steps]
        self._steps = []
        if len(outputs) == 1:
            self._output = outputs[0]
            return
        carriers = []
        for output in outputs:
            carriers.append(copy.copy(EMPTY_MODEL_RUNNER_OUTPUT))
            carriers[-1].kv_connector_output = output
        self._output = self._aggregator.aggregate(carriers).kv_connector_output

    def output(self):
        """Return what the connectors report with the last step that ended, once."""
        output, self._output = self._output, None
        return output

    def pending(self) -> int:
        """How many transfers are under way, for the scheduler or for us."""
        return max(self._transfers.pending(), sum(side.pending() for side in self._sides))

    def waits(self) -> bool:
        """Whether requests waited for an answer of a tier below as the last step ran."""
        return any(side.waits() for side in self._sides)

    def kept(self, alive: Sequence[str]) -> int:
        """Return how many requests tiers below still know of, beside those that are not over."""
        return sum(len(side.kept().difference(alive)) for side in self._sides)

    def complete(self, pick: int, how: int) -> dict | None:
        """End a copy, as `Transfers.complete`."""
        return self._transfers.complete(pick, how)

    def state(self) -> tuple[dict, dict]:
        """Return the pools of the connectors' tiers, and by tier what transfers and lookups hold."""
        pools: dict = {}
        holds: dict = {}
        for side in self._sides:
            pools |= side.pools(self._keys)
            for tier, blocks in side.holds().items():
                holds.setdefault(tier, []).extend(blocks)
        return pools, holds

    def _goes_on(self, kv_cache_config) -> list[str]:
        """The tiers that lookups go on to. What they have to find there is known of one group of full attention; and
        not beside a connector that may fetch less from other engines."""
        is_known = all(side.shows_all for side in self._sides) and _kinds(kv_cache_config) == [_FULL]
        return [side.tier for side in self._sides] if is_known else []

    def _sources(self, kv_cache_config) -> list[str]:
        """Where hits may come from. Of windows and states nobody loads what is not attended to: that has no source."""
        ours = {source for side in self._sides for source in side.sources}
        return sorted(ours if {*_kinds(kv_cache_config)} == {_FULL} else {*ours, *Side.sources})

    def _made_sides(self, connector: dict) -> list:
        if connector["kind"] == "multi":
            setups, ends = connector["children"], [self._scheduler_side._connectors]
            ends += [worker._connectors for worker in self._workers]
        else:
            setups, ends = [connector], [[end] for end in (self._scheduler_side, *self._workers)]
        tiers = ("host" if not number else f"host{number + 1}" for number in itertools.count())
        sides = []
        for setup, (here, *there) in zip(setups, zip(*ends, strict=True), strict=True):
            tier = next(tiers)
            side = _SIDES[setup["kind"]](here, there, tier, self._transfers, setup)
            if tier in side.tiers:
                self._listen(here, tier, self._tells_events and side.tells_events, side.files, side.media)
            sides.append(side)
        return sides

    def _listen(self, connector, tier: str, told: bool, files, named: Sequence[str]) -> None:
        """Tell the KV events of a connector when they are taken, and that a reset cleared its tier.

        ``told``: whether the events say all of the tier. ``files``: the tier of files below, if it tells some. Who else
        writes and removes files tells that too. ``named``: the media of the tier.
        """
        take, reset = connector.take_events, connector.reset_cache
        # There may be two of each.
        media = {"GPU": "device"} | dict.fromkeys(named, tier)
        if files is not None:
            media |= dict.fromkeys(_OF_FILES, files.name)

        def taken():
            events = list(take())
            for what, key in files.take_news() if files is not None else ():
                k, group = offloading.key_and_group(key, self._keys)
                self._level.tell(what, files.name, group, [k])
            event_effects(self._level, self._keys, events, tier, self._tells_tokens, media)
            if told:
                self._level.tell("boundary", tier)
            if files is not None and not files.untold:
                self._level.tell("boundary", files.name)
            return events

        def cleared():
            answer = reset()
            if answer is not False:
                self._level.tell("cleared", tier)
            return answer

        connector.take_events, connector.reset_cache = taken, cleared


class _Step:
    """A step of one worker: the release's own life cycle of a connector around a forward pass."""

    def __init__(self, worker, metadata, scheduler_output) -> None:
        self._worker = worker
        self._empty = not scheduler_output.total_num_scheduled_tokens
        self._told = copy.copy(scheduler_output)
        self._told.kv_connector_metadata = metadata
        arguments = {} if _SAVES_ALWAYS else {"wait_for_save": not self._empty}
        self._cycle = _life_cycle(self._told, **arguments)

    def flush(self) -> None:
        """Let the connector finish with blocks that were given to others."""
        if "preempted_req_ids" in takes(type(self._worker).handle_preemptions):
            if self._told.preempted_req_ids:
                self._worker.handle_preemptions(self._told.preempted_req_ids)
        else:
            self._worker.handle_preemptions(self._told.kv_connector_metadata)

    def begin(self) -> None:
        """Everything else up to the forward pass."""
        _stand_in(self._worker)
        self._output = self._cycle.__enter__()

    def end(self):
        """Everything from the forward pass on; the output, or None where the model runner drops it."""
        _stand_in(self._worker)
        self._cycle.__exit__(None, None, None)
        return None if self._empty and self._output.is_empty() else self._output


def _of_rank(config, rank: int):
    """The configuration that a worker has."""
    own = copy.copy(config)
    own.parallel_config = copy.copy(config.parallel_config)
    own.parallel_config.rank = rank
    return own


def _stand_in(worker) -> None:
    """Let the model runner's code find this worker's connector, and no model."""
    mixin.get_kv_transfer_group = lambda: worker
    mixin.get_forward_context = lambda: SimpleNamespace(no_compile_layers={}, attn_metadata=None, virtual_engine=0)
