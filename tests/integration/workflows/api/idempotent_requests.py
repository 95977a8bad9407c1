"""Sending a request again under its `Idempotency-Key`, one after the other and all at once."""

from __future__ import annotations

import threading
from typing import Any

from django.db import connection
from rest_framework.test import APIClient


def send(client: APIClient, body: Any, key: str = "key-1", *, url: str) -> Any:
    return client.post(url, body, headers={"Idempotency-Key": key})


def at_once(token: str, url: str, bodies: list[Any]) -> list[Any]:
    """Every body sent by a thread of its own, all let go together."""
    gate = threading.Barrier(len(bodies))
    answers: list[Any] = []

    def run(body: Any) -> None:
        try:
            client = APIClient(headers={"Authorization": f"Bearer {token}"})
            gate.wait()
            answers.append(send(client, body, url=url))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
