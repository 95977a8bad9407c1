"""The folder of a run's files.

Each run has a folder of its own, `<file root>/runs/<run id>`. Runs of a workflow whose policy has
`files: "workflow"` share `<file root>/workflows/<workflow id>`. A fork starts with a copy of the
files of its origin, made when one of its tasks first needs the folder.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import QuerySet

from workflows.engine.policy.policies import Policy
from workflows.models import Execution
from workflows.sandbox.rundir import remove_folder

from .root_directory import permanent_failure

logger = logging.getLogger(__name__)

RUNS: Final = "runs"
WORKFLOWS: Final = "workflows"
#: Limits of the copy that a fork starts with.
MAX_COPIED_FILES: Final = 10_000
MAX_COPIED_BYTES: Final = 64 << 20
#: Folders that are looked up in one query.
_BATCH: Final = 1000


def file_root() -> Path:
    """Return the folder of the settings; raise TaskFailed when there is none."""
    configured = settings.HOLDPOINT.get("file_root")
    if not configured:
        raise permanent_failure(
            "file tools are switched off: the setting HOLDPOINT['file_root'] is empty"
        )
    return Path(configured)


def run_folder(execution_id: int) -> Path:
    """Return the folder of the files of a run; create it if it is missing.

    Only this account can read the folder. Raises TaskFailed if file tools are switched off, if the
    run's data was erased, if a fork's origin has too many files to copy, and if the folder cannot
    be created.
    """
    root = file_root()
    execution = Execution.objects.filter(pk=execution_id, erased_at=None).first()
    if execution is None:
        raise permanent_failure(f"run {execution_id} has no files: its data was erased")
    folder = root / folder_name(execution)
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if execution.parent_id is not None and not shares_files(execution):
            _copy_files_of_origin(root, execution, folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in (folder.parent, folder):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError
    except OSError as error:
        reason = error.strerror or "it is not a folder"
        raise permanent_failure(
            f"the folder of run {execution_id} cannot be used: {reason}"
        ) from None
    return folder


def folder_name(execution: Execution) -> str:
    """Return the path of a run's folder below the file root."""
    if shares_files(execution):
        return f"{WORKFLOWS}/{execution.workflow_id}"
    return f"{RUNS}/{execution.pk}"


def shares_files(execution: Execution) -> bool:
    """Whether the run shares a folder with the other runs of its workflow."""
    policy = Policy.model_validate(execution.policy)
    return execution.workflow_id is not None and policy.files == "workflow"


# --- forks ----------------------------------------------------------------------------------------


def _copy_files_of_origin(root: Path, fork: Execution, folder: Path) -> None:
    """Make `folder` a copy of the folder of the nearest ancestor that has one, in one step."""
    if folder.exists():
        return
    origin = fork.parent
    while origin is not None and not (root / folder_name(origin)).is_dir():
        origin = origin.parent
    if origin is None:
        return
    copy = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}")
    copy.mkdir(mode=0o700)
    try:
        _copy(root / folder_name(origin), copy)
        if any(copy.iterdir()):
            copy.rename(folder)
    except OSError:
        # Another task of the fork was first: its copy is in force.
        if not folder.exists():
            raise
    except RecursionError:
        raise permanent_failure(f"the folders of run {origin.pk} are too deep to copy") from None
    finally:
        if copy.exists():
            remove_folder(copy)


def _copy(source: Path, target: Path) -> None:
    """Copy files and folders; links and files with a second name stay behind."""
    files = size = 0
    for place, folders, names, descriptor in os.fwalk(source, follow_symlinks=False):
        here = target / os.path.relpath(place, source)
        for name in folders:
            if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                (here / name).mkdir(mode=0o700)
        for name in names:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            if not stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                continue
            with os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb") as original:
                status = os.fstat(original.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                    continue
                files, size = files + 1, size + status.st_size
                if files > MAX_COPIED_FILES or size > MAX_COPIED_BYTES:
                    raise permanent_failure(
                        f"the run that this fork comes from has over {MAX_COPIED_FILES} files or "
                        f"{MAX_COPIED_BYTES >> 20} MiB: they are not copied"
                    )
                with (here / name).open("xb") as copy:
                    shutil.copyfileobj(original, copy)


# --- erasing --------------------------------------------------------------------------------------


def delete_erased() -> int:
    """Delete the folders of runs that were erased or deleted; return how many.

    The folder of a workflow is deleted when all its runs are erased. A deletion that was
    interrupted is repeated by the next call.
    """
    if not settings.HOLDPOINT.get("file_root"):
        return 0
    runs = Execution.objects.filter(erased_at=None)
    return _delete_except(RUNS, "pk", runs) + _delete_except(WORKFLOWS, "workflow_id", runs)


def _delete_except(kind: str, field: str, runs: QuerySet[Execution]) -> int:
    """Delete the folders of `kind` whose name begins with no `field` of `runs`."""
    parent, deleted = file_root() / kind, 0
    if not parent.is_dir():
        return 0
    names = sorted(each.name for each in parent.iterdir() if _id_of(each.name) is not None)
    for start in range(0, len(names), _BATCH):
        ids = {name: _id_of(name) for name in names[start : start + _BATCH]}
        rows = runs.filter(**{f"{field}__in": ids.values()})
        in_use = set(rows.values_list(field, flat=True))
        for name in (name for name, number in ids.items() if number not in in_use):
            try:
                remove_folder(parent / name)
            except OSError as error:
                logger.warning("the folder %s/%s could not be deleted: %s", kind, name, error)
            else:
                deleted += 1
    return deleted


def _id_of(name: str) -> int | None:
    """Return the id in a folder's name; a copy that was not finished has a suffix."""
    number = name.partition(".")[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 19 else None
