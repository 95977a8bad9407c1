"""How far a grant reaches, and where it ends: tasks, runs, capabilities, times, forks, rescues."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from reviews.decisions.edits import ReviewInvalid
from tests.support.actors import actor_named
from tests.support.http_server import Server
from workflows.engine.plans.validation import parse_plan
from workflows.engine.protocol.commands import Continue, InjectTask, ModifyArgs
from workflows.executions.services import fork_execution, parse_command, submit_command
from workflows.models import Capability, Checkpoint, Execution, Grant
from workflows.permissions.capabilities import make_capability, raised_sets
from workflows.permissions.grants import in_force
from workflows.realtime.event_serialization import wire_events

from .conftest import ANSWER, FETCH, Desk, address, code, echo, fetch, page, use

BOTH = 'text = fetch(url)["text"]\nopen("note.txt", "w").write(text)'
WRITE = 'open("note.txt", "w").write("hello")\nopen("note.txt").read()'


def chain(web: Server) -> list[dict[str, Any]]:
    """Two tasks that need the same, one after the other."""
    return [fetch("one", web), fetch("two", web, depends_on=["one"])]


def test_a_task_grant_covers_only_that_task(desk: Desk, web: Server) -> None:
    execution = desk.approve(desk.run(*chain(web)))
    assert desk.statuses(execution) == {"one": "SUCCEEDED"}
    assert desk.hold(execution).task_id == "two"


def test_a_run_grant_covers_every_task_of_the_run(desk: Desk, web: Server) -> None:
    execution = desk.approve(desk.run(*chain(web)), grant_scope="execution")
    assert execution.status == "COMPLETED"
    assert Grant.objects.get().uses == 2


@pytest.mark.parametrize("is_added", [True, False])
def test_a_run_grant_does_not_cover_what_a_command_adds_or_changes(
    desk: Desk, web: Server, *, is_added: bool
) -> None:
    """The person who granted it has not seen these tasks."""
    late = fetch("late", web, depends_on=["one"])
    planned = [echo("last", depends_on=["one"])] if is_added else [late]
    execution = desk.run(fetch("one", web), *planned, policy={"per_layer_validation": True})
    execution = desk.approve(execution, grant_scope="execution")
    assert desk.statuses(execution) == {"one": "SUCCEEDED"}
    command = (
        parse_command({"kind": "inject_task", "task": late})
        if is_added
        else ModifyArgs(task_id="late", arguments={"url": f"{page(web)}0"})
    )
    for each in (command, Continue()):
        submit_command(
            execution_id=execution.pk,
            command=each,
            actor=actor_named("operator"),
            source="rest",
        )
    execution = desk.drive(execution)
    assert execution.status == "PAUSED_FOR_REVIEW"
    assert desk.hold(execution).reason == "escalation"


def test_a_run_grant_does_not_cover_another_run(desk: Desk, web: Server) -> None:
    desk.approve(desk.run(fetch("one", web)), grant_scope="execution")
    assert desk.run(fetch("one", web)).status == "PAUSED_FOR_REVIEW"


def test_a_grant_covers_only_the_requested_resource(desk: Desk, web: Server) -> None:
    """The rest of the requested set was the first task's own."""
    first = fetch("one", web, permission_set="filesystem")
    second = code("two", WRITE, depends_on=["one"])
    execution = desk.approve(desk.run(first, second), grant_scope="execution")
    assert desk.hold(execution).payload["resource"] == "$SCRATCH/note.txt"
    assert desk.hold(execution).payload["operation"] == "write"


def test_another_need_opens_another_hold(desk: Desk, web: Server) -> None:
    execution = desk.run(code("both", BOTH, inputs={"url": page(web)}))
    assert desk.hold(execution).payload["operation"] == "net"
    execution = desk.approve(execution)
    hold = desk.hold(execution)
    assert (hold.payload["operation"], hold.payload["line"]) == ("write", 2)
    assert hold.payload["current"]["hosts"] == [address(web)]
    execution = desk.approve(execution)
    assert execution.status == "COMPLETED"
    assert desk.output(execution, "both") == 5
    assert sorted(Grant.objects.values_list("operation", flat=True)) == ["net", "write"]


# --- until a time ---------------------------------------------------------------------------------


