"""The page of a tool, the graph around it, and learned edges of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.urls import reverse

from graphrag.models import LearnedExecution, Tool
from tests.integration.reviews.conftest import MakeUser, Start, echo
from workflows.models import Execution, ExecutionEvent
from workflows.planning.learning import learn_from

if TYPE_CHECKING:
    from django.contrib.auth.models import User

TIMES = "\N{MULTIPLICATION SIGN}"
pytestmark = pytest.mark.django_db(transaction=True)


def read(user: User, url: str, status: int = 200) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(url)
    assert answer.status_code == status
    return answer.content.decode()


def two_steps(start: Start) -> Execution:
    select = {
        "id": "b",
        "type": "tool",
        "tool": "builtin.select",
        "arguments": {"value": {"$from": "a"}, "expression": "@"},
    }
    execution = start(echo("a", {"x": 1}), select)
    assert execution.status == "COMPLETED"
    return execution


def test_a_tool_page_shows_preceding_and_following_tools(start: Start, auditor: User) -> None:
    learn_from(two_steps(start).pk)
    learn_from(two_steps(start).pk)
    listed = read(auditor, "/tools/")
    assert "/tools/builtin.echo/" in listed
    html = read(auditor, "/tools/builtin.echo/")
    assert 'href="/tools/builtin.select/"' in html
    assert f"2{TIMES} · confidence 0.60" in html
    assert "Came before: nothing so far" in html
    assert html.count("<svg") >= 2
    assert "style=" not in html
    assert "Open in the admin" not in html
    assert "Probable next tools" in html
    assert "This tool ran 2 times in past runs." in html
    assert "50%" in html
    fresh = read(auditor, "/tools/builtin.wait/")
    assert "No past run has used this tool together with another one" in fresh
    read(auditor, "/tools/no.such_tool/", 404)
    Tool.objects.create(name="old.two\nlines", kind="mcp", server="old")
    assert "/tools/old.two%0Alines/" in read(auditor, "/tools/")
    read(auditor, "/tools/old.two%0Alines/")
    assert Client().get("/tools/builtin.echo/").status_code == 302


def test_a_name_with_a_slash_and_a_missing_tool_have_pages(start: Start, auditor: User) -> None:
    Tool.objects.filter(name="builtin.wait").update(
        name="builtin.wait/a while", enabled=False, vanished=True
    )
    html = read(auditor, reverse("reviews:tool", args=("builtin.wait/a while",)))
    assert "its server no longer lists it" in html


def test_tools_that_can_destroy_data_are_marked(auditor: User) -> None:
    Tool.objects.create(name="mail.delete_email", server="mail", kind="mcp")
    Tool.objects.create(name="disk.format", server="disk", kind="mcp", destructive=True)
    Tool.objects.create(name="mail.read_email", server="mail", kind="mcp", read_only=True)
    assert read(auditor, "/tools/").count("can destroy data") == 2
    assert "can destroy data" in read(auditor, "/tools/mail.delete_email/")
    assert "can destroy data" not in read(auditor, "/tools/mail.read_email/")


def test_the_admin_shows_the_same_graph(start: Start, make_user: MakeUser) -> None:
    learn_from(two_steps(start).pk)
    root = make_user("root", is_staff=True, is_superuser=True)
    echo_tool = Tool.objects.get(name="builtin.echo")
    html = read(root, f"/admin/graphrag/tool/{echo_tool.pk}/change/")
    other = Tool.objects.get(name="builtin.select")
    assert f"/admin/graphrag/tool/{other.pk}/change/" in html
    assert f"1{TIMES} · confidence 0.50" in html
    desk = read(root, reverse("reviews:tool", args=("builtin.echo",)))
    assert f'href="/admin/graphrag/tool/{echo_tool.pk}/change/"' in desk


def test_a_run_page_shows_learned_edges(start: Start, operator: User, reviewer: User) -> None:
    first, second = two_steps(start), two_steps(start)
    address = f"/runs/{first.pk}/learned/"
    assert address in read(operator, f"/runs/{first.pk}/")
    assert "a few seconds after a run has ended" in read(operator, address)
    learn_from(first.pk)
    learn_from(second.pk)
    html = read(operator, address)
    assert "1 pair of tools seen for the first time." in html
    assert '<span class="tag">new</span>' in html
    assert '<td class="number">1</td><td class="number">0.50</td>' in html
    again = read(operator, f"/runs/{second.pk}/learned/")
    assert "1 pair seen again." in again
    assert "0.60" in again
    assert "unchanged" in again  # one edge alone moves nothing the second time
    outcome = LearnedExecution.objects.get(execution_key=str(first.pk)).outcome
    assert outcome["edges"] == [["builtin.echo", "builtin.select", 1, 0.5]]
    before, after = next(rank[1:] for rank in outcome["ranks"] if rank[0] == "builtin.select")
    assert after > before == 1.0


def test_a_run_page_explains_why_nothing_was_learned(start: Start, operator: User) -> None:
    alone = start(echo("a"))
    learn_from(alone.pk)
    html = read(operator, f"/runs/{alone.pk}/learned/")
    assert "No tool followed another one in this run" in html
    held = start(echo("a", phase="BEFORE_EXECUTION"))
    html = read(operator, f"/runs/{held.pk}/learned/")
    assert "learns from a run when it has ended" in html
    assert "/learned/" not in read(operator, f"/runs/{held.pk}/")
    failed = two_steps(start)
    ExecutionEvent.objects.create(
        execution=failed,
        seq=failed.version + 1,
        kind="graph_update_failed",
        payload={"error": "the graph is away"},
    )
    assert "the graph is away" in read(operator, f"/runs/{failed.pk}/learned/")
    read(operator, "/runs/999999/learned/", 404)
