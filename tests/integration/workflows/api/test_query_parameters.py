"""Every query parameter in the OpenAPI document, on every GET: honoured or refused.

The table below has one row per documented parameter; a parameter without a row fails the test, so
a new one has to be tried here.  A valid value changes the answer as the row says, a bad value is
422 and names the parameter, and a parameter that the document does not name is 422 as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from graphrag.models import Tool
from reviews.backtests import services as backtests_services
from reviews.decisions.services import DecisionRequest, decide
from reviews.models import Backtest, HumanReviewRecord, LegalHold, Notice, RetentionPolicy
from tests.integration.workflows.api.conftest import plain_plan
from tests.integration.workflows.api.test_access import delivered
from tests.support.actors import actor_named
from tests.support.learning import learn
from workflows.approvals.services import ask as ask_approval
from workflows.approvals.services import cancel
from workflows.engine.protocol.commands import AddMessage
from workflows.executions import services
from workflows.executions.jobs import run_to_rest
from workflows.models import (
    ApiToken,
    Approval,
    ApprovalPolicy,
    Capability,
    Execution,
    Grant,
    Hold,
    McpServer,
    RuleVersion,
    WebhookDelivery,
    WebhookEndpoint,
    Workflow,
    WorkflowVersion,
)
from workflows.permissions.tokens import create_token
from workflows.planning.planner import sync_capabilities

PREFIX = "/api/v1/"
TOO_LONG = "x" * 5000
Row = dict[str, Any]


@dataclass(frozen=True)
class Narrows:
    """`value` keeps the rows for which `keeps` is true: some of them, and not all."""

    value: str
    keeps: Callable[[Row], bool]
    bad: str


@dataclass(frozen=True)
class Honoured:
    """`value` gives the answer for which `shows` is true; without it the answer is another one."""

    value: str
    shows: Callable[[Any], bool]
    bad: str


@dataclass(frozen=True)
class Accepted:
    """`value` is accepted; the parameter says when to answer, not what."""

    value: str
    bad: str


def is_(name: str, value: Any) -> Callable[[Row], bool]:
    return lambda row: bool(row[name] == value)


def has(name: str, value: Any) -> Callable[[Row], bool]:
    return lambda row: value in row[name]


def all_(keeps: Callable[[Row], bool]) -> Callable[[Any], bool]:
    """A search ranks anew with each filter, so its rows are not those of another answer."""
    return lambda rows: bool(rows) and all(map(keeps, rows))


def moment(days: float) -> str:
    return (timezone.now() + timedelta(days=days)).isoformat().replace("+00:00", "Z")


Case = Narrows | Honoured | Accepted
#: Path and parameter -> what is tried.  `cursor`, `page_size` and `ordering` are tried on every
#: list in the same way.
CASES: dict[tuple[str, str], Case] = {
    ("approvals/", "action"): Narrows("pay", lambda r: r["action"]["name"] == "pay", TOO_LONG),
    ("approvals/", "session"): Narrows(
        "s1", lambda r: r["requested_by"]["session"] == "s1", TOO_LONG
    ),
    ("approvals/", "status"): Narrows("cancelled", is_("status", "cancelled"), "lost"),
    ("approvals/{approval_id}/", "wait"): Accepted("0", "56"),
    ("backtests/", "workflow"): Narrows("alpha", is_("workflow", "alpha"), TOO_LONG),
    ("executions/", "created_by"): Narrows("me", is_("created_by", "admin"), TOO_LONG),
    ("executions/", "created_from"): Narrows(moment(-1), lambda r: r["title"] != "Old", "soon"),
    ("executions/", "created_to"): Narrows(moment(-1), is_("title", "Old"), "soon"),
    ("executions/", "status"): Narrows("COMPLETED", is_("status", "COMPLETED"), "DONE"),
    ("executions/", "workflow"): Narrows("alpha", is_("workflow", "alpha"), TOO_LONG),
    ("executions/{execution_id}/", "reveal"): Honoured(
        "true", lambda body: body["inputs"] == {"password": "example-password"}, "perhaps"
    ),
    ("executions/{execution_id}/events/", "after"): Narrows("2", lambda r: r["version"] > 2, "-1"),
    ("executions/{execution_id}/events/", "limit"): Narrows("1", is_("version", 1), "0"),
    ("grants/", "in_force"): Narrows("true", is_("revoked_at", None), "perhaps"),
    ("notifications/", "unread"): Narrows("true", is_("read_at", None), "perhaps"),
    ("reviews/history/", "decision"): Narrows("REJECT", is_("decision", "REJECT"), "MAYBE"),
    ("reviews/history/", "edited"): Narrows("true", is_("is_edited", True), "perhaps"),
    ("reviews/history/", "execution"): Narrows(
        "{decided}", lambda r: r["decision"] == "APPROVE", "one"
    ),
    ("reviews/history/", "from"): Honoured(moment(1), lambda rows: not rows, "soon"),
    ("reviews/history/", "to"): Honoured(moment(-1), lambda rows: not rows, "soon"),
    ("reviews/history/", "node"): Narrows("left", is_("node_id", "left"), TOO_LONG),
    ("reviews/history/", "phase"): Narrows(
        "BEFORE_EXECUTION", is_("trigger_phase", "BEFORE_EXECUTION"), "DURING"
    ),
    ("reviews/history/", "q"): Narrows("left", is_("node_id", "left"), TOO_LONG),
    ("reviews/history/", "reviewer"): Narrows("reviewer", is_("decision", "APPROVE"), TOO_LONG),
    ("reviews/history/", "workflow"): Narrows("Beta", is_("node_id", "right"), TOO_LONG),
    ("reviews/pending/", "tab"): Honoured("open", lambda rows: len(rows) == 3, "mine"),
    ("reviews/pending/", "q"): Narrows("left", is_("node_id", "left"), TOO_LONG),
    ("reviews/pending/", "workflow"): Narrows("alpha", is_("workflow", "alpha"), TOO_LONG),
    ("reviews/pending/", "phase"): Narrows(
        "BEFORE_EXECUTION", is_("trigger_phase", "BEFORE_EXECUTION"), "DURING"
    ),
    ("reviews/pending/", "reason"): Narrows("escalation", is_("reason", "escalation"), "boredom"),
    ("reviews/pending/", "risk"): Narrows("high", is_("reason", "escalation"), "none"),
    ("reviews/pending/", "group"): Narrows("legal", has("groups", "legal"), TOO_LONG),
    ("tools/", "enabled"): Narrows("false", is_("enabled", False), "perhaps"),
    ("tools/", "kind"): Narrows("capability", is_("kind", "capability"), "magic"),
    ("tools/", "read_only"): Narrows("true", is_("read_only", True), "perhaps"),
    ("tools/", "server"): Narrows("capability", is_("server", "capability"), TOO_LONG),
    ("tools/next/", "done"): Honoured(
        "builtin.echo", lambda rows: [r["tool"] for r in rows] == ["builtin.select"], TOO_LONG
    ),
    ("tools/next/", "limit"): Honoured("1", lambda rows: len(rows) == 1, "0"),
    ("tools/search/", "query"): Honoured("echo", lambda rows: bool(rows), TOO_LONG),
    ("tools/search/", "limit"): Honoured("1", lambda rows: len(rows) == 1, "0"),
    ("tools/search/", "kind"): Honoured("python", all_(is_("kind", "python")), "magic"),
    ("tools/search/", "read_only"): Honoured("true", all_(is_("read_only", True)), "perhaps"),
    ("tools/search/", "server"): Honoured("builtin", all_(is_("server", "builtin")), TOO_LONG),
    ("webhooks/{webhook_id}/deliveries/", "status"): Narrows(
        "FAILED", is_("status", "FAILED"), "LOST"
    ),
    ("workflows/", "enabled"): Narrows("false", is_("enabled", False), "perhaps"),
}
#: Parameters that a request has to have.
NEEDED = {
    "tools/next/": {"done": "builtin.wait"},
    "tools/search/": {"query": "echo a value", "limit": "100"},
    "reviews/pending/": {"tab": "open"},
}
#: What asks for every row, where the parameter narrows by default.
ALL_ROWS = {("grants/", "in_force"): {"in_force": "false"}}
PAGES = ("cursor", "page_size", "ordering")


def gets() -> dict[str, dict[str, dict[str, Any]]]:
    """Path → the query parameters that the document names for its GET."""
    found = {}
    for path, item in SchemaGenerator().get_schema(public=True)["paths"].items():
        if "get" in item and path.startswith(PREFIX):
            named = item["get"].get("parameters", ())
            query = {each["name"]: each for each in named if each["in"] == "query"}
            found[path.removeprefix(PREFIX)] = query
    return found


GETS = gets()
LISTS = sorted(path for path, query in GETS.items() if "cursor" in query)


def review(name: str, phase: str, *groups: str) -> Row:
    return {
        "id": name,
        "type": "tool",
        "tool": "builtin.echo",
        "arguments": {"value": "text"},
        "human_review": {"trigger_phase": phase, "groups": list(groups)},
    }


LEFT = {"tasks": [review("left", "BEFORE_EXECUTION", "reviewer")]}
RIGHT = {"tasks": [review("right", "AFTER_EXECUTION", "legal")]}
ASKS = {
    "tasks": [
        {
            "id": "asks",
            "type": "code_execution",
            "language": "python",
            "code": 'fetch("https://example.com/")["text"]',
        }
    ]
}


@pytest.fixture
def paths(catalogue: None, people: Any, settings: Any, tmp_path: Any) -> dict[str, str]:
    """At least two different rows in every list; the arguments of paths."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sandbox_root": tmp_path / "sandbox"}
    admin, operator = people["admin"], people["operator"]
    for group in ("reviewer", "legal"):
        admin.groups.add(Group.objects.get_or_create(name=group)[0])
    alpha, beta = (
        Workflow.objects.create(name=name, title=name.title(), plan=plan, created_by=admin)
        for name, plan in (("alpha", LEFT), ("beta", RIGHT))
    )
    Workflow.objects.create(name="gamma", title="Gamma", plan=LEFT, enabled=False)

    def run(actor: Any = operator, **what: Any) -> Execution:
        return run_to_rest(services.start_execution(actor=actor, **what).pk)

    agent = {"ail": {"enabled": True, "agent": "rules", "settings": {"rules": []}}}
    old = run(plan=plain_plan(3), title="Old", policy=agent)
    Execution.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=2))
    decided = run(workflow=alpha, title="Alpha")
    decide(
        DecisionRequest(
            hold_id=decided.holds.get().id,
            user=people["reviewer"],
            decision="APPROVE",
            version=decided.version,
            edits={"value": "better"},
            source="test",
        )
    )
    rejected = run(workflow=beta, title="Beta")
    decide(
        DecisionRequest(
            hold_id=rejected.holds.get().id,
            user=admin,
            decision="REJECT",
            version=rejected.version,
            comment="no",
            source="test",
        )
    )
    for workflow in (alpha, beta):
        run(workflow=workflow, title="Waits")
        rule = {"name": "half", "sample": 0.5}
        made = backtests_services.start(user=admin, workflow=workflow, rules=[rule])
        Backtest.objects.filter(pk=made.pk).update(status=Backtest.Status.FAILED)
    run(admin, plan=ASKS, title="Asks", inputs={"password": "example-password"})
    for content in ("one", "two"):
        services.submit_command(
            execution_id=Execution.objects.get(title="Asks").pk,
            command=AddMessage(role="user", content=content, author="admin"),
            actor=actor_named("admin"),
            source="test",
        )
    for number in (1, 2):
        WorkflowVersion.objects.create(workflow=alpha, number=number, definition={})
        RuleVersion.objects.create(
            workflow=alpha, number=number, rules=[], author=admin, author_name="admin"
        )
        create_token(user=admin, name=f"t{number}", scopes=["read"])
        code = {"description": "Echoes a value.", "language": "python", "code": "1"}
        Capability.objects.create(name=f"echo_{number}", **code)
        hold = Hold.objects.filter(status=Hold.Status.OPEN).earliest("opened_at")
        read_at = timezone.now() if number == 1 else None
        about = {"execution": hold.execution, "hold": hold, "read_at": read_at}
        Notice.objects.create(user=admin, kind="waiting", key=str(number), **about)
    sync_capabilities()
    learn(execution_key="1", layers=[["builtin.echo"], ["builtin.select"]])
    learn(execution_key="2", layers=[["builtin.wait"], ["builtin.select", "builtin.echo"]])
    Tool.objects.filter(name="builtin.wait").update(enabled=False)
    for rank, tool in enumerate(Tool.objects.all(), start=1):
        Tool.objects.filter(pk=tool.pk).update(pagerank=rank / 100)
    for hold in Hold.objects.filter(status=Hold.Status.OPEN):
        Grant.objects.create(
            scope=Grant.Scope.TASK,
            execution=hold.execution,
            hold=hold,
            task_id=hold.task_id,
            subject="x",
            operation="net",
            resource="example.com:443",
            permissions={"hosts": ["example.com:443"]},
            granted_by="somebody",
        )
    Grant.objects.filter(task_id="left").update(revoked_at=timezone.now())
    hook = delivered(admin, old)
    delivered(admin, old)
    event = old.events.latest("seq")
    endpoint = WebhookEndpoint.objects.get(pk=hook["webhook_id"])
    WebhookDelivery.objects.create(
        endpoint=endpoint, event=event, execution=old, message_id="other", status="FAILED"
    )
    kept = [
        LegalHold.objects.create(workflow=alpha, reason=reason, placed_by=admin)
        for reason in ("Case 7", "Case 8")
    ]
    for workflow in (alpha, None):
        RetentionPolicy.objects.create(workflow=workflow, keep_days=90)
    servers = [McpServer.objects.create(name=name, command="x") for name in ("kit", "other")]
    return {
        "approval_id": str(approvals(admin).pk),
        "execution_id": str(Execution.objects.get(title="Asks").pk),
        "old": str(old.pk),
        "decided": str(decided.pk),
        "backtest_id": str(Backtest.objects.earliest("pk").pk),
        "id": str(HumanReviewRecord.objects.earliest("pk").pk),
        "token_id": str(ApiToken.objects.filter(user=admin).earliest("pk").pk),
        "workflow_name": "alpha",
        "number": "1",
        "server_id": str(servers[0].pk),
        "legal_hold_id": str(kept[0].pk),
        "retention_policy_id": str(RetentionPolicy.objects.earliest("pk").pk),
        "policy_id": str(ApprovalPolicy.objects.create(pattern="*").pk),
        **hook,
    }


