"""docs/operations.md lists every environment variable that the settings read, each once."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.processes import ROOT

READERS = {"env_str", "env_bool", "env_int", "env_float", "env_list", "env_choice", "env_path"}
READERS |= {"env_secret", "env_json"}


def read_names() -> Iterator[str]:
    for path in (ROOT / "config").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id in READERS and isinstance(first, ast.Constant):
                    yield str(first.value)


def test_every_setting_is_listed_exactly_once() -> None:
    names = set(read_names())
    assert len(names) > 60
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").split("\n## Settings\n")[1]
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(names - set(listed)) == []
    assert [name for name, count in Counter(listed).items() if count > 1] == []
