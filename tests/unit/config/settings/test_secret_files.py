"""The key of a home folder."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings.secret_files import home_secret


def test_a_key_is_created_once_and_private(tmp_path: Path) -> None:
    key = home_secret(tmp_path / "home")
    assert len(key) >= 50
    assert home_secret(tmp_path / "home") == key
    assert stat.S_IMODE((tmp_path / "home" / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["secret_key"]


def test_two_homes_have_two_keys(tmp_path: Path) -> None:
    assert home_secret(tmp_path / "a") != home_secret(tmp_path / "b")


def test_a_damaged_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("short")
    with pytest.raises(ImproperlyConfigured, match="secret_key"):
        home_secret(tmp_path)


def test_concurrent_processes_read_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: home_secret(tmp_path), range(40)))
    assert len(keys) == 1
