"""Jobs on their way to a worker, and the worker that runs them."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import django_rq
import pytest
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.job import Job
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer

from tests.integration.workflows.conftest import Engine, value
from workflows.executions import dispatch
from workflows.executions.worker import EngineWorker

HERE = "tests.integration.workflows.executions.test_worker"
done: list[int] = []


def note(number: int) -> None:
    """A job."""
    done.append(number)


def fail(number: int) -> None:
    """A job that ends badly."""
    raise RuntimeError(f"no {number}")


def stopped_in_between(number: int) -> None:
    """A job during which the worker is asked to stop."""
    os.kill(os.getpid(), signal.SIGTERM)
    done.append(number)


@pytest.fixture
def queue(servers: None) -> Iterator[Queue]:
    """The queue of the product, empty; signal handlers as they were afterwards."""
    found = dispatch.get_queue("default")
    found.connection.flushdb()
    done.clear()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield found
    for each, handler in handlers.items():
        signal.signal(each, handler)
    found.connection.flushdb()


def worker(queue: Queue) -> EngineWorker:
    """As the pool makes it, in this process."""
    connection = django_rq.get_connection("default")
    queues = [
        Queue(each, connection=connection, serializer=JSONSerializer) for each in ("default", "low")
    ]
    return EngineWorker(queues, connection=connection, serializer=JSONSerializer)


def only_job(queue: Queue) -> Job:
    [name] = queue.job_ids
    return Job.fetch(name, connection=queue.connection, serializer=JSONSerializer)


def test_a_plain_rq_worker_runs_a_job(queue: Queue) -> None:
    assert dispatch.enqueue(f"{HERE}.note", 7)
    job = only_job(queue)
    assert (job.func_name, tuple(job.args), job.kwargs) == (f"{HERE}.note", (7,), {})
    assert (job.get_status().value, job.origin, job.timeout) == ("queued", "default", -1)
    assert (job.result_ttl, job.failure_ttl) == (0, dispatch.JOB_TTL_SECONDS)
    assert queue in Queue.all(connection=queue.connection, serializer=JSONSerializer)
    SimpleWorker([queue], connection=queue.connection, serializer=JSONSerializer).work(burst=True)
    assert done == [7]


def test_without_redis_enqueueing_does_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise RedisError("away")

    with monkeypatch.context() as patch:
        patch.setattr(queue.connection.connection_pool, "get_connection", away)
        assert not dispatch.enqueue(f"{HERE}.note", 1)


def test_the_worker_runs_jobs_and_leaves_no_keys(queue: Queue) -> None:
    for number in range(3):
        dispatch.enqueue(f"{HERE}.note", number)
    dispatch.enqueue(f"{HERE}.note", 3, queue="low")
    assert worker(queue).work(burst=True)
    assert done == [0, 1, 2, 3]
    assert queue.connection.keys("rq:job:*") == []


def test_a_job_without_its_stored_hash_is_skipped(queue: Queue) -> None:
    """The sweeper enqueues another one."""
    dispatch.enqueue(f"{HERE}.note", 5)
    dispatch.enqueue(f"{HERE}.note", 6)
    queue.connection.delete(Job.key_for(queue.job_ids[0]))
    worker(queue).work(burst=True)
    assert done == [6]


def test_other_jobs_run_as_rq_runs_them(queue: Queue) -> None:
    queue.enqueue_call(f"{HERE}.note", args=(9,), result_ttl=60)
    job = only_job(queue)
    worker(queue).work(burst=True)
    assert (done, job.get_status().value) == ([9], "finished")


def test_a_failed_job_is_stored_with_its_reason(queue: Queue) -> None:
    dispatch.enqueue(f"{HERE}.fail", 4)
    dispatch.enqueue(f"{HERE}.note", 5)
    job = only_job_of(queue, 0)
    worker(queue).work(burst=True)
    assert done == [5]
    failed = FailedJobRegistry(queue=queue)
    assert failed.get_job_ids() == [job.id]
    assert "RuntimeError: no 4" in (job.latest_result().exc_string or "")
    assert StartedJobRegistry(queue=queue).get_job_ids() == []


def only_job_of(queue: Queue, place: int) -> Job:
    return Job.fetch(queue.job_ids[place], connection=queue.connection, serializer=JSONSerializer)


def test_a_signal_to_stop_waits_for_the_job(queue: Queue) -> None:
    dispatch.enqueue(f"{HERE}.stopped_in_between", 1)
    dispatch.enqueue(f"{HERE}.note", 2)
    worker(queue).work(burst=True)
    assert done == [1]
    assert queue.count == 1


def test_a_suspended_worker_takes_no_job(queue: Queue) -> None:
    dispatch.enqueue(f"{HERE}.note", 1)
    queue.connection.set("rq:suspended", 1)
    worker(queue).work(burst=True)
    assert (done, queue.count) == ([], 1)


def test_the_worker_moves_an_execution_to_its_end(engine: Engine, queue: Queue) -> None:
    execution = engine.start(value("a"))  # sends for a worker
    job = only_job(queue)
    assert (job.func_name, tuple(job.args)) == (dispatch.ADVANCE, (execution.pk,))
    worker(queue).work(burst=True)
    execution.refresh_from_db()
    assert execution.status == "COMPLETED"
