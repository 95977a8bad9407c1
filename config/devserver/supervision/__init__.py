"""Parts of the supervisor: checks before the start, setup steps, child processes, console."""
