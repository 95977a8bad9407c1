"""Files belong to a run: other runs do not see them, and what was approved stays as it was."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool_servers import copied
from workflows.engine.plans.validation import Problem
from workflows.executions.services import fork_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, McpServer
from workflows.sandbox.rundir import remove_folder
from workflows.tools import catalogue_sync
from workflows.tools.mcp_client import close_pool
from workflows.tools.run_folders import delete_erased, run_folder

from .conftest import Desk, code

SECRET = "payroll: 1000"


@pytest.fixture
def files(settings: Any, tmp_path: Path) -> Path:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path / "files"}
    return tmp_path / "files"


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def tool(name: str, which: str, after: str = "", **arguments: Any) -> dict[str, Any]:
    task = {"id": name, "type": "tool", "tool": f"builtin.{which}", "arguments": arguments}
    return {**task, "depends_on": [after]} if after else task


def write(name: str, path: str, content: str, after: str = "", **more: Any) -> dict[str, Any]:
    return {**tool(name, "write_file", after, path=path, content=content), **more}


def reviewed(phase: str) -> dict[str, Any]:
    review = {"trigger_phase": phase, "groups": ["reviewer"], "on_timeout": "keep_waiting"}
    return {"human_review": review}


PROGRAMS = {
    "python": ("open(path).read()", "open(path, 'w').write('TAMPERED')"),
    "typescript": (
        "return Deno.readTextFileSync(path)",
        "Deno.writeTextFileSync(path, 'TAMPERED'); return 1",
    ),
}


def test_a_run_sees_no_file_of_another_run(desk: Desk, files: Path) -> None:
    theirs = desk.run(write("w", "payroll/secret.txt", SECRET))
    folder = files / "runs" / str(theirs.pk)
    assert (folder / "payroll/secret.txt").read_text() == SECRET
    for path in (folder, folder.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    integrator = desk.person("integrator", "integrator")
    listed = desk.run(tool("l", "list_directory", recursive=True), actor=integrator)
    assert desk.output(listed, "l")["files"] == []
    spellings = (
        "payroll/secret.txt",
        f"../{folder.name}/payroll/secret.txt",
        f"{folder}/payroll/secret.txt",
    )
    path = {"$from": "inputs", "select": "path"}
    tasks = [
        tool("read", "read_file", path=path),
        tool("write", "write_file", path=path, content="TAMPERED"),
        *(
            code(f"{language}-{number}", source, language, inputs={"path": path},
                 permission_set="filesystem")
            for language, sources in PROGRAMS.items()
            for number, source in enumerate(sources)
        ),
    ]  # fmt: skip
    for spelling in spellings:
        run = desk.run(*tasks, actor=integrator, inputs={"path": spelling})
        assert SECRET not in str(list(run.attempts.values_list("output", "error"))), spelling
        assert not run.holds.exists(), spelling
        if spelling != spellings[0]:
            assert set(desk.statuses(run).values()) == {"FAILED"}, desk.statuses(run)
    assert (folder / "payroll/secret.txt").read_text() == SECRET


def test_programs_and_file_tools_of_a_run_share_its_folder(desk: Desk, files: Path) -> None:
    for language, source in (
        ("python", "open('b.txt', 'w').write(open('a.txt').read() + '!')"),
        (
            "typescript",
            "Deno.writeTextFileSync('b.txt', Deno.readTextFileSync('a.txt') + '!'); return 1",
        ),
    ):
        program = code("c", source, language, permission_set="filesystem", depends_on=["w"])
        run = desk.run(write("w", "a.txt", "x"), program, tool("r", "read_file", "c", path="b.txt"))
        assert desk.statuses(run)["r"] == "SUCCEEDED", desk.error(run, "c")
        assert desk.output(run, "r")["content"] == "x!"


# --- what a person approved -----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["BEFORE_EXECUTION", "AFTER_EXECUTION"])
@pytest.mark.parametrize("reader", ["read_file", "python", "typescript"])
def test_an_approved_file_that_changed_fails_its_reader(
    desk: Desk, files: Path, phase: str, reader: str
) -> None:
    reading = {
        "read_file": tool("r", "read_file", "w", path="./sub/../report.txt"),
        **{
            language: code(
                "r", sources[0], language, inputs={"path": "report.txt"}, depends_on=["w"],
                permission_set="readonly",
            )
            for language, sources in PROGRAMS.items()
        },
    }[reader]  # fmt: skip
    plan = (write("w", "report.txt", "fine", **reviewed(phase)), reading)
    assert desk.approve(desk.run(*plan)).status == "COMPLETED"
    run = desk.run(write("w", "report.txt", "fine", **reviewed(phase)), write(
        "n", "report.txt", "TAMPERED", "w"), {**reading, "depends_on": ["n"]})  # fmt: skip
    run = desk.approve(run)
    assert run.status == "FAILED"
    assert desk.error(run, "r") == "'report.txt' changed after reviewer approved it"


def test_a_later_approval_of_the_file_counts(desk: Desk, files: Path) -> None:
    second = write("n", "report.txt", "better", "w", **reviewed("BEFORE_EXECUTION"))
    run = desk.run(
        write("w", "report.txt", "fine", **reviewed("AFTER_EXECUTION")),
        second,
        tool("r", "read_file", "n", path="report.txt"),
    )
    run = desk.approve(desk.approve(run))
    assert desk.output(run, "r")["content"] == "better"


def test_an_approved_reading_binds_what_is_read_next(desk: Desk, files: Path) -> None:
    run = desk.run(
        write("w", "report.txt", "fine"),
        {**tool("one", "read_file", "w", path="report.txt"), **reviewed("AFTER_EXECUTION")},
        tool("two", "read_file", "one", path="report.txt"),
    )
    (files / "runs" / str(run.pk) / "report.txt").write_text("TAMPERED")
    assert "changed after reviewer approved it" in desk.error(desk.approve(run), "two")


@pytest.mark.parametrize("reader", ["program", "server"])
def test_an_approved_file_that_was_changed_and_put_back_fails_its_reader(
    desk: Desk, files: Path, tmp_path: Path, reader: str
) -> None:
    if reader == "program":
        source = "for (const x of ['TAMPERED', 'fine']) Deno.writeTextFileSync(path, x); return 1"
        task = code("r", source, "typescript", inputs={"path": "report.txt"},
                    permission_set="filesystem")  # fmt: skip
    else:
        script = Path(__file__).parents[1] / "tools/mcp_client/obedient.py"
        server = copied(script, tmp_path / "server")
        McpServer.objects.create(
            name="obedient", command=sys.executable, args=[server], read_paths=[server]
        )
        source = "for x in ('TAMPERED', 'fine'): open('report.txt', 'w').write(x)"
        task = {"id": "r", "type": "tool", "tool": "obedient.run", "arguments": {"code": source}}
        assert not any(each.error for each in catalogue_sync.sync_all())
    written = write("w", "report.txt", "fine", **reviewed("AFTER_EXECUTION"))
    run = desk.run(written, {**task, "depends_on": ["w"]})
    while run.status == "PAUSED_FOR_REVIEW":
        run = desk.approve(run)
    assert desk.error(run, "r") == "'report.txt' changed after reviewer approved it"
    assert (files / "runs" / str(run.pk) / "report.txt").read_text() == "fine"
    close_pool()


# --- sharing --------------------------------------------------------------------------------------


def test_runs_share_a_folder_only_where_the_workflow_says_so(desk: Desk, files: Path) -> None:
    alone = desk.workflow("alone", write("w", "a.txt", "x"))
    with pytest.raises(InvalidRequest) as raised:
        desk.run(workflow=alone, policy={"files": "workflow"})
    assert isinstance(raised.value.problems[0], Problem)
    assert [each.path for each in raised.value.problems] == ["policy.files"]
    adhoc = desk.run(write("w", "a.txt", "x"))
    Execution.objects.filter(pk=adhoc.pk).update(policy={"files": "workflow"})
    assert run_folder(adhoc.pk) == files / "runs" / str(adhoc.pk), "a plan has no workflow"

    shared = desk.workflow(
        "shared",
        write("w", "a.txt", "mine", **reviewed("AFTER_EXECUTION")),
        tool("r", "read_file", "w", path="a.txt"),
        policy={"files": "workflow"},
    )
    first = desk.run(workflow=shared)
    second = desk.run(workflow=shared)
    folder = files / "workflows" / str(shared.pk)
    assert run_folder(first.pk) == run_folder(second.pk) == folder
    (folder / "a.txt").write_text("of another run")
    failed = desk.approve(first)
    assert desk.error(failed, "r") == "'a.txt' changed after reviewer approved it"
    private = desk.run(workflow=shared, policy={"files": "run"})
    assert run_folder(private.pk) == files / "runs" / str(private.pk)


# --- forks ----------------------------------------------------------------------------------------


def test_a_fork_starts_with_a_copy(desk: Desk, files: Path, tmp_path: Path) -> None:
    origin = desk.run(
        write("w", "a/b.txt", "fine", **reviewed("AFTER_EXECUTION")),
        tool("e", "echo", "w", value=1),
        tool("r", "read_file", "e", path="a/b.txt"),
    )
    origin = desk.approve(origin)
    (tmp_path / "outside").write_text(SECRET)
    (run_folder(origin.pk) / "link").symlink_to(tmp_path / "outside")
    (run_folder(origin.pk) / "folder").symlink_to(tmp_path)
    (run_folder(origin.pk) / "hard").hardlink_to(tmp_path / "outside")
    checkpoint = origin.checkpoints.get(layer=0)
    fork = desk.drive(fork_execution(execution=origin, checkpoint=checkpoint, actor=desk.operator))
    assert fork.status == "COMPLETED"
    assert desk.output(fork, "r")["content"] == "fine"
    assert names(run_folder(fork.pk)) == ["a"]
    (run_folder(fork.pk) / "a/b.txt").write_text("of the fork")
    assert (run_folder(origin.pk) / "a/b.txt").read_text() == "fine"
    again = desk.drive(fork_execution(execution=fork, checkpoint=fork.checkpoints.get(layer=1),
                                      actor=desk.operator))  # fmt: skip
    assert desk.error(again, "r") == "'a/b.txt' changed after reviewer approved it"


# --- deletion -------------------------------------------------------------------------------------


def test_folders_of_runs_that_are_gone_are_deleted(desk: Desk, files: Path, tmp_path: Path) -> None:
    run = desk.run(write("w", "a.txt", "x"))
    kept = run_folder(run.pk)
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept").touch()
    gone = kept.with_name("999999")
    for folder in (gone, kept.with_name("999999.0123456789abcdef"), files / "workflows" / "7"):
        (folder / ("deep/" * 20)).mkdir(parents=True)
        (folder / "link").symlink_to(outside)
        (folder / "file").write_text("x")
        (folder / "file").chmod(0)
        (folder / ("deep/" * 20)).chmod(0)
    kept.with_name("999998").symlink_to(outside)
    kept.with_name("notes").mkdir()
    assert delete_erased() == 4
    assert names(kept.parent) == [str(run.pk), "notes"]
    assert names(files / "workflows") == []
    assert (kept / "a.txt").exists()
    assert (names(outside), stat.S_IMODE(outside.stat().st_mode)) == (["kept"], 0o750)
    remove_folder(gone)  # once more changes nothing
