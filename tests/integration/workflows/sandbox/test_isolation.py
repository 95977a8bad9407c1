"""Isolation: Landlock, limits, inherited descriptors, folders of a killed worker."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings

from workflows.common import landlock
from workflows.engine.protocol.ports import TaskFailed
from workflows.sandbox import SandboxConfig, checks, clear_leftovers, deno_setup
from workflows.sandbox import monty_pool as pool
from workflows.sandbox.code_request import CodeRequest, RunEnvironment

from .conftest import SECRET, Bench, deno_processes

needs_landlock = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")


@needs_landlock
def test_a_confined_process_reaches_only_its_paths(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "file").write_text("seen")
    (tmp_path / "secret").write_text(SECRET)
    script = (
        f"cat {tmp_path}/in/file; cat {tmp_path}/secret; echo x > {tmp_path}/in/new;"
        f"echo x > {tmp_path}/out/new; ln -s {tmp_path}/secret {tmp_path}/out/link"
    )
    rules = landlock.LandlockRules(
        execute=("/bin", "/usr", "/lib", "/lib64"),
        read=(str(tmp_path / "in"), "/dev/null"),
        write=(str(tmp_path / "out"), "/dev/null"),
    )
    done = landlock.run_restricted(
        rules, lambda: subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False)
    )
    assert done.stdout == b"seen"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]
    assert not (tmp_path / "in" / "new").exists()
    assert (tmp_path / "secret").read_text() == SECRET


@needs_landlock
def test_the_confining_thread_stays_unconfined(tmp_path: Path) -> None:
    landlock.run_restricted(landlock.LandlockRules(), lambda: None)
    (tmp_path / "file").write_text("x")
    with pytest.raises(PermissionError):
        landlock.run_restricted(landlock.LandlockRules(), (tmp_path / "file").read_text)
    assert (tmp_path / "file").read_text() == "x"


@needs_landlock
def test_landlock_confines_an_unrestricted_deno(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deno_setup, "_FLAGS", ("--quiet", "--allow-all"))
    monkeypatch.setattr(
        deno_setup, "command", lambda _: [deno_setup.binary(), "run", "-A", deno_setup.HARNESS]
    )
    environment = RunEnvironment.of(
        CodeRequest("typescript", "", scratch_dir=bench.scratch), bench.temp
    )
    rules = deno_setup.landlock_rules(environment, bench.temp)
    assert rules is not None
    code = f"Deno.readTextFileSync('{bench.secret}')"
    done = landlock.run_restricted(
        rules,
        lambda: subprocess.run(
            [deno_setup.binary(), "eval", code],
            capture_output=True,
            check=False,
            env=deno_setup.environment_variables(environment, bench.temp),
        ),
    )
    assert done.returncode != 0
    assert b"Permission denied" in done.stderr
    assert SECRET.encode() not in done.stdout


@needs_landlock
def test_every_monty_worker_is_confined(bench: Bench) -> None:
    def no_new_privileges(pid: int | None) -> bool:
        return "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()

    with pool.session({}, 5) as first, pool.session({}, 5) as second:
        assert no_new_privileges(first.worker_pid)
        assert no_new_privileges(second.worker_pid)
        assert first.worker_pid is not None
        os.kill(first.worker_pid, signal.SIGKILL)
    with pool.session({}, 5) as replaced, pool.session({}, 5) as other:
        assert no_new_privileges(replaced.worker_pid)
        assert no_new_privileges(other.worker_pid)
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text()


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_nothing_runs_as_root_unless_it_is_allowed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(TaskFailed, match="does not run as root"):
        bench.run(language, "6 * 7", config={"allow_root": False})
    assert bench.run(language, "6 * 7", config={"allow_root": True}).value == 42
    assert SandboxConfig().allow_root is False


@pytest.mark.parametrize(
    ("mode", "usable", "blocked", "refused"),
    [
        ("auto", 4, False, ""),
        ("auto", 0, False, ""),
        ("auto", 0, True, "switched off or forbidden"),
        ("on", 0, False, "no Landlock"),
        ("on", 0, True, "switched off or forbidden"),
        ("off", 0, True, ""),
    ],
)
def test_landlock_is_required_where_the_kernel_has_it(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    usable: int,
    blocked: bool,
    refused: str,
) -> None:
    if not usable or not landlock.abi():
        monkeypatch.setattr(landlock, "abi", lambda: usable and landlock.abi())
    monkeypatch.setattr(landlock, "is_blocked", lambda: blocked)
    if refused:
        with pytest.raises(TaskFailed, match=refused):
            bench.run("typescript", "6 * 7", config={"landlock": mode})
    else:
        assert bench.run("typescript", "6 * 7", config={"landlock": mode}).value == 42


def test_without_landlock_the_runtime_permissions_still_apply(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert bench.run("typescript", "6 * 7").value == 42
    assert bench.run("python", "6 * 7").value == 42
    stored = "localStorage.x = (localStorage.x ?? '') + 'x'; return localStorage.x"
    assert [bench.run("typescript", stored).value for _ in range(2)] == ["x", "x"]
    with pytest.raises(TaskFailed, match="Landlock"):
        bench.run("typescript", "1", config={"landlock": "on"})
    assert "workflows.W102" not in [message.id for message in checks.check_sandbox(None)]
    monkeypatch.setattr(settings, "HOLDPOINT_ROLE", "worker")
    assert "workflows.W102" in [message.id for message in checks.check_sandbox(None)]


def test_the_checks_find_both_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [message for message in checks.check_sandbox(None) if message.is_serious(40)]
    monkeypatch.setattr(deno_setup, "binary", lambda: "/nowhere/deno")
    assert [m.id for m in checks.check_sandbox(None) if m.is_serious(40)] == ["workflows.E101"]


def _socket_inodes() -> set[int]:
    """The sockets this very process holds."""
    held = (
        os.fstat(int(entry.name)) for entry in Path("/proc/self/fd").iterdir() if entry.exists()
    )
    return {found.st_ino for found in held if stat.S_ISSOCK(found.st_mode)}


def test_a_child_has_its_limits_and_inherits_nothing(bench: Bench) -> None:
    seen: dict[str, Any] = {}

    def look() -> bool:
        for child in deno_processes():
            if "limits" not in seen and not seen.get("done"):
                seen["limits"] = Path(f"/proc/{child.pid}/limits").read_text()
                seen["environment"] = Path(f"/proc/{child.pid}/environ").read_text()
                seen["group"] = os.getpgid(child.pid) == child.pid != os.getpgid(0)
                seen["files"] = [
                    str(entry.readlink()) for entry in Path(f"/proc/{child.pid}/fd").iterdir()
                ]
        return "files" in seen

    secret = bench.secret.open()
    with secret, pytest.raises(TaskFailed, match="stopped"):
        bench.run("typescript", "await new Promise(() => {})", should_stop=look)
    assert seen["group"] is True
    limits = " ".join(str(seen["limits"]).split())
    assert f"Max data size {768 << 20} {768 << 20} bytes" in limits
    assert "Max core file size 0 0 bytes" in limits
    assert "Max cpu time 21 21 seconds" in limits
    assert SECRET not in str(seen["environment"])
    assert "PATH=" not in str(seen["environment"])
    assert str(bench.secret) not in str(seen["files"])
    assert not set(seen["files"]) & {f"socket:[{inode}]" for inode in _socket_inodes()}


_WORKER = """
import pathlib, sys
from workflows.engine.policy.permissions import PermissionSet
from workflows.sandbox import CodeRequest, SandboxConfig, run_code
temp, sign = sys.argv[1:]
wait = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"
code = f"Deno.writeTextFileSync('{sign}', '') ?? {wait}"
grants = PermissionSet(write_paths=(sign,))
config = SandboxConfig(temp_root=pathlib.Path(temp), allow_root=True)
run_code(CodeRequest('typescript', code, permissions=grants, timeout_seconds=60, config=config))
"""


def test_folders_of_a_killed_worker_are_deleted(bench: Bench) -> None:
    sign = bench.scratch / "started"
    argv = [sys.executable, "-c", _WORKER, str(bench.temp), str(sign)]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[4]) as worker:
        try:
            _wait_until(sign.exists)
            started = psutil.Process(worker.pid).children()
            [child] = [each for each in started if "deno" in each.name()]
            [reaper] = [each for each in started if "reaper.py" in " ".join(each.cmdline())]
            assert clear_leftovers(bench.temp) == 0
        finally:
            # Without it the program would end with the worker.
            reaper.kill()
            worker.kill()
    assert child.is_running()
    assert clear_leftovers(bench.temp) == 1
    _wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert list(bench.temp.iterdir()) == []


def test_only_folders_of_runs_are_deleted(bench: Bench) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    for name in (
        "holdpoint-sandbox-other",
        "holdpoint-other-1-2-x",
        f"holdpoint-sandbox-{gone.pid}-1-x",
    ):
        (bench.temp / name).mkdir()
    assert clear_leftovers(bench.temp) == 1
    kept = sorted(bench.temp.iterdir())
    assert [folder.name for folder in kept] == ["holdpoint-other-1-2-x", "holdpoint-sandbox-other"]
    for folder in kept:
        folder.rmdir()


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_a_late_fork_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("python", "1")
    inherited = {os.getpid() + 1: next(iter(pool._pools.values()))}
    monkeypatch.setattr(pool, "_pools", inherited)
    with pytest.raises(RuntimeError, match="forked"):
        bench.run("python", "2")


def test_the_configuration_has_safe_defaults() -> None:
    config = SandboxConfig()
    assert config.flood_bytes > config.max_output_bytes
    assert config.net.max_response_bytes == 1 << 20
