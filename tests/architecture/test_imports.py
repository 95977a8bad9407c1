"""The directions of imports that the contracts in pyproject.toml fix."""

import ast
import subprocess
import sys
from pathlib import Path

from tests.architecture.files import ROOT, package_modules, shown


def test_the_import_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_nobody_connects_a_model_signal() -> None:
    """What happens is called by name in services.py, never from afar by a model signal."""
    found = []
    for path in package_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "django.db.models.signals":
                found.append(shown(path))
    assert found == []


def test_expressions_are_evaluated_in_one_place_only() -> None:
    """`workflows/engine/values/expressions.py` has the budget; the library on its own has none."""
    found = set()
    for path in package_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "jmespath" for name in names):
                found.add(shown(path))
    assert found == {"workflows/engine/values/expressions.py"}
