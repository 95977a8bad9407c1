"""Built-in tools for files below the allowed root."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from django.conf import settings
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from workflows.engine.permissions import SCRATCH, Operation, smallest_cover
from workflows.engine.ports import PermissionEscalationNeeded, TaskFailed
from workflows.permissions import deny_list

from .context import ToolContext
from .registry import tool
from .rooted import Root, refuse

#: Most bytes that one call reads or writes: a result has to stay one JSON string.
MAX_FILE_BYTES = 256 * 1024
#: Most entries that one listing returns.
MAX_ENTRIES = 2_000

#: For calls from Python: nobody keeps grants for them.
_NOBODY = ToolContext()


def _inside(path: str) -> str:
    """Refuse early what the tool will refuse when it runs: a path that leaves the root."""
    with _said_of_the_field():
        file_root().parts(path)
    return path


def _writable(path: str) -> str:
    with _said_of_the_field():
        Root.check_writable(file_root().parts(path))
    return path


@contextmanager
def _said_of_the_field() -> Iterator[None]:
    try:
        yield
    except TaskFailed as failure:
        raise PydanticCustomError("path", "{why}", {"why": failure.message}) from None


_PATH = Field(description="Path below the allowed root, with forward slashes.")
FilePath = Annotated[str, _PATH, AfterValidator(_inside)]
WritePath = Annotated[str, _PATH, AfterValidator(_writable)]


class Listing(TypedDict):
    """`files` and `directories` are paths below the root, sorted; `truncated` if there are more."""

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
    """Where the file is, below the root, its size in bytes and its SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


def file_root() -> Root:
    """The root from the settings; raises TaskFailed when there is none."""
    configured = settings.HOLDPOINT.get("file_root")
    if not configured:
        raise refuse("file tools are switched off: the setting HOLDPOINT['file_root'] is empty")
    return Root(configured)


def _check(ctx: ToolContext, operation: Operation, root: Root, parts: tuple[str, ...]) -> None:
    """Ask a person where the task's set does not allow this; $SCRATCH is the allowed root."""
    current = ctx.permissions
    if current is None:
        return
    resource = f"{SCRATCH}/{root.relative(parts)}" if parts else SCRATCH
    if current.bound(str(root.real)).allows(operation, str(root.real.joinpath(*parts))):
        return
    problem = deny_list.path_problem(str(root.real.joinpath(*parts)), operation, below=False)
    if problem:
        raise refuse(f"{root.relative(parts)!r} is not for tools: {problem}")
    try:
        requested = current.union(smallest_cover(operation, resource))
    except ValueError as error:
        raise refuse(f"no permission can be given for {operation}: {error}") from None
    raise PermissionEscalationNeeded(
        operation=operation, resource=resource, current=current, requested=requested
    )


@tool(read_only=True, idempotent=True, permission_set="readonly", title="List a directory")
def list_directory(
    path: FilePath = ".",
    pattern: Annotated[str, Field(description="Shell pattern for file names: *.xml")] = "*",
    *,
    recursive: Annotated[bool, Field(description="Go into subdirectories too.")] = False,
    ctx: ToolContext = _NOBODY,
) -> Listing:
    """List the files and directories in a folder, optionally by name pattern or recursively.

    The paths in the result can be given to read_file as they are.  Links are left out, and a
    recursive listing does not go into .git.
    """
    root = file_root()
    _check(ctx, "read", root, root.parts(path))
    found = Listing(path=root.relative(root.parts(path)), files=[], directories=[], truncated=False)
    pending = [root.parts(path)]
    while pending and not found["truncated"]:
        current = pending.pop(0)
        inner = _list_into(found, root, current, pattern)
        if recursive:
            pending.extend(parts for parts in inner if parts[-1] != ".git")
    found["files"].sort()
    found["directories"].sort()
    return found


def _list_into(
    found: Listing, root: Root, parts: tuple[str, ...], pattern: str
) -> list[tuple[str, ...]]:
    """Add one directory's entries to `found`; returns its subdirectories."""
    subdirectories: list[tuple[str, ...]] = []
    with root.directory(parts) as descriptor:
        for name in sorted(os.listdir(descriptor)):  # noqa: PTH208 - of a descriptor
            mode = _mode(descriptor, name)
            target = None
            if stat.S_ISDIR(mode):
                subdirectories.append((*parts, name))
                target = found["directories"]
            elif stat.S_ISREG(mode) and fnmatch.fnmatchcase(name, pattern):
                target = found["files"]
            if target is None:
                continue
            if len(found["files"]) + len(found["directories"]) >= MAX_ENTRIES:
                found["truncated"] = True
                break
            target.append(root.relative((*parts, name)))
    return subdirectories


def _mode(descriptor: int, name: str) -> int:
    """The entry's own mode; 0 when it is gone, a link, or has a name that JSON cannot hold."""
    try:
        name.encode("utf-8")
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
    except (OSError, UnicodeError):
        return 0


@tool(read_only=True, idempotent=True, permission_set="readonly", title="Read a file")
def read_file(path: FilePath, ctx: ToolContext = _NOBODY) -> FileText:
    """Read a UTF-8 text file and return its content, size and checksum.

    At most 256 KiB; a larger or a binary file is an error.
    """
    root = file_root()
    parts = root.parts(path)
    _check(ctx, "read", root, parts)
    shown = root.relative(parts)
    with root.open_file(parts) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as source:
        data = source.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise refuse(f"{shown!r} is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refuse(f"{shown!r} is not UTF-8 text (byte {error.start})") from None
    if "\x00" in text:
        raise refuse(f"{shown!r} is not text: it has a NUL character")
    return FileText(path=shown, content=text, **_fingerprint(data))


@tool(idempotent=True, permission_set="filesystem", title="Write a file")
def write_file(
    path: WritePath,
    content: Annotated[str, Field(description="The whole new text of the file.")],
    *,
    overwrite: Annotated[bool, Field(description="Replace a file that is there.")] = True,
    ctx: ToolContext = _NOBODY,
) -> Written:
    """Write text to a file, creating its folders; an existing file is replaced in one step.

    Returns the path below the root, the size in bytes and the SHA-256 of what was written.
    """
    root = file_root()
    parts = root.parts(path)
    _check(ctx, "write", root, parts)
    data = _encoded(content)
    root.put(parts, data, overwrite=overwrite)
    return Written(path=root.relative(parts), **_fingerprint(data))


def _encoded(content: str) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse("content has a lone surrogate, which no text file can hold") from None
    if len(data) > MAX_FILE_BYTES:
        raise refuse(f"content is larger than {MAX_FILE_BYTES} bytes")
    return data


class _Fingerprint(TypedDict):
    bytes: int
    sha256: str


def _fingerprint(data: bytes) -> _Fingerprint:
    return _Fingerprint(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
