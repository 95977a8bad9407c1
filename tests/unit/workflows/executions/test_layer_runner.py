"""The sync calls of one layer: in order, by as many threads as were let in, each on its own."""

import threading
from concurrent.futures import Future, wait
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.executions import layer_runner
from workflows.executions.layer_runner import _CallQueue

#: Seconds after which a test that hangs fails.
SOON = 20


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(timeout=SOON) for future in futures]


@given(st.lists(st.integers(), max_size=20), st.integers(1, 30))
def test_every_call_runs_once_and_resolves_its_own_future(values: list[int], wide: int) -> None:
    queue, calls = _CallQueue(), []

    def call(place: int, value: int) -> int:
        calls.append(place)
        return value

    futures = [queue.add(call, place, value) for place, value in enumerate(values)]
    queue.add_threads(1)
    queue.add_threads(wide)
    assert results(futures) == values
    assert sorted(calls) == list(range(len(values)))


def test_one_thread_takes_calls_in_order() -> None:
    queue = _CallQueue()
    order: list[tuple[int, int]] = []
    futures = [
        queue.add(lambda place: order.append((place, threading.get_ident())), place)
        for place in range(50)
    ]
    queue.add_threads(1)
    results(futures)
    assert [place for place, _ in order] == list(range(50))
    assert len({thread for _, thread in order}) == 1


def test_a_long_call_does_not_block_others_with_more_threads() -> None:
    queue, gate = _CallQueue(), threading.Event()
    slow = queue.add(gate.wait, SOON)
    quick = [queue.add(str, number) for number in range(5)]
    queue.add_threads(1)
    assert not wait(quick, timeout=0.05).done
    queue.add_threads(8)
    assert results(quick) == ["0", "1", "2", "3", "4"]
    assert not slow.done()
    gate.set()
    assert slow.result(timeout=SOON)


def test_all_calls_run_concurrently() -> None:
    queue, barrier = _CallQueue(), threading.Barrier(10)
    futures = [queue.add(barrier.wait, SOON) for _ in range(10)]
    queue.add_threads(1)
    queue.add_threads(64)
    assert sorted(results(futures)) == list(range(10))


def test_a_failure_reaches_only_its_caller() -> None:
    queue = _CallQueue()
    bad, good = queue.add(int, "x"), queue.add(int, "7")
    queue.add_threads(1)
    assert good.result(timeout=SOON) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        bad.result(timeout=SOON)


def test_even_an_exit_reaches_its_future() -> None:
    def leave() -> None:
        raise SystemExit(3)

    queue = _CallQueue()
    bad, good = queue.add(leave), queue.add(str, 1)
    queue.add_threads(1)
    assert good.result(timeout=SOON) == "1"
    assert isinstance(bad.exception(timeout=SOON), SystemExit)


def test_a_cancelled_call_is_not_made() -> None:
    queue, made = _CallQueue(), []
    first, second = queue.add(made.append, 1), queue.add(made.append, 2)
    assert first.cancel()
    queue.add_threads(1)
    second.result(timeout=SOON)
    assert made == [2]


def test_no_more_threads_than_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Pool:
        def submit(self, *call: Any) -> None:
            asked.append(call)

    monkeypatch.setattr(layer_runner, "_threads", Pool)
    queue = _CallQueue()
    queue.add_threads(5)
    assert asked == []
    for number in range(3):
        queue.add(str, number)
    queue.add_threads(64)
    assert len(asked) == 3
    run, take = asked[0]
    run(take)
    queue.add_threads(64)
    assert len(asked) == 3
