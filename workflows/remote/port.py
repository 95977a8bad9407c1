"""The port of a remote runner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from workflows.engine.protocol.ports import Failure, Success

from .output import Output


class RunnerUnavailable(Exception):
    """The runner cannot be reached now; its calls may still run."""


class RemoteRunner(Protocol):
    """Runs calls on a cluster.  Every method raises RunnerUnavailable.

    A call is the JSON text of `remote_process.run`, and is never repeated by the runner.
    """

    def submit(self, key: str, request: str) -> str:
        """Submit a call and return its handle; a second call with the same key does nothing."""

    def look(self, handles: Collection[str]) -> Mapping[str, Success | Failure]:
        """Return the results of the calls that have ended, each with the lines that it printed.

        An unknown call has failed.
        """

    def outputs(self, handles: Collection[str]) -> Mapping[str, Output]:
        """Return what these calls have printed so far; one that has printed nothing may miss."""

    def states(self) -> Mapping[str, bool]:
        """Return the handles of all calls of this installation, and whether each has ended."""

    def cancel(self, handles: Collection[str]) -> None:
        """Stop and forget these calls; one that runs already may go on until it ends."""

    def key_of(self, handle: str) -> str:
        """Return the key under which the call was submitted."""
