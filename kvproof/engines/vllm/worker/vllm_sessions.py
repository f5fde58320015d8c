"""Sessions of vLLM's scheduler: requests in which a client says more when he was answered, or before.

The release's rule: with what is said next the last token of the answer is given up, since nothing of it is computed.
Releases up to 0.31 keep it where it is computed already, as it is with steps in flight; both are a session's right, and
nothing else is.
"""

from collections import deque
from dataclasses import dataclass, field

from level import Level
from vllm_common import Keys, make_request

__all__ = ["Said", "Sessions"]


@dataclass
class Said:
    """What is said in a session."""

    tokens: list[int]
    items: list[list] = field(default_factory=list)
    """The multimodal items in it: offset, length and name."""
    most: int = 1
    """So many tokens may come in answer."""
    stops: tuple[int, ...] = ()
    """The tokens that end the answer."""


@dataclass
class _Session:
    """A session as its client knows it."""

    tokens: list[int]
    """What was said and answered."""
    asked: int
    """So many tokens more may come in answer to what the engine is at."""
    said: deque[Said] = field(default_factory=deque)
    """What was said and the engine has not come to."""


class Sessions:
    """The sessions of one engine core; tells when it comes to what was said."""

    def __init__(self, level: Level, core, keys: Keys, runner, hash_block: int) -> None:
        self.open: list[str] = []
        """Those that were not closed."""
        self._level, self._core, self._keys, self._runner = level, core, keys, runner
        self._hash_block = hash_block
        self._requests = core.scheduler.requests
        self._sessions: dict[str, _Session] = {}
        self._updated: set[str] = set()
        """Those in which the engine has come to what was said, which is not told yet."""
        self._update = core.scheduler._update_request_as_session
        core.scheduler._update_request_as_session = self._updates

    # What the client does

    def begin(self, r: str, prompt: list[int], most: int) -> None:
        """A session begins; ``most``: tokens of the answer."""
        self.open.append(r)
        self._sessions[r] = _Session(list(prompt), most)

    def length(self, r: str) -> int:
        """Return how long a session may be when all that was said is answered."""
        session = self._sessions[r]
        return len(session.tokens) + session.asked + sum(len(said.tokens) + said.most for said in session.said)

    def say(self, r: str, said: Said) -> None:
        """Say more: the engine comes to it at once, or later."""
        self._sessions[r].said.append(said)
        self._send(r, said, goes_on=True)
        self._tell_what_was_said(r)

    def close(self, r: str) -> bool:
        """Say that nothing more will come, as the engine's frontend does; return whether that is the end."""
        self.open.remove(r)
        self._send(r, Said([0]), goes_on=False)
        return self._is_over(r)

    def _send(self, r: str, said: Said, *, goes_on: bool) -> None:
        """All of it goes to the engine as requests of one name."""
        first = self._requests[r]
        request = make_request(
            r,
            said.tokens,
            block_hasher=self._core.request_block_hasher,
            max_tokens=said.most,
            salt=first.cache_salt,
            items=said.items,
            priority=first.priority,
            arrival=first.arrival_time,
            goes_on=goes_on,
        )
        request.lora_request = first.lora_request
        request.sampling_params.stop_token_ids = list(said.stops)
        self._core.add_request(request)

    # What the engine does

    def grew(self, r: str, tokens: list[int]) -> None:
        """These tokens were answered."""
        session = self._sessions.get(r)
        if session is not None:
            session.tokens += tokens
            session.asked -= len(tokens)

    def answered(self, r: str) -> bool:
        """Tell what a session goes on with behind an answer that is complete; return whether it is no end."""
        if r not in self._sessions or self._is_over(r):
            return False
        self._sessions[r].asked = 0
        self._tell_what_was_said(r)
        return True

    def scheduled(self) -> None:
        """Tell the keys of those that may have got others: with drafts, a key covers tokens behind its block, and is
        made anew when a session is looked up."""
        for r in self._sessions:
            if r in self._requests:
                self._keys.announce_anew(self._level, r, self._requests[r])

    def end(self, r: str) -> None:
        """The request is over."""
        self._sessions.pop(r, None)
        if r in self.open:
            self.open.remove(r)

    def _is_over(self, r: str) -> bool:
        request = self._requests.get(r)
        return request is None or request.is_finished()

    def _updates(self, request, update) -> None:
        self._update(request, update)
        self._updated.add(request.request_id)

    def _tell_what_was_said(self, r: str) -> None:
        """Tell that the engine came to what was said next, if it did."""
        if r not in self._updated:
            return
        self._updated.remove(r)
        session, request = self._sessions[r], self._requests[r]
        said = session.said.popleft()
        session.asked = said.most
        keeps_all = list(request.all_token_ids) == session.tokens + said.tokens
        kept = len(session.tokens) - (not keeps_all)
        del session.tokens[kept:]
        session.tokens += said.tokens
        self._level.tell("cut", r, kept)
        self._runner.cut(r, kept)
        self._keys.cut(r, kept // self._hash_block)
        items = [[kept + offset, length, name] for offset, length, name in said.items]
        self._level.tell("append", r, list(said.tokens), *([items] if items else ()))
        self._keys.announce_anew(self._level, r, request)
