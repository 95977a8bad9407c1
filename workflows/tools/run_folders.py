"""The folder of a run's files.

Each run has a folder of its own, `<file root>/runs/<run id>`. Runs of a workflow whose policy has
`files: "workflow"` share `<file root>/workflows/<workflow id>`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from django.conf import settings

from workflows.engine.policy import Policy
from workflows.models import Execution

from .root_directory import permanent_failure

RUNS: Final = "runs"
WORKFLOWS: Final = "workflows"


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
    run's data was erased, and if the folder cannot be created.
    """
    root = file_root()
    run = Execution.objects.filter(pk=execution_id, erased_at=None).only("workflow", "policy")
    execution = run.first()
    if execution is None:
        raise permanent_failure(f"run {execution_id} has no files: its data was erased")
    folder = root / folder_name(execution)
    try:
        root.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
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
