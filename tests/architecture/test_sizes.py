"""No file grows past what one reads in a sitting."""

import ast
from pathlib import Path

from tests.architecture.files import files_with, shown

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
WRITTEN_BY_HAND = (".py", ".html", ".css", ".js", ".md", ".toml", ".sql", ".sh", ".txt")


def long_functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                found.append(f"{shown(path)}:{node.lineno} {node.name} has {lines} lines")
    return found


def test_no_file_is_longer_than_500_lines() -> None:
    long = []
    for path in files_with(*WRITTEN_BY_HAND):
        lines = path.read_bytes().count(b"\n")
        if lines > MAX_FILE_LINES:
            long.append(f"{shown(path)} has {lines} lines")
    assert long == []


def test_no_function_is_longer_than_60_lines() -> None:
    paths = list(files_with(".py"))
    assert len(paths) > 50
    assert [entry for path in paths for entry in long_functions(path)] == []


def test_a_long_function_is_noticed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tests.architecture.test_sizes.shown", str)
    module = tmp_path / "long.py"
    module.write_text("async def f():\n" + "    pass\n" * MAX_FUNCTION_LINES)
    assert long_functions(module) == [f"{module}:1 f has 61 lines"]
