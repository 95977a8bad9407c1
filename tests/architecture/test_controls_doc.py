"""docs/security/controls.md names only code and tests that exist."""

import re
from pathlib import Path

from tests.architecture.files import ROOT

ROW = re.compile(
    r"^\| (?!control |---)(?P<control>[^|]+)\| (?P<code>[^|]+)\| (?P<tests>[^|]+)\|$", re.M
)
QUOTED = re.compile(r"`([^`]+)`")
CODE = re.compile(r"(?P<path>[\w/]+\.py)(?::(?P<name>[\w.]+))?")
TEST = re.compile(r"(?P<path>[\w/]+\.py)(?:::(?P<name>\w+))?")


def rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "docs" / "security" / "controls.md").read_text(encoding="utf-8")
    return [match.group("control", "code", "tests") for match in ROW.finditer(text)]


def missing(folder: Path, quoted: str, pattern: re.Pattern[str]) -> str:
    """Describe the missing file or name of a quoted reference; "" if both exist."""
    match = pattern.fullmatch(quoted)
    if match is None:
        return "" if "/" not in quoted else f"{quoted}: not understood"
    path, name = folder / match["path"], match["name"]
    if not path.is_file():
        return f"{quoted}: no such file"
    text = path.read_text(encoding="utf-8")
    if not all(is_defined(part, text) for part in (name or "").split(".") if part):
        return f"{quoted}: no such name"
    return ""


def is_defined(name: str, text: str) -> bool:
    """Whether a file defines a function, class or variable; uses of a name do not count."""
    return bool(re.search(rf"^\s*(?:(?:async )?def|class) {name}\b|^\s*{name}\s*[:=]", text, re.M))


def test_every_named_file_function_and_test_exists() -> None:
    table = rows()
    assert len(table) > 50
    errors = []
    for _control, code, tests in table:
        errors += [missing(ROOT, each, CODE) for each in QUOTED.findall(code)]
        errors += [missing(ROOT / "tests", each, TEST) for each in QUOTED.findall(tests)]
    assert [each for each in errors if each] == []


def test_every_control_names_code_and_a_test() -> None:
    unbacked = [
        control
        for control, code, tests in rows()
        if not QUOTED.search(code) or not QUOTED.search(tests)
    ]
    assert unbacked == []


def test_a_missing_name_is_noticed() -> None:
    assert missing(ROOT, "config/settings/base.py:NOTHING_OF_THE_KIND", CODE)
    assert missing(ROOT, "config/no_such_file.py", CODE)
