"""Folders known before any setting is read."""

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parents[1]
DEFAULT_HOME = BASE_DIR / "var"
