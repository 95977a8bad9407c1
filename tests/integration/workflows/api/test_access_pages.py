"""Status by role for pages, review endpoints, the catalogue and the sockets.

The rows are held against the URLconf and the routes of the sockets: an address without a row fails.
A row names a rule:

    run    a thing of one run: 404 for whoever may not see the run, never 404 for who started it
    mine   a thing of one person: 404 for everybody else
    all    for whoever is signed in
    open   for everybody
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from config.asgi import application
from reviews.backtests import services as backtests_services
from reviews.decisions import services
from reviews.models import SavedView, SlackWorkspace
from reviews.slack import accounts
from reviews.sockets.routing import websocket_urlpatterns
from reviews.urls import urlpatterns as review_pages
from tests.integration.reviews.sockets.test_sockets import Socket
from tests.integration.workflows.api.conftest import plain_plan
from tests.integration.workflows.api.test_access import TABLE, delivered, granted
from tests.support.pages import browser
from workflows import extensions
from workflows.executions import definitions
from workflows.models import Absence
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db

#: By the name of the address.
ROWS = {
    **dict.fromkeys(("home", "livez", "readyz", "metrics", "login", "logout"), "open"),
    **dict.fromkeys(("client-file", "stylesheet"), "open"),
    # A signed link is the right to open it: tests/integration/reviews/answer_links.
    **dict.fromkeys(("answer", "answer_review"), "signed"),
    # tests/integration/reviews/people
    "new_password": "signed",
    # Slack signs its requests: tests/integration/reviews/slack.
    "slack": "signed",
    # tests/integration/config/auth/oauth
    **dict.fromkeys(("oauth-server-metadata", "oauth-server-metadata-issuer"), "oauth"),
    **dict.fromkeys(("oauth-resource-metadata", "oauth-resource-metadata-path"), "oauth"),
    **dict.fromkeys(("authorize", "token", "revoke-token"), "oauth"),
    **dict.fromkeys(("dcr-register", "dcr-register-management"), "oauth"),
    **dict.fromkeys(("schema", "api-docs", "api-redoc"), "all"),
    # tests/integration/reviews/retention/test_retention_api.py
    **dict.fromkeys(
        ("api-retention-policies", "api-retention-policy", "api-retention-preview"), "admin"
    ),
    **dict.fromkeys(("api-legal-holds", "api-legal-hold", "api-legal-hold-lift"), "admin"),
    # pages
    **dict.fromkeys(
        ("queue", "bulk", "save_view", "search", "runs", "start_demo", "planner"), "all"
    ),
    **dict.fromkeys(("search", "workflows", "workflow", "start", "grants"), "all"),
    **dict.fromkeys(
        (
            "history",
            "export_history",
            "audit_key",
            "denied",
            "reveals",
            "tokens",
            "tools",
            "tool",
        ),
        "all",
    ),
    **dict.fromkeys(("insights", "webhooks", "absences"), "all"),
    **dict.fromkeys(("editor", "editor_tools"), "all"),
    **dict.fromkeys(
        ("workflow_versions", "workflow_restore", "workflow_json", "workflow_yaml"), "all"
    ),
    **dict.fromkeys(("notices", "bell", "notices_read", "notice_preferences"), "all"),
    "slack_link_code": "all",
    **dict.fromkeys(("api-notifications", "api-notifications-read"), "all"),
    "api-notifications-preferences": "all",
    **dict.fromkeys(
        ("backtest", "backtest_check", "spared", "workflow_rules", "api-backtests", "api-rules"),
        "all",
    ),
    **dict.fromkeys(("backtest_report", "backtest_progress", "backtest_publish"), "mine"),
    "api-backtest": "mine",
    **dict.fromkeys(
        ("api-workflow-versions", "api-workflow-version", "api-workflow-restore"), "all"
    ),
    **dict.fromkeys(("webhook", "webhook_action", "webhook_redeliver"), "mine"),
    **dict.fromkeys(("remove_view", "revoke_token", "slack_unlink", "end_absence"), "mine"),
    **dict.fromkeys(
        ("decision", "decision_status", "claim", "looking", "extend", "withdraw"), "run"
    ),
    **dict.fromkeys(("precedents", "reveal", "impact", "preview"), "run"),
    **dict.fromkeys(("run", "learned", "run_command", "plan_change", "work_ahead"), "run"),
    **dict.fromkeys(("fork", "make_capability", "revoke_grant", "record"), "run"),
    # review endpoints and the catalogue
    **dict.fromkeys(
        ("api-reviews-pending", "api-reviews-bulk", "api-reviews-history", "api-reviews-similar"),
        "all",
    ),
    **dict.fromkeys(("api-reviews-context", "api-reviews-resume", "api-reviews-record"), "run"),
    **dict.fromkeys(("api-reviews-claim", "api-reviews-release"), "run"),
    **dict.fromkeys(("api-reviews-assign", "api-reviews-extend", "api-reviews-withdraw"), "run"),
    "api-reviews-reveal": "run",
    **dict.fromkeys(
        ("tool-list", "tool-search", "tool-suggest", "tool-next", "tool-detail"), "all"
    ),
}
SOCKETS = {"ws/reviews/": "all", "ws/executions/<int:execution_id>/": "run"}
#: They need more than a run that exists: a checkpoint, a change of the plan, a masked value.
PARTS = ("fork", "plan_change", "reveal", "api-reviews-reveal")
#: What some endpoints want to be sent before they look at whose thing it is.
BODIES = {
    "api-reviews-extend": {"seconds": 3600},
    "api-reviews-assign": {"to": "reviewer"},
    "api-reviews-withdraw": {},
    "api-reviews-reveal": {"place": "hold:1-1", "number": 1},
}
#: Whole trees with one door: only staff gets in.
STAFF = ("admin/", "django-rq/")
#: Endpoints whose rows test_access.py has, role by role.
ELSEWHERE = frozenset(path for _, path in TABLE)


def patterns(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for each in resolver.url_patterns:
        path = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            if path not in STAFF and not is_contrib(each):
                yield from patterns(each, path)
        elif isinstance(each, URLPattern):
            yield path, each


def is_contrib(resolver: URLResolver) -> bool:
    """Whether the tests of a contrib app say who may open its pages."""
    return getattr(resolver.urlconf_module, "__name__", "") in extensions.url_modules()


def names() -> set[str]:
    found = set()
    for path, each in patterns(get_resolver()):
        if not has_row_elsewhere(path):
            found.add(str(each.name))
    return found


def has_row_elsewhere(path: str) -> bool:
    plain = path.removeprefix("api/v1/").replace("<str:", "{").replace(">", "}")
    return path.startswith("api/v1/") and plain in ELSEWHERE


def test_every_address_has_a_row() -> None:
    assert names() == set(ROWS), "an address without a row, or a row without an address"


def test_every_socket_has_a_row() -> None:
    assert {str(each.pattern) for each in websocket_urlpatterns} == set(SOCKETS)


@pytest.fixture
def world(people: Any, start: Any, workflow: Any) -> dict[str, Any]:
    """What the operator started and made.  The integrator is the stranger."""
    execution, decided = start("operator"), start("operator")
    hold = decided.holds.get()
    services.decide(
        services.DecisionRequest(
            hold_id=hold.id,
            user=people["reviewer"],
            decision="APPROVE",
            version=decided.version,
            source="test",
        )
    )
    definitions.record_version(workflow, author=people["admin"])
    token, _ = create_token(user=people["operator"], name="t", scopes=["read"])
    record = decided.review_records.get()
    workspace = SlackWorkspace.objects.create(name="slack", team_id="T1")
    account = accounts.link(workspace, "U1", people["operator"])
    absence = Absence.objects.create(
        user=people["operator"],
        delegate=people["reviewer"],
        begins_at=timezone.now(),
        ends_at=timezone.now() + timedelta(days=1),
        created_by="operator",
    )
    return {
        "absence_id": absence.pk,
        "account_id": account.pk,
        "execution_id": execution.pk,
        "left_id": execution.pk,
        "right_id": execution.pk,
        "hold_id": execution.holds.get().id,
        "layer": 0,
        "number": 1,
        "grant_id": granted(start("operator", plain_plan())).pk,
        "record_id": record.pk,
        "pk": record.pk,
        "token_id": token.pk,
        "view_id": SavedView.objects.create(owner=people["operator"], name="v").pk,
        "workflow_id": workflow.pk,
        "name": "builtin.echo",
        "backtest_id": backtested(people["operator"], workflow).pk,
        "workflow_name": workflow.name,
        **delivered(people["operator"], execution),
    }


def backtested(person: Any, workflow: Any) -> Any:
    rules = [{"name": "half", "sample": 0.5}]
    return backtests_services.start(user=person, workflow=workflow, rules=rules)


def address(name: str, world: dict[str, Any]) -> str:
    pattern = next(
        e for p, e in patterns(get_resolver()) if e.name == name and not has_row_elsewhere(p)
    )
    given = {key: world[key] for key in pattern.pattern.regex.groupindex}
    spaced = f"reviews:{name}" if pattern in review_pages else name
    return reverse(spaced, kwargs=given)


def answers(client: Client, name: str, world: dict[str, Any]) -> dict[str, int]:
    url = address(name, world)
    body = {
        "execution_id": world["execution_id"],
        "hold_id": world["hold_id"],
        "version": 1,
        "decision": "APPROVE",
    }
    body = BODIES.get(name, body)
    options: dict[str, Any] = {"content_type": "application/json"} if "/api/" in url else {}
    posted = client.post(url, body if "/api/" in url else {}, **options)
    return {"GET": client.get(url).status_code, "POST": posted.status_code}


def signed_in(person: Any) -> Client:
    return browser(person)


def of_rule(*rules: str) -> list[str]:
    return sorted(name for name, rule in ROWS.items() if rule in rules)


@pytest.mark.parametrize("name", of_rule("run", "mine"))
def test_objects_of_other_users_are_404(name, people, world) -> None:
    found = answers(signed_in(people["integrator"]), name, world)
    assert set(found.values()) <= {404, 405}, found
    assert 404 in found.values()
    if name not in PARTS:
        own = answers(signed_in(people["operator"]), name, world)
        assert 404 not in own.values(), own


@pytest.mark.parametrize("name", of_rule("run", "mine", "all"))
def test_every_page_needs_a_login(name, world) -> None:
    client = Client()
    url = address(name, world)
    for response in (client.get(url), client.post(url)):
        if url.startswith("/api/"):
            assert response.status_code in (401, 403, 405), url
        elif response.status_code != 405:
            assert response.status_code == 302, url
            assert response["Location"].startswith("/login/")


@pytest.mark.parametrize("name", of_rule("all"))
def test_a_signed_in_user_gets_a_response(name, people, world) -> None:
    found = answers(signed_in(people["integrator"]), name, world)
    assert not {401, 404, 500}.intersection(found.values()), found


@pytest.mark.parametrize("path", ["/admin/", "/admin/workflows/execution/", "/django-rq/"])
def test_only_staff_open_admin_and_jobs(path, people) -> None:
    for client in (Client(), signed_in(people["reviewer"]), signed_in(people["integrator"])):
        assert client.get(path).status_code in (302, 403, 404)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("role", "path", "code"),
    [
        ("integrator", "/ws/executions/{execution_id}/", 4404),
        ("operator", "/ws/executions/{execution_id}/", None),
        ("integrator", "/ws/reviews/", None),
        (None, "/ws/executions/{execution_id}/", 4401),
        (None, "/ws/reviews/", 4401),
    ],
)
def test_a_socket_needs_the_right_to_see(role, path, code, people, start) -> None:
    execution = start("operator")
    headers = [(b"origin", b"http://testserver")]
    if role is not None:
        _, text = create_token(user=people[role], name="t", scopes=["read"])
        headers.append((b"authorization", f"Bearer {text}".encode()))
    assert closed_with(path.format(execution_id=execution.pk), headers) == code


@async_to_sync
async def closed_with(path: str, headers: Any) -> int | None:
    """The code a socket was closed with; None when it says something or stays open."""
    communicator = Socket(application, path, headers=headers)
    connected, _ = await communicator.connect(timeout=10)
    assert connected
    await communicator.send_to(text_data='{"type": "ping"}')
    message = await communicator.receive_output(timeout=10)
    await communicator.disconnect(timeout=10)
    return message.get("code") if message["type"] == "websocket.close" else None
