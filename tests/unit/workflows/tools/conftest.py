"""A folder of the test, and a way to call a tool by name."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from workflows.tools import ToolContext, call_sync, discover, get
from workflows.tools.run_folders import file_root


@pytest.fixture(scope="session", autouse=True)
def _found() -> None:
    """Tools are imported before the first test, so that none is slow because of it."""
    discover()


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> Path:
    """The folder of a run, below the file root."""
    path = tmp_path / "root"
    path.mkdir()
    settings.HOLDPOINT = settings.HOLDPOINT | {"file_root": tmp_path}
    return path


def _run_folder() -> Path:
    return file_root() / "root"


def use(name: str, ctx: ToolContext | None = None, /, **arguments: Any) -> Any:
    """Call the built-in tool `name` as a task would."""
    tool = get(name if "." in name else f"builtin.{name}")
    assert tool is not None, name
    return call_sync(tool, arguments, ctx or ToolContext(folder=_run_folder))
