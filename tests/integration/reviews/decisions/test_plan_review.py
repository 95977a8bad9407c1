"""A replan that a person decides about: the hold, its page, its record, and every way round it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from reviews.audit.records import canonical_text
from reviews.decisions import services
from reviews.decisions.conflicts import shown_digest
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.pages import review_path
from tests.support.pages import Page, browser, open_page
from tests.support.run_files import put_in_next_runs
from workflows.engine.values.bounded_json import digest
from workflows.executions.access import actor_of
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import fork_execution, parse_command, submit_command
from workflows.models import Checkpoint, Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

RULES = {
    "rules": [
        {
            "when": "results.list.output.files[?ends_with(@, '.xml')]",
            "decision": "replan",
            "requirement": "parse XML files",
            "reason": "the directory holds XML files",
        }
    ]
}
AGENT = {"ail": {"enabled": True, "agent": "rules", "settings": RULES}}


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    put_in_next_runs(tmp_path, {"notes.xml": "<notes><note>first</note></notes>"})
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    return tmp_path


def listing() -> dict[str, Any]:
    return {
        "id": "list", "type": "tool", "tool": "builtin.list_directory", "arguments": {"path": "."}
    }  # fmt: skip


@pytest.fixture
def proposed(start: Start, folder: Path) -> Execution:
    """A run that stands before the review of its agent's replan."""
    last = echo("last", {"$from": "list"})
    execution = start(listing(), last, policy={**AGENT, "replan_review": True})
    assert execution.status == "PAUSED_FOR_REVIEW", execution.error
    return execution


def added(hold: Hold) -> list[str]:
    assert isinstance(hold.payload, dict)
    return sorted(hold.payload["added"])


def ran(execution: Execution) -> set[str]:
    rows = execution.attempts.filter(settled=True, status="SUCCEEDED")
    return set(rows.values_list("task_id", flat=True))


def test_the_hold_shows_the_change_with_its_reasons(proposed: Execution) -> None:
    hold = only_hold(proposed)
    assert (hold.reason, hold.decider, hold.groups) == ("replan_review", "human", ["reviewer"])
    assert isinstance(hold.payload, dict)
    tools = {each["task"]["tool"] for each in hold.payload["added"].values()}
    assert "builtin.parse_xml" in tools
    assert hold.payload["asked_by"] == "agent:rules"
    for each in hold.payload["added"].values():
        assert each["why"]["reasons"]
        assert 0 < each["why"]["confidence"] <= 1
    assert ran(proposed) == {"list"}


def test_an_accepted_change_runs_and_its_record_has_the_shown_plan(
    proposed: Execution, reviewer: User
) -> None:
    hold = only_hold(proposed)
    decide(hold, reviewer)
    done = run_to_rest(proposed.pk)
    assert done.status == "COMPLETED"
    assert ran(done) == {"list", "last", *added(hold)}
    record = HumanReviewRecord.objects.get(hold=hold)
    assert (record.decision, record.is_edited) == ("APPROVE", False)
    assert record.shown_digest == record.decided_digest == digest(hold.payload)
    revised = done.events.get(kind="plan_revised").payload
    assert revised["hold_id"] == hold.id
    assert sorted(revised["why"]) == added(hold)


def reader_and_parser(hold: Hold) -> tuple[str, str]:
    """The added task that reads the file, and the one that parses what it read."""
    assert isinstance(hold.payload, dict)
    tasks = {name: each["task"] for name, each in hold.payload["added"].items()}
    parser = next(name for name, task in tasks.items() if task["tool"] == "builtin.parse_xml")
    reader = next(name for name, task in tasks.items() if task["tool"] == "builtin.read_file")
    assert reader in tasks[parser]["depends_on"]
    return reader, parser


def test_a_dropped_task_does_not_run_and_is_one_change_of_the_record(
    proposed: Execution, reviewer: User
) -> None:
    hold = only_hold(proposed)
    reader, parser = reader_and_parser(hold)
    result = decide(hold, reviewer, edits={"drop": [parser]})
    assert result.edited
    assert ran(run_to_rest(proposed.pk)) == {"list", "last", reader}
    record = HumanReviewRecord.objects.get(hold=hold)
    assert record.change_count == 1
    assert list(record.modified_data["added"]) == [reader]
    assert record.shown_digest == digest(hold.payload)
    assert record.decided_digest == digest(record.modified_data)
    assert record.canonical == canonical_text(record)


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ({"drop": ["nobody"]}, "edits.drop[0]"),
        ({"drop": "x"}, "edits.drop"),
        ({"keep": []}, "edits.keep"),
        ([], "edits"),
    ],
)
def test_a_malformed_drop_names_its_field_and_the_hold_stays(
    proposed: Execution, reviewer: User, edits: Any, path: str
) -> None:
    with pytest.raises(ReviewInvalid) as invalid:
        decide(only_hold(proposed), reviewer, edits=edits)
    assert invalid.value.errors[0].path == path
    assert not HumanReviewRecord.objects.exists()


