"""Paths are resolved while another process replaces their links."""

import errno
import os
from pathlib import Path

import pytest

from workflows.common import real_paths
from workflows.permissions import deny_list


def _link_vanishes(
    link: Path, monkeypatch: pytest.MonkeyPatch, times: int, code: int = errno.ENOENT
) -> None:
    """Replace `link` just before it is read, `times` times; links of the system stay."""
    readlink, left = os.readlink, [times]

    def vanished(path: str) -> str:
        if left[0] and Path(path) == link:
            left[0] -= 1
            raise OSError(code, os.strerror(code), path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", vanished)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EINVAL], ids=["removed", "now a folder"])
def test_a_link_that_is_replaced_meanwhile_is_resolved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    _link_vanishes(tmp_path / "link", monkeypatch, 5, code)
    assert real_paths.resolve(tmp_path / "link") == tmp_path / "target"


def test_a_path_that_keeps_changing_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    _link_vanishes(tmp_path / "link", monkeypatch, 10_000)
    with pytest.raises(OSError, match="changes while"):
        real_paths.resolve(tmp_path / "link")
    assert "cannot be resolved" in str(deny_list.path_problem(str(tmp_path / "link"), "read"))
