"""The review endpoints, with tokens and sessions, against the real services."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from reviews.models import HumanReviewRecord
from reviews.queue import selectors
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from workflows.models import Execution
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
Call = Callable[..., Any]


class Api:
    """A client with a bearer token."""

    def __init__(self, user: User, *scopes: str) -> None:
        _, text = create_token(user=user, name="test", scopes=scopes or ("read", "decide"))
        self._headers = {"authorization": f"Bearer {text}"}
        self._client = Client(enforce_csrf_checks=True)

    def get(self, path: str) -> Any:
        return self._client.get(f"/api/v1/reviews/{path}", headers=self._headers)

    def post(self, path: str, body: Any = None) -> Any:
        data = body if isinstance(body, (str, bytes)) else json.dumps(body or {})
        return self._client.post(
            f"/api/v1/reviews/{path}", data, content_type="application/json", headers=self._headers
        )

    def resume(self, execution: Execution, **more: Any) -> Any:
        body = {
            "execution_id": execution.pk,
            "hold_id": only_hold(execution).id,
            "version": execution.version,
            "decision": "APPROVE",
        }
        return self.post("resume/", {**body, **more})


@pytest.fixture
def paused(start: Start) -> Execution:
    return start(
        {
            "id": "w",
            "type": "tool",
            "tool": "builtin.wait",
            "arguments": {"seconds": 0},
            "human_review": {"trigger_phase": BEFORE},
        }
    )


def test_a_reviewer_sees_decides_and_finds_the_record(paused: Execution, reviewer: User) -> None:
    api = Api(reviewer)
    rows = api.get("pending/").json()["results"]
    assert [row["node_id"] for row in rows] == ["w"]
    assert rows[0]["trigger_phase"] == BEFORE
    assert "payload" not in rows[0]
    context = api.get(f"pending/{paused.pk}/").json()
    hold = context["holds"][0]
    assert hold["payload"] == {"seconds": 0}
    assert hold["schema"]["properties"]["seconds"]["minimum"] == 0
    assert hold["right"] == {"approve": True, "reject": True, "reason": ""}
    answer = api.resume(paused, edits={"seconds": 0.01}, comment="slower")
    assert answer.status_code == 200
    state = answer.json()
    assert (state["status"], state["version"], state["holds"]) == (
        "RUNNING",
        paused.version + 1,
        [],
    )
    found = api.get(f"history/?execution={paused.pk}&edited=true").json()["results"]
    assert [row["id"] for row in found] == [state["record_id"]]
    record = api.get(f"history/{state['record_id']}/").json()
    assert record["original_data"] == {"seconds": 0}
    assert record["modified_data"] == {"seconds": 0.01}
    assert record["reviewer"] == "reviewer"
    assert api.get("pending/").json()["results"] == []


def test_a_review_is_decided_by_its_node_id(paused: Execution, reviewer: User) -> None:
    body = {
        "execution_id": paused.pk,
        "node_id": "w",
        "version": paused.version,
        "decision": "REJECT",
    }
    api = Api(reviewer)
    assert api.post("resume/", body).json()["status"] == "ABORTED"
    again = api.post("resume/", body)
    assert again.status_code == 409
    assert again.json()["state"]["decided"][0]["by"] == "reviewer"


def test_a_stale_version_is_409_with_the_current_state(paused: Execution, reviewer: User) -> None:
    answer = Api(reviewer).resume(paused, version=paused.version - 1)
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["code"] == "stale_version"
    assert problem["state"]["version"] == paused.version
    assert problem["state"]["status"] == "PAUSED_FOR_REVIEW"
    assert problem["state"]["holds"][0]["node_id"] == "w"


def test_a_bad_edit_is_422_with_its_path(paused: Execution, reviewer: User) -> None:
    answer = Api(reviewer).resume(paused, edits={"seconds": -1})
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["edits.seconds"]
    assert only_hold(paused).status == "OPEN"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"decision": "MAYBE"}, "decision"),
        ({"version": "x"}, "version"),
        ({"version": 10**30}, "version"),
        ({"hold_id": None}, "hold_id"),
        ({"node_id": "w"}, "hold_id"),
        ({"unknown": 1}, "unknown"),
        ({"comment": 5 * ["x"]}, "comment"),
        ({"decision": "REJECT", "edits": {}}, "edits"),
    ],
)
def test_malformed_bodies_name_the_field(
    paused: Execution, reviewer: User, change: dict[str, Any], path: str
) -> None:
    answer = Api(reviewer).resume(paused, **change)
    assert answer.status_code == 422
    assert path in [each["path"] for each in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        (r'{"seconds": 1e400}', "edits.seconds"),
        (r'{"note": "a\u0000b"}', "edits.note"),
        (r'{"note": "\ud800"}', "edits.note"),
        (r'{"a\u0000": 1}', "edits"),
        (r'{"seconds": 1, "seconds": 2}', "edits"),
        ("[" * 100_000 + "]" * 100_000, "edits"),
        ("NaN", "edits"),
    ],
)
def test_hostile_json_is_4xx_with_its_place(
    paused: Execution, reviewer: User, edits: str, path: str
) -> None:
    head = json.dumps({"execution_id": paused.pk, "hold_id": only_hold(paused).id})[:-1]
    body = f'{head}, "version": {paused.version}, "decision": "APPROVE", "edits": {edits}}}'
    answer = Api(reviewer).post("resume/", body)
    assert 400 <= answer.status_code < 500
    assert any(each["path"].startswith(path) for each in answer.json()["errors"]), answer.json()
    assert not HumanReviewRecord.objects.exists()


@pytest.mark.parametrize("comment", ["a\0b", "\ud800"])
def test_a_comment_that_cannot_be_stored_is_refused(
    paused: Execution, reviewer: User, comment: str
) -> None:
    answer = Api(reviewer).resume(paused, comment=comment)
    assert 400 <= answer.status_code < 500
    assert "comment" in answer.content.decode()


def test_a_decision_over_the_size_limit_is_413(paused: Execution, reviewer: User) -> None:
    assert Api(reviewer).resume(paused, comment="x" * 300_000).status_code == 413


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "status"),
    [("auditor", 403), ("operator", 403), ("admin", 403), ("integrator", 404), ("other", 404)],
)
def test_users_without_the_right_cannot_decide(
    paused: Execution, make_user: MakeUser, group: str, status: int
) -> None:
    api = Api(make_user("somebody", group))
    assert api.resume(paused).status_code == status
    assert api.post(f"holds/{only_hold(paused).id}/claim/").status_code == status
    context = api.get(f"pending/{paused.pk}/")
    assert context.status_code == (200 if status == 403 else 404)
    if status == 403:
        right = context.json()["holds"][0]["right"]
        assert right["approve"] is False
        assert right["reason"]


def test_an_auditor_reads_everything(
    paused: Execution, reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    record = Api(reviewer).resume(paused).json()["record_id"]
    api = Api(auditor, "read")
    assert [row["id"] for row in api.get("history/").json()["results"]] == [record]
    assert api.get(f"history/{record}/").status_code == 200
    stranger = Api(make_user("stranger", "other"))
    assert stranger.get("history/").json()["results"] == []
    assert stranger.get(f"history/{record}/").status_code == 404


@pytest.mark.parametrize("scope", ["read", "run"])
def test_a_token_decides_only_with_the_scope(paused: Execution, reviewer: User, scope: str) -> None:
    answer = Api(reviewer, scope).resume(paused)
    assert answer.status_code == 403
    assert "decide" in answer.json()["detail"]
    assert only_hold(paused).status == "OPEN"


def test_without_credentials_401_and_a_session_needs_csrf(
    paused: Execution, reviewer: User
) -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.get("/api/v1/reviews/pending/").status_code == 401
    client.force_login(reviewer)
    assert client.get("/api/v1/reviews/pending/").status_code == 200
    body = json.dumps({"execution_id": paused.pk})
    refused = client.post("/api/v1/reviews/resume/", body, content_type="application/json")
    assert refused.status_code == 403


# --- claims and pages -----------------------------------------------------------------------------


def test_a_claim_is_shown_and_released(paused: Execution, reviewer: User, reviewer2: User) -> None:
    hold = only_hold(paused)
    one, two = Api(reviewer), Api(reviewer2)
    claimed = one.post(f"holds/{hold.id}/claim/").json()
    assert claimed["claimed_by"] == "reviewer"
    assert one.post(f"holds/{hold.id}/claim/").json()["claimed_at"] == claimed["claimed_at"]
    taken = two.post(f"holds/{hold.id}/claim/")
    assert taken.status_code == 409
    assert taken.json()["state"]["claimed_by"] == "reviewer"
    assert two.get("pending/").json()["results"] == []
    assert [row["claimed_by"] for row in two.get("pending/?tab=groups").json()["results"]] == [
        "reviewer"
    ]
    assert two.post(f"holds/{hold.id}/release/").json() == {"released": False}
    assert one.post(f"holds/{hold.id}/release/").json() == {"released": True}
    assert two.post(f"holds/{hold.id}/claim/").status_code == 200


def test_pages_follow_each_other_without_gaps(start: Start, reviewer: User) -> None:
    for number in range(5):
        start(echo(f"t{number}", phase=BEFORE))
    api, seen, path = Api(reviewer), [], "pending/?page_size=2"
    while path:
        body = api.get(path).json()
        seen += [row["node_id"] for row in body["results"]]
        path = body["next"].partition("/api/v1/reviews/")[2] if body["next"] else ""
    assert seen == ["t4", "t3", "t2", "t1", "t0"]


@pytest.mark.parametrize(
    "query",
    ["execution=x", "decision=MAYBE", "phase=DURING", "from=soon", "edited=perhaps", "q=%00"],
)
def test_unreadable_filters_are_422(reviewer: User, query: str) -> None:
    answer = Api(reviewer).get(f"history/?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == query.partition("=")[0]


def test_deciders_see_the_run_in_every_tab(
    start: Start, reviewer: User, reviewer2: User, make_user: MakeUser
) -> None:
    """The tabs that leave the question of visibility out give the same answer with it."""
    start(echo("a", phase="BEFORE_EXECUTION"))
    start(echo("a", phase="BEFORE_EXECUTION", groups=["admin"]))
    start(echo("a", phase="BEFORE_EXECUTION"), actor=reviewer)
    people = [reviewer, reviewer2, make_user("x"), make_user("boss", "admin")]
    people += [make_user("gone", "reviewer", is_active=False)]
    for person in people:
        viewer = selectors.Viewer(person)
        for tab in ("me", "groups"):
            asked = selectors.pending(person).filter(viewer.tab(tab)).order_by("opened_at", "id")
            assert list(selectors.queue(viewer, tab)) == list(asked), (person, tab)
    assert len(selectors.queue(selectors.Viewer(reviewer), "groups")) == 2


def test_the_queue_takes_the_same_number_of_queries_for_any_length(
    start: Start, reviewer: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(6):
        start(echo(f"t{number}", phase=BEFORE))
    api = Api(reviewer)
    with django_assert_max_num_queries(8):
        assert len(api.get("pending/").json()["results"]) == 6


# --- in other words -------------------------------------------------------------------------------


def answer(api: Api, execution: Execution, said: dict[str, Any], **headers: str) -> Any:
    named = {"execution_id": execution.pk, "hold_id": only_hold(execution).id}
    return api.post("resume/", {**named, "version": execution.version, **said})


def test_edits_in_other_products_formats_are_accepted(paused: Execution, reviewer: User) -> None:
    api = Api(reviewer)
    call = {"name": "wait", "args": {"seconds": 0.01}}
    wrong = answer(api, paused, {"type": "edit", "edited_action": {**call, "name": "other"}})
    assert (wrong.status_code, wrong.json()["errors"][0]["code"]) == (422, "another_tool")
    bad = answer(api, paused, {"type": "edit", "edited_action": {**call, "args": {"seconds": -1}}})
    assert (bad.status_code, bad.json()["errors"][0]["path"]) == (422, "edits.seconds")
    early = answer(api, paused, {"type": "respond", "message": "done"})
    assert (early.status_code, early.json()["errors"][0]["code"]) == (422, "no_output_yet")
    cancelled = answer(api, paused, {"action": "cancel"})
    assert (cancelled.status_code, cancelled.json()["errors"][0]["code"]) == (422, "no_decision")
    assert only_hold(paused).status == "OPEN"
    done = answer(api, paused, {"type": "edit", "edited_action": call, "comment": "slower"})
    assert (done.status_code, done.json()["edited"]) == (200, True)
    record = HumanReviewRecord.objects.get()
    assert (record.modified_data, record.comment) == ({"seconds": 0.01}, "slower")


def test_a_response_replaces_the_output(start: Start, reviewer: User) -> None:
    execution = start(echo("w", phase="AFTER_EXECUTION"))
    done = answer(Api(reviewer), execution, {"type": "respond", "message": "42"})
    assert done.status_code == 200, done.content
    assert HumanReviewRecord.objects.get().modified_data == "42"


def test_if_match_carries_the_version(paused: Execution, reviewer: User) -> None:
    _, text = create_token(user=reviewer, name="t", scopes=["decide"])
    client = Client()
    body = {"execution_id": paused.pk, "node_id": "w", "approved": False, "message": "no"}

    def send(**headers: str) -> Any:
        return client.post(
            "/api/v1/reviews/resume/",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {text}", **headers},
        )

    without = send()
    assert (without.status_code, without.json()["errors"][0]["path"]) == (422, "version")
    assert send(**{"If-Match": f'"{paused.version - 1}"'}).status_code == 409
    once = {"If-Match": f'"{paused.version}"', "Idempotency-Key": "decide-1"}
    first, second = send(**once), send(**once)
    assert (first.status_code, first.json()["status"]) == (200, "ABORTED")
    assert second.content == first.content
    assert second["Idempotent-Replayed"] == "true"
    assert HumanReviewRecord.objects.get().comment == "no"
