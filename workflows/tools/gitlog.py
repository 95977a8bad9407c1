"""Parse the log and the diff that git MCP servers return."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENTRY = re.compile(
    r"^Commit:[ ]*'?(?P<sha>[0-9a-f]{7,64})'?[ ]*\n"
    r"Author:[ ]*(?P<author>[^\n]*)\n"
    r"Date:[ ]*(?P<date>[^\n]*)\n"
    r"Message:[ ]?",
    re.MULTILINE,
)
_SUBJECT = re.compile(
    r"(?P<kind>[A-Za-z]{2,20})(?:\((?P<scope>[^()\n]{1,60})\))?(?P<bang>!)?:[ ]+(?P<text>\S.*)"
)
_BREAKING = re.compile(r"^BREAKING[ -]CHANGE:", re.MULTILINE)
_ACTOR = re.compile(r'<git\.Actor "(?P<name>.*?)(?: <[^<>]*>)?">')
_HUNK = re.compile(r"@@ -(?:\d+)(?:,(?P<old>\d+))? \+(?:\d+)(?:,(?P<new>\d+))? @@")
_OCTAL = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}


@dataclass(frozen=True, slots=True)
class Commit:
    """One log entry; `kind` and `scope` come from a conventional subject, else ""."""

    sha: str
    author: str
    date: str
    subject: str
    kind: str
    scope: str
    breaking: bool


@dataclass(slots=True)
class FileChange:
    """One file of a diff with its added and removed lines; `status` is the kind of change."""

    path: str
    status: str = "modified"
    added: int = 0
    removed: int = 0


def read_log(text: str) -> list[Commit]:
    """Parse the commits of a log, in its order; other text has none."""
    heads = list(_ENTRY.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [_commit(head, text[head.end() : end]) for head, end in zip(heads, ends, strict=False)]


def _commit(head: re.Match[str], message: str) -> Commit:
    message = message.strip().strip("'")
    subject = " ".join(message.partition("\n")[0].split()) or "(no message)"
    match = _SUBJECT.fullmatch(subject)
    author = _ACTOR.fullmatch(head["author"].strip())
    return Commit(
        sha=head["sha"],
        author=(author["name"] if author else head["author"].strip()) or "unknown",
        date=head["date"].strip(),
        subject=match["text"] if match else subject,
        kind=match["kind"].lower() if match else "",
        scope=match["scope"] or "" if match else "",
        breaking=bool(match and match["bang"]) or bool(_BREAKING.search(message)),
    )


def read_diff(text: str) -> list[FileChange]:
    """Parse the files of a unified diff, in its order; other text has none.

    Lines are counted by the sizes in each hunk header, so a changed line that looks like a header
    counts as a line.
    """
    changes: list[FileChange] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith(("diff --git ", "diff --cc ", "diff --combined ")):
            changes.append(FileChange(path=_path_of(line)))
        elif changes:
            hunk = _HUNK.match(line)
            if hunk is not None:
                _count(changes[-1], hunk, lines)
            else:
                _header(changes[-1], line)
    return changes


def _count(change: FileChange, hunk: re.Match[str], lines: Iterator[str]) -> None:
    """Consume one hunk's lines."""
    old, new = int(hunk["old"] or "1"), int(hunk["new"] or "1")
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        mark = line[:1]
        if mark == "+":
            change.added, new = change.added + 1, new - 1
        elif mark == "-":
            change.removed, old = change.removed + 1, old - 1
        elif mark != "\\":
            old, new = old - 1, new - 1


def _header(change: FileChange, line: str) -> None:
    if change.status == "merged":
        return  # a combined diff: its lines cannot be distinguished from headers
    if line.startswith("@@@"):
        change.status = "merged"
    elif line.startswith("new file mode"):
        change.status = "added"
    elif line.startswith("deleted file mode"):
        change.status = "deleted"
    elif line.startswith(("rename to ", "copy to ")):
        change.status = "renamed" if line.startswith("rename") else "copied"
        change.path = _unquoted(line.partition(" to ")[2])
    elif line.startswith(("Binary files ", "GIT binary patch")) and change.status == "modified":
        change.status = "binary"
    elif line.startswith(("+++ ", "--- ")) and not line.endswith("/dev/null"):
        change.path = _without_side(_unquoted(line[4:].rstrip("\t")))


def _path_of(line: str) -> str:
    """Return the path in a "diff --git a/x b/x" line, correct unless the file was renamed."""
    rest = line.partition(" ")[2].partition(" ")[2]
    if not line.startswith("diff --git "):
        return _unquoted(rest)
    if rest.endswith('"') and ' "' in rest:
        return _without_side(_unquoted('"' + rest[:-1].rpartition(' "')[2] + '"'))
    # Both halves are equal except for the first letter, even with spaces.
    return _without_side(rest[len(rest) // 2 + 1 :])


def _without_side(path: str) -> str:
    return path[2:] if path[:2] in ("a/", "b/", "i/", "w/", "c/", "o/") else path


def _unquoted(path: str) -> str:
    """Remove git's quoting of a path (C style, octal bytes)."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _OCTAL.sub(plain, path[1:-1].encode()).decode("utf-8", "replace")
