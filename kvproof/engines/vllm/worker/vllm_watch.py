"""What a scheduler of vLLM does while it schedules, noted in order: lookups, admissions, preemptions.

Its own methods are wrapped, one by one, on the one object; they do what they did.
"""

from vllm_reading import refusal

__all__ = ["Watch"]

_LOOKUPS = ("get_computed_blocks", "get_computed_blocks_for_connector")


class Watch:
    """Notes of one scheduler.

    A note is ``("lookup", r, local, external, limit)``, ``("preempted", r)``, ``("refused", r, ...)``, as the effect is
    told, or ``("allocated", r, found)``, where ``found`` is the blocks per group that the lookup handed out and the
    tokens that they hold, or None.
    """

    def __init__(self, scheduler) -> None:
        self._notes: list[tuple] = []
        self._manager = scheduler.kv_cache_manager
        self._connector = scheduler.connector
        self._local: dict[str, int] = {}
        """With a connector: what the device had for a request, until the connector is asked for more."""
        manager = self._manager
        for name in _LOOKUPS:
            if hasattr(manager, name):
                self._wrap(manager, name, self._looked_up)
        self._wrap(manager, "allocate_slots", self._allocated)
        self._wrap(scheduler, "_preempt_request", self._preempted)
        if self._connector is not None:
            self._wrap(self._connector, "get_num_new_matched_tokens", self._matched)

    def take(self) -> list[tuple]:
        """Return the notes since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def _wrap(self, target, name: str, note) -> None:
        original = getattr(target, name)

        def watched(*args, **kwargs):
            answer = original(*args, **kwargs)
            note(answer, *args, **kwargs)
            return answer

        setattr(target, name, watched)

    def _looked_up(self, answer, request, *_args, **_kwargs) -> None:
        r, local = request.request_id, answer[1]
        note = ("lookup", r, local, 0, request.num_tokens - 1)
        if self._connector is None:
            self._notes.append(note)
            return
        self._local[r] = local
        if self._notes and self._notes[-1][:2] == ("lookup", r):
            # The connector found nothing, and the device is asked once more for what it can go on from alone.
            self._notes[-1] = note

    def _matched(self, answer, request, computed, *_args, **_kwargs) -> None:
        found, later = answer
        local = self._local.pop(request.request_id, computed)
        if found is None:
            return
        tail = local - computed
        if tail and found <= tail:
            # It was asked for what comes behind whole blocks, and has no more than the device has inside the next one.
            found, later = 0, False
        else:
            local = computed
        # What comes later may be all of it: the scheduler then takes the last token back.
        limit = request.num_tokens if later else request.num_tokens - 1
        most = (getattr(request, "kv_transfer_params", None) or {}).get("max_load_tokens")
        if most is not None:
            limit = max(local, min(limit, computed + most))
        self._notes.append(("lookup", request.request_id, local, found, limit))

    def _allocated(self, answer, request, new, *, new_computed_blocks=None, num_new_computed_tokens=0, **more) -> None:
        if answer is None:
            self._refused(request, new + num_new_computed_tokens, new_computed_blocks, more)
            return
        found = None
        if new_computed_blocks is not None and num_new_computed_tokens:
            found = ([list(ids) for ids in new_computed_blocks.get_block_ids()], num_new_computed_tokens)
        self._notes.append(("allocated", request.request_id, found))

    def _refused(self, request, new: int, found, asked: dict) -> None:
        """A request got no slots for its tokens, these, and those that are found elsewhere or looked ahead to, nor for
        all that it has where it must fit as a whole; what is kept free for others, and for later, is no room."""
        manager, longest = self._manager, self._manager.max_model_len
        ahead = asked.get("num_external_computed_tokens", 0) + asked.get("num_lookahead_tokens", 0)
        whole = request.num_tokens if asked.get("full_sequence_must_fit") else 0
        tokens = min(longest, max(request.num_computed_tokens + new + ahead, whole))
        kept = asked.get("reserved_blocks", 0) + (found is not None and getattr(manager, "watermark_blocks", 0))
        self._notes.append(("refused", *refusal(manager, request.request_id, tokens, found), kept))

    def _preempted(self, _answer, request, *_args, **_kwargs) -> None:
        self._notes.append(("preempted", request.request_id))
