"""Files that are in the folder of a run before it starts."""

from pathlib import Path

from django.db import connection

#: Runs that a test may start after it has put the files.
RUNS = 40


def put_in_next_runs(root: Path, files: dict[str, str]) -> None:
    """Write files, by name, into the folders of the runs that start next, below the file root."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_serial_sequence('workflows_execution', 'id')")
        (sequence,) = cursor.fetchone()
        cursor.execute(f"SELECT last_value FROM {sequence}")
        (last,) = cursor.fetchone()
    for number in range(last, last + RUNS):
        folder = root / "runs" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
