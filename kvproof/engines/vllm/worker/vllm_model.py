"""The model worker of vLLM without a model: what its runner would read, write and copy, step by step.

It keeps what the release's model runner keeps (tokens, append-only block tables, states of mamba layers) from what
the scheduler sends it, and nothing else; what a model would sample is given with the operation.
"""

import math
from concurrent.futures import Future
from dataclasses import dataclass, field

from level import Level
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm_common import RELEASE
from vllm_embeds import prompt_of
from vllm_settings import DRAFTERS, Options
from vllm_states import States
from vllm_watch import Watch

__all__ = ["Plan", "Runner", "Tables"]

VOCABULARY = 3
_DRAFTER_READS_ITEMS = RELEASE < (0, 24)
"""Whether an item that comes next must be encoded for a drafter; later, one that is not is drafted behind as text."""


@dataclass
class Plan:
    """What the model does in a step."""

    token: int = 0
    """Which token is sampled: below 3 this one, above it one that depends on the position."""
    accept: int = 0
    """How many drafts are accepted."""
    fewer: int = 0
    """How many drafts fewer than it might are proposed (by n-grams)."""
    ready: bool = False
    """Whether the oldest step is done when the next is scheduled (asked by early releases)."""

    def sample(self, position: int) -> int:
        """Return the token at this position."""
        return self.token if self.token < VOCABULARY else (self.token + position) % VOCABULARY

    def draft(self, position: int) -> int:
        """Return the draft for this position."""
        return (self.token + 1 + position) % VOCABULARY


@dataclass
class Row:
    """What the runner knows of a request."""

    tokens: list[int]
    prompt: int
    """How many of them are the prompt's."""
    tables: list[list[int]]
    drafts: list[int] = field(default_factory=list)
    rejected: int = 0
    """Drafts rejected in steps that the scheduler has not processed yet: it still counts them as computed."""
    lost: bool = False
    """Its blocks went back: what is under way no longer counts."""
    items: list[str] = field(default_factory=list)
    """Its multimodal items, by name."""
    left: float = math.inf
    """So many tokens were left when its session went on: what is under way behind them no longer counts."""


@dataclass
class Executed:
    """A step that was executed and not processed yet."""

    rows: dict[str, tuple[Row, int, int]]
    """Per request its row, the tokens computed for good, and the drafts rejected."""


class _Result(Future):
    """A result that is there, and that says it is when the plan says so."""

    def __init__(self, value, ready: bool = True) -> None:
        super().__init__()
        self.set_result(value)
        self.ready = ready

    def done(self) -> bool:
        """Return what the plan says."""
        return self.ready


