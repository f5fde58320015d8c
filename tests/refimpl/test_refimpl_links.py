"""Links in virtual time (G2, G3): sharing, bytes, deadlines, order, ids, and floats against exact numbers."""

import math
from fractions import Fraction
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvproof.refimpl.errors import RefusedError
from kvproof.refimpl.timed.links import Completion, LinkModel, N

F = Fraction


def busy() -> LinkModel[Fraction]:
    """One link of 10 bytes per second with 0 (100 bytes) and 1 (60 bytes), and one that is instantaneous; 4 s in."""
    links = LinkModel([F(10), None], now=F(0))
    links.start(0, F(100))
    links.start(0, F(60))
    links.move(F(4))
    return links


def scan(bandwidth: Fraction, starts: list[tuple[Fraction, Fraction]]) -> dict[int, Fraction]:
    """When each of these transfers (start, bytes; by time) is done on one link, by counting every one of them down."""
    done: dict[int, Fraction] = {}
    left: dict[int, Fraction] = {}
    now = F(0)
    waiting = list(enumerate(starts))
    while waiting or left:
        ends = now + min(left.values()) * len(left) / bandwidth if left else math.inf
        comes = waiting[0][1][0] if waiting else math.inf
        to = F(min(ends, comes))
        left = {transfer: size - bandwidth * (to - now) / len(left) for transfer, size in left.items()}
        now = to
        done.update({transfer: now for transfer, size in left.items() if size == 0})
        left = {transfer: size for transfer, size in left.items() if size > 0}
        while waiting and waiting[0][1][0] == now:
            transfer, (_, size) = waiting.pop(0)
            if size:
                left[transfer] = size
            else:
                done[transfer] = now
    return done


class TestSharing:
    """G2: k transfers move at bandwidth / k each."""

    def test_one_transfer_alone_has_the_whole_link(self):
        links = LinkModel([F(10)], now=F(0))
        links.start(0, F(25))
        assert links.deadline() == F(5, 2)

    def test_two_transfers_have_half_each_and_the_last_one_all_again(self):
        links = LinkModel([F(10)], now=F(0))
        links.start(0, F(10))
        links.start(0, F(30))
        assert [(ended.id, ended.done) for ended in links.advance(F(100))] == [(0, F(2)), (1, F(4))]

    def test_who_comes_later_slows_who_is_there(self):
        links = LinkModel([F(10)], now=F(0))
        links.start(0, F(10))
        links.move(F(1, 2))
        links.start(0, F(100))
        assert links.deadline() == F(3, 2)

    def test_links_do_not_slow_each_other(self):
        links = LinkModel([F(10), F(10)], now=F(0))
        links.start(0, F(10))
        links.start(1, F(10))
        assert [(ended.id, ended.link, ended.done) for ended in links.advance(F(1))] == [(0, 0, F(1)), (1, 1, F(1))]

    @pytest.mark.parametrize("bandwidth", [None, F(0), F(-5), math.inf])
    def test_no_bandwidth_means_no_waiting(self, bandwidth):
        links = LinkModel([bandwidth], now=F(3))
        links.start(0, F(10**9))
        assert (links.deadline(), links.due(), links.remaining(0)) == (3, 0, 0)
        assert links.complete() == Completion(id=0, link=0, size=F(10**9), begun=F(3), done=F(3))

    def test_an_empty_transfer_is_due_at_once_and_slows_nobody(self):
        links = busy()
        links.start(0, F(0))
        assert links.due() == 2
        links.complete()
        assert links.deadline() == 12

    def test_what_is_left(self):
        links = busy()
        assert [links.remaining(0), links.remaining(1)] == [80, 40]
        assert [links.active(0), links.active(1)] == [2, 0]


