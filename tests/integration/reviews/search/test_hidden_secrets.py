"""A secret typed into any text at any door is on no page, in no export and in no search.

The crawl follows every link of every role, reads every list and object of the admin and every GET
operation of the API, and asks each search whether it tells two guesses apart.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator
from mcp import Client as McpClient
from rest_framework.test import APIClient

from reviews.models import HumanReviewRecord
from reviews.queue.saved_views import save_view
from reviews.retention.services import place_legal_hold
from tests.integration.reviews.conftest import MakeUser, decide, echo
from tests.integration.reviews.pages import post_decision
from tests.support.catalogue import stock_catalogue
from tests.support.pages import Page, browser
from workflows.executions.jobs import run_to_rest
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.server import build_server
from workflows.models import Approval, Execution, Hold, Workflow
from workflows.permissions.roles import ensure_roles
from workflows.permissions.tokens import create_token
from workflows.review_rules.publish import publish

pytestmark = pytest.mark.django_db(transaction=True)

#: Long enough that no random token of a page (of a form, of a policy of scripts) has it by chance.
SECRET = re.compile("zx9qtop|topsecret", re.IGNORECASE)
#: What people and agents write at the doors.  `door` makes each text one of its own.
TEXT = "{door} needs password=Zx9qTopSecret42 now"
ROLES = ("reviewer", "operator", "auditor", "integrator", "admin", "root")
#: Pages of a kind, such as the pages of runs, that a role opens, and lists by other filters.
_OF_A_KIND, _FILTERED = 3, 1
#: The first letters of the secret, and a wrong guess.
GUESSES = ("Zx9q", "Zx9z")


def text(door: str) -> str:
    return TEXT.format(door=door)


def asked(name: str, **review: Any) -> dict[str, Any]:
    """A task with a title that waits for a review with instructions."""
    task = echo(name, phase="BEFORE_EXECUTION", on_reject="skip", instructions=text("asked"))
    task["human_review"] |= review
    return {**task, "title": text(f"task {name}")}


@pytest.fixture
def people(make_user: MakeUser) -> dict[str, User]:
    stock_catalogue()
    ensure_roles()
    roles = {role: [role] for role in ROLES} | {"root": [], "reviewer2": ["reviewer"]}
    return {
        name: make_user(name, *groups, is_staff=True, is_superuser=name == "root")
        for name, groups in roles.items()
    }


def api(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def sent(client: APIClient, path: str, body: Any) -> Any:
    response = client.post(f"/api/v1/{path}", body, format="json")
    assert response.status_code in (200, 201, 202), (path, response.content)
    return response.json()


@pytest.fixture
def written(people: dict[str, User]) -> None:
    """Write a secret into each text at each door."""
    executions(people)
    decisions(people)
    approvals(people)
    definitions(people)
    objects(people)
    mcp(people["integrator"])


def executions(people: dict[str, User]) -> None:
    client = api(people["operator"])
    fork = {"kind": "inject_task", "task": {**echo("more"), "title": text("injected")}}
    commands = (
        fork,
        {"kind": "replan", "new_requirement": text("replan")},
        {"kind": "abort", "reason": text("abort")},
    )
    for _ in range(2):
        body = {
            "title": text("run"),
            "plan": {"tasks": [asked("a"), {**echo("b"), "depends_on": ["a"]}]},
            "policy": {"replan_review": {"enabled": True, "instructions": text("replan")}},
        }
        run = sent(client, "executions/", body)["id"]
        run_to_rest(int(run))
        sent(client, f"executions/{run}/messages/", {"content": text("message")})
    for command in commands:
        response = client.post(f"/api/v1/executions/{run}/commands/", command, format="json")
        assert response.status_code in (200, 202, 409), response.content


def decisions(people: dict[str, User]) -> None:
    """Comments of each kind of decision, from REST, a page and a chat."""
    client = api(people["operator"])
    plan = {
        "tasks": [
            asked("rest", trigger_phase="AFTER_EXECUTION"),
            *(asked(name) for name in ("web", "slack", "vote")),
        ]
    }
    plan["tasks"][3]["human_review"]["quorum"] = 2
    run = int(sent(client, "executions/", {"title": text("run"), "plan": plan})["id"])
    run_to_rest(run)
    reviewer = people["reviewer"]
    while hold := Hold.objects.filter(
        execution=run, status=Hold.Status.OPEN, task_id__in=("web", "slack")
    ).first():
        if hold.task_id == "web":
            fields = {"decision": "REJECT", "comment": text("web")}
            response = post_decision(browser(reviewer), hold, **fields)
            assert response.status_code in (200, 302, 303), response.content
        else:
            decide(hold, reviewer, "REJECT", source="slack", comment=text("slack"))
    vote = Hold.objects.get(execution=run, status=Hold.Status.OPEN, task_id="vote")
    decide(vote, reviewer, comment=text("vote"))
    decide(vote, people["reviewer2"], comment=text("second vote"))
    run_to_rest(run)
    hold = Hold.objects.get(execution=run, status=Hold.Status.OPEN)
    body = {
        "execution_id": str(run),
        "hold_id": hold.pk,
        "version": Execution.objects.get(pk=run).version,
        "decision": "REQUEST_CHANGES",
        "comment": text("changes"),
    }
    sent(api(reviewer), "reviews/resume/", body)
    run_to_rest(run)
    place_legal_hold(
        actor=people["admin"], execution=Execution.objects.get(pk=run), reason=text("hold")
    )


def approvals(people: dict[str, User]) -> None:
    client = api(people["integrator"])
    body = {
        "action": {
            "name": "pay.out",
            "title": text("action"),
            "description": text("description"),
            "arguments": {"amount": 5},
        },
        "context": text("context"),
        "instructions": text("instructions"),
        "requested_by": {
            "agent": text("agent"),
            "session": text("session"),
            "url": "https://agent.example/?password=Zx9qTopSecret42",
        },
    }
    ids = [sent(client, "approvals/", body)["id"] for _ in range(3)]
    sent(client, f"approvals/{ids[0]}/cancel/", {"reason": text("cancel")})
    hold = Approval.objects.get(pk=ids[1]).execution.holds.get()
    decide(hold, people["reviewer"], comment=text("approval"))
    run_to_rest(hold.execution_id)
    result = {"ok": False, "error": text("result")}
    sent(client, f"approvals/{ids[1]}/result/", result)
    event = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls", "description": text("hook")},
        "session_id": text("session"),
        "cwd": "/srv/password=Zx9qTopSecret42",
        "tool_use_id": "1",
    }
    sent(client, "hooks/claude-code/?wait=0", event)


def definitions(people: dict[str, User]) -> None:
    """A workflow with two versions, its rules and a run."""
    client, person = api(people["admin"]), people["admin"]
    body = {
        "name": "stored",
        "title": text("workflow"),
        "description": text("workflow"),
        "plan": {"tasks": [asked("a")]},
        "policy": {"replan_review": {"enabled": True, "instructions": text("policy")}},
    }
    sent(client, "workflows/", body)
    changed = {"title": text("renamed"), "plan": {"tasks": [asked("a"), asked("b")]}}
    assert client.patch("/api/v1/workflows/stored/", changed, format="json").status_code == 200
    # What was stored can be sent again, although it has masks.
    stored = client.get("/api/v1/workflows/stored/").json()
    again = {name: stored[name] for name in ("title", "description", "plan", "policy")}
    assert client.patch("/api/v1/workflows/stored/", again, format="json").status_code == 200
    workflow = Workflow.objects.get(name="stored")
    publish(
        actor=person, workflow=workflow, rules=[], expected=0, source="rest", comment=text("rules")
    )
    run = sent(api(people["operator"]), "executions/", {"workflow": "stored"})["id"]
    run_to_rest(int(run))


def objects(people: dict[str, User]) -> None:
    """What people write about the objects that they set up."""
    admin_client, client = api(people["admin"]), api(people["operator"])
    policy = {"pattern": "zz.*", "groups": ["reviewer"], "instructions": text("all")}
    sent(admin_client, "approval-policies/", policy)
    hook = {"name": text("hook"), "url": "https://example.com/", "events": ["workflow_start"]}
    sent(admin_client, "webhooks/", hook)
    sent(client, "tokens/", {"name": text("token"), "scopes": ["read"]})
    query = urlencode({"q": text("view")})
    save_view(user=people["reviewer"], name=text("view"), query=query, shared=True)
    code = {"id": "c", "type": "code_execution", "language": "python", "code": "1"}
    run = sent(client, "executions/", {"title": "kept", "plan": {"tasks": [code]}})["id"]
    run_to_rest(int(run))
    kept = {"name": "kept", "description": text("capability"), "execution_id": run, "task_id": "c"}
    sent(client, "capabilities/", kept)


def mcp(person: User) -> None:
    """Start a run, and ask for an approval, as an agent does over MCP."""
    token = create_token(user=person, name="mcp", scopes=["read", "run"], confirmed=True)[1]
    caller = authenticate_caller(token)
    assert caller is not None
    arguments = {"plan": {"tasks": [asked("m")]}, "config": {"title": text("mcp")}}

    async def call() -> Any:
        async with McpClient(build_server(lambda ctx: caller)) as client:
            return await client.call_tool("execute", arguments)

    answer = asyncio.run(call())
    run_to_rest(Execution.objects.latest("id").pk)
    assert SECRET.search(answer.model_dump_json()) is None


# --- where it might be ----------------------------------------------------------------------------


def crawl(client: Client, starts: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each page that links lead to, and its address; few of each kind."""
    waiting, known = list(starts), Counter(shape(each) for each in starts)
    while waiting:
        path = waiting.pop()
        response = client.get(path)
        body = content(response)
        yield path, body
        if not response.headers.get("Content-Type", "").startswith("text/html"):
            continue
        for link in Page(response).links:
            url = urlsplit(urljoin(path, link))
            address = f"{url.path}?{url.query}" if url.query else url.path
            local = not url.netloc and url.path.startswith("/") and "logout" not in url.path
            kind, most = shape(address), _FILTERED if url.query else _OF_A_KIND
            local = local and not (url.query and url.path.startswith("/admin/"))
            if local and known[kind] < most and not url.path.startswith("/static/"):
                known[kind] += 1
                waiting.append(address)


