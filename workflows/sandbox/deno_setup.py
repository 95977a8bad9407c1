"""How Deno is started: the executable, the flags, the fence, the folder it keeps for itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from deno import find_deno_bin  # type: ignore[import-untyped]

from . import landlock
from .contract import NEVER_PATHS, Surroundings
from .denials import failed

HARNESS: Final = str(Path(__file__).resolve().with_name("harness.js"))
EMITTED: Final = "gen"
"""Where below its own folder Deno keeps the code that it makes of TypeScript."""
AUDIT_VARIABLE: Final = "DENO_AUDIT_PERMISSIONS"

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store")
_DEVICES: Final = ("/dev/null", "/dev/urandom")
_FLAGS: Final = (
    "--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-check",
    "--cached-only", "--no-code-cache", "--deny-import", "--deny-net", "--deny-run", "--deny-ffi",
    "--deny-sys",
)  # fmt: skip
# Variables that would change the runtime itself are not passed on, whatever was granted.
_RUNTIME_ENV: Final = ("DENO_", "NODE_", "LD_", "V8_", "SSL_", "TMPDIR")


@cache
def binary() -> str:
    """The Deno executable that its PyPI package brings. FileNotFoundError when it is not there."""
    return str(Path(find_deno_bin()).resolve())


def command(around: Surroundings) -> list[str]:
    """The command line: everything denied but the granted paths and names."""
    permissions = around.permissions
    never = ",".join(NEVER_PATHS)
    argv = [binary(), "run", *_FLAGS, f"--v8-flags=--max-old-space-size={around.request.memory_mb}"]
    for name, paths in (("read", permissions.read_paths), ("write", permissions.write_paths)):
        argv.append(f"--allow-{name}={_listed(map(_bare, paths))}" if paths else f"--deny-{name}")
        argv += [f"--deny-{name}={never}"] if paths else []
    names = permissions.env_names
    argv.append(f"--allow-env={','.join(names)}" if names else "--deny-env")
    return [*argv, HARNESS]


def _bare(entry: str) -> str:
    return entry.removesuffix("/")


def _listed(entries: Iterable[str]) -> str:
    paths = tuple(entries)
    # Deno separates paths with commas and knows no way to write one inside a path.
    unwritable = next((path for path in paths if "," in path), None)
    if unwritable is not None:
        raise failed(f"A path with a comma cannot be granted to Deno: {unwritable}")
    return ",".join(paths)


def environment(around: Surroundings, home: Path) -> dict[str, str]:
    """The child's whole environment: granted names, and what keeps Deno from storing anything.

    Without the cache mode Deno retries its own writes for 150 ms before it gives up.
    """
    granted = {
        name: value
        for name, value in around.granted_env().items()
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


def fence(around: Surroundings, home: Path) -> landlock.Fence | None:
    """The second wall: the granted files once more, and of `home` the emitted code alone.

    So a program without grants leaves nothing on disk, not even through localStorage or caches.
    The code that Deno makes of TypeScript has to be kept: for the lines of an error it would make
    it anew, on a thread whose stack it then looks up in /proc, and abort without it.
    """
    if not landlock.abi():
        return None
    permissions = around.permissions
    made = [path for path in permissions.read_paths if permissions.allows("write", path)]
    places = {
        "read": [*permissions.read_paths, *_places(made, around)],
        "write": _places(permissions.write_paths, around),
    }
    return landlock.Fence(
        execute=(binary(), *_LIBRARIES),
        read=(
            *(HARNESS, *_DEVICES, str(home)),
            *places["read"],
        ),
        write=("/dev/null", str(home / EMITTED), *places["write"]),
    )


def _places(entries: Iterable[str], around: Surroundings) -> list[str]:
    """The granted paths, or the folders they would be made in: Landlock only names what exists.

    In the working folder the folders on the way may have to be made too. A folder that holds
    something denied is left out: the file in it cannot be made then.
    """
    found = []
    for path in map(Path, entries):
        place = path
        if not path.exists():
            place = around.scratch if path.is_relative_to(around.scratch) else path.parent
        if not around.problem("write", place):
            found.append(str(place))
    return found
