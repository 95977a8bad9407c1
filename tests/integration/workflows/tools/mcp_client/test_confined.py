"""What a stdio server can reach, with a server that tries what a hostile one would."""

from __future__ import annotations

import os
import pwd
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from workflows.common import background_loop, landlock
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.mcp_client import (
    McpServerSpec,
    close_pool,
    end_run,
    paths_problem,
    pool,
    ports_problem,
    session,
)

from .conftest import git, has_ended, until

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

OBEDIENT = Path(__file__).with_name("obedient.py")
Run = Callable[..., str]

#: Begins code of the server: prints whether a call was refused by the kernel.
ATTEMPT = """
import errno, os, signal, socket
def attempt(action, *args):
    try:
        action(*args)
    except OSError as error:
        # The kernel reports a link or a move between two rules as one between two devices.
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EXDEV)
        print("refused" if refused else error, *args if not refused else ())
    else:
        print("done")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run."""
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    """Runs code in a server that serves one run, and returns what it printed."""

    def do(code: str, **changes: Any) -> str:
        values: dict[str, Any] = {
            "name": "obedient",
            "transport": "stdio",
            "command": sys.executable,
            "args": (str(OBEDIENT),),
            "read_paths": (str(OBEDIENT),),
            "run": "1",
            "folder": str(folder),
        }
        spec = McpServerSpec(**(values | changes))
        answer = background_loop.run(pool().call(spec, "run", {"code": ATTEMPT + code}), 60)
        assert isinstance(answer, str)
        return answer

    yield do
    close_pool()


