"""Every page of the admin for every role: who opens it, and whose POST is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from oauth2_provider.models import AccessToken, Application, IDToken, RefreshToken
from oauth2_provider.models import Grant as GrantedCode

from graphrag.models import LearnedExecution, Tool, ToolDependency
from reviews.models import (
    ChatHook,
    HumanReviewRecord,
    LegalHold,
    NoticeMessage,
    RetentionEntry,
    RetentionPolicy,
    SlackAccount,
    SlackMessage,
    SlackWorkspace,
)
from reviews.queue.claims import claim
from tests.integration.reviews.conftest import echo
from tests.support.actors import actor_named
from workflows.approvals.services import ask
from workflows.engine.protocol.commands import AddMessage
from workflows.executions.services import submit_command
from workflows.models import (
    Absence,
    ApprovalPolicy,
    BusinessCalendar,
    Capability,
    CommandLog,
    Gate,
    GateCall,
    Grant,
    Hold,
    McpServer,
    SecurityEvent,
    SignInAlert,
    WebhookDelivery,
    WebhookEndpoint,
    Workflow,
)
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db

STAFF = ("reviewer", "operator", "auditor", "admin", "root")
ROLES = (*STAFF, "integrator", "")
EVERYBODY = frozenset(STAFF)
NOT_REVIEWERS = EVERYBODY - {"reviewer"}
ROOT = frozenset({"root"})
ADMINS = frozenset({"admin", "root"})
NOBODY = frozenset[str]()

#: Without pages; deleted with their client.
OAUTH_TOKENS = tuple(
    f"oauth2_provider.{name}" for name in ("accesstoken", "grant", "idtoken", "refreshtoken")
)
#: Model → who views it, adds to it, changes it and deletes it. A new model has to be added here.
RIGHTS: Mapping[str, tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]] = {
    "workflows.hold": (EVERYBODY, NOBODY, ADMINS | {"reviewer"}, NOBODY),
    "workflows.execution": (EVERYBODY, NOBODY, ADMINS | {"operator"}, NOBODY),
    "reviews.humanreviewrecord": (EVERYBODY, NOBODY, NOBODY, NOBODY),
    "reviews.reviewclaim": (EVERYBODY, NOBODY, NOBODY, NOBODY),
    "workflows.workflow": (EVERYBODY, ADMINS, ADMINS, ROOT),
    "workflows.approval": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.approvalpolicy": (NOT_REVIEWERS, ADMINS, ADMINS, ROOT),
    "graphrag.tool": (EVERYBODY, NOBODY, ADMINS, NOBODY),
    "workflows.mcpserver": (NOT_REVIEWERS, ADMINS, ADMINS, ROOT),
    "workflows.gate": (NOT_REVIEWERS, ADMINS, ADMINS, ROOT),
    "workflows.gatecall": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.capability": (NOT_REVIEWERS, NOBODY, ADMINS, NOBODY),
    "workflows.grant": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.commandlog": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.apitoken": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.signinalert": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.webhookendpoint": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.webhookdelivery": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "reviews.chathook": (NOT_REVIEWERS, ROOT, ROOT, ROOT),
    "reviews.slackworkspace": (NOT_REVIEWERS, ROOT, ROOT, ROOT),
    "reviews.slackaccount": (NOT_REVIEWERS, NOBODY, NOBODY, ADMINS),
    "reviews.slackmessage": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "reviews.noticemessage": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.securityevent": (ADMINS | {"auditor"}, NOBODY, NOBODY, NOBODY),
    "graphrag.tooldependency": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "graphrag.learnedexecution": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "oauth2_provider.application": (NOT_REVIEWERS, ADMINS, ADMINS, ADMINS),
    **dict.fromkeys(OAUTH_TOKENS, (NOBODY, NOBODY, NOBODY, ADMINS)),
    "workflows.businesscalendar": (NOT_REVIEWERS, ADMINS, ADMINS, ROOT),
    "reviews.retentionpolicy": (NOT_REVIEWERS, ADMINS, ADMINS, ROOT),
    "reviews.legalhold": (NOT_REVIEWERS, ADMINS, NOBODY, NOBODY),
    "reviews.retentionentry": (NOT_REVIEWERS, NOBODY, NOBODY, NOBODY),
    "workflows.absence": (NOT_REVIEWERS, ADMINS, NOBODY, NOBODY),
    "auth.user": (ADMINS | {"auditor"}, ROOT, ROOT, ROOT),
    # The row is a role, which nobody deletes.
    "auth.group": (ADMINS | {"auditor"}, ADMINS, ADMINS, NOBODY),
}


@pytest.fixture
def rows(start: Any, make_user: Any, operator: User) -> dict[str, Model]:
    """One row of each model; only superusers see the webhooks of others."""
    run = start(
        echo("a", phase="BEFORE_EXECUTION", on_reject="skip"),
        echo("b", phase="BEFORE_EXECUTION", on_reject="skip"),
    )
    decider = make_user("decider", "reviewer")
    waiting, decided = run.holds.order_by("opened_seq")
    claimed = claim(hold_id=waiting.pk, user=decider)
    from reviews.decisions.services import DecisionRequest, decide

    decide(
        DecisionRequest(
            hold_id=decided.pk,
            user=decider,
            decision="REJECT",
            version=Hold.objects.select_related("execution").get(pk=decided.pk).execution.version,
            source="rest",
        )
    )
    submit_command(
        execution_id=run.pk,
        command=AddMessage(content="hello"),
        actor=actor_named("operator"),
        source="rest",
    )
    first, second = Tool.objects.all()[:2]
    endpoint = WebhookEndpoint.objects.create(name="x", url="https://x.example", owner=operator)
    hook = ChatHook.objects.create(name="chat")
    slack = SlackWorkspace.objects.create(name="slack", team_id="T1")
    account = SlackAccount.objects.create(workspace=slack, slack_user="U1", user=operator)
    direct = {"workspace": slack, "account": account, "hold": waiting, "kind": "waiting"}
    token, _ = create_token(user=operator, name="ci", scopes=["read"])
    made: list[Model] = [
        waiting,
        run,
        HumanReviewRecord.objects.get(),
        claimed,
        Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]}),
        ask(
            actor=operator,
            fields={"action": {"name": "pay", "arguments": {}}, "phase": "BEFORE_EXECUTION"},
        ),
        ApprovalPolicy.objects.create(pattern="pay", groups=["reviewer"]),
        first,
        McpServer.objects.create(name="s", command="/nowhere/at/all"),
        gate := Gate.objects.create(name="g"),
        GateCall.objects.create(gate=gate, user=operator, tool="s.t", policy="allow"),
        Capability.objects.create(
            name="c", language="python", code="1", permission_set="minimal", created_by=operator
        ),
        Grant.objects.create(
            hold=decided,
            execution=run,
            operation="read",
            resource="a",
            scope="run",
            granted_by="decider",
            permissions={},
        ),
        CommandLog.objects.latest("id"),
        token,
        SignInAlert.objects.create(
            kind="account", account="x", failures=3, locked_until=timezone.now()
        ),
        endpoint,
        WebhookDelivery.objects.create(endpoint=endpoint, message_id="m", type="ping"),
        hook,
        NoticeMessage.objects.create(hook=hook, next_at=timezone.now()),
        slack,
        account,
        SlackMessage.objects.create(key="k", **direct),
        SecurityEvent.objects.create(kind="sign_in", actor="operator", address="192.0.2.1"),
        ToolDependency.objects.create(from_tool=first, to_tool=second),
        LearnedExecution.objects.create(execution_key="1"),
        *oauth_rows(operator),
        BusinessCalendar.objects.create(name="office", week=[[["09:00", "17:00"]]] * 7),
        Absence.objects.create(
            user=operator,
            delegate=decider,
            begins_at=timezone.now(),
            ends_at=timezone.now() + timedelta(days=1),
            created_by="operator",
        ),
        RetentionPolicy.objects.create(keep_days=30),
        LegalHold.objects.create(execution=run, reason="case 1", placed_by=operator),
        RetentionEntry.objects.create(kind="hold_placed", actor="operator", subject="Run 1"),
        operator,
        Group.objects.get(name="reviewer"),
    ]
    return {row._meta.label_lower: row for row in made}


def oauth_rows(person: User) -> list[Model]:
    """A client with its code and tokens."""
    client = Application.objects.create(
        name="agent",
        redirect_uris="https://agent.example/",
        client_type=Application.CLIENT_PUBLIC,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
    )
    common = {"user": person, "application": client}
    lasting = {**common, "expires": timezone.now()}
    return [
        client,
        AccessToken.objects.create(token="a", **lasting),
        GrantedCode.objects.create(code="c", redirect_uri="https://agent.example/", **lasting),
        IDToken.objects.create(**lasting),
        RefreshToken.objects.create(token="r", **common),
    ]


def clients(make_user: Any) -> dict[str, Client]:
    """A client for each role; "" is nobody."""
    from workflows.permissions.roles import ensure_roles

    ensure_roles()
    found = {"": Client()}
    for role in ROLES[:-1]:
        groups = [] if role == "root" else [role]
        staff = role in STAFF
        user = make_user(f"m-{role}", *groups, is_staff=staff, is_superuser=role == "root")
        found[role] = Client()
        found[role].force_login(user)
    return found


def page(name: str, label: str, *args: Any) -> str:
    app, model = label.split(".")
    return reverse(f"admin:{app}_{model}_{name}", args=args)


def expected(role: str, allowed: frozenset[str], yes: int) -> int:
    """The status for a role: people who are not staff are sent to the sign-in page."""
    if role not in STAFF:
        return 302
    return yes if role in allowed else 403


def test_the_matrix_names_every_model() -> None:
    registered = {
        f"{app['model']._meta.label_lower}"
        for app in (
            {"model": model} for model in _registered() if model._meta.app_label != "django_rq"
        )
    }
    assert registered == set(RIGHTS)


def test_empty_lists_say_what_they_are_for(make_user: Any) -> None:
    client = Client()
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    for label in RIGHTS:
        if label in OAUTH_TOKENS:
            continue
        own = admin.site.get_model_admin(apps.get_model(label))
        sentence = str(getattr(own, "empty_text", ""))
        assert sentence.endswith("."), label
        if own.model._default_manager.exists():  # groups, and the person who asks
            continue
        text = client.get(page("changelist", label)).content.decode()
        assert escape(sentence) in text, label
        if own.search_fields:
            text = client.get(page("changelist", label), {"q": "zebra"}).content.decode()
            assert escape(sentence) not in text, label
            assert '<a href="?">Clear search and filters</a>' in text, label


def _registered() -> list[type[Model]]:
    return [model for model in apps.get_models() if admin.site.is_registered(model)]


def test_pages_and_posts(rows: dict[str, Model], make_user: Any) -> None:
    people = clients(make_user)
    wrong = []
    for label, (views, adds, changes, deletes) in RIGHTS.items():
        pk = rows[label].pk
        own = label in ("workflows.webhookendpoint", "workflows.webhookdelivery")
        for role, client in people.items():
            # Only the owner and admins see that a webhook exists.
            change = 302 if own and role in ("operator", "auditor") else 200
            # The plan editor, for those who may save there.
            add = 302 if label == "workflows.workflow" else 200
            checks = {
                "list": (client.get(page("changelist", label)), expected(role, views, 200)),
                "add": (client.get(page("add", label)), expected(role, adds, add)),
                "change": (client.get(page("change", label, pk)), expected(role, views, change)),
                "POST add": (client.post(page("add", label), {}), expected(role, adds, 200)),
                "POST delete_selected": (
                    client.post(
                        page("changelist", label),
                        {"action": "delete_selected", "_selected_action": [pk]},
                    ),
                    None,
                ),
                "delete": (client.get(page("delete", label, pk)), expected(role, deletes, 200)),
                "POST change": (
                    client.post(page("change", label, pk), {"kind": "x"}),
                    expected(role, changes, 200),
                ),
            }
            if role not in deletes:
                sent = client.post(page("delete", label, pk), {"post": "yes"})
                checks["POST delete"] = (sent, expected(role, NOBODY, 200))
            for name, (response, status) in checks.items():
                got = response.status_code
                if name == "POST change" and got in (303, 422, 302) and role in changes:
                    got = 200  # a decision, a command or a tool without changes
                if status is not None and got != status:
                    wrong.append((label, role or "nobody", name, got, status))
            assert type(rows[label])._default_manager.filter(pk=pk).exists(), (label, role)
    assert wrong == []


def test_other_pages(rows: dict[str, Model], make_user: Any) -> None:
    people = clients(make_user)
    sections = {
        "reviews": EVERYBODY, "runs": EVERYBODY, "workflows": EVERYBODY, "tools": EVERYBODY,
        "people": NOT_REVIEWERS, "integrations": NOT_REVIEWERS, "system": NOT_REVIEWERS,
        "nothing": NOBODY,
    }  # fmt: skip
    wrong = []
    for role, client in people.items():
        checks = {
            reverse("admin:index"): expected(role, EVERYBODY, 200),
            reverse("admin:password_change"): expected(role, EVERYBODY, 200),
            reverse("admin:app_list", args=("workflows",)): 302,
            reverse("admin:django_rq_dashboard_changelist"): expected(role, ADMINS, 200),
            "/django-rq/": expected(role, ADMINS, 200),
            "/django-rq/queues/0/empty/": expected(role, ADMINS, 200),
            "/admin/django_rq/dashboard/stats.json/": expected(role, ADMINS, 200),
        }
        for key, allowed in sections.items():
            status = expected(role, allowed, 200)
            checks[reverse("admin:section", args=(key,))] = 404 if status == 403 else status
        for url, status in checks.items():
            got = client.get(url).status_code
            if "rq" in url and role not in ADMINS:
                # Integrators are refused like staff; nobody is asked to sign in or for a token.
                refused = got == 403 if role else b"queues" not in client.get(url).content
                if not refused:
                    wrong.append((url, role or "nobody", got, 403))
            elif got != status:
                wrong.append((url, role or "nobody", got, status))
        actions = client.post(reverse("admin:workflows_hold_bulk"), {"action": "claim"})
        deciders = frozenset({"reviewer", "admin", "root"})
        if actions.status_code != expected(role, deciders, 422):
            wrong.append(("actions", role or "nobody", actions.status_code, 0))
    assert wrong == []