def shape(address: str) -> str:
    """Return an address without its numbers and the values of its query."""
    path, _, query = address.partition("?")
    path = re.sub(r"\d+|/tools/[^/]+", "0", path)
    names = sorted({part.partition("=")[0] for part in query.split("&")})
    return f"{path}?{names}" if query else path


def content(response: Any) -> str:
    whole = response.getvalue() if response.streaming else response.content
    return str(whole.decode(errors="replace"))


def admin_pages(role: str) -> Iterator[str]:
    """Yield the lists of the admin; for the superuser, who sees everything, also each object."""
    for model in apps.get_models():
        if not admin.site.is_registered(model) or model._meta.app_label == "django_rq":
            continue
        label = f"{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"admin:{label}_changelist")
        if role == "root" and model._meta.app_label != "graphrag":
            for pk in model._default_manager.values_list("pk", flat=True).order_by("-pk")[:8]:
                yield reverse(f"admin:{label}_change", args=(pk,))


def searches() -> Iterator[tuple[str, str]]:
    """Yield each address that searches, and the name of its field."""
    yield from ((path, "q") for path in ("/search/", "/review/", "/runs/", "/history/"))
    yield "/api/v1/reviews/history/", "q"
    for model in apps.get_models():
        if admin.site.is_registered(model) and admin.site.get_model_admin(model).search_fields:
            label = f"{model._meta.app_label}_{model._meta.model_name}"
            yield reverse(f"admin:{label}_changelist"), "q"
    for model, field in (("receipt", "execution"), ("legalhold", "workflow")):
        app = "workflows" if model == "receipt" else "reviews"
        query = f"app_label={app}&model_name={model}&field_name={field}"
        yield f"{reverse('admin:autocomplete')}?{query}", "term"