class TestTime:
    """G3: time never runs backward, nothing is passed by, completions come in order."""

    def test_an_earlier_time_changes_nothing(self):
        links = busy()
        before = links.snapshot()
        links.move(F(3))
        assert links.advance(F(3)) == []
        assert links.snapshot() == before

    def test_a_start_in_the_past_begins_now(self):
        links = busy()
        links.start(1, F(1), at=F(2))
        assert links.complete().begun == 4

    def test_advance_to_now_completes_what_is_due(self):
        links = busy()
        links.start(1, F(1))
        assert [ended.id for ended in links.advance(F(4))] == [2]

    def test_ties_come_out_by_id_over_all_links(self):
        links = LinkModel([F(1), F(2), None], now=F(0))
        for link, size in ((1, F(10)), (0, F(5)), (1, F(10)), (0, F(5))):
            links.start(link, size)
        assert [(ended.id, ended.done) for ended in links.advance(F(10))] == [(at, F(10)) for at in range(4)]

    def test_an_instantaneous_one_with_a_higher_id_waits_for_its_turn(self):
        links = LinkModel([F(1), None], now=F(0))
        links.start(0, F(5))
        links.move(F(5))
        links.start(1, F(7))
        assert [links.complete().id, links.complete().id] == [0, 1]

    def test_ids_count_up_over_all_links(self):
        """S15: a table of transfers that is keyed by an id of one link only would mix them up."""
        links = LinkModel([F(1), F(2), None], now=F(0))
        assert [links.start(link, F(1)) for link in (0, 1, 2, 1, 0)] == [0, 1, 2, 3, 4]
        assert sorted(ended.id for ended in links.advance(F(9))) == [0, 1, 2, 3, 4]
        assert links.start(2, F(1)) == 5

    def test_what_is_due_shares_its_link_until_it_is_completed(self):
        links = busy()
        links.move(F(12))
        assert links.due() == 1
        assert links.active(0) == 2
        links.complete()
        assert links.active(0) == 1

    def test_an_idle_link_forgets_what_it_moved(self):
        links = busy()
        links.advance(F(50))
        assert links.snapshot().received == (F(0), F(0))


REFUSED = {
    "a link that is none": lambda links: links.start(2, F(1)),
    "a link from the end": lambda links: links.start(-1, F(1)),
    "the load of a link that is none": lambda links: links.active(2),
    "a negative size": lambda links: links.start(0, F(-1)),
    "an endless size": lambda links: links.start(0, math.inf),
    "no size": lambda links: links.start(0, math.nan),
    "a start in the future": lambda links: links.start(0, F(1), at=F(5)),
    "a start at no time": lambda links: links.start(0, F(1), at=math.nan),
    "time passes a deadline": lambda links: links.move(F(13)),
    "time moves to its end": lambda links: links.move(math.inf),
    "time moves to before its beginning": lambda links: links.move(-math.inf),
    "time moves through everything to its end": lambda links: links.advance(math.inf),
    "time moves nowhere": lambda links: links.advance(math.nan),
    "completing what is not due": lambda links: links.complete(),
    "what is left of an unknown transfer": lambda links: links.remaining(2),
}


class TestRefusals:
    """An illegal call changes nothing and says why."""

    @pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED.keys())
    def test_an_illegal_call_changes_nothing(self, call):
        links = busy()
        before = links.snapshot()
        with pytest.raises(RefusedError):
            call(links)
        assert links.snapshot() == before

    def test_time_stands_still_while_something_is_due(self):
        links = busy()
        links.start(1, F(1))
        before = links.snapshot()
        with pytest.raises(RefusedError, match="complete what is due at 4 first"):
            links.move(F(5))
        assert links.snapshot() == before

    @pytest.mark.parametrize(
        ("bandwidth", "now"), [(math.nan, 0.0), (1.0, math.nan), (1.0, math.inf), (1.0, -math.inf)]
    )
    def test_no_links_of_numbers_that_are_none(self, bandwidth, now):
        with pytest.raises(RefusedError):
            LinkModel([bandwidth], now=now)
        with pytest.raises(RefusedError):
            LinkModel([1.0, bandwidth, None], now=now)


BANDWIDTHS = (F(3), F(7, 2), None)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("pass"), st.integers(0, 40), st.just(0)),
    ),
    max_size=40,
)
"""Starts (link, bytes), and time that passes (in eighths)."""


