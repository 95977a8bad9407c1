"""The function that Dask calls in a process of the cluster."""

from __future__ import annotations

from workflows.remote import remote_process
from workflows.remote.output import Output


def call(request: str, output: str) -> str:
    """Run a call; the Dask variable `output` has what it prints."""
    from distributed import Variable, get_client

    variable = Variable(output, client=get_client())

    def publish(latest: Output) -> None:
        variable.set(latest.as_json())

    return remote_process.run(request, publish)
