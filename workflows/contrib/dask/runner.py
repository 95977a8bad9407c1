"""Run calls on a Dask cluster (the extra `dask`).

A call is a published dataset of the scheduler, so that its result is kept until it is read although
no client is connected.  The name of the dataset, which is also the key of Dask's task, is the
handle.  What a call prints is a variable of Dask with the same name, which has the latest value
only and is deleted with the call.  The scheduler would keep the events of a topic for each call for
ever.

The client of Dask runs in a process of its own, see `client` and `confined_client`.  Its
answers come from the cluster, so all of them are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.utils.crypto import salted_hmac

from workflows.engine.protocol.ports import Failure, Success
from workflows.remote.output import Output
from workflows.remote.port import RunnerUnavailable
from workflows.remote.results import failed, lost, result_of

from . import confined_client


class DaskRunner:
    """A RemoteRunner on the cluster of the scheduler at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        # Installations that share a cluster do not see each other's calls.
        namespace = salted_hmac("holdpoint.remote", "dask").hexdigest()[:12]
        self._prefix = f"holdpoint-{namespace}:"

    def submit(self, key: str, request: str) -> str:
        handle = self._prefix + key
        self._ask("submit", handle=handle, request=request)
        return handle

    def look(self, handles: Collection[str]) -> Mapping[str, Success | Failure]:
        answer = self._ask("look", handles=list(handles))
        return {handle: _outcome(answer[handle]) for handle in handles if handle in answer}

    def outputs(self, handles: Collection[str]) -> Mapping[str, Output]:
        answer = self._ask("outputs", handles=list(handles))
        return {handle: Output.of_json(answer.get(handle)) for handle in handles}

    def states(self) -> Mapping[str, bool]:
        answer = self._ask("states", prefix=self._prefix)
        return {
            handle: done
            for handle, done in answer.items()
            if handle.startswith(self._prefix) and isinstance(done, bool)
        }

    def cancel(self, handles: Collection[str]) -> None:
        self._ask("cancel", handles=list(handles))

    def key_of(self, handle: str) -> str:
        return handle.removeprefix(self._prefix)

    def _ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of the client, whose values may be of any type."""
        match confined_client.ask(self._address, operation, arguments):
            case {"answer": dict(answer)}:
                return answer
            case {"unavailable": str(reason)}:
                raise RunnerUnavailable(reason[:500])
        raise RunnerUnavailable("the client of Dask gave no answer")


def _outcome(written: object) -> Success | Failure:
    """Return how a call ended, by the client; it is lost where that says nothing known."""
    match written:
        case {"state": "finished", "text": str(text), "printed": str(printed)}:
            return result_of(text, Output.of_json(printed).logs)
        case {"state": "failed", "text": str(text), "printed": str(printed)}:
            return failed(text, retryable=True, logs=Output.of_json(printed).logs)
    return lost("dask")