class TestExact:
    """What holds at every event of any run, with exact numbers."""

    @given(STEPS)
    def test_bytes_deadlines_order_and_ids(self, steps):
        links = LinkModel(BANDWIDTHS, now=F(0))
        ended: list[Completion[Fraction]] = []
        started = 0
        for kind, first, size in steps:
            if kind == "start":
                assert links.start(first, F(size)) == started
                started += 1
            else:
                to = links.now + F(first, 8)
                while (deadline := links.deadline()) is not None and deadline <= to:
                    self.move(links, deadline)
                    due = self.all_due(links)
                    assert links.due() == due[0]
                    ended.append(links.complete())
                    assert ended[-1].id == due[0]
                self.move(links, to)
        assert len(ended) + len(links.snapshot().active) == started == links.snapshot().issued
        for one in ended:
            bandwidth = BANDWIDTHS[one.link]
            assert one.done - one.begun >= (one.size / bandwidth if bandwidth else 0)  # the earliest finish
        for one, following in pairwise(ended):
            assert (
                one.done < following.done
                or (one.done == following.done and one.id < following.id)
                or (
                    # What starts at the time of a completion is due after it.
                    one.done == following.done == following.begun
                )
            )

    def move(self, links: LinkModel[Fraction], to: Fraction) -> None:
        """Move time, and hold every link against what it may move."""
        before = {one.id: one for one in links.snapshot().active}
        took = to - links.now
        links.move(to)
        after = {one.id: one for one in links.snapshot().active}
        assert links.now == to
        assert after.keys() == before.keys()
        for link, bandwidth in enumerate(BANDWIDTHS):
            moved = [before[name].remaining - one.remaining for name, one in after.items() if one.link == link]
            if bandwidth is None:
                assert not moved or took == 0
            elif moved:
                assert sum(moved) == bandwidth * took
                assert len(set(moved)) == 1

    def all_due(self, links: LinkModel[Fraction]) -> list[int]:
        """The transfers with nothing left to move, by id."""
        return [one.id for one in links.snapshot().active if one.remaining == 0]

    @given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), max_size=20))
    def test_it_agrees_with_counting_every_transfer_down(self, drawn):
        starts = sorted((F(at, 4), F(size)) for at, size in drawn)
        links = LinkModel([F(3)], now=F(0))
        done = {}
        for at, size in starts:
            done.update({ended.id: ended.done for ended in links.advance(at)})
            links.start(0, size)
        done.update({ended.id: ended.done for ended in links.advance(F(1000))})
        assert done == scan(F(3), starts)

    @given(STEPS, STEPS)
    def test_equal_snapshots_behave_alike(self, first, then):
        links, mutant = (LinkModel(BANDWIDTHS, now=F(0)) for _ in range(2))
        run(links, first, F(1, 8))
        run(mutant, first, F(1, 8))
        assert links.snapshot() == mutant.snapshot()
        assert run(links, then, F(1, 8)) == run(mutant, then, F(1, 8))
        assert links.snapshot() == mutant.snapshot()


def run(links: LinkModel[N], steps: list[tuple[str, int, int]], unit: N) -> list[Completion[N]]:
    """Do these steps; return all completions. ``unit`` makes numbers of the kind that ``links`` has."""
    ended: list[Completion[N]] = []
    for kind, first, size in steps:
        if kind == "start":
            links.start(first, 8 * size * unit)
        else:
            ended += links.advance(links.now + first * unit)
    return ended


def check_alike(floats: list[Completion[float]], exact: list[Completion[Fraction]]) -> None:
    """Both completed the same at the same times, in one order but for times that are hardly apart."""
    times = {ended.id: ended.done for ended in exact}
    assert times.keys() == {ended.id for ended in floats}
    assert len(times) == len(floats)
    for ended in floats:
        assert ended.done == pytest.approx(float(times[ended.id]), rel=1e-9)
    for one, following in pairwise(floats):
        assert one.done <= following.done
        assert float(times[one.id]) <= float(times[following.id]) * (1 + 1e-9)


