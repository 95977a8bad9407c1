"""Tools of the demo: release notes from a repository's log and diff, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from .gitlog import Commit, FileChange, read_diff, read_log
from .registry import tool

#: Most commits that one section lists, and most files that the notes name.
MAX_LISTED = 50
#: The same where a reviewer asked for less.
FEW_LISTED = 3

_BREAKING = "Breaking changes"
_OTHER = "Other changes"
#: Sections in the order they appear, each with the conventional prefixes that belong to it.
_SECTIONS: dict[str, tuple[str, ...]] = {
    _BREAKING: (),
    "New": ("feat", "feature", "add"),
    "Fixed": ("fix", "bugfix", "hotfix", "security"),
    "Faster": ("perf",),
    "Reworked": ("refactor", "style"),
    "Documentation": ("docs", "doc"),
    "Tests": ("test", "tests"),
    "Build and upkeep": ("build", "ci", "chore", "deps", "release"),
    "Reverted": ("revert",),
    _OTHER: (),
}
_SECTION_OF = {kind: section for section, kinds in _SECTIONS.items() for kind in kinds}


class Contributor(TypedDict):
    """A name as the log has it, with the number of commits."""

    name: str
    commits: int


class TouchedFile(TypedDict):
    """A file of the diff; `status` is added, deleted, renamed, copied, binary, merged, modified."""

    path: str
    status: str
    added: int
    removed: int


class ReleaseNotes(TypedDict):
    """The notes and what they were made from; `sections` counts commits by heading."""

    title: str
    markdown: str
    commits: int
    sections: dict[str, int]
    contributors: list[Contributor]
    files: list[TouchedFile]


@tool(server="demo", read_only=True, idempotent=True, title="Draft release notes")
def draft_release_notes(
    log: Annotated[str, Field(description="The text that git_log returns.")],
    diff: Annotated[str, Field(description="The text that git_diff returns; may be empty.")] = "",
    title: Annotated[str, Field(max_length=200)] = "Release notes",
    feedback: Annotated[
        list[str] | None, Field(description="What reviewers asked to be changed, oldest first.")
    ] = None,
) -> ReleaseNotes:
    """Draft release notes in Markdown from a git log and a git diff.

    Groups the commits by their conventional prefix (feat, fix, docs, ...), names the contributors
    and counts the lines added and removed per file.  The same input gives the same notes.  Of
    feedback it understands "shorter", "no files" and "no contributors".
    """
    wish = " ".join(feedback or ()).casefold()
    listed = FEW_LISTED if "short" in wish else MAX_LISTED
    title = _plain(title) or "Release notes"
    commits = read_log(log)
    files = read_diff(diff)
    sections = _grouped(commits)
    people = Counter(commit.author for commit in commits)
    ranked = sorted(people.items(), key=lambda item: (-item[1], item[0].casefold(), item[0]))
    parts = [f"# {title}", _summary(commits, files)]
    parts += [_section(heading, entries, listed) for heading, entries in sections.items()]
    parts += [] if "no contributors" in wish else [_contributors(ranked, listed)]
    parts += [] if "no files" in wish else [_files(files, listed)]
    return ReleaseNotes(
        title=title,
        markdown="\n\n".join(part for part in parts if part) + "\n",
        commits=len(commits),
        sections={heading: len(entries) for heading, entries in sections.items()},
        contributors=[Contributor(name=name, commits=count) for name, count in ranked[:200]],
        files=[_touched(file) for file in files[:500]],
    )


def _grouped(commits: Iterable[Commit]) -> dict[str, list[Commit]]:
    found: dict[str, list[Commit]] = {heading: [] for heading in _SECTIONS}
    for commit in commits:
        heading = _BREAKING if commit.breaking else _SECTION_OF.get(commit.kind, _OTHER)
        found[heading].append(commit)
    return {heading: entries for heading, entries in found.items() if entries}


def _summary(commits: Sequence[Commit], files: Sequence[FileChange]) -> str:
    if not commits:
        return "There are no commits in this range."
    days = sorted({commit.date[:10] for commit in commits if commit.date})
    when = f", {days[0]}" if len(days) == 1 else f", {days[0]} to {days[-1]}" if days else ""
    text = f"{_number(len(commits), 'commit')}{when}."
    if files:
        added = sum(file.added for file in files)
        removed = sum(file.removed for file in files)
        text += f" {_number(len(files), 'file')} touched, +{added} \u2212{removed} lines."
    return text


def _section(heading: str, entries: Sequence[Commit], most: int) -> str:
    lines = [f"## {heading}", ""]
    for commit in entries[:most]:
        scope = f"**{_plain(commit.scope)}:** " if commit.scope else ""
        lines.append(f"- {scope}{_plain(commit.subject)} ({commit.sha[:7]})")
    return "\n".join(lines + _more(len(entries), "commit", most))


def _contributors(ranked: Sequence[tuple[str, int]], most: int) -> str:
    if not ranked:
        return ""
    lines = [f"- {_plain(name)} ({_number(count, 'commit')})" for name, count in ranked]
    listed = lines[:most] + _more(len(lines), "contributor", most)
    return "\n".join(["## Contributors", "", *listed])


def _files(files: Sequence[FileChange], most: int) -> str:
    if not files:
        return ""
    ranked = sorted(files, key=lambda file: (-(file.added + file.removed), file.path))
    lines = [
        "## Files touched",
        "",
        "| File | Change | + | \u2212 |",
        "| --- | --- | ---: | ---: |",
    ]
    for file in ranked[:most]:
        lines.append(f"| {_cell(file.path)} | {file.status} | {file.added} | {file.removed} |")
    more = _more(len(files), "file", most)
    return "\n".join(lines + (["", *more] if more else []))


def _more(count: int, what: str, most: int) -> list[str]:
    left = count - most
    return [f"- and {_number(left, f'more {what}')}"] if left > 0 else []


def _touched(file: FileChange) -> TouchedFile:
    return TouchedFile(
        path=_printable(file.path), status=file.status, added=file.added, removed=file.removed
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _printable(text: str) -> str:
    """One bounded line without control characters."""
    return "".join(char if char.isprintable() else " " for char in text).strip()[:300]


def _plain(text: str) -> str:
    """Text that stays text in Markdown: no HTML, no links, no images."""
    text = _printable(text).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("[", "\\[").replace("]", "\\]")


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")
