"""Nothing grants the host: no hold opens, no stored grant reaches it; folders take a role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from reviews.decisions.rights import NotAllowed, right_now
from tests.support.pages import browser
from workflows.engine.policy.permissions import PermissionSet, smallest_cover
from workflows.engine.protocol.ports import PermissionEscalationNeeded
from workflows.engine.values.reasons import Reason
from workflows.models import Grant, Hold
from workflows.tools.registry import _registry, tool

from .conftest import Desk, code

OPEN = {"python": "open(path).read()", "typescript": "return Deno.readTextFileSync(path)"}
FETCH = {"python": "fetch(path)['text']", "typescript": "return await (await fetch(path)).text()"}

NEVER = [
    (OPEN, "/etc/hostname"),
    (OPEN, "/"),
    (OPEN, "{home}/demo-passwords.txt"),
    (OPEN, "{home}/files/../secret_key"),
    (OPEN, "/proc/self/root/etc/hostname"),
    (OPEN, "/var/run/docker.sock"),
    (FETCH, "http://169.254.169.254/latest/meta-data/"),
    (FETCH, "http://[::ffff:a9fe:a9fe]/"),
    (FETCH, "http://metadata.google.internal/"),
]


@pytest.mark.parametrize("language", sorted(OPEN))
@pytest.mark.parametrize(("programs", "path"), NEVER, ids=[path for _, path in NEVER])
def test_a_need_for_the_host_fails_without_a_hold(
    desk: Desk, language: str, programs: dict[str, str], path: str
) -> None:
    path = path.replace("{home}", str(settings.HOLDPOINT_HOME))
    execution = desk.run(code("one", programs[language], language, inputs={"path": path}))
    assert execution.status == "FAILED"
    assert "no permission reaches it" in desk.error(execution, "one")
    assert not execution.holds.exists()


@pytest.mark.parametrize("tool_name", ["read_file", "http_request"])
def test_built_in_tools_open_no_hold_for_the_host(
    desk: Desk, tool_name: str, settings: Any
) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": Path(settings.HOLDPOINT_HOME).parent}
    inside = f"../../{Path(settings.HOLDPOINT_HOME).name}/secret_key"
    arguments = {"read_file": {"path": inside}, "http_request": {"url": "http://169.254.169.254/"}}
    task = {
        "id": "one",
        "type": "tool",
        "tool": f"builtin.{tool_name}",
        "arguments": {"value": {"$from": "inputs"}} and arguments[tool_name],
        "permission_set": "minimal",
    }
    if tool_name == "read_file":
        # The path is refused with the plan already; a reference hides it until the task runs.
        task["arguments"] = {"path": {"$from": "inputs", "select": "path"}}
    execution = desk.run(task, inputs={"path": inside})
    assert execution.status == "FAILED"
    why = {"read_file": "lies outside the allowed root", "http_request": "no permission reaches it"}
    assert why[tool_name] in desk.error(execution, "one")
    assert not execution.holds.exists()


def test_the_runner_refuses_a_tools_need_for_the_host(desk: Desk) -> None:
    """A tool of another app may ask for anything; the runner applies the deny list to all."""

    @tool(server="greedy", name="ask", permission_set="minimal")
    def ask() -> str:
        """Ask for a denied resource."""
        current = PermissionSet()
        raise PermissionEscalationNeeded(
            operation="read",
            resource="/etc/shadow",
            current=current,
            requested=current.union(smallest_cover("read", "/etc/shadow")),
        )

    from tests.support.catalogue import stock_catalogue

    try:
        stock_catalogue()
        execution = desk.run({"id": "one", "type": "tool", "tool": "greedy.ask", "arguments": {}})
    finally:
        _registry._tools.pop("greedy.ask")
    assert execution.status == "FAILED"
    assert "/etc belongs to the host" in desk.error(execution, "one")
    attempt = execution.attempts.get(task_id="one", settled=True)
    assert (attempt.error_code, attempt.error_params) == ("denied_path", {"path": "/etc"})
    assert not execution.holds.exists()


# --- grants that were stored by other means, or by an earlier release -----------------------------


def widen(grant: Grant, **fields: list[str]) -> None:
    """Rewrite a stored grant behind the product's back."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE workflows_grant DISABLE TRIGGER USER")
        Grant.objects.filter(pk=grant.pk).update(
            permissions={**PermissionSet(**fields).model_dump(mode="json")}
        )
        cursor.execute("ALTER TABLE workflows_grant ENABLE TRIGGER USER")


FIRST_ONE_THEN_ANOTHER = {
    "python": """\
try:
    open('/srv/holdpoint-none/x')
except OSError:
    pass
open(path).read()""",
    "typescript": """\
try { Deno.readTextFileSync('/srv/holdpoint-none/x'); } catch { /* not there */ }
return Deno.readTextFileSync(path);""",
}


