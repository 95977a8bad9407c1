"""Web, workers, sweeper and Redis are killed while executions run and webhooks go out.

A small number by default; `make test-long` is the full exercise, `-s` shows its figures.
"""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
from django.contrib.auth.models import User

from tests.integration.workflows.conftest import Engine, value
from tests.integration.workflows.webhooks.installation import Installation, installation
from tests.support.processes import wait_for
from tests.support.repetitions import often
from tests.support.webhook_receiver import Receiver, flaky
from workflows.models import Execution, WebhookDelivery, WebhookEndpoint
from workflows.permissions.tokens import create_token

FULL = 200
RUNS = often(12, 200)
PLAN = {
    "tasks": [
        {"id": "a", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 0.05}},
        value("b", {"$from": "a"}),
        value("c", {"$from": "b"}),
    ]
}


class Client(threading.Thread):
    """Starts executions, at one web process or the other; repeats what got no answer."""

    def __init__(self, system: Installation, token: str) -> None:
        super().__init__()
        self.system, self.token = system, token
        self.ids: list[int] = []
        self.repeated = 0

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=headers, timeout=10) as client:
            for number in range(RUNS):
                self.ids.append(self._start(client, number))

    def _start(self, client: httpx.Client, number: int) -> int:
        key, end = uuid.uuid4().hex, time.monotonic() + 180
        while time.monotonic() < end:
            port = self.system.ports[number % 2]
            number += 1
            try:
                answer = client.post(
                    f"http://127.0.0.1:{port}/api/v1/executions/",
                    json={"plan": PLAN},
                    headers={"Idempotency-Key": key},
                )
                if answer.status_code == 201:
                    return int(answer.json()["id"])
            except httpx.HTTPError:
                pass
            self.repeated += 1
            time.sleep(0.05)
        raise AssertionError("no web process took an execution within three minutes")


def finished(client: Client) -> int:
    return Execution.objects.filter(pk__in=client.ids, status="COMPLETED").count()


def test_killing_one_of_each_process_under_load_loses_nothing(
    engine: Engine, owner: User, receiver: Receiver, register: Any, tmp_path: Path
) -> None:
    receiver.answer = flaky(0.2)
    _, secret = register()
    _, token = create_token(user=owner, name="load", scopes=["read", "run"])
    began = time.monotonic()
    with installation(tmp_path / "redis") as system:
        system.wait_until_up()
        client = Client(system, token)
        client.start()
        try:
            torment(system, client)
        finally:
            client.join()
        # One web process and one worker pool stay dead for the rest.
        system.kill_web(0, again=False)
        system.kill_pool(2, again=False)
        wait_for(lambda: finished(client) == RUNS, seconds=180, what="every run completed")
        wait_for(lambda: all_delivered(client), seconds=240, what="every event delivered")
    check(client, receiver, secret)
    print(figures(client, receiver, time.monotonic() - began))  # noqa: T201


def torment(system: Installation, client: Client) -> None:
    """Each in turn, a share of the runs apart."""
    steps = [
        lambda: system.kill_web(0, again=True),
        lambda: system.kill_pool(0, again=True),
        system.kill_redis,
        system.kill_sweeper,
    ]
    if RUNS >= FULL:
        steps += [
            lambda: system.kill_web(1, again=True),
            lambda: system.kill_pool(1, again=True),
            system.kill_redis,
        ]
    for number, step in enumerate(steps, 1):
        share = RUNS * number // (len(steps) + 1)
        wait_for(lambda share=share: len(client.ids) >= share, seconds=120, what="load")
        step()


def all_delivered(client: Client) -> bool:
    wanted = sum(Execution.objects.filter(pk__in=client.ids).values_list("version", flat=True))
    found = WebhookDelivery.objects.filter(execution__in=client.ids)
    return found.filter(status="DELIVERED").count() == wanted == found.count()


def check(client: Client, receiver: Receiver, secret: str) -> None:
    assert len(set(client.ids)) == RUNS
    assert Execution.objects.count() == RUNS
    assert WebhookEndpoint.objects.get().parked_at is None
    for execution in Execution.objects.all():
        everything = list(range(1, execution.version + 1))
        assert list(execution.events.order_by("seq").values_list("seq", flat=True)) == everything
        assert receiver.order(execution.pk) == everything
        settled = execution.attempts.filter(settled=True)
        assert sorted(settled.values_list("task_id", flat=True)) == ["a", "b", "c"]
    assert all(each.is_signed_with(secret) for each in receiver.got)


def figures(client: Client, receiver: Receiver, seconds: float) -> str:
    accepted = receiver.accepted
    return (
        f"{RUNS} runs, {client.repeated} requests repeated, {len(receiver.got)} posts,"
        f" {len(accepted)} accepted, {len({each.id for each in accepted})} distinct,"
        f" {seconds:.0f} s"
    )
