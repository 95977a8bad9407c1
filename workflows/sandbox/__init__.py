"""Run code that an agent wrote, with only the permissions it was granted.

`run_code` runs one program and returns its JSON value. A `PermissionSet` limits its access; the
first access beyond it ends the run with `PermissionEscalationNeeded`, which names the operation
and the resource, even if the program would catch the error. Every other failure of the program is
a `TaskFailed`.

Python (language "python") runs in Monty, an interpreter for a safe subset of Python. The inputs are
variables; the dict `inputs` holds all of them, including inputs whose name cannot be a variable.
The value of the last expression is the result, None when the program ends in a statement.
`print` is captured. `open`, `pathlib` and `os` work on granted paths, `os.environ`
holds granted names, and `fetch(url, method="GET", headers=None, body=None)` returns a dict with
status, reason, url, headers, text and content. Relative paths refer to the working directory.

TypeScript and JavaScript run in Deno, in one of three forms:
- one expression: `lines.length`, `await fetch(url).then((r) => r.json())`;
- the body of an async function: statements with a `return`;
- an ES module (it has `export`, or a static `import` of a `node:` module), whose default export is
  the result, or a function of one object with all inputs that returns it.
In the first two forms the inputs are variables, and `inputs` is all of them. `undefined` becomes
null. Types are erased, not checked. Granted files and environment are reached with Deno's and
Node's own functions, the network only with `fetch`: the worker sends one request at a time,
follows redirects and returns the whole body. Sockets, workers, subprocesses and packages are never
available. In both languages the deny list
(`workflows.permissions.deny_list`) applies, even to granted resources.

A private address (localhost, 10.0.0.1, a name that leads there) needs its own grant with a port,
as `PermissionSet` says. A path below a temporary working directory is named
`$SCRATCH/...`, so that a grant for it is valid when the program runs again.

Results are one JSON document of bounded size and depth. Times are wall-clock seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from workflows.common import landlock
from workflows.engine.protocol.ports import TaskFailed

from .code_request import CodeRequest, CodeResult, Language, SandboxConfig
from .denials import task_failure
from .deno import run_deno
from .monty import run_monty
from .rundir import clear_leftovers

__all__ = [
    "CodeRequest",
    "CodeResult",
    "Language",
    "SandboxConfig",
    "clear_leftovers",
    "run_code",
]


def _never() -> bool:
    return False


def _refusal(config: SandboxConfig) -> str:
    """Return why this process runs no code at all; "" when it does."""
    if not config.allow_root and hasattr(os, "geteuid") and os.geteuid() == 0:
        return (
            "Code does not run as root: start the workers as a user of their own, or set "
            "HOLDPOINT_SANDBOX_ALLOW_ROOT"
        )
    if config.landlock == "off" or landlock.abi():
        return ""
    if landlock.is_blocked():
        return (
            "Landlock, which confines code in the kernel, is switched off or forbidden here: "
            "enable it, or set HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK to 0"
        )
    return "This kernel has no Landlock, which is required here" if config.landlock == "on" else ""


def run_code(request: CodeRequest, should_stop: Callable[[], bool] = _never) -> CodeResult:
    """Run one program for at most `request.timeout_seconds`; blocks the calling thread.

    `should_stop` is called about twenty times a second, from this or another thread; when it
    returns True, the program is killed and TaskFailed raised.

    Raises PermissionEscalationNeeded when the program needs more than `request.permissions`, and
    TaskFailed (never retryable) when it fails, exceeds a limit, or has no JSON result.
    """
    config = request.config
    refusal = _refusal(config)
    if refusal:
        raise TaskFailed(refusal, retryable=False)
    if len(request.code.encode("utf-8", "replace")) > config.max_code_bytes:
        raise task_failure(f"The program is over {config.max_code_bytes} bytes")
    if request.language == "python":
        return run_monty(request, should_stop)
    return run_deno(request, should_stop)
