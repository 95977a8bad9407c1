"""Where tools are looked for."""

import sys
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from workflows.tools import discover, get, registry

_MODULE = '''
from workflows.tools import tool

@tool(server="extra")
def from_settings() -> str:
    """A tool of a module that the settings name."""
    return "here"
'''


def test_a_module_named_in_the_settings_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    (tmp_path / "holdpoint_extra_tools.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    known = registry._registry
    monkeypatch.setattr(known, "_tools", dict(known._tools))
    settings.HOLDPOINT = settings.HOLDPOINT | {"tool_modules": ["holdpoint_extra_tools"]}
    assert get("extra.from_settings") is None
    discover(again=True)
    found = get("extra.from_settings")
    assert found is not None
    assert found.function() == "here"
    assert get("builtin.echo") is not None


def test_a_missing_module_is_reported(settings: Settings) -> None:
    settings.HOLDPOINT = settings.HOLDPOINT | {"tool_modules": ["no_such_tools"]}
    with pytest.raises(ModuleNotFoundError, match="no_such_tools"):
        discover(again=True)
    assert "no_such_tools" not in sys.modules