def test_nothing_of_the_product_or_the_host_is_seen(run: Run, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("other")
    root = Path(str(django_settings.BASE_DIR))
    files = [
        f"/proc/{os.getpid()}/environ",
        "/etc/shadow",
        "/etc/passwd",
        str(root / "config" / "settings" / "base.py"),
        str(Path(__file__)),
        str(tmp_path / "beside"),
    ]
    folders = [str(Path.home()), str(root), "/", "/tmp", "/home"]
    seen = run(
        f"""
for path in {files}: attempt(open, path)
for path in {folders}: attempt(os.listdir, path)
attempt(os.kill, {os.getpid()}, 0)
attempt(open, {str(tmp_path / "new")!r}, "w")
attempt(open, "/dev/shm/new", "w")
print(sorted(name for name in os.environ if not name.startswith("LC_")))
print(os.getcwd())
"""
    ).splitlines()
    assert seen[:-2] == ["refused"] * (len(files) + len(folders) + 3)
    assert seen[-2] == "['HOME', 'LANG', 'PATH', 'TMPDIR']"
    assert seen[-1] == str(tmp_path / "run")


def test_the_folder_of_the_run_has_no_way_out(run: Run, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (folder / "link").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    seen = run(
        f"""
attempt(open, "link")
attempt(open, "link", "w")
attempt(os.listdir, "up")
attempt(os.symlink, {str(secret)!r}, "other")
attempt(os.link, {str(secret)!r}, "hard")
attempt(os.rename, {str(secret)!r}, "moved")
attempt(os.mkfifo, "fifo")
attempt(os.chroot, ".")
open("inside", "w").write("kept")
open(os.path.join(os.environ["HOME"], "x"), "w").write("temporary")
print(open("inside").read())
"""
    ).splitlines()
    assert seen == [*["refused"] * 8, "kept"]
    assert secret.read_text() == "secret"


def test_the_folder_of_the_run_is_an_argument(run: Run, folder: Path) -> None:
    code, args = "import sys; print(sys.argv[1], os.getcwd())", (str(OBEDIENT), "$RUN_FOLDER/x")
    assert run(code, args=args) == f"{folder}/x {folder}"
    argument, home = run(code, args=args, run="", folder="").split()
    assert argument == f"{home}/x"


def test_nothing_outside_gets_another_mode(run: Run, folder: Path, tmp_path: Path) -> None:
    """Landlock does not restrict changes of modes, owners and times."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    before = secret.stat()
    run(
        f"""
os.chmod({str(secret)!r}, 0o777)
os.chown({str(secret)!r}, 65534, 65534)
os.utime({str(secret)!r}, (0, 0))
os.setxattr({str(secret)!r}, "user.x", b"1")
os.chmod({str(tmp_path)!r}, 0)
"""
    )
    after = secret.stat()
    for field in ("st_mode", "st_uid", "st_mtime"):
        assert getattr(after, field) == getattr(before, field), field
    assert os.listxattr(secret) == []
    assert run(
        f"import resource\nattempt(resource.prlimit, {os.getpid()}, resource.RLIMIT_CORE, (0, 0))"
    ) == ("refused")


def test_other_processes_keep_their_priority(run: Run) -> None:
    other = int(run("print(os.getpid())", run="2"))
    before = os.getpriority(os.PRIO_PROCESS, other), os.sched_getaffinity(other)
    seen = run(
        f"""
import ctypes
def set_io_priority(kind, which):  # to that of an idle process
    if libc.syscall(ctypes.c_long(NUMBERS[os.uname().machine]), kind, which, 3 << 13):
        raise OSError(ctypes.get_errno(), "ioprio_set")
libc, NUMBERS = ctypes.CDLL(None, use_errno=True), {{"x86_64": 251, "aarch64": 30}}
attempt(os.setpriority, os.PRIO_PROCESS, {other}, 19)
attempt(os.setpriority, os.PRIO_USER, 0, 19)
attempt(os.sched_setaffinity, {other}, [min(os.sched_getaffinity(0))])
attempt(os.sched_setscheduler, {other}, os.SCHED_IDLE, os.sched_param(0))
attempt(set_io_priority, 1, {other})
attempt(set_io_priority, 3, 0)
os.setpriority(os.PRIO_PROCESS, 0, 7)
print(os.getpriority(os.PRIO_PROCESS, 0))
"""
    ).splitlines()
    # The calls that name another process do nothing; those for itself have an effect.
    assert seen == [*["done"] * 6, "7"]
    assert (os.getpriority(os.PRIO_PROCESS, other), os.sched_getaffinity(other)) == before
    assert os.sched_getscheduler(other) == os.SCHED_OTHER


def test_nothing_is_shared_without_a_file(run: Run, tmp_path: Path) -> None:
    """Shared memory, queues and keys of the account would outlive the process of a run."""
    other = tmp_path / "other"
    other.mkdir()
    seen = run(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
numbers = {{
    # shmget, semget, msgget, mq_unlink, add_key, keyctl, inotify_add_watch
    "x86_64": (29, 64, 68, 241, 248, 250, 254), "aarch64": (194, 190, 186, 181, 217, 219, 27)
}}
shm, sem, msg, unlink, add, keyctl, watch = numbers[os.uname().machine]
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "syscall")
attempt(call, shm, 0x4844, 4096, 0o1600)
attempt(call, sem, 0x4844, 1, 0o1600)
attempt(call, msg, 0x4844, 0o1600)
attempt(call, unlink, b"holdpoint-test")
attempt(call, add, b"user", b"holdpoint-test", b"x", 1, -4)
attempt(call, keyctl, 6, -4, None, 0)
attempt(call, watch, libc.inotify_init(), {str(other).encode()!r}, 0xFFF)
"""
    ).splitlines()
    assert seen == ["refused"] * 7


@pytest.fixture
def listener() -> Iterator[int]:
    """A TCP service of this machine; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_there_are_no_sockets_without_a_port(run: Run, listener: int, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
        for server, address in ((unix, path), (abstract, "\0holdpoint-test")):
            server.bind(address)
            server.listen()
        seen = run(
            f"""
def tcp(): socket.create_connection(("127.0.0.1", {listener}), 5)
def udp(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53))
def unix(name): socket.socket(socket.AF_UNIX).connect(name)
def pair(): socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(tcp)
attempt(udp)
attempt(unix, {path!r})
attempt(unix, "\\0holdpoint-test")
attempt(pair)
one, two = socket.socketpair()
one.send(b"joined")
print(two.recv(9).decode())
"""
        ).splitlines()
    assert seen == [*["refused"] * 5, "joined"]


@pytest.mark.skipif(landlock.abi() < 4, reason="Landlock restricts ports since version 4")
def test_only_the_named_port_is_reached(run: Run, listener: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        seen = run(
            f"""
def tcp(port): socket.create_connection(("127.0.0.1", port), 5)
def mptcp(): socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("127.0.0.1", {port}))
def fast():
    socket.socket().sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", {port}))
def bind(): socket.create_server(("127.0.0.1", 0))
attempt(tcp, {listener})
attempt(tcp, {port})
attempt(mptcp)
attempt(fast)
attempt(bind)
attempt(socket.socket, socket.AF_UNIX)
""",
            tcp_ports=(listener,),
        ).splitlines()
    assert seen == ["done", *["refused"] * 5]


DETACHED = """
pid = os.fork()
if not pid:
    os.setsid()
    if os.fork():
        os._exit(0)
    for descriptor in range(3):
        os.close(descriptor)
    open("child", "w").write(str(os.getpid()))
    signal.pause()
os.waitpid(pid, 0)
import time
while not (os.path.exists("child") and open("child").read()):
    time.sleep(0.01)
