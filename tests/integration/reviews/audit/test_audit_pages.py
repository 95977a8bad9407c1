"""The auditor's room: full text, exports that verify anywhere, denied attempts."""

from __future__ import annotations

import csv
import io
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.staticfiles import finders
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from reviews.audit.history import records
from reviews.audit.signing import public_key
from reviews.components.number_formatting import count_up_to
from reviews.decisions import services
from reviews.decisions.rights import NotAllowed
from reviews.models import DeniedAttempt, HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.pages import browser, open_page
from workflows.engine.values.bounded_json import canonical
from workflows.models import Hold
from workflows.permissions.roles import ensure_roles

if TYPE_CHECKING:
    from django.contrib.auth.models import User

BEFORE = "BEFORE_EXECUTION"
VERIFIER = Path(str(finders.find("reviews/verify_history.py")))
Decide = Callable[..., HumanReviewRecord]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decide(start: Start, reviewer: User) -> Decide:
    """Start a run that stops, and decide its hold."""

    def go(name: str = "a", **answer: Any) -> HumanReviewRecord:
        hold = only_hold(start(echo(name, phase=BEFORE)))
        answer = {"decision": "APPROVE", "source": "web", **answer}
        result = services.decide(
            services.DecisionRequest(
                hold_id=hold.id, user=reviewer, version=hold.execution.version, **answer
            )
        )
        return result.record

    return go


def body(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


def export(user: User, **query: str) -> str:
    return body(browser(user).get("/history/export/", query))


# --- full text and filters ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("write_file", {"write_file"}),
        ("WRITE", {"write_file"}),
        ("builtin echo", {"write_file", "other"}),
        ("builtin.echo", {"write_file", "other"}),
        ("because of Zoë", {"other"}),
        ("bec zo", {"other"}),
        ("reviewer", {"write_file", "other"}),
        ("'; DROP TABLE x; --", set()),
        ("!!!", set()),
        ("other & !write", set()),
    ],
)
def test_a_search_matches_records_by_word_prefix(
    decide: Decide, auditor: User, q: str, found: set[str]
) -> None:
    decide("write_file")
    decide("other", comment="because of Zoë")
    rows = browser(auditor).get("/history/", {"q": q}).context["rows"]
    assert {row["subject"] for row in rows} <= {"echo"}
    nodes = records(auditor).filter(pk__in=[int(row["url"].split("/")[-2]) for row in rows])
    assert set(nodes.values_list("node_id", flat=True)) == found


def test_bulk_decisions_are_marked(decide: Decide, auditor: User) -> None:
    single, many = decide("one"), decide("two", source="bulk")
    for wanted, record in (("true", many), ("false", single)):
        rows = browser(auditor).get("/history/", {"bulk": wanted}).context["rows"]
        assert [row["url"] for row in rows] == [f"/history/{record.pk}/"]


def test_a_page_bounds_its_count(decide: Decide, auditor: User) -> None:
    for name in "abc":
        decide(name)
    assert count_up_to(records(auditor), most=2) == 3
    assert count_up_to(records(auditor), most=3) == 3


# --- exports --------------------------------------------------------------------------------------


def test_an_export_repeats_its_filter_and_honours_it(decide: Decide, auditor: User) -> None:
    decide("kept", comment="=1+1")
    decide("dropped", decision="REJECT", comment="no")
    page = browser(auditor).get("/history/", {"decision": "APPROVE"})
    links = {link["label"]: link["url"] for link in page.context["exports"]}
    assert set(links) == {"Export 1 as CSV", "Export 1 as JSON Lines"}
    told = [
        json.loads(line)
        for line in body(browser(auditor).get(links["Export 1 as JSON Lines"])).splitlines()
    ]
    header, row, _ = told
    assert header["filters"] == {"decision": "APPROVE"}
    assert (header["rows"], header["complete"], header["exported_by"]) == (1, False, "auditor")
    assert (row["node_id"], row["original_data"]) == ("kept", {"value": "text"})
    table = list(csv.reader(io.StringIO(body(browser(auditor).get(links["Export 1 as CSV"])))))
    assert "APPROVE" in "".join(table[0])
    kept = dict(zip(table[1], table[2], strict=True))
    assert (kept["node_id"], kept["comment"]) == ("kept", "'=1+1")


