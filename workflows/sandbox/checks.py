"""System checks of the sandbox: runtimes, Landlock, the user account, and configured names."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from workflows import conf
from workflows.common import landlock
from workflows.engine.policy.permissions import NAMED
from workflows.permissions import deny_list

from . import deno_setup, monty_pool

#: Consequence of running as root, by whether the settings allow it.
_ROOT: Final = {
    False: "every code task fails.",
    True: "HOLDPOINT_SANDBOX_ALLOW_ROOT is set, and code that escapes the sandbox is root.",
}


def check_sandbox(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Report missing runtimes as errors, missing Landlock and running as root as warnings.

    The warnings concern the process that runs code, so only workers report them.
    """
    messages = [*_runtimes(), *_ceilings(), *_file_root()]
    if settings.HOLDPOINT_ROLE != "worker":
        return messages
    return [*messages, *_landlock(), *_user()]


def _file_root() -> list[CheckMessage]:
    """Report a directory of the file tools that the deny list covers."""
    root = settings.HOLDPOINT.get("file_root")
    problem = deny_list.file_root_problem(str(root)) if root else None
    if not problem:
        return []
    return [
        Error(
            f"HOLDPOINT_FILE_ROOT cannot be {root}: {problem}.",
            hint="Choose a folder of its own, such as the default HOLDPOINT_HOME/files.",
            id="workflows.E105",
        )
    ]


def _ceilings() -> list[CheckMessage]:
    """Report ceilings that name no permission set, because they allow nothing."""
    return [
        Error(
            f"The {what} ceiling of {group!r} is {name!r}, and there is no such permission set: "
            f"its members can {what} nothing.",
            hint=f"Make it one of {', '.join(NAMED)}.",
            id="workflows.E104",
        )
        for what in ("grant", "start")
        for group, name in settings.HOLDPOINT[f"{what}_ceilings"].items()
        if name not in NAMED
    ]


def _runtimes() -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    for name, locate, package in (
        ("Deno", deno_setup.binary, "deno"),
        ("Monty", monty_pool.binary, "pydantic-monty"),
    ):
        try:
            usable = os.access(locate(), os.X_OK)
        except FileNotFoundError:
            usable = False
        if not usable:
            hint = f"Install the Python package {package}."
            message = f"The {name} executable is missing: its code tasks cannot run."
            messages.append(Error(message, hint=hint, id="workflows.E101"))
    return messages


def _landlock() -> list[CheckMessage]:
    if landlock.abi():
        return []
    mode = conf.sandbox_landlock()
    if mode == "on" or (mode == "auto" and landlock.is_blocked()):
        return [
            Warning(
                "Landlock is required and cannot be used here: every code task fails, and no MCP "
                "server starts over stdio.",
                hint="Enable Landlock in the kernel (lsm=landlock,...) and in the container.",
                id="workflows.W102",
            )
        ]
    return [
        Warning(
            "The kernel has no Landlock: only Deno's and Monty's own checks confine code.",
            hint="Use Linux 5.13 or newer with Landlock enabled (lsm=landlock,...).",
            id="workflows.W102",
        )
    ]


def _user() -> list[CheckMessage]:
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    return [
        Warning(
            "The process runs as root: " + _ROOT[conf.sandbox_allow_root()],
            hint="Run workers as a user of their own.",
            id="workflows.W103",
        )
    ]
