"""How Deno is started: executable, flags, Landlock rules, environment variables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from deno import find_deno_bin  # type: ignore[import-untyped]

from workflows.common import landlock

from .code_request import UNRESOLVED_PATHS, RunEnvironment
from .denials import task_failure

HARNESS: Final = str(Path(__file__).resolve().with_name("harness.js"))
EMITTED_CODE_DIR: Final = "gen"
"""Subdirectory of DENO_DIR in which Deno stores compiled TypeScript."""
AUDIT_VARIABLE: Final = "DENO_AUDIT_PERMISSIONS"

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_DEVICES: Final = ("/dev/null", "/dev/urandom")
_FLAGS: Final = (
    "--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-check",
    "--cached-only", "--no-code-cache", "--deny-import", "--deny-net", "--deny-run", "--deny-ffi",
    "--deny-sys",
)  # fmt: skip
# Variables that configure the runtime itself are not passed on, even if granted.
_RUNTIME_ENV: Final = ("DENO_", "NODE_", "LD_", "V8_", "SSL_", "TMPDIR")


# One per process, never invalidated: another executable takes a restart.
@cache
def binary() -> str:
    """Return the Deno executable of its PyPI package.

    :raises FileNotFoundError: when it is not installed.
    """
    return str(Path(find_deno_bin()).resolve())


def command(environment: RunEnvironment) -> list[str]:
    """Return the command line, which denies all but the granted paths and names."""
    permissions = environment.permissions
    unresolved = ",".join(UNRESOLVED_PATHS)
    argv = [
        binary(),
        "run",
        *_FLAGS,
        f"--v8-flags=--max-old-space-size={environment.request.memory_mb}",
    ]
    for name, paths in (("read", permissions.read_paths), ("write", permissions.write_paths)):
        argv.append(
            f"--allow-{name}={_listed(map(_without_slash, paths))}" if paths else f"--deny-{name}"
        )
        argv += [f"--deny-{name}={unresolved}"] if paths else []
    names = permissions.env_names
    argv.append(f"--allow-env={','.join(names)}" if names else "--deny-env")
    return [*argv, HARNESS]


def _without_slash(entry: str) -> str:
    return entry.removesuffix("/")


def _listed(entries: Iterable[str]) -> str:
    paths = tuple(entries)
    # Deno separates paths by commas and has no escape for a comma in a path.
    unwritable = next((path for path in paths if "," in path), None)
    if unwritable is not None:
        raise task_failure(f"A path with a comma cannot be granted to Deno: {unwritable}")
    return ",".join(paths)


def environment_variables(environment: RunEnvironment, home: Path) -> dict[str, str]:
    """Return all environment variables of the child: granted ones, and Deno's configuration.

    Without the in-memory cache mode, Deno retries its own writes for 150 ms before it gives up.
    """
    granted = {
        name: value
        for name, value in environment.granted_env().items()
        if not name.startswith(_RUNTIME_ENV)
    }
    return granted | {
        "DENO_DIR": str(home),
        "DENO_CACHE_DB_MODE": "in-memory",
        "DENO_NO_UPDATE_CHECK": "1",
        "DENO_TRACE_PERMISSIONS": "1",
        "NO_COLOR": "1",
        "TZ": granted.get("TZ", "UTC"),
    }


def landlock_rules(environment: RunEnvironment, home: Path) -> landlock.LandlockRules | None:
    """Return Landlock rules: the granted files, and below `home` only compiled TypeScript.

    Therefore a program without grants leaves nothing on disk, not even through localStorage or
    caches. Deno needs its compiled TypeScript for the line numbers of errors: otherwise it compiles
    again on a thread whose stack it looks up in /proc, and aborts.
    """
    if not landlock.abi():
        return None
    permissions = environment.permissions
    made = [path for path in permissions.read_paths if permissions.allows("write", path)]
    places = {
        "read": [*permissions.read_paths, *_existing_targets(made, environment)],
        "write": _existing_targets(permissions.write_paths, environment),
    }
    return landlock.LandlockRules(
        execute=(binary(), *_LIBRARIES),
        read=(
            *(HARNESS, *_DEVICES, str(home)),
            *places["read"],
        ),
        write=("/dev/null", str(home / EMITTED_CODE_DIR), *places["write"]),
    )


def _existing_targets(entries: Iterable[str], environment: RunEnvironment) -> list[str]:
    """Return granted paths, or the directories to create them in: Landlock needs existing paths.

    In the working directory, parent directories may have to be created too. A directory that
    contains a denied path is left out; then the file in it cannot be created.
    """
    targets = []
    for path in map(Path, entries):
        place = path
        if not path.exists():
            place = environment.scratch if path.is_relative_to(environment.scratch) else path.parent
        if not environment.problem("write", place):
            targets.append(str(place))
    return targets
