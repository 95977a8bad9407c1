"""Files that a person approved stay as they were approved, for the rest of their run.

The review of a `write_file` or `read_file` task shows a file's content or its SHA-256. From then
on, a task that reads this file fails if its content differs: another run of the workflow, a
program or an unreviewed task has changed it. A later review of the same file replaces the earlier
one. Reviews of a fork's ancestors before its checkpoint count too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from django.db.models import Q

from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.ports import TaskFailed
from workflows.engine.protocol.state import HoldReason
from workflows.engine.protocol.status import TaskStatus
from workflows.journal.lineage import ancestors_of
from workflows.models import Hold, TaskAttempt

from .root_directory import Root, permanent_failure
from .run_folders import run_folder

WRITE_FILE: Final = "builtin.write_file"
READ_FILE: Final = "builtin.read_file"


@dataclass(frozen=True, slots=True)
class ApprovedFile:
    """The SHA-256 of a file in hex, as a person saw it, and who approved it ("": not yet)."""

    sha256: str
    approved_by: str

    def check(self, path: str, sha256: str) -> None:
        """Raise TaskFailed if the file at `path` has another content now."""
        if sha256 != self.sha256:
            raise self.changed(path)

    def changed(self, path: str) -> TaskFailed:
        """Return the failure of a task that reads the file at `path` after it changed."""
        since = f"{self.approved_by} approved it" if self.approved_by else "its review began"
        return permanent_failure(f"{path!r} changed after {since}")


def approved_files(execution_id: int) -> dict[str, ApprovedFile]:
    """Return the files of a run that people approved or are reviewing, by path below its folder."""
    is_writing = Q(target=WRITE_FILE)
    shows_file = is_writing | Q(target=READ_FILE, phase=TriggerPhase.AFTER_EXECUTION)
    in_history = Q(execution_id=execution_id)
    for ancestor in ancestors_of(execution_id):
        in_history |= Q(execution_id=ancestor.execution_id, opened_seq__lte=ancestor.newest)
    holds = Hold.objects.filter(
        in_history & shows_file,
        reason=HoldReason.NODE_REVIEW,
        status__in=(Hold.Status.OPEN, Hold.Status.APPROVED),
    ).order_by("execution_id", "opened_seq")
    reviews = list(holds.values_list("task_id", "decided_by", "approvals"))
    if not reviews:
        return {}
    outputs = _outputs(execution_id, {task_id for task_id, _, _ in reviews})
    files = {}
    for task_id, decided_by, approvals in reviews:
        output = outputs.get(task_id)
        if isinstance(output, Mapping) and "sha256" in output:
            approver = ", ".join(approvals) or decided_by
            files[str(output["path"])] = ApprovedFile(str(output["sha256"]), approver)
    return files


def _outputs(execution_id: int, task_ids: set[str]) -> dict[str, object]:
    """Return what the tools returned, before any edit; a fork has copies of its ancestors'."""
    attempts = TaskAttempt.objects.filter(
        execution_id=execution_id,
        task_id__in=task_ids,
        settled=True,
        status=TaskStatus.SUCCEEDED,
    )
    return dict(attempts.values_list("task_id", "output"))


def check_approved_files(execution_id: int) -> Callable[[], None]:
    """Raise TaskFailed if an approved file of the run has changed; return the check to make after.

    For tasks that open files themselves. A file that is missing passes: they cannot read it. The
    second check also notices a file that was changed and put back meanwhile, which leaves another
    time of change on it.
    """
    files = approved_files(execution_id)
    if not files:
        return lambda: None
    root = Root(run_folder(execution_id))
    before = {path: _entry(root, path) for path in files}
    for path, approved in files.items():
        entry = before[path]
        if entry is not None:
            approved.check(path, entry.sha256)

    def check_again() -> None:
        for path, approved in files.items():
            if _entry(root, path) != before[path]:
                raise approved.changed(path)

    return check_again


class _Entry(NamedTuple):
    """A file's content and the kernel's marks of it, which no program can set."""

    sha256: str
    inode: int
    changed_ns: int


#: A folder, a link or another entry that is not a plain file.
_NO_FILE: Final = _Entry("", 0, 0)


def _entry(root: Root, path: str) -> _Entry | None:
    """Return the entry at `path`; None if there is none."""
    if not Path(root.real, path).exists():
        return None
    try:
        with (
            root.open_file(root.parts(path)) as descriptor,
            os.fdopen(descriptor, "rb", closefd=False) as source,
        ):
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
            status = os.fstat(descriptor)
    except TaskFailed:
        return _NO_FILE
    return _Entry(sha256, status.st_ino, status.st_ctime_ns)