print(os.environ["HOME"], os.getpid())
"""


def test_a_process_serves_one_run_and_leaves_nothing(run: Run, folder: Path) -> None:
    home, first = run("remembered = 'of the first run'\n" + DETACHED).split()
    child = int((folder / "child").read_text())
    assert run("print(remembered)") == "of the first run"
    assert run("print(remembered)", run="2").startswith("NameError")
    assert run("print(os.getpid())", run="2") != first
    assert not has_ended(child)
    assert Path(home).is_dir()
    end_run("1")
    until(lambda: has_ended(int(first)) and has_ended(child), "server and child end with the run")
    until(lambda: not Path(home).exists(), "its home is deleted")
    assert run("print(remembered)").startswith("NameError")


def test_an_idle_process_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "IDLE_SECONDS", 0.1)
    first = int(run("print(os.getpid())"))
    until(lambda: has_ended(first), "the idle server ends")


def test_the_number_of_processes_is_limited(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.tools.mcp_client.session_pool._MAX_RUN_SESSIONS", 1)
    first = int(run("print(os.getpid())"))
    run("print(1)", run="2")
    until(lambda: has_ended(first), "the oldest idle server ends")


def test_git_in_the_folder_of_a_run_executes_nothing_outside(folder: Path, tmp_path: Path) -> None:
    """A git server that nobody has configured safely runs what the folder says, confined."""
    mark = tmp_path / "executed"
    git(folder, "init", "--quiet")
    git(folder, "config", "core.fsmonitor", f"id > {mark}; id > {folder}/inside; false")
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nid > {mark}\n")
    hook.chmod(0o755)
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    spec = McpServerSpec(
        "git",
        "stdio",
        command=sys.executable,
        args=("-m", "mcp_server_git"),
        env={f"GIT_{name}": "ada@example.com" for name in names},
        run="1",
        folder=str(folder),
    )

    def ask(tool: str, **arguments: Any) -> None:
        asked = pool().call(spec, tool, {"repo_path": str(folder), **arguments})
        background_loop.run(asked, 60)

    try:
        ask("git_status")
        ask("git_add", files=["."])
        with pytest.raises(TaskFailed, match=r"pre-commit.*Permission denied"):
            ask("git_commit", message="feat: x")
    finally:
        close_pool()
    assert not mark.exists()
    # The command did run: what holds is the confinement.
    assert (folder / "inside").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change to another account")
def test_a_server_has_an_account_of_its_own(run: Run, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "tool_user": "nobody"}
    account = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as name:
        own = Path(name)
        own.chmod(0o755)
        (own / "run").mkdir(mode=0o700)
        (own / "server.py").write_text(OBEDIENT.read_text())
        seen = run(
            "print(os.getuid(), os.getgid(), os.getgroups())\nattempt(os.setuid, 0)\n"
            "open('made', 'w').write('x')",
            command="/usr/bin/python3",
            args=(str(own / "server.py"),),
            read_paths=(str(own / "server.py"),),
            folder=str(own / "run"),
        ).splitlines()
        assert seen == [f"{account.pw_uid} {account.pw_gid} []", "refused"]
        assert (own / "run" / "made").stat().st_uid == account.pw_uid


def test_nothing_starts_where_it_cannot_be_confined(
    run: Run, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    for mode in ("auto", "on"):
        settings.HOLDPOINT = {**settings.HOLDPOINT, "sandbox_landlock": mode}
        with pytest.raises(TaskFailed, match="HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK to 0"):
            run("print(1)")
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sandbox_landlock": "off"}
    assert run("print(1)") == "1"


def test_a_registration_names_nothing_of_the_product(settings: Any, tmp_path: Path) -> None:
    files = tmp_path / "files"
    home = tmp_path / "home"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": files, "home": home}
    (tmp_path / "link").symlink_to(home)
    both = [
        *("/", "/etc", "/proc", "/run", "/root", "relative", "/a\0b", str(home), str(files)),
        *(str(tmp_path), str(files / "runs" / "1"), str(tmp_path / "link")),
        str(django_settings.BASE_DIR),
    ]
    for path in both:
        assert paths_problem([path], "read"), path
        assert paths_problem([path], "write"), path
    assert paths_problem(["/usr/lib"], "write")
    assert paths_problem([str(home / "demo")], "write")
    for path in ("/usr/share", str(home / "demo" / "copy"), str(tmp_path / "data")):
        assert not paths_problem([path], "read"), path
    assert not paths_problem([str(tmp_path / "data")], "write")
    settings.HOLDPOINT = {**settings.HOLDPOINT, "site_url": "http://127.0.0.1:8123"}
    for port in (0, 65_536, -1, 8123):
        assert ports_problem([port]), port
    assert not ports_problem([443])
