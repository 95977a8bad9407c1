"""Built-in tools for files in the folder of the run."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from workflows.engine.policy.permissions import SCRATCH, Operation, smallest_cover
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .context import ToolContext
from .registry import tool
from .root_directory import Root, permanent_failure
from .run_folders import file_root

#: Maximum number of bytes in one call: a result has to fit in one JSON string.
MAX_FILE_BYTES = 256 * 1024
#: Maximum number of entries in one listing.
MAX_ENTRIES = 2_000

#: Context of direct calls from Python, without grants.
_DEFAULT_CONTEXT = ToolContext()


def _inside(path: str) -> str:
    """Validate before the run that a path stays in the folder of the run."""
    with _as_field_error():
        file_root()
        Root.check_spelling(path)
    return path


def _writable(path: str) -> str:
    with _as_field_error():
        file_root()
        Root.check_writable(Root.check_spelling(path))
    return path


@contextmanager
def _as_field_error() -> Iterator[None]:
    try:
        yield
    except TaskFailed as failure:
        raise PydanticCustomError("path", "{why}", {"why": failure.message}) from None


_PATH = Field(description="Path in the folder of the run, with forward slashes.")
FilePath = Annotated[str, _PATH, AfterValidator(_inside)]
WritePath = Annotated[str, _PATH, AfterValidator(_writable)]


class Listing(TypedDict):
    """`files` and `directories` are sorted paths; `truncated` if there are more."""

    path: str
    files: list[str]
    directories: list[str]
    truncated: bool


class FileText(TypedDict):
    """A file's text with its size in bytes and its SHA-256 in hex."""

    path: str
    content: str
    bytes: int
    sha256: str


class Written(TypedDict):
    """Where the file is in the run's folder, its size in bytes and its SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


def _check(ctx: ToolContext, operation: Operation, root: Root, parts: tuple[str, ...]) -> None:
    """Raise PermissionEscalationNeeded without a permission; $SCRATCH is the run's folder."""
    current = ctx.permissions
    if current is None:
        return
    resource = f"{SCRATCH}/{root.relative(parts)}" if parts else SCRATCH
    if current.bound(str(root.real)).allows(operation, str(root.real.joinpath(*parts))):
        return
    try:
        requested = current.union(smallest_cover(operation, resource))
    except ValueError as error:
        raise permanent_failure(f"no permission can be given for {operation}: {error}") from None
    raise PermissionEscalationNeeded(
        operation=operation, resource=resource, current=current, requested=requested
    )


@tool(read_only=True, idempotent=True, permission_set="readonly", title="List a directory")
def list_directory(
    path: FilePath = ".",
    pattern: Annotated[str, Field(description="Shell pattern for file names: *.xml")] = "*",
    *,
    recursive: Annotated[bool, Field(description="Go into subdirectories too.")] = False,
    ctx: ToolContext = _DEFAULT_CONTEXT,
) -> Listing:
    """List the files and directories in a folder, optionally by name pattern or recursively.

    The paths in the result can be given to read_file as they are.  Links are left out, and a
    recursive listing does not go into .git.
    """
    root = Root(ctx.folder())
    _check(ctx, "read", root, root.parts(path))
    listing = Listing(
        path=root.relative(root.parts(path)), files=[], directories=[], truncated=False
    )
    pending = [root.parts(path)]
    while pending and not listing["truncated"]:
        current = pending.pop(0)
        inner = _list_into(listing, root, current, pattern)
        if recursive:
            pending.extend(parts for parts in inner if parts[-1] != ".git")
    listing["files"].sort()
    listing["directories"].sort()
    return listing


def _list_into(
    listing: Listing, root: Root, parts: tuple[str, ...], pattern: str
) -> list[tuple[str, ...]]:
    """Add one directory's entries to `listing`; return its subdirectories."""
    subdirectories: list[tuple[str, ...]] = []
    with root.directory(parts) as descriptor:
        for name in sorted(os.listdir(descriptor)):  # noqa: PTH208 - of a descriptor
            mode = _mode(descriptor, name)
            target = None
            if stat.S_ISDIR(mode):
                subdirectories.append((*parts, name))
                target = listing["directories"]
            elif stat.S_ISREG(mode) and fnmatch.fnmatchcase(name, pattern):
                target = listing["files"]
            if target is None:
                continue
            if len(listing["files"]) + len(listing["directories"]) >= MAX_ENTRIES:
                listing["truncated"] = True
                break
            target.append(root.relative((*parts, name)))
    return subdirectories


def _mode(descriptor: int, name: str) -> int:
    """Return the file mode; 0 for missing entries and names that are not UTF-8."""
    try:
        name.encode("utf-8")
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
    except (OSError, UnicodeError):
        return 0


@tool(read_only=True, idempotent=True, permission_set="readonly", title="Read a file")
def read_file(path: FilePath, ctx: ToolContext = _DEFAULT_CONTEXT) -> FileText:
    """Read a UTF-8 text file and return its content, size and checksum.

    At most 256 KiB; a larger or a binary file is an error, and so is a file that changed after a
    person approved it in this run.
    """
    root = Root(ctx.folder())
    parts = root.parts(path)
    _check(ctx, "read", root, parts)
    shown = root.relative(parts)
    with root.open_file(parts) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as source:
        data = source.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise permanent_failure(f"{shown!r} is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise permanent_failure(f"{shown!r} is not UTF-8 text (byte {error.start})") from None
    if "\x00" in text:
        raise permanent_failure(f"{shown!r} is not text: it has a NUL character")
    fingerprint = _fingerprint(data)
    approved = ctx.approved_files().get(shown)
    if approved is not None:
        approved.check(shown, fingerprint["sha256"])
    return FileText(path=shown, content=text, **fingerprint)


@tool(idempotent=True, permission_set="filesystem", title="Write a file")
def write_file(
    path: WritePath,
    content: Annotated[str, Field(description="The whole new text of the file.")],
    *,
    overwrite: Annotated[bool, Field(description="Replace a file that is there.")] = True,
    ctx: ToolContext = _DEFAULT_CONTEXT,
) -> Written:
    """Write text to a file, creating its folders; an existing file is replaced in one step.

    Returns the path in the run's folder, the size in bytes and the SHA-256 of what was written.
    """
    root = Root(ctx.folder())
    parts = root.parts(path)
    _check(ctx, "write", root, parts)
    data = _encoded(content)
    root.put(parts, data, overwrite=overwrite)
    return Written(path=root.relative(parts), **_fingerprint(data))


def _encoded(content: str) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise permanent_failure(
            "content has a lone surrogate, which no text file can hold"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise permanent_failure(f"content is larger than {MAX_FILE_BYTES} bytes")
    return data


class _Fingerprint(TypedDict):
    bytes: int
    sha256: str


def _fingerprint(data: bytes) -> _Fingerprint:
    return _Fingerprint(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
