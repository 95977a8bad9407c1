"""The tables of docs/operations.md list the environment variables that the product reads."""

import re

from tests.architecture.files import ROOT, package_modules

#: A read with a helper of config.settings.env, or of the environment itself.
READ = re.compile(r"""(?:\benv_\w+\(|environ\.get\(|\bname =)\s*"([A-Z][A-Z0-9_]+)\"""")
#: The first cell of a row; it may name several variables.
FIRST_CELL = re.compile(r"^\|([^|]*)\|", re.MULTILINE)
VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)(?:=[^`]*)?`")
#: Variables that belong to the system or to the tests.
FOREIGN = {"HOME", "MONTY_BIN", "NO_COLOR", "PATH", "PYTEST_XDIST_WORKER"}
#: Credentials of a client of the product, not settings of the product.
OF_CLIENTS = {"HOLDPOINT_TOKEN", "HOLDPOINT_URL"}


def read() -> set[str]:
    modules = package_modules()
    names = {name for path in modules for name in READ.findall(path.read_text("utf-8"))}
    return names - FOREIGN - OF_CLIENTS


def documented() -> set[str]:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    return {name for cell in FIRST_CELL.findall(text) for name in VARIABLE.findall(cell)}


def test_settings_that_are_read_are_documented() -> None:
    assert len(read()) > 100
    assert read() - documented() == set()


def test_documented_settings_are_read() -> None:
    assert documented() - read() == set()
