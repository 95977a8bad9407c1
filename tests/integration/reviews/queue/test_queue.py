"""Working through the queue: filters, claims that are given, presence, saved views, bulk."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from channels.db import database_sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import HumanReviewRecord, ReviewClaim, ReviewPresence, SavedView
from reviews.queue import bulk, claims, presence, saved_views, selectors
from reviews.queue.filters import RISKS, parse_queue_filters, risk_of
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.sockets.test_sockets import bearer, joined, session, socket, take
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.models import Execution, Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"


def waiting(start: Start, name: str = "a", **review: Any) -> Hold:
    return only_hold(start(echo(name, phase=BEFORE, **review)))


def api(user: User) -> APIClient:
    _, text = create_token(user=user, name="desk", scopes=["read", "decide"])
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {text}")


# --- filters --------------------------------------------------------------------------------------


def test_the_database_and_the_page_agree_on_risk(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    template = only_hold(execution)
    phases = ["", *(each.value for each in TriggerPhase)]
    mixes = itertools.product(HoldReason, phases, (True, False), ("", *RISKS))
    for number, (reason, phase, critical, stated) in enumerate(mixes, start=2):
        Hold.objects.create(
            id=f"{execution.pk}-{number}",
            execution=execution,
            reason=reason.value,
            phase=phase,
            critical=critical,
            stated_risk=stated,
            decider="human",
            layer=0,
            groups=template.groups,
            opened_seq=number,
        )
    viewer = selectors.Viewer(reviewer)
    found = {
        level: list(selectors.queue(viewer, "open", parse_queue_filters({"risk": level})))
        for level in RISKS
    }
    assert all(risk_of(hold) == level for level, holds in found.items() for hold in holds)
    assert sum(map(len, found.values())) == Hold.objects.count()


def test_filters_of_the_address_narrow_and_order_the_rows(start: Start, reviewer: User) -> None:
    older, newer = waiting(start, "older"), waiting(start, "newer")
    viewer = selectors.Viewer(reviewer)

    def shown(**query: str) -> list[str]:
        rows = selectors.queue(viewer, "me", parse_queue_filters(query))
        return [hold.id for hold in rows]

    assert shown() == [older.id, newer.id]
    assert shown(sort="newest") == [newer.id, older.id]
    assert shown(q="OLDER") == [older.id]
    assert shown(q=str(newer.execution_id)) == [newer.id]
    assert shown(phase="AFTER_EXECUTION") == shown(workflow="no-such") == []
    assert shown(group="legal") == []
    assert shown(reason="node_review", phase=BEFORE, group="reviewer") == [older.id, newer.id]


def test_pages_follow_the_order_in_both_directions(
    start: Start, reviewer: User, settings: Any
) -> None:
    holds = [waiting(start, f"t{number}").id for number in range(3)]
    settings.HOLDPOINT = {**settings.HOLDPOINT, "page_size": 2}
    for sort, expected in (("newest", holds[::-1]), ("oldest", holds)):
        first = browser(reviewer).get("/review/", {"sort": sort})
        second = browser(reviewer).get(first.context["next_url"])
        rows = [*first.context["rows"], *second.context["rows"]]
        assert [row["hold_id"] for row in rows] == expected


def test_an_invalid_filter_is_named(start: Start, reviewer: User) -> None:
    waiting(start)
    answer = browser(reviewer).get("/review/?risk=purple&sort=backwards&q=%00")
    assert answer.status_code == 200
    assert [each.path for each in answer.context["filter_errors"]] == ["q", "risk", "sort"]
    assert len(Page(answer).names("alert")) == 3
    assert len(answer.context["rows"]) == 1
    refused = api(reviewer).get("/api/v1/reviews/pending/?risk=purple")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "risk"


def test_rows_cost_the_same_number_of_queries(start: Start, reviewer: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            browser(reviewer).get("/review/")
        return len(seen)

    waiting(start)
    before = queries()
    for number in range(4):
        hold = waiting(start, f"more{number}")
        claims.claim(hold_id=hold.id, user=reviewer)
    assert queries() == before


@pytest.mark.parametrize("tab", ["open", "decided"])
def test_rows_of_every_kind_are_read_at_once_and_without_their_runs_state(
    start: Start, reviewer: User, tab: str
) -> None:
    template = waiting(start)
    claims.claim(hold_id=template.id, user=reviewer)
    status = Hold.Status.APPROVED if tab == "decided" else Hold.Status.OPEN
    given: dict[str, Any] = {
        "quorum": 2,
        "expires_at": timezone.now(),
        "payload": {
            "next_layer": [{"id": "b", "target": "builtin.echo", "inputs": {}}],
            "added": {},
            "changed": {},
            "removed": [],
        },
    }
    if tab == "decided":
        given |= {"decided_at": timezone.now(), "decided_by": "ann"}

    def add(number: int, reason: HoldReason) -> None:
        Hold.objects.create(
            id=f"{template.execution_id}-{number}",
            execution=template.execution,
            reason=reason.value,
            decider="human",
            layer=0,
            groups=template.groups,
            opened_seq=number,
            target="builtin.echo",
            status=status,
            **given,
        )

    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as seen:
            page = browser(reviewer).get("/review/", {"tab": tab})
        assert len(page.context["rows"]) == Hold.objects.filter(status=status).count()
        return [query["sql"] for query in seen]

    add(2, HoldReason.NODE_REVIEW)
    before = statements()
    assert not any('"workflows_execution"."state"' in sql for sql in before)
    for number, reason in enumerate(HoldReason, start=3):
        add(number, reason)
    assert len(statements()) == len(before)


# --- claims ---------------------------------------------------------------------------------------


def test_a_claim_is_assigned_to_a_decider(
    start: Start, reviewer: User, reviewer2: User, operator: User
) -> None:
    hold = waiting(start)
    claims.claim(hold_id=hold.id, user=reviewer)
    with pytest.raises(Conflict, match="Somebody else"):
        claims.claim(hold_id=hold.id, user=reviewer2)
    given = claims.assign(hold_id=hold.id, user=operator, to="reviewer2")
    assert (given.user, given.assigned_by) == (reviewer2, operator)
    renewed = claims.claim(hold_id=hold.id, user=reviewer2)
    assert renewed.assigned_by == operator
    assert claims.candidates(hold) == ["reviewer", "reviewer2"]


@pytest.mark.parametrize("to", ["auditor", "nobody", "outsider", "gone"])
def test_a_claim_is_assigned_to_no_other_user(
    start: Start, reviewer: User, auditor: User, make_user: MakeUser, to: str
) -> None:
    make_user("outsider", "legal")
    make_user("gone", "reviewer", is_active=False)
    hold = waiting(start)
    with pytest.raises(ReviewInvalid) as refused:
        claims.assign(hold_id=hold.id, user=reviewer, to=to)
    assert [error.path for error in refused.value.errors] == ["to"]
    assert not ReviewClaim.objects.exists()


def test_an_auditor_assigns_nothing(start: Start, reviewer: User, auditor: User) -> None:
    with pytest.raises(NotAllowed):
        claims.assign(hold_id=waiting(start).id, user=auditor, to="reviewer")


def test_claim_buttons_of_the_page(start: Start, reviewer: User, reviewer2: User) -> None:
    hold = waiting(start)
    url = f"/review/{hold.execution_id}/{hold.id}/"
    client = browser(reviewer)
    assert "claim" in open_page(reviewer, url).answers("action")
    answer = client.post(f"{url}claim/", {"action": "claim"}, headers=HTMX)
    assert "release" in Page(answer).answers("action")
    assert "Claimed by you" in Page(answer).text
    other = browser(reviewer2)
    claimed = open_page(reviewer2, url)
    assert "reviewer has claimed this" in claimed.text
    assert "claim" not in claimed.answers("action")
    late = other.post(f"{url}claim/", {"action": "claim"}, headers=HTMX)
    assert late.status_code == 409
    assert Page(late).names("alert") == ["Somebody else has claimed this."]
    assert other.post(f"{url}claim/", {"action": "assign", "to": "reviewer2"}).status_code == 303
    assert ReviewClaim.objects.get().user == reviewer2
    assert other.post(f"{url}claim/", {"action": "release"}).status_code == 303
    assert not ReviewClaim.objects.exists()


def test_an_open_page_renews_a_claim_and_makes_none(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    hold = waiting(start)
    renewal = f"/review/{hold.execution_id}/{hold.id}/looking/", {"renew": "yes"}
    claims.claim(hold_id=hold.id, user=reviewer)

    def ends(**moment: Any) -> datetime:
        ReviewClaim.objects.update(**moment)
        for each in (reviewer, reviewer2):
            assert browser(each).post(*renewal).status_code == 204
        claim = ReviewClaim.objects.get()
        assert claim.user == reviewer
        return claim.expires_at

    soon, past = (timezone.now() + timedelta(seconds=each) for each in (60, -60))
    assert ends(expires_at=soon) > soon
    assert ends(expires_at=past) == past
    assert claims.release(hold_id=hold.id, user=reviewer)
    # It was sent before the release and arrives after it.
    assert browser(reviewer).post(*renewal).status_code == 204
    assert not ReviewClaim.objects.exists()


# --- presence -------------------------------------------------------------------------------------


def test_viewers_are_shown_to_others_and_expire(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    hold = waiting(start)
    url = f"/review/{hold.execution_id}/{hold.id}/"
    assert browser(reviewer2).post(f"{url}looking/").status_code == 204
    assert presence.viewers_of([hold.id], but=reviewer.pk) == {hold.id: ["reviewer2"]}
    assert presence.viewers_of([hold.id], but=reviewer2.pk) == {}
    assert "reviewer2 is viewing" in open_page(reviewer, url).text
    assert "reviewer2 is viewing" in open_page(reviewer, "/review/").text
    browser(reviewer2).post(f"{url}looking/", {"leave": "yes"})
    assert presence.viewers_of([hold.id], but=reviewer.pk) == {}


def test_presence_expires_by_the_databases_clock(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    hold = waiting(start)
    presence.mark_viewing(hold_id=hold.id, user=reviewer2)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE reviews_reviewpresence SET seen_at = now() - interval '2 hours'")
    assert presence.viewers_of([hold.id], but=reviewer.pk) == {}
    assert presence.forget_old() == 1
    assert not ReviewPresence.objects.exists()


def test_presence_needs_the_right_to_see_the_hold(start: Start, make_user: MakeUser) -> None:
    hold = waiting(start)
    stranger = browser(make_user("stranger", "legal"))
    assert stranger.post(f"/review/{hold.execution_id}/{hold.id}/looking/").status_code == 404
    assert stranger.post(f"/review/{hold.execution_id}/{hold.id}/claim/").status_code == 404


async def test_claims_and_presence_reach_other_sockets(
    start: Start, reviewer: User, reviewer2: User, make_user: MakeUser
) -> None:
    run = database_sync_to_async
    hold = await run(waiting)(start)
    cookies = await run(session)(reviewer)
    stranger = await run(bearer)(await run(make_user)("stranger", "legal"))
    path = f"/ws/executions/{hold.execution_id}/?after=999"
    async with (
        socket("/ws/reviews/", cookies) as queue,
        socket(path, cookies) as page,
        socket("/ws/reviews/", stranger) as outside,
    ):
        for each in (queue, page, outside):
            await joined(each)
        # Looking a second time is no news, so each step is heard of once.
        steps = (presence.mark_viewing, presence.mark_viewing, claims.claim)
        for step, told in zip(steps, (1, 0, 1), strict=True):
            await run(step)(hold_id=hold.id, user=reviewer2)
            for each in (queue, page):
                for event in await take(each, told):
                    assert (event["type"], event["holdId"]) == ("review_presence", hold.id)
                    assert "seq" not in event
        # A page shows other viewers only, so the viewer's own pages are not told.
        await run(presence.mark_viewing)(hold_id=hold.id, user=reviewer)
        await run(presence.mark_left)(hold_id=hold.id, user=reviewer)
        for each in (queue, page, outside):
            assert await each.receive_nothing(timeout=0.2)


# --- saved views ----------------------------------------------------------------------------------


def test_a_view_keeps_tab_and_filters(reviewer: User, reviewer2: User) -> None:
    client = browser(reviewer)
    answer = client.post(
        "/review/views/",
        {"name": "Risky", "query": "sort=newest&risk=high&tab=open&x=1", "shared": "yes"},
    )
    assert answer["Location"] == "/review/?tab=open&risk=high&sort=newest"
    view = SavedView.objects.get()
    assert client.get(answer["Location"]).context["saved_here"] == "Risky"
    listed = browser(reviewer2).get("/review/").context["saved_views"]
    assert [(row["name"], row["mine"], row["owner"]) for row in listed] == [
        ("Risky", False, "reviewer")
    ]
    assert browser(reviewer2).post(f"/review/views/{view.pk}/remove/").status_code == 404
    assert client.post(f"/review/views/{view.pk}/remove/").status_code == 303
    assert not SavedView.objects.exists()


def test_a_private_view_stays_private_and_names_are_unique(reviewer: User, reviewer2: User) -> None:
    for query in ("risk=high", "risk=low"):
        saved_views.save_view(user=reviewer, name="Mine", query=query, shared=False)
    assert SavedView.objects.get().query == "risk=low"
    assert saved_views.views_for(reviewer2) == []


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\nb", "nul\0"])
def test_a_view_needs_a_plain_name(reviewer: User, name: str) -> None:
    with pytest.raises(ReviewInvalid):
        saved_views.save_view(user=reviewer, name=name, query="", shared=False)


# --- bulk -----------------------------------------------------------------------------------------


def chosen(*holds: Hold) -> list[bulk.SelectedHold]:
    return [bulk.SelectedHold(hold.id, hold.execution.version) for hold in holds]


def test_each_hold_gets_its_own_result_and_record(start: Start, reviewer: User) -> None:
    fine, risky, done = waiting(start, "fine"), waiting(start, "risky"), waiting(start, "done")
    Hold.objects.filter(pk=risky.pk).update(critical=True)
    decide(done, reviewer, source="web")
    picked = [*chosen(fine, risky, done), bulk.SelectedHold("no-such", 1)]
    request = bulk.Request(action="approve", comment="all alike")
    outcomes = bulk.apply_to_all(chosen=picked, request=request, user=reviewer)
    codes = ["done", "high_risk", "decided", "not_found"]
    assert [outcome.code for outcome in outcomes] == codes
    record = HumanReviewRecord.objects.get(hold=fine)
    assert (record.pk, record.source, record.comment) == (
        outcomes[0].record_id,
        "bulk",
        "all alike",
    )
    assert Hold.objects.get(pk=risky.pk).status == Hold.Status.OPEN


def test_two_holds_of_one_run_are_both_decided(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE))
    holds = list(execution.holds.select_related("execution"))
    request = bulk.Request(action="reject", comment="not today")
    outcomes = bulk.apply_to_all(chosen=chosen(*holds), request=request, user=reviewer)
    # A rejection aborts the run, which closes the other hold: it says so instead of deciding.
    assert [outcome.done for outcome in outcomes] == [True, False]
    again = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE))
    holds = list(again.holds.select_related("execution"))
    approve = bulk.Request(action="approve")
    outcomes = bulk.apply_to_all(chosen=chosen(*holds), request=approve, user=reviewer)
    assert [outcome.done for outcome in outcomes] == [True, True]


def test_a_bulk_decision_skips_a_run_that_continued(start: Start, reviewer: User) -> None:
    hold = waiting(start)
    stale = [bulk.SelectedHold(hold.id, hold.execution.version - 1)]
    request = bulk.Request(action="approve")
    (outcome,) = bulk.apply_to_all(chosen=stale, request=request, user=reviewer)
    assert (outcome.done, outcome.code) == (False, "stale")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"action": "explode"}, "action"),
        ({"action": "reject"}, "comment"),
        ({"action": "assign"}, "to"),
    ],
)
def test_an_invalid_bulk_call_does_nothing(
    start: Start, reviewer: User, fields: dict[str, str], path: str
) -> None:
    hold = waiting(start)
    with pytest.raises(ReviewInvalid) as refused:
        bulk.apply_to_all(
            chosen=chosen(hold),
            request=bulk.Request(**fields),  # type: ignore[arg-type]
            user=reviewer,
        )
    assert [error.path for error in refused.value.errors] == [path]


def test_bulk_in_the_browser(start: Start, reviewer: User, reviewer2: User) -> None:
    holds = [waiting(start, name) for name in "ab"]
    picked = [f"{hold.id}@{hold.execution.version}" for hold in holds]
    client = browser(reviewer)
    for action, code in (("claim", 200), ("release", 200), ("approve", 200), ("nothing", 422)):
        answer = client.post("/review/bulk/", {"action": action, "hold": picked})
        assert answer.status_code == code
    assert HumanReviewRecord.objects.filter(source="bulk", reviewer=reviewer).count() == 2
    garbage = client.post("/review/bulk/", {"action": "claim", "hold": ["\0", "x@-1"]})
    assert [row["done"] for row in garbage.context["rows"]] == [False, False]
    assert "reviewer2" not in Page(garbage).html


def test_bulk_and_assign_over_rest(start: Start, reviewer: User, reviewer2: User) -> None:
    hold = waiting(start)
    client = api(reviewer)
    given = client.post(
        f"/api/v1/reviews/holds/{hold.id}/assign/", {"to": "reviewer2"}, format="json"
    )
    assert (given.status_code, given.json()["claimed_by"]) == (200, "reviewer2")
    body = {
        "action": "approve",
        "holds": [{"hold_id": hold.id, "version": hold.execution.version}],
    }
    answer = client.post("/api/v1/reviews/bulk/", body, format="json")
    assert answer.status_code == 200
    (result,) = answer.json()["results"]
    assert result["done"]
    assert Execution.objects.get(pk=hold.execution_id).version > hold.execution.version
    refused = client.post("/api/v1/reviews/bulk/", {**body, "action": "reject"}, format="json")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == "comment"


# --- too late with an edit ------------------------------------------------------------------------


def test_a_late_edit_is_shown_beside_the_decision(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    hold = only_hold(start(echo("a", {"kept": 1, "both": 1, "mine": 1, "theirs": 1}, phase=BEFORE)))
    url = f"/review/{hold.execution_id}/{hold.id}/"
    version = hold.execution.version
    decide(
        hold,
        reviewer2,
        version=version,
        edits={"value": {"kept": 1, "both": 2, "mine": 1, "theirs": 2}},
        source="web",
    )
    written = {"value": {"kept": 1, "both": 3, "mine": 3, "theirs": 1}}
    fields = {
        "decision": "APPROVE",
        "version": str(version),
        "mode": "json",
        "edits_json": json.dumps(written),
    }
    records = HumanReviewRecord.objects.count()
    for confirmed in ("", "yes"):
        answer = browser(reviewer).post(url, {**fields, "confirmed": confirmed})
        assert answer.status_code == 409
        rows = {row["path"]: row for row in answer.context["d"]["conflict"]["rows"]}
        assert {path: row["outcome"] for path, row in rows.items()} == {
            "value.both": "conflict",
            "value.mine": "mine",
            "value.theirs": "theirs",
        }
        assert [cell["value"] for cell in rows["value.both"]["cells"]] == [1, 2, 3]
        together = json.loads(answer.context["d"]["conflict"]["together"])
        assert together == {"value": {"kept": 1, "both": 3, "mine": 3, "theirs": 2}}
        assert "Your text beside what was decided" in Page(answer).text
    assert HumanReviewRecord.objects.count() == records
    unedited = browser(reviewer).post(url, {**fields, "edits_json": "", "confirmed": "yes"})
    assert unedited.context["d"]["conflict"] is None


# --- similar decisions ----------------------------------------------------------------------------


def test_similar_decisions_are_listed_and_their_edit_can_be_reused(
    start: Start, reviewer: User, make_user: MakeUser
) -> None:
    payloads = ({"path": "a.md", "mode": "w"}, {"other": "thing"})
    for payload in payloads:
        past = only_hold(start(echo("a", payload, phase=BEFORE)))
        decide(
            past,
            reviewer,
            edits={"value": {**payload, "mode": "a"}},
            comment="append",
            source="web",
        )
    hold = only_hold(start(echo("a", {"path": "b.md", "mode": "w"}, phase=BEFORE)))
    url = f"/review/{hold.execution_id}/{hold.id}/precedents/"
    page = browser(reviewer).get(url)
    near = page.context["similar_decisions"]
    assert "path" in near[0]["reuse"]
    assert json.loads(near[0]["reuse"]) == {"value": {"path": "b.md", "mode": "a"}}
    assert "Use this edit" in Page(page).names("button")
    assert browser(make_user("stranger", "legal")).get(url).status_code == 404


# --- one's own run --------------------------------------------------------------------------------


def test_the_starter_may_reject_in_bulk_and_not_approve(start: Start, make_user: MakeUser) -> None:
    starter = make_user("starter", "reviewer")
    hold = only_hold(start(echo("a", phase=BEFORE), actor=starter))
    url = f"/review/{hold.execution_id}/{hold.id}/"
    client = browser(starter)
    page = open_page(starter, url)
    assert "You cannot approve this, but you can reject it." in page.text
    assert page.answers("decision") == {"REJECT"}
    fields = {"version": str(hold.execution.version), "comment": "my mistake"}
    assert client.post(url, {**fields, "decision": "APPROVE"}).status_code == 403
    assert client.post(url, {**fields, "decision": "REJECT"}).status_code == 303
    assert HumanReviewRecord.objects.get().comment == "my mistake"
