"""An approval changes only the edited fields: every interface, kind of hold and format.

Absent and null edits mean "no change" everywhere.  Only `set_output_null` sets an output to null.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from django.core.wsgi import get_wsgi_application
from django.test import Client as Browser
from mcp import Client as McpClient

from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.decisions.withdrawal import settle_due
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.support.http_server import running
from tests.support.run_files import put_in_next_runs
from workflows.api.client import Client, Problem
from workflows.engine.values.bounded_json import digest
from workflows.executions.jobs import run_to_rest
from workflows.mcp_server.authentication import authenticate_caller
from workflows.mcp_server.server import build_server
from workflows.models import Execution, Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"
ABSENT, NULL, EDITED, SET_NULL, BOTH = "absent", "null", "edited", "set_output_null", "both"
SENT = {"n": 1}
#: What a door answered: its HTTP status, or the status that its problem stands for.
Status = int


# --- what waits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A run at a hold; task `a` is the one it is about, task `b` reads the output of `a`.

    `edits` is what the door sends as an edit; `gives` is the output of `a` by the change that was
    sent; a change without an entry has to be refused.
    """

    execution: Execution
    edits: Any
    gives: Mapping[str, Any]
    #: Approvals that the hold still needs from other people.
    others: int = 0


def _at_node(start: Start, phase: str, **review: Any) -> Execution:
    return start(echo("a", SENT, phase=phase, **review), echo("b", {"$from": "a"}))


def before(start: Start, folder: Path, address: str) -> Scene:
    gives = {ABSENT: SENT, NULL: SENT, EDITED: {"n": 2}}
    return Scene(_at_node(start, BEFORE), {"value": {"n": 2}}, gives)


def after(start: Start, folder: Path, address: str) -> Scene:
    gives = {ABSENT: SENT, NULL: SENT, EDITED: {"n": 2}, SET_NULL: None}
    return Scene(_at_node(start, AFTER), {"n": 2}, gives)


def quorum(start: Start, folder: Path, address: str) -> Scene:
    gives = {ABSENT: SENT, NULL: SENT}
    return Scene(_at_node(start, AFTER, quorum=2), {"n": 2}, gives, others=1)


def schema(start: Start, folder: Path, address: str) -> Scene:
    """The tool's output schema knows no null."""
    listing = {
        "id": "a",
        "type": "tool",
        "tool": "builtin.list_directory",
        "arguments": {"path": "."},
        "human_review": {"trigger_phase": AFTER},
    }
    execution = start(listing, echo("b", {"$from": "a"}))
    found = only_hold(execution).payload
    assert isinstance(found, dict)
    edited = {**found, "files": []}
    return Scene(execution, edited, {ABSENT: found, NULL: found, EDITED: edited})


def layer(start: Start, folder: Path, address: str) -> Scene:
    policy = {"hil": {"enabled": True, "approval_required": "always"}}
    execution = start(echo("a", SENT), echo("b", {"$from": "a"}), policy=policy)
    return Scene(execution, {"value": 2}, {ABSENT: SENT, NULL: SENT})


def escalation(start: Start, folder: Path, address: str) -> Scene:
    code = {
        "id": "a",
        "type": "code_execution",
        "language": "python",
        "code": 'fetch(url)["text"]',
        "inputs": {"url": f"http://{address}/large?bytes=5"},
        "permission_set": "minimal",
    }
    execution = start(code, echo("b", {"$from": "a"}))
    return Scene(execution, {"url": "x"}, {ABSENT: "xxxxx", NULL: "xxxxx"})


def plan_review(start: Start, folder: Path, address: str) -> Scene:
    rule = {
        "when": "results.a.output.files[?ends_with(@, '.xml')]",
        "decision": "replan",
        "requirement": "parse XML files",
    }
    policy = {
        "ail": {"enabled": True, "agent": "rules", "settings": {"rules": [rule]}},
        "replan_review": True,
    }
    listing = {
        "id": "a",
        "type": "tool",
        "tool": "builtin.list_directory",
        "arguments": {"path": "."},
    }
    execution = start(listing, echo("b", {"$from": "a"}), policy=policy)
    change = only_hold(execution).payload
    assert isinstance(change, dict)
    tasks = {name: each["task"] for name, each in change["added"].items()}
    parser = next(name for name, task in tasks.items() if task["tool"] == "builtin.parse_xml")
    found = execution.attempts.get(task_id="a").output
    return Scene(execution, {"drop": [parser]}, dict.fromkeys((ABSENT, NULL, EDITED), found))


