"""A folder that is swapped for a link after the check: the use goes nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflows.engine.policy.permissions import Operation, named
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.sandbox.host_files import HostFiles

from .conftest import SECRET, Bench

USES = {
    "write": "open('dir/new.txt', 'w').write('x')",
    "overwrite": "open('dir/secret.txt', 'w').write('x')",
    "append": "open('dir/secret.txt', 'a').write('x')",
    "read": "open('dir/secret.txt').read()",
    "make a folder": "import os\nos.mkdir('dir/new')",
    "delete": "import os\nos.remove('dir/secret.txt')",
    "delete a folder": "import os\nos.rmdir('dir/empty')",
    "move in": "import os\nos.rename('mine', 'dir/secret.txt')",
    "list": "import os\nos.listdir('dir/.')",
    "walk": "import os\nlist(os.walk('dir/.'))",
    "look": "import os\nos.path.exists('dir/secret.txt')",
    "measure": "import os\nos.stat('dir/secret.txt').st_size",
}


@pytest.mark.parametrize("use", sorted(USES))
def test_a_folder_swapped_for_a_link_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    folder, private = bench.scratch / "dir", bench.secret.parent
    folder.mkdir()
    (folder / "empty").mkdir()
    (folder / "secret.txt").write_text("harmless")
    (bench.scratch / "mine").write_text("mine")
    (private / "empty").mkdir()
    check = HostFiles._check

    def checked_and_swapped(files: HostFiles, operation: Operation, path: Path) -> Path:
        found = check(files, operation, path)
        if not folder.is_symlink():
            folder.rename(bench.scratch / "away")
            folder.symlink_to(private)
        return found

    monkeypatch.setattr(HostFiles, "_check", checked_and_swapped)
    before = sorted(private.iterdir())
    try:
        result = bench.run(
            "python", USES[use], permissions=named("filesystem"), scratch_dir=bench.scratch
        )
        assert result.value in (False, [], [[], []]), result.value
    except (TaskFailed, PermissionEscalationNeeded):
        pass
    assert folder.is_symlink()
    assert sorted(private.iterdir()) == before
    assert bench.secret.read_text() == SECRET
