"""A connector of ours, by vLLM's extension point for connectors: prefills come from elsewhere and go elsewhere.

It keeps to what the connectors for disaggregated prefill do. A request may say how much of its prompt was computed
elsewhere (``kv_transfer_params``):

- ``remote``: so many tokens of the prompt (all of it, or full blocks of every group) can be fetched; fetched once, as
  a request that comes again has spoilt what was kept for it;
- ``later``: so many times the answer is "not yet";
- ``send``: when it ends by its length, its blocks are kept until they were fetched from here.

Loads end one by one, in any order, and may fail: then the blocks that did not come are reported with the end of the
load. The connector is driven like any other: this file also holds the side that `vllm_connectors` needs of it.
"""

import itertools
import math

from level import Level
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.v1.request import RequestStatus
from vllm_side import Side
from vllm_transfers import Part, Transfers

__all__ = ["NAME", "RemoteConnector", "RemoteSide", "extra_config", "failure_policy"]

NAME = "RemoteConnector"
TIER = "remote"

_REPORTS_REQUESTS = hasattr(base.KVConnectorBase_V1, "get_transfer_results")
"""Since 0.30 failed loads may be reported by request as well, before that by their blocks only."""


def extra_config(connector: dict) -> dict:
    """Return what the connector itself is to be told."""
    return {"synchronous": bool(connector.get("sync"))}


def failure_policy(connector: dict) -> dict:
    """Return what is done about failed loads, as an argument of the release's configuration."""
    kinds = {connector["kind"], *(child["kind"] for child in connector.get("children", ()))}
    return {"kv_load_failure_policy": connector.get("fail", "recompute")} if "remote" in kinds else {}


class _Metadata(base.KVConnectorMetadata):
    """What the scheduler's side tells the workers in a step."""

    def __init__(self) -> None:
        self.loads: list[tuple[str, list]] = []
        """Request; per block its group, the block, its first token and how many."""
        self.sends: list[tuple[str, list]] = []