def test_a_secret_in_a_comment_is_masked_before_it_is_signed(decide: Decide, auditor: User) -> None:
    secret = "hunter2hunter2"
    record = decide("kept", decision="REJECT", comment=f"not with password={secret}")
    ensure_roles()
    auditor.is_staff = True
    auditor.save()
    browse = browser(auditor)
    changelist = reverse("admin:reviews_humanreviewrecord_changelist")
    shown = (
        "/history/",
        f"/history/{record.pk}/",
        reverse("reviews:decision", args=(record.execution_id, record.hold_id)),
        changelist,
        reverse("admin:reviews_humanreviewrecord_change", args=(record.pk,)),
        "/history/export/?as=csv",
        "/history/export/?as=jsonl",
        "/api/v1/reviews/history/",
    )
    for url in shown:
        response = browse.get(url)
        text = body(response) if response.streaming else response.content.decode()
        assert response.status_code == 200, url
        assert secret not in text, url
    assert "not with password=" in open_page(auditor, f"/history/{record.pk}/").text
    assert "0 audit records" in open_page(auditor, f"{changelist}?q={secret}").text
    record.refresh_from_db()
    assert record.comment == "not with password=••••••••"
    assert json.loads(export(auditor).splitlines()[1])["comment"] == record.comment


def test_no_cell_of_a_spreadsheet_is_a_formula(decide: Decide, auditor: User) -> None:
    starts = ("=", "+", "-", "@", " =", "\r", "\t", "\n", "\u200b=", "\xa0@")
    wide = ("\uff1d", "\uff0b", "\uff0d", "\uff20", " \uff1d", "\ufe66")
    comments = [f"{start}1+1" for start in (*starts, *wide)]
    for number, comment in enumerate(comments):
        decide(f"n{number}", decision="REJECT", comment=comment)
    # Where a semicolon separates cells, a quote inside a line keeps nothing together.
    split = {
        "a;=1+1;b": "a;'=1+1;b",
        "a\n \uff1d1": "a\n' \uff1d1",
        "\n=1": "'\n'=1",
        "a\t-1": "a\t'-1",
    }
    for number, comment in enumerate(split):
        decide(f"s{number}", decision="REJECT", comment=comment)
    decide("plain", decision="REJECT", comment="1-1 = 0; a=b")
    rows = list(csv.reader(io.StringIO(export(auditor, **{"as": "csv"}), newline="")))
    cells = {row[rows[1].index("comment")] for row in rows[2:]}
    assert cells == {f"'{comment}" for comment in comments} | {*split.values(), "1-1 = 0; a=b"}


def test_an_export_holds_only_visible_records(
    decide: Decide, auditor: User, make_user: MakeUser
) -> None:
    decide()
    stranger = make_user("stranger", "legal")
    header, end = export(stranger).splitlines()
    assert json.loads(end)["kind"] == "holdpoint.history.end"
    assert json.loads(header)["complete"] is False
    assert len(export(auditor).splitlines()) == 3
    assert Client().get("/history/export/").status_code == 302


@pytest.mark.parametrize("query", [{"as": "pdf"}, {"decision": "MAYBE"}, {"from": "soon"}])
def test_an_invalid_export_request_is_explained(auditor: User, query: dict[str, str]) -> None:
    answer = browser(auditor).get("/history/export/", query)
    assert answer.status_code == 400
    assert next(iter(query)) in answer.content.decode()


# --- the verifier ---------------------------------------------------------------------------------


