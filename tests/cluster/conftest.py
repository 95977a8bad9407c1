"""Hosts and a webhook receiver beside them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster import network, servers
from tests.cluster.cluster import HOSTS, Cluster
from tests.cluster.single import Single, single
from tests.support.webhook_receiver import Receiver, receiving

Build = Callable[..., tuple[Cluster, Receiver]]
BuildSingle = Callable[..., tuple[Single, Receiver]]


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


@pytest.fixture
def build_single(transactional_db: None) -> Iterator[BuildSingle]:
    """As `build`, on the loopback and with one host of the product."""
    if sys.platform != "linux":
        pytest.skip("needs many addresses of the loopback, and limits on other processes: Linux")
    with ExitStack() as stack:

        def make(**settings: str) -> tuple[Single, Receiver]:
            temporary = tempfile.TemporaryDirectory(prefix="holdpoint-single-")
            folder = Path(stack.enter_context(temporary))
            folder.chmod(0o755)
            receiver = stack.enter_context(receiving(Receiver()))
            return stack.enter_context(single(folder, receiver, **settings)), receiver

        yield make
