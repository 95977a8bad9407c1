"""The repository reads the same on every machine: no local path, no package host, no merge mark."""

import re
from pathlib import Path

from tests.architecture.files import ROOT, project_files, shown

# Put together here, so that this file does not contain what it looks for.
PACKAGE_HOSTS = [".".join(parts) for parts in (
    ("pypi", "org"), ("files", "pythonhosted", "org"), ("registry", "npmjs", "org"),
    ("npmjs", "com"), ("unpkg", "com"), ("cdn", "jsdelivr", "net"), ("cdnjs", "cloudflare", "com"),
)]  # fmt: skip
MERGE_MARK = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in project_files():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((path, data.decode("utf-8")))
    return found


def naming(words: list[str]) -> list[str]:
    return [f"{shown(path)}: {word}" for path, text in texts() for word in words if word in text]


def test_no_file_names_this_machine() -> None:
    assert naming([str(ROOT)]) == []


def test_no_file_names_a_package_host() -> None:
    assert naming(PACKAGE_HOSTS) == []


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    pins = [line for line in lines if line]
    assert len(pins) > 100
    assert [
        line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.+!]*", line)
    ] == []


def test_no_merge_marker_and_no_todo() -> None:
    found = [shown(path) for path, text in texts() if MERGE_MARK.search(text)]
    found += [
        f"{shown(path)}: {mark[0]}" for path, text in texts() if (mark := LEFT_OVER.search(text))
    ]
    assert found == []
