"""Security events: each kind has a door, a row and a line, and none has a secret."""

from __future__ import annotations

import json
import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as product
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from config.observability.logs import logging_config
from tests.integration.reviews.admin.conftest import SignIn
from tests.integration.reviews.conftest import MakeUser
from workflows.models import ApiToken, SecurityEvent
from workflows.permissions.tokens import create_token, revoke
from workflows.permissions.unknown_token_limit import count_unknown_token
from workflows.security_events.services import delete_old, record_security_event

from .doors import DOORS, ELSEWHERE, World, register, sign_in
from .doors import world as world

pytestmark = pytest.mark.django_db
Kind = SecurityEvent.Kind
LOGGER = "workflows.security_events.services"
DOCS = Path(product.BASE_DIR) / "docs" / "security" / "events.md"


@pytest.fixture(autouse=True)
def lines_are_written(caplog: pytest.LogCaptureFixture) -> Any:
    with caplog.at_level(logging.INFO, logger=LOGGER):
        yield


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines as production renders them."""
    config = logging_config(level="INFO", style="json")["formatters"]["structlog"]
    formatter = config.pop("()")(**config)
    records = [each for each in caplog.records if each.name == LOGGER]
    return [json.loads(formatter.format(each)) for each in records]


def kinds() -> list[str]:
    return list(SecurityEvent.objects.order_by("pk").values_list("kind", flat=True))


def documented() -> dict[str, set[str]]:
    """The names of details by kind, from the table of the documentation."""
    rows = re.findall(
        r"^\| `(\w+)` \|[^|]*\|[^|]*\|([^|]*)\|$", DOCS.read_text("utf-8"), re.MULTILINE
    )
    return {kind: set(re.findall(r"`(\w+)`", names)) for kind, names in rows}


@pytest.mark.parametrize("kind", sorted(set(Kind.values) - ELSEWHERE))
def test_each_kind_has_a_door_that_records_one_event(
    kind: str,
    world: World,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: Any,
) -> None:
    act = DOORS[kind](world)
    before = set(SecurityEvent.objects.values_list("pk", flat=True))
    caplog.clear()
    with django_capture_on_commit_callbacks(execute=True):
        act()
    event = SecurityEvent.objects.exclude(pk__in=before).get(kind=kind)
    (line,) = [each for each in lines(caplog) if each["kind"] == kind]
    assert line["event"] == "security_event"
    shown = {name: line[name] for name in ("id", "actor", "actor_id", "subject", "address")}
    assert shown == {
        "id": event.pk,
        "actor": event.actor,
        "actor_id": event.actor_id,
        "subject": event.subject,
        "address": event.address,
    }
    assert line["details"] == event.details
    assert set(event.details) == documented()[kind]
    assert line["at"] == event.at.isoformat()
    assert event.actor or event.subject
    if event.actor and event.actor != "system" and User.objects.filter(username=event.actor):
        expected = User.objects.get(username=event.actor).pk
        assert event.actor_id == (None if kind.startswith("sign_in_") else expected)


def test_the_documentation_has_each_kind() -> None:
    assert set(documented()) == set(Kind.values)


def test_the_list_of_doors_names_kinds_only() -> None:
    assert DOORS.keys() | ELSEWHERE == set(Kind.values)


# --- sign-ins -------------------------------------------------------------------------------------


def test_sign_ins_and_failures_are_events(make_user: MakeUser) -> None:
    make_user("ann")
    form = {"username": "ann", "password": "wrong"}
    for _ in range(2):
        Client().post("/login/", form)
    Client().post("/login/", {**form, "password": "secret"})
    rows = SecurityEvent.objects.order_by("pk").values_list("kind", "actor", "address")
    failed, signed_in = ("sign_in_failed", "ann", "127.0.0.1"), ("sign_in", "ann", "127.0.0.1")
    assert list(rows) == [failed, failed, signed_in]
    assert SecurityEvent.objects.latest("pk").details == {"path": "/login/"}


def test_the_address_is_the_network_of_a_client(make_user: MakeUser) -> None:
    make_user("ann")
    form = {"username": "ann", "password": "secret"}
    Client(REMOTE_ADDR="2001:db8:1:2:3:4:5:6").post("/login/", form)
    assert SecurityEvent.objects.get().address == "2001:db8:1:2::"


def test_sign_outs_are_events(world: World, make_user: MakeUser) -> None:
    make_user("ann")
    browser, _other = sign_in(world), sign_in(world)
    assert browser.post("/logout/").status_code == 302
    browser.post("/logout/")
    assert kinds() == ["sign_in", "sign_in", "sign_out"]
    assert SecurityEvent.objects.latest("pk").actor == "ann"


def test_a_refused_sign_in_is_no_further_event(
    world: World, make_user: MakeUser, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sign_in_failures": 2}
    make_user("ann")
    for _ in range(3):
        sign_in(world, "wrong")
    assert kinds() == ["sign_in_failed", "sign_in_failed", "sign_in_locked"]


def test_too_many_unknown_tokens_are_an_event(settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "unknown_tokens_per_address": 1}
    for _ in range(3):
        count_unknown_token("192.0.2.1")
    event = SecurityEvent.objects.get()
    assert (event.kind, event.address, event.details["limit"]) == (
        "sign_in_locked", "192.0.2.1", "tokens",
    )  # fmt: skip


# --- rights ---------------------------------------------------------------------------------------


def test_tokens_are_events_without_their_text(make_user: MakeUser) -> None:
    ann, boss = make_user("ann"), make_user("boss", "admin")
    token, text = create_token(user=ann, name="ci", scopes=["read"])
    for _ in range(2):
        revoke(tokens=ApiToken.objects.filter(pk=token.pk), by=boss)
    assert kinds() == ["token_created", "token_revoked"]
    rows = list(SecurityEvent.objects.order_by("pk").values())
    assert text not in json.dumps(rows, default=str)
    assert [row["actor"] for row in rows] == ["ann", "boss"]
    assert [row["details"]["owner"] for row in rows] == ["ann", "ann"]


def test_changes_in_the_admin_are_events(staff: SignIn) -> None:
    client = staff("root")
    client.post("/admin/auth/group/add/", {"name": "legal"})
    event = SecurityEvent.objects.get(kind="changed")
    group = Group.objects.get(name="legal")
    assert (event.actor, event.subject) == ("staff-root", f"auth.group:{group.pk}")
    assert event.details == {"action": "added", "change": [{"added": {}}]}


def test_rows_that_are_deleted_together_are_an_event_each(staff: SignIn) -> None:
    client = staff("root")
    groups = [Group.objects.create(name=name) for name in ("legal", "sales")]
    chosen = [str(each.pk) for each in groups]
    form = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    assert client.post("/admin/auth/group/", form).status_code == 302
    events = SecurityEvent.objects.filter(kind="changed", details__action="deleted")
    assert {each.subject for each in events} == {f"auth.group:{pk}" for pk in chosen}


def test_what_a_service_logs_is_one_event(staff: SignIn) -> None:
    form = {"name": "files", "enabled": "on", "transport": "http", "url": "https://mcp.example/"}
    client = staff("root")
    response = client.post("/admin/workflows/mcpserver/add/", form)
    assert response.status_code == 302, response.content
    assert kinds().count("changed") == LogEntry.objects.count() == 1


def test_an_admin_adds_and_deletes_a_client(staff: SignIn) -> None:
    client_id = register().json()["client_id"]
    client = staff("root")
    form = {"name": "Desk", "redirect_uris": "https://example.com/"}
    client.post("/admin/oauth2_provider/application/add/", form)
    chosen = SecurityEvent.objects.filter(kind="client_registered")
    assert [each.actor for each in chosen.order_by("pk")] == ["", "staff-root"]
    assert chosen.earliest("pk").subject == f"oauth_client:{client_id}"


# --- secrets --------------------------------------------------------------------------------------


def test_secrets_in_texts_are_masked_in_the_row_and_the_line(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    key = "sk-" + "a1B2" * 12
    with django_capture_on_commit_callbacks(execute=True):
        record_security_event(kind=Kind.SIGN_IN_FAILED, actor=key, subject=f"x:{key}")
        record_security_event(
            kind=Kind.TOKEN_CREATED, actor="ann", details={"name": [key], "deep": {"x": [key]}}
        )
    assert key not in json.dumps(list(SecurityEvent.objects.values()), default=str)
    assert len(lines(caplog)) == 2
    assert key not in json.dumps(lines(caplog))


def test_a_name_that_postgresql_cannot_store_is_an_event() -> None:
    record_security_event(kind=Kind.SIGN_IN_FAILED, actor="a\0b", details={"path": "/\0\ud800"})
    event = SecurityEvent.objects.get()
    assert (event.actor, event.details) == ("ab", {"path": "/?"})


def test_an_event_that_is_rolled_back_has_no_line(
    caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            record_security_event(kind=Kind.SIGN_IN, actor="ann")
            transaction.set_rollback(True)
        record_security_event(kind=Kind.SIGN_IN, actor="bob")
    assert [each["actor"] for each in lines(caplog)] == ["bob"]
    assert SecurityEvent.objects.count() == 1


def test_lines_are_written_at_every_level_of_production() -> None:
    config = logging_config(level="ERROR", style="json")
    assert config["loggers"]["workflows.security_events"] == {"level": "INFO"}


# --- rows -----------------------------------------------------------------------------------------


def test_events_are_never_changed_and_young_ones_never_deleted() -> None:
    record_security_event(kind=Kind.SIGN_IN, actor="ann")
    for statement in (
        "UPDATE workflows_securityevent SET actor = 'eve'",
        "DELETE FROM workflows_securityevent",
    ):
        with (
            pytest.raises(DatabaseError, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
    assert SecurityEvent.objects.get().actor == "ann"


def test_old_events_are_deleted(settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "security_event_keep_days": 60}
    for days in (61, 59):
        at = timezone.now() - timedelta(days=days)
        SecurityEvent.objects.create(kind=Kind.SIGN_IN, actor=str(days), at=at)
    assert delete_old() == 1
    assert SecurityEvent.objects.get().actor == "59"


def test_the_list_is_searched_and_filtered(staff: SignIn) -> None:
    record_security_event(kind=Kind.SIGN_IN_FAILED, actor="nobody", address="192.0.2.1")
    record_security_event(kind=Kind.REVEALED, actor="ann", subject="hold:7-1")
    auditor = staff("auditor")
    for query, shown, hidden in (
        ("q=192.0.2.1", "nobody", "hold:7-1"),
        ("q=hold:7-1", "hold:7-1", "nobody"),
        ("kind__exact=revealed", "hold:7-1", "nobody"),
    ):
        page = auditor.get(f"/admin/workflows/securityevent/?{query}").content.decode()
        assert shown in page.split('id="result_list"')[1]
        assert hidden not in page.split('id="result_list"')[1]


def test_operators_do_not_read_events(staff: SignIn) -> None:
    assert staff("operator").get("/admin/workflows/securityevent/").status_code == 403


def test_nobody_changes_an_event_in_the_admin(staff: SignIn) -> None:
    event = record_security_event(kind=Kind.SIGN_IN, actor="ann")
    client, place = staff("root"), f"/admin/workflows/securityevent/{event.pk}"
    assert client.post(f"{place}/delete/", {"post": "yes"}).status_code == 403
    assert client.post(f"{place}/change/", {"actor": "eve"}).status_code == 403
    assert "ann" in client.get(f"{place}/change/").content.decode()
