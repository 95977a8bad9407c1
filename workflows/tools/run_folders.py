"""The folder of a run's files, below the folder of the file tools."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from .root_directory import permanent_failure


def run_folder(execution_id: int) -> Path:
    """Return the folder of the files of a run; create it if it is missing.

    Raises TaskFailed if file tools are switched off, or the folder cannot be created.
    """
    configured = settings.HOLDPOINT.get("file_root")
    if not configured:
        raise permanent_failure(
            "file tools are switched off: the setting HOLDPOINT['file_root'] is empty"
        )
    folder = Path(configured) / "runs" / str(execution_id)
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        raise permanent_failure(
            f"the folder of run {execution_id} cannot be used: {error.strerror}"
        ) from None
    return folder