def test_a_timed_grant_covers_the_same_task_of_the_workflow(desk: Desk, web: Server) -> None:
    nightly = desk.workflow("nightly", fetch("one", web), echo("same", 1))
    timed = {"grant_scope": "until", "grant_seconds": 3600}
    desk.approve(desk.run(workflow=nightly), **timed)
    assert desk.run(workflow=nightly).status == "COMPLETED"
    assert Grant.objects.get().uses == 2
    # Another workflow, another task, other code: none of them is meant.
    other = desk.workflow("other", fetch("one", web))
    assert desk.run(workflow=other).status == "PAUSED_FOR_REVIEW"
    nightly.plan = {"tasks": [fetch("renamed", web)]}
    nightly.save()
    assert desk.run(workflow=nightly).status == "PAUSED_FOR_REVIEW"
    nightly.plan = {"tasks": [code("one", FETCH["python"] + " + url", inputs={"url": page(web)})]}
    nightly.save()
    assert desk.run(workflow=nightly).status == "PAUSED_FOR_REVIEW"


@pytest.mark.parametrize("kind", ["code", "capability"])
def test_a_timed_grant_does_not_cover_an_injected_task_of_the_same_name(
    desk: Desk, web: Server, kind: str
) -> None:
    """The task left the workflow; who starts a run brings one of its name, with other inputs."""
    desk.capability("page", "python", web)

    def task(url: str) -> dict[str, Any]:
        if kind == "capability":
            return use("one", "page", url=url)
        return code("one", FETCH["python"], inputs={"url": url})

    nightly = desk.workflow("nightly", task(page(web)))
    timed = {"grant_scope": "until", "grant_seconds": 3600}
    assert desk.approve(desk.run(workflow=nightly), **timed).status == "COMPLETED"
    nightly.plan = {"tasks": [echo("same", 1), echo("last", 2, depends_on=["same"])]}
    nightly.save()
    for url, status in ((page(web), "COMPLETED"), (f"{page(web)}0", "PAUSED_FOR_REVIEW")):
        execution = desk.run(workflow=nightly, policy={"per_layer_validation": True})
        (joining,) = parse_plan({"tasks": [task(url)]}).tasks
        for command in (InjectTask(task=joining), Continue()):
            submit_command(
                execution_id=execution.pk,
                command=command,
                actor=actor_named("operator"),
                source="rest",
            )
        execution = desk.drive(execution)
        if execution.status == "AWAITING_AGENT":
            submit_command(
                execution_id=execution.pk,
                command=Continue(),
                actor=actor_named("operator"),
                source="rest",
            )
            execution = desk.drive(execution)
        assert execution.status == status
    assert desk.hold(execution).task_id == "one"


def test_a_timed_grant_ends(desk: Desk, web: Server) -> None:
    nightly = desk.workflow("nightly", fetch("one", web))
    desk.approve(desk.run(workflow=nightly), grant_scope="until", grant_seconds=3600)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE workflows_grant DISABLE TRIGGER USER")
        cursor.execute("UPDATE workflows_grant SET expires_at = now() - interval '1 second'")
        cursor.execute("ALTER TABLE workflows_grant ENABLE TRIGGER USER")
    assert desk.run(workflow=nightly).status == "PAUSED_FOR_REVIEW"
    assert not in_force(desk.operator).exists()


def test_a_timed_grant_stays_below_a_lower_ceiling(desk: Desk, web: Server) -> None:
    nightly = desk.workflow("nightly", fetch("one", web))
    desk.approve(desk.run(workflow=nightly), grant_scope="until", grant_seconds=3600)
    execution = desk.run(workflow=nightly, policy={"permission_ceiling": "filesystem"})
    assert execution.status == "FAILED"
    assert "above the ceiling of this run (filesystem)" in desk.error(execution, "one")


@pytest.mark.parametrize(
    "answer",
    [
        {"grant_scope": "until"},
        {"grant_scope": "task", "grant_seconds": 60},
        {"grant_scope": "capability"},
    ],
)
def test_an_invalid_scope_is_refused(desk: Desk, web: Server, answer: dict[str, Any]) -> None:
    execution = desk.run(fetch("one", web))
    with pytest.raises(ReviewInvalid) as raised:
        desk.decide(desk.hold(execution), **answer)
    assert [each.path for each in raised.value.errors] == ["grant_scope"]
    assert desk.hold(execution).status == "OPEN"


