"""What a stdio server can see and do: the kernel enforces it, see `stdio_guard`.

A server reads the folders of the system that programs need, the Python environment, and what its
registration names; it writes what its registration names, the folder of its run and a home of its
own, which is deleted when it ends. It connects to the TCP ports that its registration names, and
without any it has no sockets at all.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from workflows import conf
from workflows.common import landlock, real_paths, seccomp
from workflows.engine.policy.permissions import Operation
from workflows.permissions import deny_list

from .server_spec import McpServerSpec
from .stdio_guard import RUN_FOLDER

_PROGRAMS: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
)  # fmt: skip
#: Files of the host that programs need; none of them is a secret.
_READ: Final = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust",
    "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
    "/etc/gitconfig", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
    "/etc/mime.types",
    "/dev/urandom", "/dev/random", "/dev/zero", "/proc/cpuinfo", "/proc/meminfo",
    "/proc/stat", "/sys/devices/system/cpu",
)  # fmt: skip
_WRITE: Final = ("/dev/null",)


def refusal() -> str:
    """Return why this process starts no stdio server; "" when it does.

    The sandbox for code has the same setting. Programs there are confined by their runtime too; a
    server is not, so it also needs confinement where the kernel has none.
    """
    if _can_confine() or conf.sandbox_landlock() == "off":
        return ""
    return (
        "MCP servers over stdio are confined with Landlock and seccomp, which cannot be used here: "
        "enable them, or set HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK to 0"
    )


def _can_confine() -> bool:
    return bool(landlock.abi()) and seccomp.is_supported()


def settings_of(spec: McpServerSpec, program: str) -> dict[str, Any]:
    """Return the first argument of the guard for a server.

    Raises OSError when this process may not start the server.
    """
    if reason := refusal():
        raise PermissionError(reason)
    programs = [*_PROGRAMS, sys.prefix, sys.base_prefix]
    _check_programs(programs)
    if spec.folder and (user := tool_user()):
        os.chown(spec.folder, *user)
    return {
        "confined": _can_confine(),
        "execute": [*programs, program],
        "read": [os.path.realpath(path) for path in (*_READ, *spec.read_paths)],
        "write": [
            *(os.path.realpath(path) for path in (*_WRITE, *spec.write_paths)),
            *([os.path.realpath(spec.folder)] if spec.folder else []),
        ],
        "ports": list(spec.tcp_ports),
        "folder": spec.folder,
        "user": tool_user(),
    }


def _check_programs(folders: Iterable[str]) -> None:
    """Refuse to start a server that would see the product below a folder of programs."""
    below = deny_list.path_below(folders, deny_list.product_paths())
    if below is not None:
        path, folder = below
        raise PermissionError(
            f"{path} lies below {folder}, which MCP servers can read: move it elsewhere"
        )


def tool_user() -> tuple[int, int] | None:
    """Return user and group id of the account of stdio servers; None for the product's own.

    Raises OSError when there is no such account.
    """
    name = conf.tool_user()
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise PermissionError(f"HOLDPOINT_TOOL_USER: there is no account {name!r}") from None
    if os.geteuid() not in (0, entry.pw_uid):
        raise PermissionError("HOLDPOINT_TOOL_USER: only a process of root can change to it")
    return entry.pw_uid, entry.pw_gid


def paths_problem(paths: Iterable[str], operation: Operation) -> str:
    """Return why a registration may not name `paths` for "read" or "write"; "" if it may.

    The deny list holds, and nobody names the folder of the runs, from which each run gets its own.
    The demo's copy of a repository, which lies in the product's home, may be read.
    """
    demo = conf.demo_folder() if operation == "read" else None
    runs = _resolved(settings.HOLDPOINT.get("file_root") or "")
    for path in paths:
        if not path.startswith("/") or "\0" in path:
            return f"{path!r} is not an absolute path"
        if problem := deny_list.path_problem(path, operation, scratch=demo):
            return f"{path}: {problem}"
        real = _resolved(path)
        if runs and real and (real.is_relative_to(runs) or runs.is_relative_to(real)):
            return f"{path}: the folders of runs; use {RUN_FOLDER} in the arguments"
    return ""


def _resolved(path: str | os.PathLike[str]) -> Path | None:
    try:
        return real_paths.resolve(os.path.normpath(path)) if path else None
    except (OSError, RuntimeError):
        return None


def ports_problem(ports: Iterable[int]) -> str:
    """Return why a registration may not name `ports`; "" if it may."""
    for port in ports:
        if not 0 < port < 65_536:
            return f"{port} is not a TCP port"
        if port in deny_list.product_ports():
            return f"{port} is a port of this product"
    return ""