@pytest.mark.parametrize("language", sorted(OPEN))
@pytest.mark.parametrize("path", ["/etc/hostname", "{home}/secret_key"])
def test_a_stored_grant_of_the_host_has_no_effect(desk: Desk, language: str, path: str) -> None:
    path = path.replace("{home}", str(settings.HOLDPOINT_HOME))
    program = FIRST_ONE_THEN_ANOTHER[language]
    execution = desk.run(code("one", program, language, inputs={"path": path}))
    desk.decide(desk.hold(execution))
    roots = ["/srv/", "/etc/", f"{settings.HOLDPOINT_HOME}/", f"{Path(path).parent}/"]
    widen(Grant.objects.get(), read_paths=roots, write_paths=roots)
    execution = desk.drive(execution)
    assert "no permission reaches it" in desk.error(execution, "one")
    assert not execution.holds.filter(status="OPEN").exists()


def test_a_hold_for_the_host_cannot_be_approved(desk: Desk) -> None:
    """A hold that an earlier release opened: it can be rejected, and nothing else."""
    execution = desk.run(code("one", "open('/srv/holdpoint-none/x').read()"))
    hold = desk.hold(execution)
    payload = dict(hold.payload)
    payload["requested"] = {**payload["requested"], "read_paths": ["/etc/"]}
    Hold.objects.filter(pk=hold.pk).update(payload=payload)
    hold.refresh_from_db()
    for user in (desk.reviewer, desk.person("boss", "reviewer", "operator", "admin")):
        right = right_now(user, hold)
        assert (right.approve, right.reject, right.code) == (False, True, "ceiling")
        assert right.reason.startswith("Nobody can grant this: /etc")
        assert right.refusal is not None
        assert right.refusal.params["problem"] == Reason("denied_path", {"path": "/etc"})
        with pytest.raises(NotAllowed):
            desk.decide(hold, user=user)
    assert desk.reject(execution).status == "FAILED"


# --- folders --------------------------------------------------------------------------------------

LIST = "import os\nos.listdir(path)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder outside the product's home, with something in it."""
    found = tmp_path / "reports"
    (found / "deep").mkdir(parents=True)
    (found / "deep" / "a.txt").write_text("seen")
    return found


def test_a_folder_grant_states_its_extent_and_needs_a_role(desk: Desk, folder: Path) -> None:
    task = code("one", LIST, inputs={"path": str(folder)})
    execution = desk.run(task)
    hold = desk.hold(execution)
    assert hold.payload["resource"] == f"{folder}/"
    assert hold.payload["requested"]["read_paths"] == [f"{folder}/"]
    right = right_now(desk.reviewer, hold)
    assert (right.approve, right.reject, right.code) == (False, True, "ceiling")
    assert "a folder and everything below" in right.reason
    with pytest.raises(NotAllowed, match="operator or an admin"):
        desk.decide(hold)
    steering = desk.person("steering", "reviewer", "operator")
    client = browser(steering)
    page = client.get(f"/review/{execution.pk}/{hold.pk}/").content.decode()
    assert f"read {folder}/ and everything below" in page
    assert f"Read the folder {folder}/ and everything below." in page
    assert f"{folder}/ and everything below</ins>" in page
    execution = desk.approve(execution, user=steering, grant_scope="execution")
    assert desk.output(execution, "one") == ["deep"]
    assert f"Read the folder {folder}/ and everything below." in (
        client.get("/grants/?all=1").content.decode()
    )


def test_one_file_is_granted_by_a_reviewer_and_covers_nothing_below(
    desk: Desk, folder: Path
) -> None:
    file = folder / "deep" / "a.txt"
    read = "open(path).read()"
    held = {"on_timeout": "keep_waiting"}
    execution = desk.run(
        code("one", read, inputs={"path": str(file)}),
        code("two", read, inputs={"path": f"{file}/b.txt"}, depends_on=["one"], human_review=held),
    )
    execution = desk.approve(execution, "one", grant_scope="execution")
    assert desk.output(execution, "one") == "seen"
    assert Grant.objects.get().permissions["read_paths"] == [str(file)]
    file.unlink()
    file.mkdir()
    (file / "b.txt").write_text("more")
    execution = desk.approve(execution, "two")
    hold = desk.hold(execution, "two")
    assert (hold.reason, hold.payload["resource"]) == ("escalation", str(file / "b.txt"))


@pytest.mark.parametrize("groups", [("reviewer",), ("reviewer", "integrator"), ("legal",)])
def test_no_role_but_operator_and_admin_grants_a_folder(
    desk: Desk, folder: Path, groups: tuple[str, ...]
) -> None:
    execution = desk.run(code("one", LIST, inputs={"path": str(folder)}))
    hold = desk.hold(execution)
    Hold.objects.filter(pk=hold.pk).update(groups=["reviewer", "legal"])
    hold.refresh_from_db()
    with pytest.raises(NotAllowed):
        desk.decide(hold, user=desk.person("person", *groups))
    assert not Grant.objects.exists()
