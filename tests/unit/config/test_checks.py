"""System checks that refuse settings which lose work later."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks

from config import checks


@pytest.fixture
def given(monkeypatch):
    """Lets the checks see the given settings, and those alone."""

    def give(**values: Any) -> None:
        monkeypatch.setattr(checks, "settings", SimpleNamespace(**values))

    return give


def test_the_test_settings_pass() -> None:
    assert [message for message in run_checks() if message.id.startswith("holdpoint.E00")] == []


@pytest.mark.parametrize(("role", "count"), [("web", 0), ("worker", 1), ("sweeper", 1)])
def test_a_pool_is_only_for_the_web_process(given, role: str, count: int) -> None:
    given(HOLDPOINT_ROLE=role, DATABASES={"default": {"OPTIONS": {"pool": True}}})
    assert len(checks.database_pool(None)) == count


@pytest.mark.parametrize(("role", "count"), [("web", 1), ("worker", 0)])
def test_web_keeps_no_connection(given, role: str, count: int) -> None:
    given(HOLDPOINT_ROLE=role, DATABASES={"default": {"CONN_MAX_AGE": None}})
    assert len(checks.web_connections(None)) == count


@pytest.mark.parametrize("layers", [{}, {"default": {"BACKEND": checks.IN_MEMORY_LAYER}}])
def test_an_in_memory_layer_is_refused(given, layers: dict) -> None:
    given(CHANNEL_LAYERS=layers)
    assert [message.id for message in checks.channel_layer(None)] == ["holdpoint.E003"]


@pytest.mark.parametrize("queue", [{}, {"SERIALIZER": "rq.serializers.DefaultSerializer"}])
def test_pickled_jobs_are_refused(given, queue: dict) -> None:
    given(RQ_QUEUES={"default": queue})
    assert [message.id for message in checks.queue_serializer(None)] == ["holdpoint.E004"]


@pytest.mark.parametrize(
    ("floor", "faults"),
    [
        ({}, 0),
        ({"four_eyes": True, "hil": {"enabled": True}}, 0),
        ({"nonsense": 1}, 1),
        ({"permission_ceiling": "everything"}, 1),
    ],
)
def test_the_policy_floor_is_a_policy(settings, floor: dict, faults: int) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "policy_floor": floor}
    found = checks.policy_floor(None)
    assert [message.id for message in found] == ["holdpoint.E007"] * faults


@pytest.mark.parametrize(
    ("address", "hints"), [("", []), ("tcp://127.0.0.1:8786", ["Install the extra `dask`."])]
)
def test_a_runner_needs_its_package(
    given, monkeypatch: pytest.MonkeyPatch, address: str, hints: list[str]
) -> None:
    given(HOLDPOINT={"dask_scheduler": address})
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    assert [message.hint for message in checks.remote_runner(None)] == hints


@pytest.mark.parametrize(("lease", "count"), [(30.0, 0), (10.0, 1), (5.0, 1)])
def test_a_lease_of_webhooks_outlasts_an_attempt(given, lease: float, count: int) -> None:
    given(HOLDPOINT={"webhook_lease_seconds": lease, "webhook_timeout_seconds": 10.0})
    assert len(checks.webhook_lease(None)) == count
