"""The web process is killed while a call is held, before it is sent, and after its answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.integration.workflows.mcp_gate.conftest import (
    Upstream,
    decided,
    in_background,
    open_hold,
    text_of,
)
from tests.integration.workflows.mcp_server.web import Agent as WebAgent
from tests.integration.workflows.mcp_server.web import Web
from tests.support.processes import wait_for
from workflows.mcp_gate.results import AWAIT_TOOL
from workflows.models import Approval, GateCall, Hold

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = {"path": "a", "text": "hello"}


def test_killed_while_a_call_is_held(
    web: Web, web_agent: WebAgent, upstream: Upstream, reviewer: User
) -> None:
    web.start()
    waiting = in_background(lambda: web_agent.call("files__write", **WRITE))
    wait_for(open_hold, what="a hold")
    web.killed_and_started()
    waiting.join(timeout=60)
    results: list[Any] = []
    again = in_background(lambda: results.append(web_agent.call("files__write", **WRITE)))
    decided(reviewer)
    again.join(timeout=60)
    assert results[0].structured_content == {"path": "a", "bytes": 5}
    assert len(upstream.calls) == 1
    assert Hold.objects.count() == 1


@pytest.mark.parametrize(("point", "sent"), [("gate.sent", 0), ("gate.answered", 1)])
def test_killed_around_the_call_of_the_server(
    web: Web, web_agent: WebAgent, upstream: Upstream, reviewer: User, point: str, sent: int
) -> None:
    web.start(HOLDPOINT_CRASH_AT=point)
    waiting = in_background(lambda: web_agent.call("files__write", **WRITE))
    wait_for(open_hold, what="a hold")
    decided(reviewer)
    wait_for(lambda: not web.runs, what="the web process crashes", seconds=60)
    waiting.join(timeout=60)
    assert len(upstream.calls) == sent
    web.end()
    web.start(HOLDPOINT_GATE_WAIT_SECONDS="0")
    uid = str(GateCall.objects.get().uid)
    assert "approved and sent" in text_of(web_agent.call("files__write", **WRITE))
    GateCall.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    result = web_agent.call(AWAIT_TOOL, id=uid)
    assert result.is_error
    assert "Whether it took effect is unknown" in text_of(result)
    assert len(upstream.calls) == sent
    assert GateCall.objects.get().outcome == "unknown"
    assert Approval.objects.get().result_ok is False