def approvals(person: Any) -> Approval:
    """Two that leave no review open: one is cancelled, a rule approves the other."""
    ApprovalPolicy.objects.create(pattern="ship", groups=["reviewer"], skip_when="`true`")
    fields = {"phase": "BEFORE_EXECUTION", "risk": "low"}
    ask_approval(actor=person, fields={"action": {"name": "ship", "arguments": {}}, **fields})
    action = {"name": "pay", "arguments": {}}
    about = {"action": action, "requested_by": {"session": "s1"}, **fields}
    cancelled = ask_approval(actor=person, fields=about)
    cancel(approval=cancelled, actor=person, reason="no longer needed")
    return cancelled


#: `{name}` of a path that has different arguments in different paths.
NAMES = {"capabilities": "echo_1", "tools": "builtin.echo", "workflows": "alpha"}


@pytest.fixture
def ask(bearer: Any, paths: dict[str, str]) -> Callable[..., Any]:
    client = bearer("admin")

    def send(path: str, **query: str) -> Any:
        names = {**paths, "name": NAMES.get(path.split("/")[0], "")}
        if path.endswith(("checkpoints/", "decisions/")):
            names["execution_id"] = paths["old"]
        given = {name: value.format(**paths) for name, value in query.items()}
        return client.get(PREFIX + path.format(**names), given)

    return send


