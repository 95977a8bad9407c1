"""Tools that ask, capabilities in plans, logs, environment, the flag that says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.actors import actor_named
from tests.support.http_server import Server
from workflows.engine.plans.dag import CodeTask
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.decide import Refused
from workflows.executions.code_execution import clear_sandbox
from workflows.executions.services import parse_command, submit_command
from workflows.executions.validation import InvalidRequest
from workflows.models import Capability, Grant
from workflows.permissions.capabilities import CapabilityInvalid, load, make_capability, offered
from workflows.planning.planner import sync_capabilities

from .conftest import ANSWER, Desk, address, code, echo, page, use


def tool(name: str, which: str, **more: Any) -> dict[str, Any]:
    fields = {"permission_set": more.pop("permission_set")} if "permission_set" in more else {}
    return {"id": name, "type": "tool", "tool": f"builtin.{which}", "arguments": more, **fields}


# --- tools ----------------------------------------------------------------------------------------


def test_the_http_tool_asks_for_a_private_host(desk: Desk, web: Server) -> None:
    execution = desk.run(tool("get", "http_request", url=page(web)))
    hold = desk.hold(execution)
    assert hold.payload["resource"] == address(web)
    assert hold.payload["current"]["hosts"] == ["*:443"]
    assert (hold.payload["code"], hold.payload["line"]) == (None, None)
    execution = desk.approve(execution)
    assert desk.output(execution, "get")["body"] == ANSWER


@pytest.fixture
def files(settings: Any, tmp_path: Path) -> Path:
    root = tmp_path / "files"
    root.mkdir()
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": root}
    return root


def test_a_file_tool_outside_its_set_escalates(desk: Desk, files: Path) -> None:
    write = tool("write", "write_file", path="a/b.txt", content="x", permission_set="minimal")
    execution = desk.run(write, echo("apart"))
    payload = desk.hold(execution).payload
    assert (payload["operation"], payload["resource"]) == ("write", "$SCRATCH/a/b.txt")
    folder = files / "runs" / str(execution.pk)
    assert not (folder / "a").exists()
    execution = desk.approve(execution)
    assert execution.status == "COMPLETED"
    assert (folder / "a" / "b.txt").read_text() == "x"


def test_a_file_tool_within_its_set_runs(desk: Desk, files: Path) -> None:
    written = tool("write", "write_file", path="in.txt", content="here")
    reading = tool("read", "read_file", path="in.txt") | {"depends_on": ["write"]}
    execution = desk.run(written, reading, tool("list", "list_directory"))
    assert execution.status == "COMPLETED"
    assert not Grant.objects.exists()


def test_a_ceiling_binds_tools(desk: Desk, files: Path) -> None:
    write = tool("write", "write_file", path="b.txt", content="x")
    execution = desk.run(write, policy={"permission_ceiling": "readonly"})
    assert execution.status == "FAILED"
    assert "above the ceiling of this run (readonly)" in desk.error(execution, "write")
    assert not list(files.rglob("b.txt"))


# --- capabilities in plans ------------------------------------------------------------------------


@pytest.fixture
def adder(desk: Desk) -> Capability:
    made = desk.run(code("add", "a + b", inputs={"a": 1, "b": 2}))
    return make_capability(
        actor=desk.operator, execution=made, task_id="add", name="adder", approval_mode="auto"
    )


def test_a_capability_runs_as_a_task(desk: Desk, adder: Capability) -> None:
    execution = desk.run(use("sum", "adder", a=20, b=22))
    assert desk.output(execution, "sum") == 42
    adder.refresh_from_db()
    assert adder.success_count == 1
    assert adder.from_task == "add"


def test_an_invalid_permission_set_grants_nothing(desk: Desk) -> None:
    Capability.objects.create(
        name="adder", language="python", code="1", permission_set=["x"], created_by=desk.operator
    )
    (offer,) = offered()
    assert offer.permission_set == "minimal"
    assert load(["adder"])["adder"].permissions == PermissionSet()
    sync_capabilities()


def problems(desk: Desk, *tasks: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as raised:
        desk.run(*tasks)
    return [(each.path, each.code) for each in raised.value.problems]


def test_an_unknown_capability_is_named(desk: Desk) -> None:
    found = problems(desk, echo("one"), use("two", "nobody"))
    assert found == [("plan.tasks[1].capability", "unknown_capability")]


def test_a_schema_mismatch_is_named(desk: Desk, adder: Capability) -> None:
    found = problems(desk, use("sum", "adder", a="twenty", b={"$from": "inputs"}))
    assert found == [("plan.tasks[0].inputs.a", "schema_mismatch")]


def test_resolved_references_are_checked_at_run_time(desk: Desk, adder: Capability) -> None:
    text = echo("text", "twenty")
    execution = desk.run(text, use("sum", "adder", a={"$from": "text"}, b=1))
    assert execution.status == "FAILED"
    assert "the inputs do not match the capability adder: a:" in desk.error(execution, "sum")


def test_an_invalid_output_fails_the_task_and_keeps_its_logs(desk: Desk) -> None:
    made = desk.run(code("odd", 'print("hi")\nn if n < 9 else "many"', inputs={"n": 1}))
    make_capability(
        actor=desk.operator, execution=made, task_id="odd", name="odd", approval_mode="auto"
    )
    execution = desk.run(use("use", "odd", n=10))
    assert "the output does not match the capability odd" in desk.error(execution, "use")
    assert execution.attempts.get(task_id="use").logs == "hi\n"
    assert Capability.objects.get(name="odd").success_count == 0


def test_a_disabled_capability_does_not_run(desk: Desk, adder: Capability) -> None:
    pause = echo("pause", human_review={"on_timeout": "keep_waiting"})
    sums = {**use("sum", "adder", a=1, b=2), "depends_on": ["pause"]}
    execution = desk.run(pause, sums)
    Capability.objects.update(enabled=False)
    execution = desk.approve(execution)
    assert "there is no capability 'adder', or it is disabled" in desk.error(execution, "sum")


def test_ask_stops_before_each_use(desk: Desk, adder: Capability) -> None:
    Capability.objects.update(approval_mode="ask")
    for _ in range(2):
        execution = desk.run(use("sum", "adder", a=1, b=2))
        hold = desk.hold(execution)
        assert (hold.reason, hold.phase) == ("node_review", "BEFORE_EXECUTION")
        assert desk.approve(execution).status == "COMPLETED"
    Capability.objects.update(approval_mode="auto")
    assert desk.run(use("sum", "adder", a=1, b=2)).status == "COMPLETED"


def test_ask_keeps_a_tasks_own_review(desk: Desk, adder: Capability) -> None:
    Capability.objects.update(approval_mode="ask")
    own = {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "keep_waiting"}
    execution = desk.run({**use("sum", "adder", a=1, b=2), "human_review": own})
    assert desk.hold(execution).phase == "AFTER_EXECUTION"
    off = {**use("sum", "adder", a=1, b=2), "human_review": {**own, "enabled": False}}
    assert desk.hold(desk.run(off)).phase == "BEFORE_EXECUTION"


def test_an_injected_use_is_checked(desk: Desk, adder: Capability) -> None:
    pause = echo("pause", human_review={"on_timeout": "keep_waiting"})
    execution = desk.run(pause)
    command = parse_command({"kind": "inject_task", "task": use("sum", "adder", a="x", b=1)})
    with pytest.raises(InvalidRequest) as raised:
        submit_command(
            execution_id=execution.pk, command=command, actor=actor_named("operator"), source="test"
        )
    assert [each.path for each in raised.value.problems] == ["task.inputs.a"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "ä", "x" * 101])
def test_a_bad_name_is_refused(desk: Desk, name: str) -> None:
    made = desk.run(code("one", "1"))
    with pytest.raises(CapabilityInvalid) as raised:
        make_capability(actor=desk.operator, execution=made, task_id="one", name=name)
    assert [each.path for each in raised.value.problems] == ["name"]


def test_capability_names_are_unique(desk: Desk, adder: Capability) -> None:
    made = desk.run(code("one", "1"))
    with pytest.raises(CapabilityInvalid, match="there is a capability 'adder' already"):
        make_capability(actor=desk.operator, execution=made, task_id="one", name="adder")


def test_only_code_that_succeeded_becomes_a_capability(desk: Desk) -> None:
    made = desk.run(code("broken", "1 / 0"), echo("tool"))
    for task_id in ("broken", "tool", "nothing"):
        with pytest.raises(Refused):
            make_capability(actor=desk.operator, execution=made, task_id=task_id, name="x")


# --- what surrounds code --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("python", 'print("before the end")\n1 / 0'),
        ("typescript", 'console.log("before the end");\nreturn nothing.at.all;'),
        (
            "typescript",
            'console.log("before the end");\nif (inputs) { throw Error(""); }\nreturn 1',
        ),
    ],
)
def test_logs_of_a_failure_are_stored(desk: Desk, language: str, source: str) -> None:
    execution = desk.run(code("fails", source, language))
    assert execution.attempts.get(task_id="fails").logs == "before the end\n"


ENV = {
    "python": 'import os\nos.getenv("GREETING")',
    "typescript": 'return Deno.env.get("GREETING");',
}


@pytest.mark.parametrize("language", sorted(ENV))
def test_a_granted_variable_has_the_workers_value(
    desk: Desk, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", "good day")
    execution = desk.run(code("env", ENV[language], language))
    assert desk.hold(execution).payload["resource"] == "GREETING"
    execution = desk.approve(execution)
    assert desk.output(execution, "env") == "good day"


def test_the_products_own_secrets_are_never_handed_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    execution = desk.run(code("env", ENV["python"].replace("GREETING", "SECRET_KEY")))
    assert execution.status == "FAILED"
    assert not execution.holds.exists()
    assert "never handed out" in desk.error(execution, "env")


def test_a_worker_deletes_folders_of_dead_workers(desk: Desk, settings: Any) -> None:
    root = Path(settings.HOLDPOINT["sandbox_root"])
    left = root / "holdpoint-sandbox-999999999-1-abc"
    left.mkdir(parents=True)
    (left / "secret.txt").write_text("x")
    clear_sandbox()
    assert list(root.iterdir()) == []


# --- sideEffects ----------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False])
def test_the_side_effects_flag_is_accepted_and_ignored(desk: Desk, flag: bool) -> None:
    """Permissions decide: neither flag changes what stops, what is asked, or what is kept."""
    policy = {"hil": {"enabled": True, "approval_required": "critical_only"}}
    reading = {**code("one", "1"), "sideEffects": flag}
    assert desk.run(reading, policy=policy).status == "COMPLETED"
    writing = {**code("one", "1", permission_set="filesystem"), "sideEffects": flag}
    held = desk.run(writing, policy=policy)
    assert desk.hold(held).reason == "layer_approval"
    kept = held.revisions.get().plan["tasks"][0]
    assert "sideEffects" not in kept
    assert CodeTask.model_validate(reading).permission_set is None