def operations() -> Iterator[str]:
    """Yield the address of each GET operation of the API, for the objects that there are."""
    schema = SchemaGenerator().get_schema(public=True)
    rows = {
        "execution_id": Execution.objects.order_by("-pk").values_list("pk", flat=True)[:8],
        "approval_id": Approval.objects.values_list("pk", flat=True),
        "id": HumanReviewRecord.objects.values_list("pk", flat=True),
        "name": ["stored"],
        "workflow_name": ["stored"],
        "number": [1, 2],
    }
    for path, methods in schema["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        if "get" not in methods or any(name not in rows for name in names):
            continue
        addresses = [path]
        for name in names:
            addresses = [
                each.replace(f"{{{name}}}", str(value))
                for each in addresses
                for value in rows[name]
            ]
        yield from addresses


def test_a_secret_in_a_text_is_nowhere(written: None, people: dict[str, User]) -> None:
    leaks: list[tuple[str, str, str]] = []
    read: dict[str, int] = {}

    def check(role: str, path: str, body: str) -> None:
        read[role] = read.get(role, 0) + 1
        if role == "integrator" and path.startswith("/api/v1/approvals/"):
            # The agent reads the arguments of its own actions as it sent them.
            body = re.sub(r'"arguments":\{[^}]*\}', "", body)
        if found := SECRET.search(body):
            around = body[max(0, found.start() - 60) : found.end() + 20]
            leaks.append((role, path, " ".join(around.split())))

    for role in ROLES:
        client = browser(people[role])
        exports = ["/history/export/?as=csv", "/history/export/?as=jsonl"]
        starts = ["/", "/review/", "/runs/", "/history/", "/insights/", "/workflows/", "/admin/"]
        starts += ["/tools/", "/search/?q=capability", "/tokens/", "/webhooks/"]
        for path, body in crawl(client, [*starts, *exports, *admin_pages(role)]):
            check(role, path, body)
        program = api(people[role])
        for path in operations():
            check(role, path, content(program.get(path)))
    assert leaks == []
    assert min(read.values()) > 50, read


def test_no_search_tells_two_guesses_apart(written: None, people: dict[str, User]) -> None:
    told = []
    for role in ROLES:
        client = browser(people[role])
        for path, name in searches():
            answers = [results(client, path, name, guess) for guess in GUESSES]
            if answers[0] != answers[1]:
                told.append((role, path))
        # The search finds what is shown.
        assert "needs password=" in content(client.get("/search/", {"q": "needs"})), role
    assert told == []


def results(client: Client, path: str, name: str, guess: str) -> str:
    """Return what a search answers, without the words that were searched and times."""
    join = "&" if "?" in path else "?"
    body = content(client.get(f"{path}{join}{name}={guess}"))
    body = re.sub(r"csrfmiddlewaretoken\" value=\"\w+|nonce-[\w-]+|\d\d:\d\d(:\d\d)?", "", body)
    year = str(datetime.now(tz=UTC).year)
    return re.sub(rf"{guess}|took [^<]*|{year}[-\w:.+]*", "", body, flags=re.IGNORECASE)