def rows_of(response: Any) -> Any:
    """The rows of a list; what is one thing as it is."""
    assert response.status_code == 200, response.content
    body = response.json()
    return body.get("results", body)


def needed(path: str, *but: str) -> dict[str, str]:
    return {name: value for name, value in NEEDED.get(path, {}).items() if name not in but}


def names(refused: Any, name: str) -> bool:
    """Whether the answer is a refusal that names the parameter."""
    if refused.status_code not in (400, 422):
        return False
    return name in {each["path"].partition("[")[0] for each in refused.json()["errors"]}


def test_every_documented_parameter_has_a_row() -> None:
    documented = {(path, name) for path, query in GETS.items() for name in query}
    assert {each for each in documented if each[1] not in PAGES} == set(CASES)


@pytest.mark.django_db
def test_each_filter_is_honoured_and_refuses_invalid_values(ask: Any) -> None:
    wrong = [found for where in CASES if (found := problem_with(ask, *where))]
    assert not wrong, "\n".join(wrong)


def problem_with(ask: Any, path: str, name: str) -> str:
    """What is wrong with one parameter; "" if nothing is."""
    case, rest = CASES[path, name], needed(path, name)
    for bad in (case.bad, "\0"):
        refused = ask(path, **rest, **{name: bad})
        if not names(refused, name):
            return f"{path}?{name}={bad[:20]!r} is not refused: {refused.content[:200]!r}"
    answer = ask(path, **rest, **{name: case.value})
    if answer.status_code != 200:
        return f"{path}?{name}={case.value} is refused: {answer.content!r}"
    if isinstance(case, Accepted):
        return ""
    found = rows_of(answer)
    if isinstance(case, Honoured):
        differs = GETS[path][name].get("required") or not case.shows(rows_of(ask(path, **rest)))
        return "" if case.shows(found) and differs else f"{path}?{name} gives {found}"
    everything = rows_of(ask(path, **NEEDED.get(path, {}), **ALL_ROWS.get((path, name), {})))
    kept = [row for row in everything if case.keeps(row)]
    if 0 < len(kept) < len(everything) and found == kept:
        return ""
    return f"{path}?{name} gives {found}, and not {kept} of {everything}"