class RemoteConnector(base.KVConnectorBase_V1, base.SupportsHMA):
    """Both sides of the connector."""

    def __init__(self, vllm_config, role, kv_cache_config=None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._synchronous = vllm_config.kv_transfer_config.kv_connector_extra_config["synchronous"]
        groups = enumerate(kv_cache_config.kv_cache_groups)
        self._groups = [number for number, group in groups if getattr(group, "enable_kv_transfer", True)]
        """What a release calls nobody else's business is not fetched; with such groups nothing is sent either."""
        self._sizes = [kv_cache_config.kv_cache_groups[g].kv_cache_spec.block_size for g in self._groups]
        self._asked: dict[str, int] = {}
        self._computed: dict[str, int] = {}
        self._spent: set[str] = set()
        self._next = _Metadata()
        self.port: _Port | None = None

    # The scheduler's side

    def get_num_new_matched_tokens(self, request, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return how many tokens can be fetched beyond those computed, and whether that takes longer than a step."""
        r, told = request.request_id, request.kv_transfer_params or {}
        have = min(told.get("remote", 0), request.num_prompt_tokens)
        if not have or r in self._spent:
            return 0, False
        self._asked[r] = self._asked.get(r, 0) + 1
        if self._asked[r] <= told.get("later", 0):
            return None, False
        if have < request.num_prompt_tokens or self._synchronous:
            unit = math.lcm(*self._sizes)
            have = min(have, request.num_tokens - 1) // unit * unit
        self._computed[r] = num_computed_tokens
        found = max(0, have - num_computed_tokens)
        return found, bool(found) and not self._synchronous

    def update_state_after_alloc(self, request, blocks, num_external_tokens: int) -> None:
        """Plan the load for which the scheduler found room."""
        r = request.request_id
        if not num_external_tokens:
            return
        self._spent.add(r)
        first = self._computed[r]
        places = []
        tables = blocks.get_block_ids()
        for g, (size, table) in enumerate(zip(self._sizes, (tables[n] for n in self._groups), strict=True)):
            last = first + num_external_tokens
            for entry in range(first // size, -(-last // size)):
                if table[entry]:  # What left the window before it began has the null block.
                    places.append((g, table[entry], entry * size, min(size, last - entry * size)))
        self._next.loads.append((r, places))

    def build_connector_meta(self, _scheduler_output) -> _Metadata:
        """Return what was planned since the last step."""
        told, self._next = self._next, _Metadata()
        return told

    def request_finished(self, request, block_ids: list[int]) -> tuple[bool, dict | None]:
        """Keep the blocks of a request that ended by its length and is fetched from here."""
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(self, request, block_ids) -> tuple[bool, dict | None]:
        """As `request_finished`."""
        kept = [block for group in block_ids for block in group if block and len(block_ids) == len(self._groups)]
        told = request.kv_transfer_params or {}
        if not told.get("send") or request.status != RequestStatus.FINISHED_LENGTH_CAPPED or not kept:
            return False, None
        self._next.sends.append((request.request_id, kept))
        return True, {"from": "here"}

    # The workers' side

    def start_load_kv(self, _forward_context, **_more) -> None:
        """Begin what the scheduler's side planned."""
        told = self._get_connector_metadata()
        for r, places in told.loads:
            self.port.load(r, places, self._synchronous)
        for r, blocks in told.sends:
            self.port.send(r, blocks)

    def get_finished(self, _finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Return the requests whose blocks were fetched from here, and those whose blocks came or failed to."""
        return self.port.take_sent(), self.port.take_received()

    def get_transfer_results(self, finished_req_ids: set[str]):
        """Return the same, and which loads failed."""
        sent, received = self.get_finished(finished_req_ids)
        return base.KVConnectorTransferResults(sent, received, self.port.take_failed())

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Return the blocks that did not come."""
        return self.port.take_invalid()

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are waited for where they begin, or not at all."""

    def save_kv_layer(self, *_arguments, **_more) -> None:
        """Nothing is saved by layers."""

    def wait_for_save(self) -> None:
        """Nothing is saved by steps."""


class RemoteSide(Side):
    """The other engines: what they computed, and the copies between them and here."""

    def __init__(
        self,
        connector,
        workers: list,
        _tier: str,
        transfers: Transfers,
        _setup: dict,
        on_host: frozenset[int] = frozenset(),
    ) -> None:
        """``on_host``: the groups whose KV lies there, of those that are fetched."""
        self.tier, self.tiers = TIER, {TIER: {"blocks": 0}}
        self.eager, self.takes_whole_offers, self.shows_all, self.resets = False, False, False, True
        transfers.fallible.add(TIER)
        outside = _Outside(transfers.level, on_host)
        by_request = _REPORTS_REQUESTS and len(connector._sizes) > 1
        self._ports = [_Port(number, transfers, outside, by_request) for number in range(len(workers))]
        for worker, port in zip(workers, self._ports, strict=True):
            worker.port = port

    def before_forward(self, metadata) -> None:
        """Nothing: copies begin where they are submitted."""

    def pending(self) -> int:
        """Transfers whose end was not reported."""
        return max(port.pending() for port in self._ports)

    def pools(self, _keys) -> dict:
        """Nothing is known of other engines' pools."""
        return {}

    def holds(self) -> dict:
        """Requests hold their blocks themselves."""
        return {}


class _Outside:
    """Places in other engines' memory: each is used once."""

    def __init__(self, level: Level, on_host: frozenset[int]) -> None:
        self._level, self._on_host = level, on_host
        self._unit = itertools.count()
        self._pairs: dict[tuple[str, str], list] = {}

    def filled(self, r: str, places: list) -> list:
        """Return the pairs of a load; its sources were filled by a prefill elsewhere."""
        known = self._pairs.get(("load", r))
        if known is None:
            known = self._pairs["load", r] = []
            for g, block, first, tokens in places:
                unit = next(self._unit)
                self._level.tell("computed_outside", r, g, [[TIER, unit, first, tokens]])
                known.append([TIER, unit, "host" if g in self._on_host else "device", block])
        return known

    def room(self, r: str, blocks: list[int]) -> list:
        """Return the pairs of a send."""
        if ("send", r) not in self._pairs:
            self._pairs["send", r] = [["device", block, TIER, next(self._unit)] for block in blocks]
        return self._pairs["send", r]


class _Port:
    """What one worker's side of the connector does outside."""

    def __init__(self, worker: int, transfers: Transfers, outside: _Outside, by_request: bool) -> None:
        self._worker, self._transfers, self._outside, self._by_request = worker, transfers, outside, by_request
        self._loads: list[tuple[str, Part, list]] = []
        self._sends: list[tuple[str, Part]] = []
        self._invalid: set[int] = set()
        self._failed: set[str] = set()

    def load(self, r: str, places: list, at_once: bool) -> None:
        """Begin to fetch blocks, or fetch them."""
        pairs = self._outside.filled(r, places)
        if at_once:
            if not self._worker:
                self._transfers.level.tell("copied", pairs)
            return
        part = self._transfers.submit(TIER, "load", self._worker, r, pairs, stream=f"load {r}")
        self._loads.append((r, part, [block for _, block, _, _ in places]))

    def send(self, r: str, blocks: list[int]) -> None:
        """Let blocks be fetched."""
        pairs = self._outside.room(r, blocks)
        part = self._transfers.submit(TIER, "send", self._worker, r, pairs, stream=f"send {r}")
        self._sends.append((r, part))

    def take_sent(self) -> set[str]:
        """Return the requests whose blocks were fetched since the last call."""
        done = {r for r, part in self._sends if part.done}
        self._sends = [(r, part) for r, part in self._sends if not part.done]
        return done

    def take_received(self) -> set[str]:
        """Return the requests whose blocks came, or failed to, since the last call."""
        done = [load for load in self._loads if load[1].done]
        self._loads = [load for load in self._loads if not load[1].done]
        for r, part, blocks in done:
            if part.failed and self._by_request:
                self._failed.add(r)
            elif part.failed:
                self._invalid.update(blocks)
        return {r for r, _, _ in done}

    def take_failed(self) -> set[str]:
        """Return the requests whose load failed since the last call."""
        taken, self._failed = self._failed, set()
        return taken

    def take_invalid(self) -> set[int]:
        """Return the blocks that did not come since the last call."""
        taken, self._invalid = self._invalid, set()
        return taken

    def pending(self) -> int:
        """Loads and sends whose end was not reported."""
        return len(self._loads) + len(self._sends)
