"""The program that speaks with a Dask cluster for `runner`, in a confined process.

    python -m workflows.contrib.dask.client < request.json > answer.json

`distributed` unpickles what a cluster sends, so a process of the cluster can execute code here.
This process therefore has no settings, database, Redis or secrets, and its parent reads JSON only.

Each request opens a connection of its own: calls last minutes, and nothing is kept.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from workflows.common import seccomp
from workflows.remote.output import Output

from . import process

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds for connecting, and for one answer of the cluster.
_TIMEOUT: Final = 10
#: Seconds in which the scheduler tells a new client which calls have ended.
_SETTLE: Final = 0.5
#: Seconds of CPU time, and bytes of a file, of memory and of a core dump, for each process: what
#: the cluster sends may execute code, and leave a process behind that has the same limits.
_LIMITS: Final = {
    resource.RLIMIT_CPU: 60,
    resource.RLIMIT_FSIZE: 1024 * 1024,
    resource.RLIMIT_DATA: 2 * 1024**3,
    resource.RLIMIT_CORE: 0,
}
#: Characters of an error of the cluster.
_MAX_ERROR: Final = 2000


def submit(client: Client, handle: str, request: str) -> dict[str, Any]:
    """Publish the call under `handle`, unless the cluster has it."""
    from distributed import Variable

    if handle not in client.list_datasets():
        # Who reads a variable that nobody has set waits for it.
        Variable(handle, client=client).set(Output().as_json())
        future = client.submit(process.call, request, handle, key=handle, retries=0)
        # Another worker with the same attempt may have published it meanwhile.
        with suppress(KeyError):
            client.publish_dataset(future, name=handle)
    return {}


def look(client: Client, handles: list[str]) -> dict[str, Any]:
    """Return how the calls that have ended did; a call that the cluster does not know is lost."""
    futures = _futures(client, handles)
    ended = {
        handle: {**outcome, "printed": _printed(client, handle)}
        for handle, future in futures.items()
        if (outcome := _outcome(future)) is not None
    }
    return {**{handle: {"state": "lost"} for handle in handles if handle not in futures}, **ended}


def outputs(client: Client, handles: list[str]) -> dict[str, Any]:
    """Return what the calls have printed, as `Output.of_json` reads it."""
    return {handle: _printed(client, handle) for handle in handles}


def states(client: Client, prefix: str) -> dict[str, Any]:
    """Return the handles with this prefix, and whether each call has ended."""
    names = [name for name in client.list_datasets() if isinstance(name, str)]
    futures = _futures(client, [name for name in names if name.startswith(prefix)])
    return {handle: future.done() for handle, future in futures.items()}


def cancel(client: Client, handles: list[str]) -> dict[str, Any]:
    """Stop and forget the calls."""
    from distributed import Variable

    futures = _futures(client, handles, settle=False)
    # Without force, Dask goes on for the published dataset.
    client.cancel(list(futures.values()), force=True)
    for handle in futures:
        client.unpublish_dataset(handle)
        Variable(handle, client=client).delete()
    return {}


_OPERATIONS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "submit": submit,
    "look": look,
    "outputs": outputs,
    "states": states,
    "cancel": cancel,
}


@contextmanager
def _client(address: str, tls: list[str]) -> Iterator[Client]:
    from distributed import Client, Security

    security = None
    if tls:
        ca, certificate, key = tls
        security = Security(
            tls_ca_file=ca,
            tls_client_cert=certificate,
            tls_client_key=key,
            require_encryption=True,
        )
    with Client(
        address,
        timeout=_TIMEOUT,
        security=security,
        set_as_default=False,
        # Only the scheduler must be reachable from here.
        direct_to_workers=False,
    ) as client:
        yield client


def _futures(
    client: Client, handles: Iterable[str], *, settle: bool = True
) -> dict[str, Future[Any]]:
    """Return the futures of the published calls among `handles`."""
    from distributed import Future, wait

    names = list(handles)
    found = client.get_dataset(names, default=None) if names else []
    futures = {
        name: future
        for name, future in zip(names, found, strict=True)
        if isinstance(future, Future)
    }
    if futures and settle:
        with client.as_current(), suppress(TimeoutError):
            wait(list(futures.values()), timeout=_SETTLE)
    return futures


def _printed(client: Client, handle: str) -> str:
    """Return what a call has printed; nothing for one whose variable is gone."""
    from distributed import Variable

    with suppress(TimeoutError):
        text = Variable(handle, client=client).get(timeout=_SETTLE)
        return text if isinstance(text, str) else ""
    return ""


def _outcome(future: Future[Any]) -> dict[str, Any] | None:
    """Return how a call has ended; None while it runs."""
    if future.status == "finished":
        text = future.result(timeout=_TIMEOUT)
        return {"state": "finished", "text": text if isinstance(text, str) else ""}
    if future.status == "error":
        error = future.exception(timeout=_TIMEOUT)
        return {"state": "failed", "text": f"{type(error).__name__}: {error}"[:_MAX_ERROR]}
    return {"state": "lost"} if future.done() else None


def main() -> None:
    """Answer the request on stdin: `{"answer": …}`, or `{"unavailable": …}` with the reason."""
    request = json.load(sys.stdin)
    for kind, limit in _LIMITS.items():
        resource.setrlimit(kind, (limit, limit))
    if request["confined"]:
        # Landlock does not close the Unix sockets of a local database.
        seccomp.restrict_thread(internet=True)
    operation = _OPERATIONS[request["operation"]]
    try:
        with _client(request["address"], request["tls"]) as client:
            answer: dict[str, Any] = {"answer": operation(client, **request["arguments"])}
    except Exception as error:  # of any kind: the cluster sends some of them
        answer = {"unavailable": f"{type(error).__name__}: {error}"[:500]}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