class Tables:
    """Block tables as attention sees them: as the scheduler says."""

    def __init__(self, level: Level) -> None:
        self._level = level

    def has(self, r: str, group: int, at: int, blocks: list[int]) -> None:
        """The scheduler sends entries of an append-only table."""
        self._level.tell("table", r, group, at, blocks)

    def before_pass(self, r: str, tables: list[list[int]], start: int, count: int) -> None:
        """A forward pass is to read and write by these."""

    def found(self, tables: list[list[int]]) -> list[list[int]]:
        """What a lookup handed out, as the protocol has it."""
        return tables

    def refused(self, r: str, *rest) -> None:
        """A request got no slots, as `vllm_watch.Watch` notes it."""
        self._level.tell("refused", r, *rest)

    def shown(self, tables: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        """The tables of a state."""
        return tables


class Runner:
    """The executor that the engine core sees, with one model runner behind it."""

    def __init__(self, level: Level, options: Options, groups: list[dict]) -> None:
        self.plan = Plan()
        self.connector = None
        self.executed: list[Executed] = []
        """Steps under way, oldest first."""
        self.tokens = 0
        """Tokens computed since the beginning."""
        self._level = level
        self._spec = options.spec
        self._may_propose_fewer = DRAFTERS[options.drafter] == "ngram"
        self._asynchronous = options.asynchronous
        self._told_samples = options.stages > 1 and not options.asynchronous and options.runner == 1
        """Whether the scheduler sends the first pipeline stage what the last one sampled."""
        self._drafter = DRAFTERS[options.drafter] if options.spec else "ngram"
        self._max_len = options.max_len
        self._encodes = bool(options.encoder)
        self._encoded: dict[str, None] = {}
        """The multimodal items in the encoder's cache."""
        self._told_encoded: list[str] | None = None
        self._states = States(level, groups, options.mamba, options.spec)
        self._keeps_columns = options.runner == 1
        """Whether a session that goes on has its states where they were; else they are looked for anew."""
        self._rows: dict[str, Row] = {}
        self._output: ModelRunnerOutput | None = None
        self._proposed: DraftTokenIds | None = None
        self._watch: Watch | None = None
        self.tables = Tables(level)

    def attach(self, scheduler, connector=None) -> None:
        """Work for this scheduler, with the model's side of a connector, and with its block tables if it has some."""
        self._watch = Watch(scheduler)
        self.connector = connector
        self.tables = getattr(connector, "tables", self.tables)

    # What the engine core calls

    def execute_model(self, scheduled: SchedulerOutput, non_block: bool = False):
        """Do a step; its output is given by `sample_tokens`, or at once if nothing was to be computed."""
        output = self._step(scheduled)
        if scheduled.total_num_scheduled_tokens:
            self._output, output = output, None
        return _Result(output, self.plan.ready) if non_block else output

    def sample_tokens(self, _grammar, non_block: bool = False):
        """Return the output of the step just executed."""
        output, self._output = self._output, None
        return _Result(output, self.plan.ready) if non_block else output

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """Return the drafts proposed by the step just executed."""
        proposed, self._proposed = self._proposed, None
        return proposed

    # What the level calls

    def flush_notes(self) -> None:
        """Tell what the scheduler did outside a step."""
        for note in self._watch.take():
            self._tell_note(note)

    def forget(self, r: str) -> None:
        """The request is over: what is under way for it no longer counts."""
        if r in self._rows:
            self._rows[r].lost = True

    def cut(self, r: str, tokens: int) -> None:
        """A session goes on behind its first so many tokens."""
        if r in self._rows:
            self._rows[r].left = tokens

    def processed(self, requests: dict) -> None:
        """The scheduler was given the result of the oldest step: tell what is computed for good."""
        self._level.tell("batch", "end")
        for r, (row, computed, rejected) in self.executed.pop(0).rows.items():
            row.rejected -= rejected
            if not row.lost:
                # A request that the scheduler sets back (a failed load) computes again.
                self._level.tell("processed", r, min(computed, row.left, requests[r].num_computed_tokens))

    # A step

    def _step(self, scheduled: SchedulerOutput) -> ModelRunnerOutput:
        notes = self._watch.take()
        for note in notes:
            if note[0] == "preempted":
                self._tell_note(note)
        if self.connector is not None:
            self.connector.begin_step(scheduled)
        for r in scheduled.finished_req_ids:
            self._rows.pop(r, None)
            self._states.forget(r)
        for r in getattr(scheduled, "preempted_req_ids", None) or ():
            self._states.forget(r)
        self._level.tell("batch", "begin")
        self._tell_cleared_and_copied(scheduled)
        if self.connector is not None:
            self.connector.before_forward(scheduled)
        starts = self._update_rows(scheduled)
        if self._encodes:
            self._encode(scheduled)
        executed, sampled = Executed({}), {}
        counts = scheduled.num_scheduled_tokens
        self._states.prepare((r, self._rows[r].tables, starts[r], counts[r]) for r in counts)
        for kind, r, *rest in notes:
            if kind == "preempted":
                continue
            self._tell_note((kind, r, *rest))
            if kind == "allocated" and r in starts and r not in sampled:
                sampled[r] = self._compute(r, starts[r], scheduled, executed)
        assert len(sampled) == len(starts), "the scheduler scheduled a request without asking for its blocks"
        if self.connector is not None:
            self.connector.after_forward(scheduled)
        self.executed.append(executed)
        self.tokens += scheduled.total_num_scheduled_tokens
        return self._made_output(scheduled, sampled)

    def _tell_note(self, note: tuple) -> None:
        kind, r, *rest = note
        if kind == "lookup":
            self._level.tell("lookup", r, *rest)
        elif kind == "allocated":
            if rest[0] is not None:
                found, tokens = rest[0]
                self._level.tell("found", r, self.tables.found(found), tokens)
        elif kind == "refused":
            self.tables.refused(r, *rest)
        else:
            self._level.tell("preempted", r)
            self.forget(r)

    def _tell_cleared_and_copied(self, scheduled: SchedulerOutput) -> None:
        zero = getattr(scheduled, "new_block_ids_to_zero", None)
        if zero:
            self._level.tell("zero", "device", list(zero))
        copies = getattr(scheduled, "kv_cache_block_copies", None)
        if copies:
            self._level.tell("copied", [["device", source, "device", target] for source, target in copies])

    def _update_rows(self, scheduled: SchedulerOutput) -> dict[str, int]:
        """Bring tokens and tables up to date; return where each request's computation starts."""
        starts = {}
        for new in scheduled.scheduled_new_reqs:
            prompt = prompt_of(new)
            tokens = new.prefill_token_ids if new.prefill_token_ids is not None else prompt
            (self._states.goes_on if self._keeps_columns else self._states.forget)(new.req_id)
            self._replace(new.req_id, list(tokens), len(prompt), new.block_ids)
            self._rows[new.req_id].items = [item.identifier for item in new.mm_features or ()]
            starts[new.req_id] = new.num_computed_tokens
        anew = {r: t for r, t in (getattr(scheduled, "block_table_updates", None) or {}).items() if r in self._rows}
        for r, blocks in anew.items():
            self._replace_tables(self._rows[r], r, blocks)
        cached = scheduled.scheduled_cached_reqs
        for index, r in enumerate(cached.req_ids):
            blocks = cached.new_block_ids[index]
            if r in cached.resumed_req_ids:
                known, outputs = self._rows[r], cached.num_output_tokens[index]
                tokens = known.tokens
                if (self._asynchronous or self._told_samples) and outputs:
                    # A runner keeps the prompt. With steps in flight it takes the answers that it is told once more; of
                    # several stages it is the last one that has kept them.
                    tokens = [*tokens[: known.prompt], *cached.all_token_ids[r][-outputs:]]
                self._states.forget(r)
                self._replace(r, list(tokens), known.prompt, blocks)
            elif blocks is not None and r not in anew:  # What is appended stands in what was sent anew.
                self._extend(r, blocks)
            row = self._rows[r]
            starts[r] = cached.num_computed_tokens[index] - row.rejected
            if self._told_samples:
                told, at = cached.new_token_ids[index], cached.num_computed_tokens[index]
                row.tokens += told[max(0, len(row.tokens) - at) :]
            # Outputs that the scheduler threw away, as after a failed load, are none.
            del row.tokens[row.prompt + cached.num_output_tokens[index] :]
        return starts

    def _encode(self, scheduled: SchedulerOutput) -> None:
        """Forget the items that the scheduler gave up, and encode those that it asks for."""
        for name in scheduled.free_encoder_mm_hashes:
            self._encoded.pop(name, None)
        for r, numbers in scheduled.scheduled_encoder_inputs.items():
            self._encoded |= dict.fromkeys(self._rows[r].items[number] for number in numbers)
        if self._told_encoded != (names := list(self._encoded)):
            self._told_encoded = names
            self._level.tell("encoded", names)

    def _replace(self, r: str, tokens: list[int], prompt: int, blocks) -> None:
        items = self._rows[r].items if r in self._rows else []
        row = self._rows[r] = Row(tokens, prompt, [], items=items)
        self._replace_tables(row, r, blocks)

    def _replace_tables(self, row: Row, r: str, blocks) -> None:
        row.tables = [list(ids) for ids in blocks]
        for group, ids in enumerate(row.tables):
            self.tables.has(r, group, 0, list(ids))

    def _extend(self, r: str, blocks) -> None:
        for group, (table, ids) in enumerate(zip(self._rows[r].tables, blocks, strict=True)):
            if ids:
                self.tables.has(r, group, len(table), list(ids))
                table.extend(ids)

    def _compute(self, r: str, start: int, scheduled: SchedulerOutput, executed: Executed) -> list[int]:
        """Tell a request's forward pass; return what is sampled."""
        row, count = self._rows[r], scheduled.num_scheduled_tokens[r]
        drafts = self._drafts(row, scheduled.scheduled_spec_decode_tokens.get(r, ()))
        known = len(row.tokens)
        # Where the scheduler asks for tokens that there are not, a runner takes what lies in its buffers.
        row.tokens += [0] * (start + count - len(drafts) - known)
        known = len(row.tokens)
        tokens = (row.tokens + [max(draft, 0) for draft in drafts])[start : start + count]
        row.drafts = []
        if start + count < known:
            accepted, sampled, computed = 0, [], start + count
        else:
            accepted = min(self.plan.accept, sum(1 for draft in drafts if draft >= 0))
            sampled = [*drafts[:accepted], self.plan.sample(known + accepted)]
            computed = known + accepted
        self._states.run(r, row.tables, start, count, len(drafts))
        self.tables.before_pass(r, row.tables, start, count)
        self._level.tell("compute", r, start, tokens)
        if sampled:
            self._states.accept(r, row.tables, start + count, len(drafts), accepted)
        self._tell_drafting(r, computed, bool(sampled), scheduled)
        rejected = start + count - computed
        row.rejected += rejected
        executed.rows[r] = (row, computed, rejected)
        if not self._told_samples:
            row.tokens.extend(sampled)
        if sampled and self._spec:
            proposed = self._spec - min(self.plan.fewer, self._spec) * self._may_propose_fewer
            row.drafts = [self.plan.draft(known + len(sampled) + index) for index in range(proposed)]
        return sampled

    def _tell_drafting(self, r: str, computed: int, sampled: bool, scheduled: SchedulerOutput) -> None:
        """A drafter with layers runs over the same tokens, EAGLE with each next one's input, and then on, draft by
        draft. A draft model also runs the token that was sampled, which gives the first of its drafts."""
        if self._drafter == "ngram" or getattr(scheduled, "skip_drafts", False):
            return
        if sampled:
            written = self._spec - (self._drafter == "eagle")
            self._level.tell("draft", r, computed, max(0, min(written, self._max_len - computed)))
        elif self._drafter == "eagle" and _DRAFTER_READS_ITEMS:
            self._level.tell("draft", r, computed, 0)

    def _drafts(self, row: Row, scheduled: list[int]) -> list[int]:
        """The drafts of a step; -1 stands for one that is only a place, and is never accepted."""
        if not self._asynchronous:
            return list(scheduled)
        own = row.drafts[: len(scheduled)]
        return own + [-1] * (len(scheduled) - len(own))

    def _made_output(self, scheduled: SchedulerOutput, sampled: dict[str, list[int]]) -> ModelRunnerOutput:
        order = list(scheduled.num_scheduled_tokens)
        if self._spec:
            self._proposed = DraftTokenIds(order, [list(self._rows[r].drafts) for r in order])
        return ModelRunnerOutput(
            req_ids=order,
            req_id_to_index={r: index for index, r in enumerate(order)},
            sampled_token_ids=[list(sampled[r]) for r in order],
            prompt_logprobs_dict={},
            kv_connector_output=self.connector.output() if self.connector is not None else None,
        )
