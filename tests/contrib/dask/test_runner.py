"""What the runner makes of answers of a cluster, and the check of its package."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.contrib.dask import checks
from workflows.contrib.dask.runner import _outcome
from workflows.engine.protocol.ports import Failure


def test_the_errors_of_a_cluster_can_be_stored() -> None:
    failed = {"state": "failed", "text": "a\0b\ud800" + "x" * 5000, "printed": ""}
    outcome = _outcome(failed)
    assert isinstance(outcome, Failure)
    assert len(outcome.message) == 2000
    assert "\0" not in outcome.message
    outcome.message.encode()


@pytest.mark.parametrize(
    ("address", "hints"), [("", []), ("tcp://127.0.0.1:8786", ["Install the extra `dask`."])]
)
def test_a_scheduler_needs_the_package(
    settings: Any, monkeypatch: pytest.MonkeyPatch, address: str, hints: list[str]
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "dask_scheduler": address}
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    assert [message.hint for message in checks.check_package(None)] == hints
