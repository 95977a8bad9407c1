"""The documentation names only files, modules and links that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.files import PACKAGES, ROOT, files_with, shown

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?P<path>(?:[\w.-]+/)+[\w.-]*)(?::[\w.]+|::\w+)?")
DOTTED = re.compile(rf"(?:{'|'.join((*PACKAGES, 'tests'))})(?:\.\w+)+")
IMPORT = re.compile(r"^from ([\w.]+) import (\w+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
COMMAND = re.compile(r"python -m ([\w.]+)")
#: Codes of system checks, and migrations by their number.
CHECK = re.compile(r"\w+\.([WE]\d{3}|\d{4})")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
#: The first parts of a path that make it a path of this repository.
FOLDERS = (*PACKAGES, "tests", "docs", "deploy", "templates", ".github", ".ci")


def pages() -> list[Path]:
    return sorted(files_with(".md"))


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module or package, or a name that a module contains."""
    path = ROOT.joinpath(*dotted.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    parent, _, name = dotted.rpartition(".")
    module = ROOT.joinpath(*parent.split("."))
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    return file.is_file() and bool(re.search(rf"\b{name}\b", file.read_text("utf-8")))


def exists(quoted: str) -> bool:
    """Whether a path of this repository exists; other texts with a slash are not paths."""
    match = PATH.fullmatch(quoted)
    if match is None or match["path"].split("/")[0] not in FOLDERS:
        return True
    return (ROOT / match["path"]).exists()


def missing_names(text: str) -> Iterator[str]:
    """Paths in code quotes, dotted names, imports and `python -m` commands that do not exist."""
    quoted = CODE.findall(FENCE.sub("", text))
    yield from (each for each in quoted if not exists(each))
    dotted = [each for each in quoted if DOTTED.fullmatch(each) and not CHECK.fullmatch(each)]
    dotted += [".".join(each) for each in IMPORT.findall(text) if DOTTED.fullmatch(each[0])]
    dotted += [each for each in COMMAND.findall(text) if DOTTED.fullmatch(each)]
    yield from (each for each in dotted if not is_module(each))


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target, anchor in LINK.findall(text):
        linked = page.parent / target if target else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            yield f"{target}#{anchor}"


def problems(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    for each in (*missing_names(text), *broken_links(page, text)):
        yield f"{shown(page)}: {each} does not exist"


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, formed as GitHub forms them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings}


def rows_of_the_map() -> list[tuple[str, str]]:
    """Each folder of the table in docs/architecture.md, and the description beside it."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("## Map")[1]
    parent, rows = "", []
    table = re.findall(r"^\| (.+?) \| (.+) \|$", text.split("\n## ")[0], re.MULTILINE)
    for cell, description in table:
        for name in CODE.findall(cell):
            if cell.startswith("**"):
                parent = name
                rows.append((name, description))
            else:
                rows.append((parent + name, description))
    return rows


def test_every_file_module_and_link_in_the_docs_exists() -> None:
    documents = pages()
    assert len(documents) > 20
    assert [problem for page in documents for problem in problems(page)] == []


def test_every_row_of_the_map_exists() -> None:
    rows = rows_of_the_map()
    assert len(rows) > 50
    assert [name for name, _ in rows if not (ROOT / name).exists()] == []


def rows_of_the_index() -> list[tuple[str, list[str]]]:
    """Each behaviour of the index in docs/architecture.md, and the files beside it."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    index = text.split("## Where to change what")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| ([^|]+) \|$", index, re.MULTILINE)
    return [(topic, CODE.findall(files)) for topic, files in rows if topic != "behaviour"]


def test_every_row_of_the_index_names_files_that_exist() -> None:
    rows = rows_of_the_index()
    assert len(rows) > 200
    assert [topic for topic, files in rows if not files] == []
    assert [file for _, files in rows for file in files if not (ROOT / file).exists()] == []


def test_no_behaviour_is_twice_in_a_part_of_the_index() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for part in text.split("## Where to change what")[1].split("\n### "):
        topics = re.findall(r"^\| (.+) \| [^|]+ \|$", part, re.MULTILINE)
        assert sorted(set(topics)) == sorted(topics), part.split("\n")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_has_every_folder_of_a_package(package: str) -> None:
    rows = {name for name, _ in rows_of_the_map()}
    folders = {path.parent.relative_to(ROOT) for path in files_with(".py")}
    names = {
        f"{package}/{each.parts[1]}/"
        for each in folders
        if each.parts[:1] == (package,) and each.parts[1:]
    }
    assert sorted(names - rows - {f"{package}/migrations/", f"{package}/templatetags/"}) == []


def test_a_missing_module_is_noticed() -> None:
    assert not is_module("workflows.engine.nothing_of_the_kind")
    assert not exists("workflows/engine/nothing_of_the_kind.py")