SCENES: dict[str, Callable[[Start, Path, str], Scene]] = {
    each.__name__: each for each in (before, after, quorum, schema, layer, escalation, plan_review)
}


# --- the doors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """One approval to send through a door, as `user` with a token of theirs."""

    scene: Scene
    hold: Hold
    change: str
    user: User
    token: str

    @property
    def fields(self) -> dict[str, Any]:
        """The optional fields in our own words."""
        return {
            ABSENT: {},
            NULL: {"edits": None},
            EDITED: {"edits": self.scene.edits},
            SET_NULL: {"set_output_null": True},
            BOTH: {"edits": self.scene.edits, "set_output_null": True},
        }[self.change]

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return Browser().post(
            f"/api/v1/{path}",
            json.dumps(body),
            content_type="application/json",
            headers={"authorization": f"Bearer {self.token}"},
        )

    def resume(self, answer: Mapping[str, Any]) -> Status:
        about = {
            "execution_id": self.scene.execution.pk,
            "hold_id": self.hold.pk,
            "version": self.scene.execution.version,
        }
        response = self.post("reviews/resume/", {**about, **answer})
        if response.status_code == 200:
            assert response.json()["edited"] is (self.change in (EDITED, SET_NULL))
        return int(response.status_code)

    def command(self, kind: str) -> Status:
        body = {"kind": kind, "hold": self.hold.pk, "approved": True, **self.fields}
        path = f"executions/{self.scene.execution.pk}/commands/"
        return int(self.post(path, body).status_code)


def rest_resume(sent: Sent) -> Status:
    return sent.resume({"decision": "APPROVE", **sent.fields})


def rest_command(sent: Sent) -> Status:
    return sent.command("approval_response")


def rest_checkpoint_response(sent: Sent) -> Status:
    return sent.command("checkpoint_response")


def bulk(sent: Sent) -> Status:
    """Bulk approvals carry no edits: any such field is refused, even null."""
    chosen = {"hold_id": sent.hold.pk, "version": sent.scene.execution.version}
    answer = sent.post("reviews/bulk/", {"action": "approve", "holds": [chosen], **sent.fields})
    if answer.status_code != 200:
        return int(answer.status_code)
    (outcome,) = answer.json()["results"]
    return 200 if outcome["done"] else 422


def mcp(sent: Sent) -> Status:
    caller = authenticate_caller(sent.token)
    assert caller is not None
    arguments = {
        "workflow_id": str(sent.scene.execution.pk),
        "hold_id": sent.hold.pk,
        "approved": True,
        "wait_seconds": 0,
        **sent.fields,
    }

    async def call() -> Any:
        async with McpClient(build_server(lambda ctx: caller)) as client:
            return await client.call_tool("approval_response", arguments)

    answer = asyncio.run(call())
    return int(answer.meta["holdpoint/error"]["status"]) if answer.is_error else 200


def python_client(sent: Sent) -> Status:
    transport = httpx.WSGITransport(get_wsgi_application())
    with Client("http://testserver", sent.token, transport=transport) as client:
        run = client.get(str(sent.scene.execution.pk))
        try:
            client.decide(run, sent.hold.pk, "APPROVE", **sent.fields)
        except Problem as problem:
            return problem.status
    return 200


def langchain(sent: Sent) -> Status:
    if sent.change == EDITED:
        action = {"name": sent.hold.target, "args": sent.scene.edits}
        return sent.resume({"decisions": [{"type": "edit", "edited_action": action}]})
    return sent.resume({"type": "approve", **sent.fields})


