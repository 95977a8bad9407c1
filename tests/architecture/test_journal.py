"""One module records: `workflows/journal*.py` alone writes executions, events, tasks and holds."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.architecture.files import package_modules, shown

JOURNALED = {"Execution", "ExecutionEvent", "TaskAttempt", "Hold", "Checkpoint"}
WRITES = {
    "create", "acreate", "bulk_create", "abulk_create", "get_or_create", "aget_or_create",
    "update_or_create", "aupdate_or_create", "update", "aupdate", "bulk_update", "abulk_update",
    "delete", "adelete", "raw",
}  # fmt: skip
ROW_NAMES = {"execution", "instance", "obj"}


def root_name(node: ast.expr) -> str:
    """`Execution` for `Execution.objects.filter(...).update`, else what the chain starts with."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def model_writes(tree: ast.AST) -> Iterator[int]:
    """Lines that create, change or delete rows of a journaled model through its manager."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_write(node) and root_name(node.func) in JOURNALED:
            yield node.lineno


def status_writes(tree: ast.AST) -> Iterator[int]:
    """Lines that put a value into an execution's status, by keyword or by attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(word.arg == "status" for word in node.keywords):
            if _may_be_an_execution(node):
                yield node.lineno
        elif _is_assigned(node) and root_name(node) in ROW_NAMES:
            yield node.lineno


def _may_be_an_execution(call: ast.Call) -> bool:
    """A write through another model's manager is somebody else's status."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "Execution"
    root = root_name(call.func)
    return _is_write(call) and (root in JOURNALED or not root[:1].isupper())


def _is_assigned(node: ast.AST) -> TypeGuard[ast.Attribute]:
    stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return stored and node.attr == "status"


def _is_write(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in WRITES


def may_write(path: Path) -> bool:
    name = shown(path)
    return name.startswith(("workflows/journal", "workflows/engine/"))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_only_the_journal_writes_its_tables() -> None:
    others = [path for path in package_modules() if not may_write(path)]
    found = [f"{shown(path)}:{line}" for path in others for line in model_writes(tree_of(path))]
    assert found == []


def test_only_the_journal_writes_a_status() -> None:
    others = [path for path in package_modules("workflows", "reviews") if not may_write(path)]
    found = [f"{shown(path)}:{line}" for path in others for line in status_writes(tree_of(path))]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "Execution.objects.filter(id=1).update(status='FAILED')",
        "queryset.update(status='FAILED')",
        "Execution(status='FAILED')",
        "execution.status = 'FAILED'",
    ],
)
def test_a_status_written_elsewhere_is_noticed(code: str) -> None:
    assert list(status_writes(ast.parse(code))) == [1]


@pytest.mark.parametrize(
    "code", ["Hold.objects.create(a=1)", "TaskAttempt.objects.filter(a=1).delete()"]
)
def test_a_row_written_elsewhere_is_noticed(code: str) -> None:
    assert list(model_writes(ast.parse(code))) == [1]
