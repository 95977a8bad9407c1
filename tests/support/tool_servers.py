"""Programs of MCP servers for tests."""

import shutil
from pathlib import Path


def copied(script: Path, folder: Path) -> str:
    """Copy a server's program out of the checkout, which no registration may name."""
    folder.mkdir(exist_ok=True)
    return str(shutil.copy(script, folder))
