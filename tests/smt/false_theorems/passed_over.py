"""What Python raises of a text that is wrong, and the text passes over: what was meant is never said."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import ClassVar

from kvproof.machine import Bool, Int, Machine, Scalar, action, all_of, invariant

from .corpus import false, refused, true


class Base(Machine):
    x = Scalar(to=Int)
    y = Scalar(to=Int)

    @action("X")
    def act(self, n: Int) -> None:
        self.x.value = n

    @invariant("X")
    def y_is_zero(self) -> Bool:
        return self.y.value == 0


def _limit(of: Base, n: Int) -> Bool:
    return (n == 0) & (of.x.value == 0)


@refused("`except Exception` passes over whatever is wrong in the text before it")
def a_name_that_is_written_wrongly() -> type[Machine]:
    class Named(Base):
        @action("X")
        def act(self, n: Int) -> None:
            try:
                self.require(n <= LIMT)  # type: ignore[name-defined] # noqa: F821
            except Exception:
                self.require(n <= 9)
            self.x.value = n

    return Named


@refused("`except (KeyError, TypeError)` passes over")
def a_helper_that_is_called_wrongly() -> type[Machine]:
    class Called(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                return _limit(self)  # type: ignore[call-arg]
            except (KeyError, TypeError):
                return self.y.value == self.y.value

    return Called


@refused("`contextlib.suppress(Exception)` passes over")
def a_claim_that_is_never_made() -> type[Machine]:
    class Claimed(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims = [self.y.value == self.y.value]
            with contextlib.suppress(Exception):
                claims.append(_limt(self, 0))  # type: ignore[name-defined] # noqa: F821
            return all_of(*claims)

    return Claimed


def _said_or(of: Base) -> Bool:
    try:
        return _limit(of)  # type: ignore[call-arg]
    except:  # noqa: E722
        return of.y.value == of.y.value


@refused("`except` passes over")
def a_helper_that_passes_over_everything() -> type[Machine]:
    class Helped(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            return _said_or(self)

    return Helped


@refused("`except BaseException` passes over")
def a_part_that_a_plain_object_does_not_have() -> type[Machine]:
    class Read(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                return self.x.value == _LIMITS.x  # type: ignore[attr-defined, no-any-return]
            except BaseException:
                return self.y.value == self.y.value

    return Read


_LIMITS = {"x": 0}


@refused("`except NameError` passes over")
def a_helper_that_is_nowhere() -> type[Machine]:
    class Read(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            try:
                return _limt(self, 0)  # type: ignore[name-defined, no-any-return]
            except NameError:
                return self.y.value == self.y.value

    return Read


@refused("`suppress(KeyError, TypeError)` passes over")
def a_requirement_that_is_never_made() -> type[Machine]:
    class Required(Base):
        @action("X")
        def act(self, n: Int) -> None:
            with suppress(KeyError, TypeError):
                self.require(_limit(self))  # type: ignore[call-arg]
            self.x.value = n

    return Required


class _Quiet:
    """Whatever is raised in this block, it goes on behind it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> bool:
        return True


class _AskedQuiet:
    is_quiet = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> bool:
        return self.is_quiet


def _claimed_in(quiet: _Quiet | _AskedQuiet) -> type[Machine]:
    class Claimed(Base):
        @invariant("X")
        def x_is_zero(self) -> Bool:
            claims = [self.y.value == self.y.value]
            with quiet:
                claims.append(_limt(self, 0))  # type: ignore[name-defined] # noqa: F821
            return all_of(*claims)

    return Claimed


@refused("`return True` in `__exit__` passes over")
def a_claim_in_a_block_that_passes_over_everything() -> type[Machine]:
    return _claimed_in(_Quiet())


@refused("`return self.is_quiet` in `__exit__` passes over")
def a_claim_in_a_block_that_may_pass_over_everything() -> type[Machine]:
    return _claimed_in(_AskedQuiet())


class _Only:
    """Passes over one kind of error, as `except` does; goes by way of another block."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind, self._inside = kind, contextlib.nullcontext()

    def __enter__(self) -> None:
        self._inside.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._inside.__exit__(kind, error, trace)
        return isinstance(error, self._kind)


@contextlib.contextmanager
def _seen(of: Base) -> Iterator[Base]:
    yield of


@false("x_is_zero")
class SaidInABlock(Base):
    """A block of Python's own may be left by a `return`, and what it says is said."""

    @invariant("X")
    def x_is_zero(self) -> Bool:
        with _seen(self) as seen:
            return seen.x.value == 0


@true
class SaidInABlockOrRaisedAgain(Base):
    limits: ClassVar[dict[str, int]] = {"x": 0}

    def _least(self, name: str) -> int:
        try:
            return self.limits[name]
        except KeyError:
            return 0

    @action("X")
    def look(self) -> Int:
        least = 0
        with _Only(KeyError):
            least = self.limits["y"]
        return self.y.value + least

    @invariant("X")
    def y_is_itself(self) -> Bool:
        with _seen(self) as seen, contextlib.nullcontext():
            try:
                return seen.y.value - seen.y.value == self._least("y")
            except Exception as error:
                raise AssertionError("a text that is wrong") from error
