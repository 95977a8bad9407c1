"""Pid files of servers, as they find them."""

from pathlib import Path

import pytest

from config.devserver.embedded.processes import read_pid


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        ("4711\n/data\n", 4711),
        ("-4711\n/data\n", 4711),  # while initdb works
        ("", None),
        ("\n", None),
        ("x1\n", None),
        ("\x00\xff", None),
    ],
)
def test_the_first_line_is_the_pid(tmp_path: Path, text: str, pid: int | None) -> None:
    path = tmp_path / "postmaster.pid"
    path.write_text(text, encoding="latin-1")
    assert read_pid(path) == pid


def test_no_file_is_no_pid(tmp_path: Path) -> None:
    assert read_pid(tmp_path / "none") is None
