"""docs/operations.md names every environment variable that the settings read."""

import ast
from collections.abc import Iterator

from tests.support.processes import ROOT

READERS = {"env_str", "env_bool", "env_int", "env_float", "env_list", "env_choice", "env_path"}
READERS |= {"env_secret"}


def read_names() -> Iterator[str]:
    for path in (ROOT / "config").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id in READERS and isinstance(first, ast.Constant):
                    yield str(first.value)


def test_every_setting_stands_in_the_table() -> None:
    names = set(read_names())
    assert len(names) > 60
    table = (ROOT / "docs" / "operations.md").read_text("utf-8").split("## Every setting")[1]
    assert sorted(name for name in names if f"`{name}`" not in table) == []