def test_dropping_what_the_rest_needs_drops_all_of_it_and_is_refused(
    proposed: Execution, reviewer: User
) -> None:
    hold = only_hold(proposed)
    reader, _ = reader_and_parser(hold)
    with pytest.raises(ReviewInvalid, match="reject it instead"):
        decide(hold, reviewer, edits={"drop": [reader]})


def test_a_rejected_change_leaves_the_plan(proposed: Execution, reviewer: User) -> None:
    hold = only_hold(proposed)
    decide(hold, reviewer, "REJECT", comment="not today")
    done = run_to_rest(proposed.pk)
    assert (done.status, done.revision) == ("COMPLETED", 1)
    assert ran(done) == {"list", "last"}
    assert HumanReviewRecord.objects.get(hold=hold).decision == "REJECT"


@pytest.mark.parametrize(("on_timeout", "revision"), [("reject", 1), ("approve", 2)])
def test_an_overdue_change_is_decided_by_the_policy(
    start: Start, folder: Path, on_timeout: str, revision: int
) -> None:
    review = {"enabled": True, "timeout_seconds": 3600, "on_timeout": on_timeout}
    last = echo("last", {"$from": "list"})
    execution = start(listing(), last, policy={**AGENT, "replan_review": review})
    hold = only_hold(execution)
    assert services.expire_due() == 0
    Hold.objects.filter(pk=hold.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert services.expire_due() == 1
    done = run_to_rest(execution.pk)
    assert (done.status, done.revision) == ("COMPLETED", revision)
    record = HumanReviewRecord.objects.get(hold=hold)
    assert (record.reviewer, record.source) == (None, "time")


def command(execution: Execution, user: User, data: dict[str, Any]) -> None:
    submit_command(
        execution_id=execution.pk,
        command=parse_command(data),
        actor=actor_of(user),
        source="test",
    )


def test_the_requester_of_a_change_does_not_approve_it(
    start: Start, folder: Path, reviewer: User, reviewer2: User
) -> None:
    policy = {"per_layer_validation": True, "replan_review": True}
    execution = start(listing(), echo("last", {"$from": "list"}), policy=policy)
    command(execution, reviewer, {"kind": "replan", "new_requirement": "parse XML files"})
    execution = run_to_rest(execution.pk)
    hold = only_hold(execution)
    with pytest.raises(NotAllowed, match="asked for this change"):
        decide(hold, reviewer)
    decide(hold, reviewer2)
    execution = run_to_rest(execution.pk)
    assert (execution.status, execution.revision) == ("AWAITING_AGENT", 2)


def test_a_fork_and_a_rescue_review_the_change_again(proposed: Execution, operator: User) -> None:
    """The checkpoint lies before the agent's turn, so the fork's agent asks, and a person too."""
    checkpoint = Checkpoint.objects.get(execution=proposed, layer=0)
    fork = fork_execution(execution=proposed, checkpoint=checkpoint, actor=operator)
    forked = run_to_rest(fork.pk)
    assert forked.status == "PAUSED_FOR_REVIEW"
    assert only_hold(forked).reason == "replan_review"
    Execution.objects.filter(pk=proposed.pk).update(lease_owner="gone")
    assert ran(run_to_rest(proposed.pk)) == {"list"}
    assert only_hold(proposed).reason == "replan_review"


# --- over REST ------------------------------------------------------------------------------------


def test_rest_lists_the_change_and_accepts_a_drop(proposed: Execution, reviewer: User) -> None:
    client = APIClient()
    client.force_authenticate(reviewer)
    (row,) = client.get("/api/v1/reviews/pending/").json()["results"]
    assert (row["reason"], row["hold_id"]) == ("replan_review", only_hold(proposed).id)
    reader, parser = reader_and_parser(only_hold(proposed))
    body = {
        "execution_id": proposed.pk,
        "hold_id": row["hold_id"],
        "version": row["version"],
        "decision": "APPROVE",
    }
    bad = client.post("/api/v1/reviews/resume/", {**body, "edits": {"drop": ["x"]}}, format="json")
    assert bad.status_code == 422
    assert bad.json()["errors"][0]["path"] == "edits.drop[0]"
    good = client.post(
        "/api/v1/reviews/resume/", {**body, "edits": {"drop": [parser]}}, format="json"
    )
    assert good.status_code == 200, good.content
    assert good.json()["edited"] is True
    assert ran(run_to_rest(proposed.pk)) == {"list", "last", reader}


# --- pages ----------------------------------------------------------------------------------------


def post(user: User, hold: Hold, **fields: Any) -> Any:
    version = Execution.objects.get(pk=hold.execution_id).version
    form = {"decision": "APPROVE", "version": version, "shown": shown_digest(hold), **fields}
    return browser(user).post(review_path(hold), form)


def test_the_page_shows_the_graph_and_the_list(proposed: Execution, reviewer: User) -> None:
    hold = only_hold(proposed)
    page = open_page(reviewer, review_path(hold))
    _, parser = reader_and_parser(hold)
    assert f"Dropping it also drops {parser}" in page.text
    assert "Continues the run with the present plan." in page.text
    assert len(page.texts(".dag .node.good")) == 2, "the added tasks in the picture"
    assert "Approve the change" in page.names("button")
    assert "Review plan change" in page.names("heading")


def test_a_drop_is_confirmed(proposed: Execution, reviewer: User) -> None:
    hold = only_hold(proposed)
    reader, parser = reader_and_parser(hold)
    first = post(reviewer, hold, keep=[reader])
    assert first.status_code == 200
    assert f"Approve without {parser}" in Page(first).names("button")
    assert not HumanReviewRecord.objects.exists()
    second = post(reviewer, hold, keep=[reader], confirmed_drop=parser)
    assert second.status_code == 303
    assert "dropped" in open_page(reviewer, review_path(hold)).text


def test_dropping_every_task_is_explained_and_not_sent(proposed: Execution, reviewer: User) -> None:
    answer = post(reviewer, only_hold(proposed), comment="keep me")
    assert answer.status_code == 422
    page = Page(answer)
    assert "Nothing of the change is left" in page.text
    assert page.value("#comment") == "keep me"


def test_the_timeline_leads_to_the_proposal_and_to_the_change(
    proposed: Execution, reviewer: User, operator: User
) -> None:
    hold = only_hold(proposed)
    run = open_page(operator, f"/runs/{proposed.pk}/")
    assert "rules proposes a new plan" in run.text
    assert review_path(hold) in run.links
    decide(hold, reviewer)
    run_to_rest(proposed.pk)
    change_path = f"/runs/{proposed.pk}/plan/2/"
    assert change_path in open_page(operator, f"/runs/{proposed.pk}/").links
    change = open_page(operator, change_path)
    for words in ("parse XML files", "builtin.parse_xml", "the agent", "approved by reviewer"):
        assert words in change.text
    assert review_path(hold) in change.links


def test_an_unknown_or_invisible_change_is_404(
    proposed: Execution, reviewer: User, make_user: MakeUser
) -> None:
    for user, number in ((reviewer, 2), (reviewer, 1), (make_user("nobody"), 2)):
        open_page(user, f"/runs/{proposed.pk}/plan/{number}/", status=404)


def test_masked_secrets_of_a_plan_change_do_not_alter_it(
    start: Start, folder: Path, reviewer: User
) -> None:
    """A reference below a secret's name stays one: where the task stands in the picture goes by it.

    A task of the plan as it is has its secrets masked beside those it would have then.
    """
    old = echo("last", {"files": {"$from": "list"}, "password": "first-word"})
    hold = only_hold(start(listing(), old, policy={**AGENT, "replan_review": True}))
    assert isinstance(hold.payload, dict)
    mail = echo("mail", {"token": {"$from": "list"}, "password": "new-mail-word"})
    last = echo("last", {"files": 1, "password": "changed-word"})
    hold.payload["added"]["mail"] = {"task": mail, "why": {}}
    hold.payload["changed"]["last"] = {"before": old, "after": last}
    Hold.objects.filter(pk=hold.pk).update(payload=hold.payload)
    found = page_context(reviewer, hold)
    mail_shown = next(each for each in found["added"] if each["id"] == "mail")
    assert mail_shown["after"] == "list"
    (changed,) = found["changed"]
    assert {"arguments.value.files", "arguments.value.password"} <= {
        each.dotted for each in changed["changes"]
    }
    html = open_page(reviewer, review_path(hold)).html
    for secret in ("new-mail-word", "changed-word", "first-word"):
        assert secret not in html


def page_context(user: User, hold: Hold) -> dict[str, Any]:
    return dict(browser(user).get(review_path(hold)).context["d"]["plan_review"])
