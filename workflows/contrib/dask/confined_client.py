"""Start the client of Dask confined, send it a request, and read its answer.

The process has no variable of this one but PATH and the language, and no open file but its pipes.
With Landlock it reads the Python environment, the code of this product and the certificates for the
cluster, writes an empty folder that is deleted, and connects to the scheduler's port only.  Without
Landlock it could read what this account can.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from workflows.common import landlock, seccomp
from workflows.engine.values.bounded_json import BoundedJSONError, Limits, parse
from workflows.permissions import deny_list
from workflows.remote.port import RunnerUnavailable

from . import conf

#: Seconds for one request, the start of the process included.
_TIMEOUT: Final = 120
#: The port of a Dask scheduler whose address names none.
_DEFAULT_PORT: Final = 8786
#: Limits of one answer: the results of many calls, or what they have printed.
_ANSWER: Final = Limits(max_bytes=64 * 1024 * 1024, nodes=200_000, string_length=2 * 1024 * 1024)
_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Folders of the system that programs need.
_PROGRAMS: Final = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
#: Files of the host that programs need; none of them is a secret.
_READ: Final = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/ssl/openssl.cnf", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf",
    "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/dev/urandom", "/proc/cpuinfo",
    "/proc/meminfo", "/proc/stat",
)  # fmt: skip


def ask(address: str, operation: str, arguments: Mapping[str, Any]) -> Any:
    """Return the parsed answer of the client; raises RunnerUnavailable without a valid one."""
    is_confined = bool(landlock.abi()) and seccomp.is_supported()
    request = {
        "address": address,
        "tls": [name for name in conf.tls_files() if name],
        "operation": operation,
        "arguments": arguments,
        "confined": is_confined,
    }
    with tempfile.TemporaryDirectory(prefix="holdpoint-dask-") as folder:
        # Python lists the folders that it imports from, and the product's own may hold settings.
        code = Path(folder, "code")
        code.mkdir()
        Path(code, _PACKAGE.name).symlink_to(_PACKAGE)
        rules = _rules(address, folder) if is_confined else None
        written = _run(json.dumps(request).encode(), rules, folder)
    try:
        return parse(written, limits=_ANSWER)
    except BoundedJSONError as error:
        raise RunnerUnavailable(f"the client of Dask: {error}"[:500]) from error


def _rules(address: str, folder: str) -> landlock.LandlockRules:
    port, written = urlsplit(address).port or _DEFAULT_PORT, (folder, "/dev/null")
    # These may be links, which Landlock follows for programs only.
    programs = (*_PROGRAMS, sys.prefix, sys.base_prefix, str(_PACKAGE))
    below = deny_list.path_below(programs, deny_list.installation_paths())
    if below is not None:
        path, readable = below
        raise RunnerUnavailable(
            f"{path} lies below {readable}, which the client of Dask can read: move it elsewhere"
        )
    return landlock.LandlockRules(
        execute=programs,
        read=tuple(
            os.path.realpath(path) for path in (*_READ, *written, *conf.tls_files()) if path
        ),
        write=tuple(map(os.path.realpath, written)),
        ports=(port,),
    )


def _run(request: bytes, rules: landlock.LandlockRules | None, folder: str) -> bytes:
    """Return what the client writes, at most one byte more than an answer may have."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "workflows.contrib.dask.client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )

    process = landlock.run_restricted(rules, start) if rules else start()
    try:
        return _exchange(process, request)
    finally:
        # Also what the client started.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the client was started without its pipes")
    # The client reads the request before it connects to the cluster.
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(request)
    deadline, written = time.monotonic() + _TIMEOUT, bytearray()
    # A process that code of the cluster started may keep the pipe open.
    with process.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(written) <= _ANSWER.max_bytes:
            if not selector.select(deadline - time.monotonic()):
                raise RunnerUnavailable(f"the client of Dask took over {_TIMEOUT} s")
            part = os.read(pipe.fileno(), 65_536)
            if not part:
                break
            written += part
    return bytes(written)


def _environment(folder: str) -> dict[str, str]:
    known = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **known,
        "HOME": folder,
        "TMPDIR": folder,
        "PYTHONPATH": str(Path(folder, "code")),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