def agent_inbox(sent: Sent) -> Status:
    if sent.change == EDITED:
        args = {"action": sent.hold.target, "args": sent.scene.edits}
        return sent.resume({"type": "edit", "args": args})
    nothing = {"args": None} if sent.change == NULL else sent.fields
    return sent.resume({"type": "accept", **nothing})


def airflow(sent: Sent) -> Status:
    return sent.resume({"chosen_options": ["Approve"], **_named("params_input", sent)})


def elicitation(sent: Sent) -> Status:
    return sent.resume({"action": "accept", **_named("content", sent)})


def plain_flag(sent: Sent) -> Status:
    return sent.resume({"approved": True, **sent.fields})


def _named(name: str, sent: Sent) -> dict[str, Any]:
    """The optional fields, `edits` under the name that another product gives it."""
    return {name if key == "edits" else key: value for key, value in sent.fields.items()}


def html_form(sent: Sent) -> Status:
    """Typing `null` in place of an output is the page's way to set it to null."""
    form: dict[str, Any] = {
        "decision": "APPROVE",
        "version": sent.scene.execution.version,
        "mode": "json",
        "confirmed": "yes",
        "edits_json": "",
    }
    if sent.hold.reason == "replan_review":
        payload: Any = sent.hold.payload
        gone = sent.scene.edits["drop"] if sent.change == EDITED else []
        form |= {
            "keep": [name for name in payload["added"] if name not in gone],
            "confirmed_drop": " ".join(gone),
        }
    elif sent.change == EDITED:
        form["edits_json"] = json.dumps(sent.scene.edits)
    elif sent.change == SET_NULL:
        form["edits_json"] = "null"
    browser = Browser()
    browser.force_login(sent.user)
    path = f"/review/{sent.scene.execution.pk}/{sent.hold.pk}/"
    status = int(browser.post(path, form).status_code)
    return 200 if status == 303 else status


OWN = (
    rest_resume, rest_command, rest_checkpoint_response, bulk, mcp, python_client, html_form,
)  # fmt: skip
FOREIGN = (langchain, agent_inbox, airflow, elicitation, plain_flag)
DOORS = {door.__name__: door for door in (*OWN, *FOREIGN)}


def expected(door: str, scene: str, change: str, gives: Mapping[str, Any]) -> bool:
    """Whether the approval is accepted."""
    if door == "bulk":
        # High risk is never approved in bulk, and bulk has no edits.
        return change == ABSENT and scene != "escalation"
    return change in gives


# --- the table ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    put_in_next_runs(tmp_path, {"notes.xml": "<notes><note>first</note></notes>"})
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "file_root": tmp_path,
        "sandbox_root": tmp_path / "sandbox",
    }
    return tmp_path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running() as server:
        yield f"127.0.0.1:{server.port}"


#: What a form on a page cannot send: no field at all is its only way to say null.
_IMPOSSIBLE = {
    ("html_form", NULL),
}


