"""Run calls on a Dask cluster (the extra `dask`).

A call is a published dataset of the scheduler, so that its result is kept until it is read although
no client is connected.  The name of the dataset, which is also the key of Dask's task, is the
handle.  Each method opens a connection of its own: calls last minutes, and nothing is kept.

What a call prints is a variable of Dask with the same name, which has the latest value only and is
deleted with the call.  The scheduler would keep the events of a topic for each call for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from django.utils.crypto import salted_hmac

from workflows import conf
from workflows.engine.ports import Failure, Success

from . import dask_process
from .output import Output
from .port import RunnerUnavailable
from .results import failed, lost, result_of

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds for connecting, and for one answer of the cluster.
_TIMEOUT: Final = 10
#: Seconds in which the scheduler tells a new client which calls have ended.
_SETTLE: Final = 0.5


class DaskRunner:
    """A RemoteRunner on the cluster of the scheduler at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        # Installations that share a cluster do not see each other's calls.
        namespace = salted_hmac("holdpoint.remote", "dask").hexdigest()[:12]
        self._prefix = f"holdpoint-{namespace}:"

    def submit(self, key: str, request: str) -> str:
        from distributed import Variable

        handle = self._prefix + key
        with self._client() as client:
            if handle not in client.list_datasets():
                # Who reads a variable that nobody has set waits for it.
                Variable(handle, client=client).set(Output().as_json())
                future = client.submit(dask_process.call, request, handle, key=handle, retries=0)
                # Another worker with the same attempt may have published it meanwhile.
                with suppress(KeyError):
                    client.publish_dataset(future, name=handle)
        return handle

    def look(self, handles: Collection[str]) -> Mapping[str, Success | Failure]:
        with self._client() as client:
            futures = _futures(client, handles)
            found = {
                handle: replace(outcome, logs=_printed(client, handle).logs)
                for handle, future in futures.items()
                if (outcome := _outcome(future)) is not None
            }
        return {**{handle: lost("dask") for handle in handles if handle not in futures}, **found}

    def outputs(self, handles: Collection[str]) -> Mapping[str, Output]:
        with self._client() as client:
            return {handle: _printed(client, handle) for handle in handles}

    def states(self) -> Mapping[str, bool]:
        with self._client() as client:
            names = [str(name) for name in client.list_datasets()]
            futures = _futures(client, [name for name in names if name.startswith(self._prefix)])
            return {handle: future.done() for handle, future in futures.items()}

    def cancel(self, handles: Collection[str]) -> None:
        from distributed import Variable

        with self._client() as client:
            futures = _futures(client, handles, settle=False)
            # Without force, Dask goes on for the published dataset.
            client.cancel(list(futures.values()), force=True)
            for handle in futures:
                client.unpublish_dataset(handle)
                Variable(handle, client=client).delete()

    def key_of(self, handle: str) -> str:
        return handle.removeprefix(self._prefix)

    @contextmanager
    def _client(self) -> Iterator[Client]:
        from distributed import Client

        try:
            with Client(
                self._address,
                timeout=_TIMEOUT,
                security=_security(),
                set_as_default=False,
                # Only the scheduler must be reachable from here.
                direct_to_workers=False,
            ) as client:
                yield client
        except (OSError, TimeoutError) as error:
            raise RunnerUnavailable(f"{type(error).__name__}: {error}"[:500]) from error


def _security() -> Any:
    """Return the certificates for an address with tls://, else None."""
    from distributed import Security

    files = conf.dask_tls_files()
    if not any(files):
        return None
    ca, certificate, key = files
    return Security(
        tls_ca_file=ca,
        tls_client_cert=certificate,
        tls_client_key=key,
        require_encryption=True,
    )


def _futures(
    client: Client, handles: Iterable[str], *, settle: bool = True
) -> dict[str, Future[Any]]:
    """Return the futures of the published calls among `handles`."""
    from distributed import wait

    names = list(handles)
    found = client.get_dataset(names, default=None) if names else []
    futures = {name: future for name, future in zip(names, found, strict=True) if future}
    if futures and settle:
        with client.as_current(), suppress(TimeoutError):
            wait(list(futures.values()), timeout=_SETTLE)
    return futures


def _printed(client: Client, handle: str) -> Output:
    """Return what a call has printed; nothing for one whose variable is gone."""
    from distributed import Variable

    with suppress(TimeoutError):
        return Output.of_json(Variable(handle, client=client).get(timeout=_SETTLE))
    return Output()


def _outcome(future: Future[Any]) -> Success | Failure | None:
    """Return the result of a call that has ended, else None."""
    if future.status == "finished":
        return result_of(future.result(timeout=_TIMEOUT))
    if future.status == "error":
        error = future.exception(timeout=_TIMEOUT)
        return failed(f"{type(error).__name__}: {error}", retryable=True)
    return lost("dask") if future.done() else None
