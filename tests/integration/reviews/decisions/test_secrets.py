"""Secrets on pages, over REST and in exports: masked, revealed with rights, stored masked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, transaction
from django.test import Client

from reviews.audit.signing import public_key
from reviews.decisions.masking import mark
from reviews.models import HumanReviewRecord, SecretReveal
from tests.integration.reviews.audit.test_audit_pages import verify
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.pages import review_path
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.models import Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD, TOKEN = "correct-horse-battery", "ghp_" + "a1B2c3D4e5F6g7H8i9J0"
VALUE = {"password": PASSWORD, "note": f"use {TOKEN} for it", "city": "Graz"}
SHOWN = {"password": mark(2), "note": f"use {mark(1)} for it", "city": "Graz"}
BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


@pytest.fixture
def hold(start: Start) -> Hold:
    """A hold whose payload has two secrets; the task before it gave one as well."""
    first = echo("login", {"session_id": PASSWORD})
    return only_hold(start(first, {**echo("send", VALUE, phase=BEFORE), "depends_on": ["login"]}))


def reveal(user: User, place: str, number: int, **headers: Any) -> Any:
    return browser(user).post("/reveal/", {"place": place, "number": number}, **headers)


def secretless(text: str) -> bool:
    return PASSWORD not in text and TOKEN not in text


def numbers(hold: Hold) -> dict[str, int]:
    """Path → number, read where a program reads it."""
    client = browser_token(hold)
    found = client.get(f"/api/v1/reviews/pending/{hold.execution_id}/").json()
    (only,) = found["holds"]
    return {each["paths"][0]: each["number"] for each in only["masked"]}


def browser_token(hold: Hold) -> Client:
    user = get_user_model().objects.get(username="reviewer")
    _, text = create_token(user=user, name=f"t{user.pk}", scopes=["read", "decide"])
    return Client(headers={"authorization": f"Bearer {text}"})


def decided(user: User, hold: Hold, **answer: Any) -> HumanReviewRecord:
    hold.execution.refresh_from_db()
    answer = {"decision": "APPROVE", "source": "web", **answer}
    return decide(hold, user, **answer).record


# --- what pages show ------------------------------------------------------------------------------


def test_no_page_has_a_secret_before_it_is_revealed(
    hold: Hold, reviewer: User, auditor: User
) -> None:
    for user in (reviewer, auditor):
        client = browser(user)
        for url in (
            review_path(hold),
            f"{review_path(hold)}status/",
            f"/runs/{hold.execution_id}/",
        ):
            assert secretless(client.get(url).content.decode()), url
    page = open_page(reviewer, review_path(hold))
    assert "2 values are masked" in page.text
    reveals = [each for each in page.names("button") if each.startswith("Reveal ")]
    assert {"Reveal value.password", "Reveal value.note"} <= set(reveals)
    assert "Graz" in page.html
    record = decided(reviewer, hold, edits={"value": {**VALUE, "city": "Linz"}})
    for url in (
        f"/history/{record.pk}/",
        review_path(hold),
        f"/runs/{hold.execution_id}/",
        "/history/",
    ):
        assert secretless(open_page(auditor, url).html), url
    assert "Linz" in open_page(auditor, f"/history/{record.pk}/").text


def test_a_workflow_can_declare_secrets(start: Start, reviewer: User) -> None:
    run = start(echo("a", VALUE, phase=BEFORE), policy={"secrets": ["value.city"]})
    assert "Graz" not in open_page(reviewer, review_path(only_hold(run))).html


# --- revealing ------------------------------------------------------------------------------------


def test_a_reveal_is_recorded_before_the_value_is_returned(
    hold: Hold, reviewer: User, auditor: User
) -> None:
    number = numbers(hold)["value.password"]
    answer = reveal(reviewer, f"hold:{hold.id}", number, headers=HTMX)
    assert answer.status_code == 200
    assert PASSWORD in Page(answer).text
    assert answer["Cache-Control"] == "no-store"
    whole = reveal(auditor, f"task:{hold.execution_id}:login:output", 1)
    assert Page(whole).is_whole
    assert PASSWORD in Page(whole).text
    kept = SecretReveal.objects.order_by("id").values_list("actor", "place", "path", "source")
    assert list(kept) == [
        ("reviewer", f"hold:{hold.id}", "value.password", "web"),
        ("auditor", f"task:{hold.execution_id}:login:output", "session_id", "web"),
    ]
    reveals = open_page(auditor, "/history/reveals/")
    assert PASSWORD not in reveals.html
    for page in (reveals, open_page(reviewer, review_path(hold))):
        assert "reviewer revealed value.password of the payload" in page.text
    for change in (SecretReveal.objects.all().delete, lambda: SecretReveal.objects.update(path="")):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()


def test_users_who_cannot_decide_see_only_the_mask(
    hold: Hold, operator: User, make_user: MakeUser
) -> None:
    answer = reveal(operator, f"hold:{hold.id}", 1, headers=HTMX)
    assert answer.status_code == 403
    assert "auditors" in Page(answer).text
    page = open_page(operator, review_path(hold))
    assert "values are masked" in page.text
    assert "/reveal/" not in page.actions
    stranger = make_user("stranger", "legal")
    assert reveal(stranger, f"hold:{hold.id}", 1).status_code == 404
    assert not SecretReveal.objects.exists()
    assert Client().post("/reveal/", {"place": f"hold:{hold.id}", "number": 1}).status_code == 302
    assert browser(operator).get("/reveal/").status_code == 405


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("", "1"),
        ("hold", "1"),
        ("hold:\0", "1"),
        ("hold:9-9", "1"),
        ("hold:{hold}", "99"),
        ("hold:{hold}", "0"),
        ("hold:{hold}", "-1"),
        ("hold:{hold}", "²"),
        ("hold:{hold}", ""),
        ("task:{run}:login:nothing", "1"),
        ("task:{run}:none:output", "1"),
        ("task:²:login:output", "1"),
        ("record:1:original", "1"),
        ("record:x:original", "1"),
        ("record:99999999999999999999:original", "1"),
        ("planet:1", "1"),
    ],
)
def test_revealing_an_unmasked_value_is_404(
    hold: Hold, reviewer: User, place: str, number: str
) -> None:
    named = place.format(hold=hold.id, run=hold.execution_id)
    assert reveal(reviewer, named, number).status_code == 404  # type: ignore[arg-type]
    assert not SecretReveal.objects.exists()


def test_a_token_with_the_scope_reveals_over_rest(hold: Hold, reviewer: User) -> None:
    client = browser_token(hold)
    body = {"place": f"hold:{hold.id}", "number": numbers(hold)["value.password"]}
    answer = client.post("/api/v1/reviews/reveal/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["value"]) == (200, PASSWORD)
    assert SecretReveal.objects.get().source == "rest"
    _, text = create_token(user=reviewer, name="reads", scopes=["read"])
    reads = Client(headers={"authorization": f"Bearer {text}"})
    refused = reads.post("/api/v1/reviews/reveal/", body, content_type="application/json")
    assert refused.status_code == 403
    for bad in ({}, {"place": 1}, {**body, "number": "x"}, {**body, "more": 1}, [], None):
        answer = client.post("/api/v1/reviews/reveal/", bad, content_type="application/json")
        assert answer.status_code in (400, 422), bad
    assert SecretReveal.objects.count() == 1


# --- deciding with masks --------------------------------------------------------------------------


def post(user: User, hold: Hold, value: dict[str, Any], **more: str) -> Any:
    hold.execution.refresh_from_db()
    data = {
        "decision": "APPROVE",
        "version": str(hold.execution.version),
        "mode": "json",
        "edits_json": json.dumps({"value": value}, ensure_ascii=False),
        "confirmed": "yes",
        **more,
    }
    return browser(user).post(review_path(hold), data)


def shown_value(hold: Hold, user: User) -> dict[str, Any]:
    found = browser(user).get(review_path(hold)).context["d"]["original_json"]
    value: dict[str, Any] = json.loads(found)["value"]
    return value


def test_unchanged_masks_are_no_edit(hold: Hold, reviewer: User) -> None:
    shown = shown_value(hold, reviewer)
    assert secretless(str(shown))
    assert post(reviewer, hold, shown).status_code == 303
    record = HumanReviewRecord.objects.get()
    assert (record.is_edited, record.original_data) == (False, {"value": VALUE})
    assert record.shown_digest == record.decided_digest


def test_an_edit_beside_a_mask_preserves_the_secret(hold: Hold, reviewer: User) -> None:
    shown = shown_value(hold, reviewer)
    confirm = post(reviewer, hold, {**shown, "city": "Linz"}, confirmed="")
    assert confirm.status_code == 200
    assert secretless(confirm.content.decode())
    assert post(reviewer, hold, {**shown, "city": "Linz"}).status_code == 303
    record = HumanReviewRecord.objects.get()
    assert record.modified_data == {"value": {**VALUE, "city": "Linz"}}
    assert record.change_count == 1


def test_a_masked_value_can_be_replaced_unseen(hold: Hold, reviewer: User) -> None:
    shown = {**shown_value(hold, reviewer), "password": "another-password"}
    confirm = post(reviewer, hold, shown, confirmed="")
    changes = confirm.context["d"]["changes"]
    assert len(changes) == 1
    assert "another-password" not in str(changes)
    assert changes[0].before != changes[0].after
    assert post(reviewer, hold, shown).status_code == 303
    record = HumanReviewRecord.objects.get()
    assert record.modified_data == {"value": {**VALUE, "password": "another-password"}}
    assert not SecretReveal.objects.exists()


def test_a_mask_moved_to_another_field_is_refused(hold: Hold, reviewer: User) -> None:
    shown = shown_value(hold, reviewer)
    answer = post(reviewer, hold, {**shown, "city": shown["password"]})
    assert answer.status_code == 422
    assert secretless(answer.content.decode())
    assert [each.path for each in answer.context["d"]["errors"]] == ["value.city"]
    assert not HumanReviewRecord.objects.exists()


def test_an_api_client_edits_masked_payloads(start: Start, reviewer: User) -> None:
    """The whole new output, as the full context gave it, with one key changed."""
    hold = only_hold(start(echo("send", VALUE, phase=AFTER)))
    client = browser_token(hold)
    found = client.get(f"/api/v1/reviews/pending/{hold.execution_id}/")
    assert secretless(found.content.decode())
    (seen,) = found.json()["holds"]
    body = {
        "execution_id": hold.execution_id,
        "hold_id": hold.id,
        "version": found.json()["version"],
        "decision": "APPROVE",
        "edits": {**seen["payload"], "city": "Linz"},
    }
    answer = client.post("/api/v1/reviews/resume/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["edited"]) == (200, True)
    record = HumanReviewRecord.objects.get()
    assert record.modified_data == {**VALUE, "city": "Linz"}
    one = client.get(f"/api/v1/reviews/history/{record.pk}/")
    assert secretless(one.content.decode())
    assert one.json()["masked"]


# --- files and precedents -------------------------------------------------------------------------


def test_exports_are_masked_and_still_verify(
    hold: Hold, reviewer: User, auditor: User, tmp_path: Path
) -> None:
    decided(reviewer, hold)
    for kind in ("jsonl", "csv"):
        answer = browser(auditor).get("/history/export/", {"as": kind})
        text = b"".join(answer.streaming_content).decode()  # type: ignore[arg-type]
        assert secretless(text)
        if kind == "jsonl":
            assert verify(text, tmp_path).returncode == 2, "without a key masks hide anything"
            done = verify(text, tmp_path, "--key", public_key())
            assert (done.returncode, done.stderr) == (0, "")
            assert "1 records show marks in place of secrets." in done.stdout


def test_similar_decisions_show_no_secret_of_another_run(start: Start, reviewer: User) -> None:
    old = only_hold(start(echo("send", VALUE, phase=BEFORE)))
    decided(reviewer, old, edits={"value": {**VALUE, "password": "theirs", "city": "Wien"}})
    new = only_hold(start(echo("send", {**VALUE, "password": "mine-alone"}, phase=BEFORE)))
    page = open_page(reviewer, f"{review_path(new)}precedents/")
    assert "theirs" not in page.html
    assert "mine-alone" not in page.html
