"""The sync calls of one layer: in order, by as many threads as were let in, each on its own."""

import threading
from concurrent.futures import Future, wait
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.executions import layer_runner
from workflows.executions.layer_runner import _Lane

#: Seconds after which a test that hangs fails.
SOON = 20


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(timeout=SOON) for future in futures]


@given(st.lists(st.integers(), max_size=20), st.integers(1, 30))
def test_every_call_is_made_once_and_answers_its_own_future(values: list[int], wide: int) -> None:
    lane, calls = _Lane(), []

    def call(place: int, value: int) -> int:
        calls.append(place)
        return value

    futures = [lane.add(call, place, value) for place, value in enumerate(values)]
    lane.let_in(1)
    lane.let_in(wide)
    assert results(futures) == values
    assert sorted(calls) == list(range(len(values)))


def test_one_thread_takes_them_in_order() -> None:
    lane = _Lane()
    order: list[tuple[int, int]] = []
    futures = [
        lane.add(lambda place: order.append((place, threading.get_ident())), place)
        for place in range(50)
    ]
    lane.let_in(1)
    results(futures)
    assert [place for place, _ in order] == list(range(50))
    assert len({thread for _, thread in order}) == 1


def test_a_call_that_takes_long_holds_nobody_up_once_others_are_let_in() -> None:
    lane, gate = _Lane(), threading.Event()
    slow = lane.add(gate.wait, SOON)
    quick = [lane.add(str, number) for number in range(5)]
    lane.let_in(1)
    assert not wait(quick, timeout=0.05).done
    lane.let_in(8)
    assert results(quick) == ["0", "1", "2", "3", "4"]
    assert not slow.done()
    gate.set()
    assert slow.result(timeout=SOON)


def test_all_calls_run_side_by_side() -> None:
    lane, barrier = _Lane(), threading.Barrier(10)
    futures = [lane.add(barrier.wait, SOON) for _ in range(10)]
    lane.let_in(1)
    lane.let_in(64)
    assert sorted(results(futures)) == list(range(10))


def test_a_failure_is_its_own_callers() -> None:
    lane = _Lane()
    bad, good = lane.add(int, "x"), lane.add(int, "7")
    lane.let_in(1)
    assert good.result(timeout=SOON) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        bad.result(timeout=SOON)


def test_even_an_exit_reaches_its_future() -> None:
    def leave() -> None:
        raise SystemExit(3)

    lane = _Lane()
    bad, good = lane.add(leave), lane.add(str, 1)
    lane.let_in(1)
    assert good.result(timeout=SOON) == "1"
    assert isinstance(bad.exception(timeout=SOON), SystemExit)


def test_what_was_cancelled_is_not_called() -> None:
    lane, made = _Lane(), []
    first, second = lane.add(made.append, 1), lane.add(made.append, 2)
    assert first.cancel()
    lane.let_in(1)
    second.result(timeout=SOON)
    assert made == [2]


def test_no_more_threads_than_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Pool:
        def submit(self, *call: Any) -> None:
            asked.append(call)

    monkeypatch.setattr(layer_runner, "_threads", Pool)
    lane = _Lane()
    lane.let_in(5)
    assert asked == []
    for number in range(3):
        lane.add(str, number)
    lane.let_in(64)
    assert len(asked) == 3
    run, take = asked[0]
    run(take)
    lane.let_in(64)
    assert len(asked) == 3