@pytest.mark.django_db
def test_every_list_has_pages_and_orders(ask: Any) -> None:
    for path in LISTS:
        rest = needed(path) | next((more for key, more in ALL_ROWS.items() if key[0] == path), {})
        orders = GETS[path]["ordering"]["schema"]["enum"]
        whole = {order: rows_of(ask(path, **rest, ordering=order)) for order in orders}
        for order, rows in whole.items():
            opposite = whole.get(order.removeprefix("-") if order[0] == "-" else f"-{order}")
            assert len(rows) > 1, path
            assert opposite is None or opposite == rows[::-1], (path, order)
        first = ask(path, **rest, page_size="1").json()
        assert first["results"] == whole[orders[0]][:1], path
        cursor = parse_qs(urlsplit(first["next"]).query)["cursor"][0]
        second = rows_of(ask(path, **rest, page_size="1", cursor=cursor))
        assert second == whole[orders[0]][1:2], path
        for name, bad in (("cursor", "nonsense"), ("page_size", "0"), ("ordering", "sideways")):
            assert names(ask(path, **rest, **{name: bad}), name), (path, name)


@pytest.mark.django_db
def test_every_get_refuses_undocumented_parameters(ask: Any) -> None:
    """A misspelt filter that was ignored would answer with everything."""
    ignored = [path for path in GETS if not names(ask(path, **needed(path), odd="1"), "odd")]
    assert not ignored, "\n".join(ignored)