class TestFloats:
    """Floats: no drift, no endless loop, nothing backward; the order of the exact model."""

    @given(STEPS, st.sampled_from([1.0, 1e-9, 1e12]))
    def test_they_do_what_exact_numbers_do(self, steps, start):
        exact = LinkModel(BANDWIDTHS, now=F(start))
        floats = LinkModel([3.0, 3.5, None], now=start)
        ended = run(exact, steps, F(1, 8)) + exact.advance(exact.now + 1000)
        check_alike(run(floats, steps, 1 / 8) + floats.advance(floats.now + 1000), ended)

    def test_what_the_clock_cannot_tell_from_now_is_due(self):
        """At 1.0 the clock's next step is twice as long as its last one was."""
        links = LinkModel([1.0], now=1.0)
        assert links.start(0, 1e-16) == links.due()

    @example([5e-324], 5e-324 / (math.ulp(6.6e-163) * 2.2), 6.6e-163)  # one step of the clock moves less than any float
    @given(st.lists(st.floats(0, 1e300), min_size=1, max_size=30), st.floats(1e-300, 1e300), st.floats(-1e15, 1e15))
    def test_every_run_ends(self, sizes, bandwidth, now):
        links = LinkModel([bandwidth], now=now)
        for size in sizes:
            links.start(0, size)
        for _ in sizes:
            while links.due() is None:
                before, deadline = links.now, links.deadline()
                assert deadline is not None
                assert before < deadline
                if deadline == math.inf:
                    return
                # Till shortly before the deadline first: how far it is from there is another sum.
                links.move(max(math.nextafter(deadline, -math.inf), math.nextafter(before, math.inf)))
                assert before < links.now <= deadline
            links.complete()
        assert links.due() is links.deadline() is None
        assert links.snapshot().received == (0.0,)

    @given(st.lists(st.floats(0, 5), max_size=30), st.lists(st.floats(0, 3), max_size=60))
    def test_time_in_small_pieces_moves_what_time_in_one_does(self, sizes, pieces):
        whole, cut = (LinkModel([1.7], now=0.0) for _ in range(2))
        for size in sizes:
            whole.start(0, size)
            cut.start(0, size)
        ended = []
        for piece in pieces:
            ended += cut.advance(cut.now + piece)
        ended += cut.advance(cut.now + 1000)
        expected = {one.id: one.done for one in whole.advance(1000.0)}
        assert {one.id: one.done for one in ended} == pytest.approx(expected, rel=1e-9)

    def test_a_deadline_stays_while_time_comes_nearer(self):
        """Long busy, a link measures bytes more coarsely than its clock does time: one step of the clock before the
        deadline nothing more is left to move, by a sum of floats."""
        links = LinkModel([0.3], now=1e7)
        links.start(0, 1e6)
        links.move(1e7 + 0.99e6 / 0.3)
        links.start(0, 4.0445486838945487e-07)
        deadline = links.deadline()
        links.move(13300000.000002695)
        assert (links.due(), links.deadline()) == (None, deadline)
        first = links.advance(2e7)[0]
        assert (first.id, first.done) == (1, deadline)

    def test_g3_floats_that_tie_are_completed_by_id(self):
        """0: 6 bytes from 1000.1 on; 1: 3 bytes from 1000.4 on, when 0 has 3 left; at 10 bytes a second both are done
        at 1001. As sums of floats their tags differ in the last digit."""
        links = LinkModel([10.0], now=0.0)
        links.advance(1000.1)
        links.start(0, 6.0)
        links.advance(1000.4)
        links.start(0, 3.0)
        assert [(one.done, one.id) for one in links.advance(1002.0)] == [(1001.0, 0), (1001.0, 1)]

    def test_ten_thousand_at_once(self):
        exact = LinkModel([F(1000)], now=F(0))
        floats = LinkModel([1000.0], now=0.0)
        for at in range(10_000):
            size = at * 7919 % 4096 + 1
            exact.start(0, F(size))
            floats.start(0, float(size))
        began = process_time()
        ended = floats.advance(1e9)
        assert process_time() - began < 5
        check_alike(ended, exact.advance(F(10**9)))

    def test_ten_thousand_one_after_another_never_idle(self):
        """Tags grow as long as a link is busy; what is left of a transfer stays what it is."""
        links = LinkModel([1.0], now=0.0)
        links.start(0, 0.1)
        links.move(0.05)
        for _ in range(10_000):
            links.start(0, 0.1)
            links.advance(links.now + 0.1)
        assert links.remaining(10_000) == pytest.approx(0.05, rel=1e-6)