@pytest.mark.parametrize("change", [ABSENT, NULL, EDITED, SET_NULL])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("scene", SCENES)
def test_an_approval_changes_only_the_edited_fields(
    start: Start,
    reviewer: User,
    reviewer2: User,
    folder: Path,
    address: str,
    scene: str,
    door: str,
    change: str,
) -> None:
    if (door, change) in _IMPOSSIBLE or (
        door == "html_form" and scene == "plan_review" and change == SET_NULL
    ):
        return
    made = SCENES[scene](start, folder, address)
    hold = only_hold(made.execution)
    _, token = create_token(user=reviewer, name="t", scopes=["read", "run", "decide"])
    status = DOORS[door](Sent(made, hold, change, reviewer, token))
    if not expected(door, scene, change, made.gives):
        assert status == 422
        assert only_hold(made.execution).pk == hold.pk
        assert not HumanReviewRecord.objects.exists()
        return
    assert status == 200
    record = HumanReviewRecord.objects.get()
    edited = change in (EDITED, SET_NULL)
    assert record.is_edited is edited
    assert (record.shown_digest == record.decided_digest) is not edited
    assert record.original_data == hold.payload
    if scene != "plan_review":  # its record has what is left of the change
        decided = made.edits if change == EDITED else None
        assert record.modified_data == decided
        if edited:
            assert record.decided_digest == digest(decided)
    done = _finished(made, [reviewer2, reviewer])
    assert done.status == "COMPLETED", done.error
    gives = made.gives[change]
    held = done.attempts.get(task_id="a", settled=True)
    assert (held.edited_output if held.is_edited else held.output) == gives
    assert held.is_edited is (edited and hold.phase == AFTER)
    read = done.attempts.get(task_id="b", settled=True)
    assert (read.inputs, read.output) == ({"value": gives}, gives)
    if scene == "plan_review":
        left_out = set(made.edits["drop"]) if edited else set()
        assert isinstance(hold.payload, dict)
        ran = set(done.attempts.filter(settled=True).values_list("task_id", flat=True))
        assert ran & set(hold.payload["added"]) == set(hold.payload["added"]) - left_out
    records = HumanReviewRecord.objects.order_by("id")
    assert not verify_chain(records, text_of=canonical_text).problems


def _finished(scene: Scene, people: list[User]) -> Execution:
    """The run at its end: approvals that are still missing are given unchanged."""
    execution = run_to_rest(scene.execution.pk)
    while hold := execution.holds.filter(status="OPEN").first():
        user = next(each for each in people if each.get_username() not in hold.approvals)
        decide(hold, user)
        execution = run_to_rest(execution.pk)
    return execution


# --- what rests until it can no longer be undone ------------------------------------------------


@pytest.mark.parametrize(
    ("change", "output"), [({}, SENT), ({"edits": None}, SENT), ({"set_output_null": True}, None)]
)
def test_an_approval_with_undo_changes_only_the_edited_fields(
    start: Start, reviewer: User, change: dict[str, Any], output: Any
) -> None:
    execution = _at_node(start, AFTER)
    answer = decide(only_hold(execution), reviewer, undo_seconds=600, **change)
    assert answer.edited is (output is None)
    Hold.objects.filter(execution=execution).update(undo_until="2020-01-01T00:00Z")
    assert settle_due() == 1
    done = run_to_rest(execution.pk)
    assert done.attempts.get(task_id="b").inputs == {"value": output}
    assert done.attempts.get(task_id="a").is_edited is (output is None)


@pytest.mark.parametrize("decision", ["REJECT", "REQUEST_CHANGES"])
def test_only_an_approval_sets_an_output_to_null(
    start: Start, reviewer: User, make_user: MakeUser, decision: str
) -> None:
    execution = _at_node(start, AFTER)
    _, token = create_token(user=reviewer, name="t", scopes=["decide"])
    hold = only_hold(execution)
    sent = Sent(Scene(execution, None, {}), hold, ABSENT, reviewer, token)
    body = {"decision": decision, "comment": "again", "edits": None}
    assert sent.resume({**body, "set_output_null": True}) == 422
    assert only_hold(execution).pk == hold.pk
    assert sent.resume(body) == 200


def test_edits_and_set_output_null_exclude_each_other(start: Start, reviewer: User) -> None:
    execution = _at_node(start, AFTER)
    _, token = create_token(user=reviewer, name="t", scopes=["decide"])
    sent = Sent(Scene(execution, {"n": 2}, {}), only_hold(execution), EDITED, reviewer, token)
    both = {**sent.fields, "set_output_null": True}
    about = {"execution_id": execution.pk, "hold_id": sent.hold.pk, "version": execution.version}
    answer = sent.post("reviews/resume/", {**about, "decision": "APPROVE", **both})
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["set_output_null"]
    command = {"kind": "approval_response", "hold": sent.hold.pk, "approved": True, **both}
    answer = sent.post(f"executions/{execution.pk}/commands/", command)
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["set_output_null"]
    assert mcp(Sent(sent.scene, sent.hold, BOTH, reviewer, token)) == 422
    assert not HumanReviewRecord.objects.exists()
