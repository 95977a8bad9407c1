"""Deleting a run's folder with hostile content."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workflows.sandbox.rundir import exceeds_limits, remove_folder, run_directory


def _deep(folder: Path, levels: int) -> None:
    """Folders inside each other, deeper than a path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("aaaa", dir_fd=here)
        inner = os.open("aaaa", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_folders_deeper_than_any_path(tmp_path: Path) -> None:
    with run_directory(tmp_path) as folder:
        _deep(folder, 1100)
        assert exceeds_limits(folder, 10_000)
    assert list(tmp_path.iterdir()) == []


def test_links_and_folders_without_rights(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    with run_directory(tmp_path) as folder:
        (folder / "link").symlink_to(kept)
        (folder / "closed" / "inner").mkdir(parents=True)
        (folder / "closed" / "inner" / "link").symlink_to(kept)
        (folder / "closed" / "inner").chmod(0)
        (folder / "closed").chmod(0)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "x"


@pytest.mark.parametrize("round_number", range(3))
def test_concurrent_deletions_of_one_folder(tmp_path: Path, round_number: int) -> None:
    folder = tmp_path / "run"
    for number in range(200):
        (folder / str(number % 7) / str(number)).mkdir(parents=True)
        (folder / str(number % 7) / str(number) / "file").write_text("x")
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(remove_folder, folder) for _ in range(4)]:
            done.result()
    assert not folder.exists()


def test_many_entries(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert exceeds_limits(tmp_path, 10)
    assert not exceeds_limits(tmp_path, 11)