def verify(text: str, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "history.jsonl"
    file.write_text(text)
    command = [sys.executable, "-I", str(VERIFIER), str(file), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_whole_export_verifies_without_the_product(
    decide: Decide, auditor: User, tmp_path: Path
) -> None:
    decide("a", edits={"value": [1.0, 1e16, "é\u2028", None]})
    decide("b", decision="REJECT", comment="no")
    decide("c")
    done = verify(export(auditor), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 records are whole; the last hash is")
    part = verify(export(auditor, decision="APPROVE"), tmp_path, "--key", public_key())
    assert (part.returncode, part.stderr) == (0, "")
    assert "2 records are whole; 1 places" in part.stdout


def _without(index: int) -> Callable[[list[str]], list[str]]:
    return lambda rows: [*rows[:index], *rows[index + 1 :]]


def _changed(column: str, value: Any, at: int = 1) -> Callable[[list[str]], list[str]]:
    def change(rows: list[str]) -> list[str]:
        rows[at] = json.dumps({**json.loads(rows[at]), column: value})
        return rows

    return change


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (_without(2), "records are missing"),
        (_without(3), "the newest records are missing"),
        (_changed("decision", "REJECT"), "shows another decision"),
        (_changed("original_data", {"value": "other"}), "shows other original data"),
        (_changed("comment", "x"), "shows another comment"),
        (_changed("hash", "0" * 64), "does not have the hash of its text"),
        (lambda rows: [*rows[:-1], rows[-2], rows[-1]], "out of order or there twice"),
        (lambda rows: rows[:-1], "the last line is missing"),
        (_changed("target", "builtin.echo", 0), "a field that nothing checks: target"),
        (_changed("note", "x"), "a field that nothing signs: note"),
        (_changed("id", 99_999), "the file was changed"),
    ],
)
def test_a_tampered_export_is_named(
    decide: Decide,
    auditor: User,
    tmp_path: Path,
    tamper: Callable[[list[str]], list[str]],
    said: str,
) -> None:
    for name in "abc":
        decide(name)
    done = verify("\n".join(tamper(export(auditor).splitlines())), tmp_path)
    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no json", '{"kind": "holdpoint.history"}\n1'])
def test_a_file_that_is_no_export_is_reported(tmp_path: Path, text: str) -> None:
    done = verify(text, tmp_path)
    assert done.returncode == 2
    assert "cannot be checked" in done.stderr


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
_verifier = runpy.run_path(str(VERIFIER))


@given(_json)
def test_the_verifier_writes_json_as_the_product_does(value: Any) -> None:
    assert _verifier["canonical"](value) == canonical(value)


# --- denied attempts ------------------------------------------------------------------------------


def test_denied_attempts_are_recorded(
    start: Start, auditor: User, reviewer: User, make_user: MakeUser
) -> None:
    starter = make_user("starter", "reviewer")
    hold: Hold = only_hold(start(echo("a", phase=BEFORE), actor=starter))
    for user in (auditor, starter):
        with pytest.raises(NotAllowed):
            services.decide(
                services.DecisionRequest(
                    hold_id=hold.id,
                    user=user,
                    decision="APPROVE",
                    version=hold.execution.version,
                    source="rest",
                )
            )
    noted = DeniedAttempt.objects.order_by("id").values_list("actor", "code", "wanted", "source")
    assert list(noted) == [
        ("auditor", "auditor", "APPROVE", "rest"),
        ("starter", "four_eyes", "APPROVE", "rest"),
    ]
    page = open_page(auditor, "/history/denied/")
    assert "starter" in page.text
    assert "somebody else has to approve it" in page.text
    stranger = make_user("stranger", "legal")
    assert browser(stranger).get("/history/denied/").context["rows"] == ()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        DeniedAttempt.objects.all().delete()


def test_an_unknown_hold_records_no_denied_attempt(auditor: User) -> None:
    with pytest.raises(services.HoldNotFound):
        services.decide(
            services.DecisionRequest(
                hold_id="9-9", user=auditor, decision="APPROVE", version=1, source="rest"
            )
        )
    assert not DeniedAttempt.objects.exists()