# --- capabilities ---------------------------------------------------------------------------------


def test_a_capabilitys_grant_raises_its_set_everywhere(desk: Desk, web: Server) -> None:
    made = desk.capability("page", "python", web)
    assert made.permission_set["hosts"] == []  # the task's grant stayed with the task
    execution = desk.run(use("ask", "page", url=page(web)))
    execution = desk.approve(execution, grant_scope="capability")
    assert execution.status == "COMPLETED"
    kinds = [each for each in wire_events(execution.pk, after=0) if "capability" in each]
    assert [(each["type"], each["capability"]) for each in kinds] == [
        ("capability.permission.updated", "page")
    ]
    assert raised_sets([made])[made.pk].hosts == (address(web),)
    again = desk.run(use("other", "page", url=page(web)))
    assert again.status == "COMPLETED"
    assert desk.output(again, "other") == ANSWER
    assert Capability.objects.get().success_count == 2
    # A code task with the very same code is not the capability.
    assert desk.run(fetch("ask", web)).status == "PAUSED_FOR_REVIEW"


def test_a_task_grant_given_to_a_capability_does_not_raise_it(desk: Desk, web: Server) -> None:
    made = desk.capability("page", "python", web)
    execution = desk.approve(desk.run(use("ask", "page", url=page(web))))
    assert execution.status == "COMPLETED"
    assert raised_sets([made])[made.pk].hosts == ()
    assert desk.run(use("ask", "page", url=page(web))).status == "PAUSED_FOR_REVIEW"


def test_a_capability_made_from_a_granted_task_has_no_grant(desk: Desk, web: Server) -> None:
    execution = desk.approve(desk.run(fetch("one", web)), grant_scope="execution")
    made = make_capability(actor=desk.operator, execution=execution, task_id="one", name="page")
    assert made.permission_set == {
        "hosts": [], "read_paths": [], "write_paths": [], "env_names": [], "run": []
    }  # fmt: skip


# --- fork, rescue ---------------------------------------------------------------------------------


def forked(desk: Desk, execution: Execution, layer: int) -> Execution:
    checkpoint = Checkpoint.objects.get(execution=execution, layer=layer)
    return desk.drive(
        fork_execution(execution=execution, checkpoint=checkpoint, actor=desk.operator)
    )


@pytest.mark.parametrize("scope", ["task", "execution"])
def test_a_fork_escalates_again(desk: Desk, web: Server, scope: str) -> None:
    first = echo("first")
    execution = desk.run(first, fetch("one", web, depends_on=["first"]))
    execution = desk.approve(execution, grant_scope=scope)
    assert execution.status == "COMPLETED"
    fork = forked(desk, execution, 0)
    assert fork.status == "PAUSED_FOR_REVIEW"
    assert desk.hold(fork).reason == "escalation"
    assert desk.reject(fork).status == "FAILED"


def test_a_fork_after_the_granted_task_reuses_its_result_without_the_grant(
    desk: Desk, web: Server
) -> None:
    execution = desk.run(*chain(web))
    execution = desk.approve(execution, grant_scope="execution")
    fork = forked(desk, execution, 0)
    assert desk.statuses(fork) == {"one": "SUCCEEDED"}
    assert desk.hold(fork).task_id == "two"


def test_a_rescued_run_keeps_its_grant_and_its_open_needs(
    desk: Desk, web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after the decision, with the task under way."""
    execution = desk.run(*chain(web))
    desk.decide(desk.hold(execution))
    died = _dying(monkeypatch)
    with pytest.raises(RuntimeError, match="died"):
        desk.drive(execution)
    died()
    Execution.objects.filter(pk=execution.pk).update(lease_until=Now(), wake_at=None)
    execution = desk.drive(execution)
    assert desk.statuses(execution) == {"one": "SUCCEEDED"}
    hold = desk.hold(execution)
    assert (hold.task_id, hold.reason) == ("two", "escalation")
    assert hold.payload["current"]["hosts"] == []


def _dying(monkeypatch: pytest.MonkeyPatch) -> Any:
    from workflows.executions import layer_runner

    def die(*args: Any) -> None:
        raise RuntimeError("died")

    monkeypatch.setattr(layer_runner, "_collect", die)
    return monkeypatch.undo
