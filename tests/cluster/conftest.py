"""A network of hosts and a webhook receiver beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import network, servers
from tests.cluster.cluster import HOSTS, Cluster
from tests.support.webhook_receiver import Receiver, receiving

Build = Callable[..., tuple[Cluster, Receiver]]


@pytest.fixture
def build() -> Iterator[Build]:
    """Makes a cluster with these settings, without processes of the product, and a receiver."""
    if lacking := network.missing() or servers.missing():
        pytest.skip(lacking)
    with ExitStack() as stack:

        def make(**settings: str) -> tuple[Cluster, Receiver]:
            temporary = tempfile.TemporaryDirectory(prefix="holdpoint-cluster-")
            folder = Path(stack.enter_context(temporary))
            folder.chmod(0o755)
            net, hosts = stack.enter_context(network.network(folder, HOSTS))
            receiver = stack.enter_context(receiving(Receiver(), net.address))
            return Cluster(net, hosts, folder, receiver, **settings), receiver

        yield make
