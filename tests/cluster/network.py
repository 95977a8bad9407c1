"""Hosts as network namespaces on one bridge, which has no way out."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.devserver.embedded.layout import Account
from tests.support.processes import ROOT

Process = subprocess.Popen[bytes]


def missing() -> str:
    """What this machine lacks for a network of hosts; "" if nothing."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if not (shutil.which("ip") and shutil.which("setpriv")):
        return "needs ip and setpriv (Debian: iproute2, util-linux)"
    name = f"hp{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.decode().strip()}"
    ip("netns", "del", name)
    return ""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host:
    """A machine with an address and a folder; its processes end with it."""

    def __init__(self, name: str, namespace: str, cable: str, address: str, folder: Path) -> None:
        self.name, self.namespace, self.address, self.folder = name, namespace, address, folder
        self._cable = cable
        self._processes: list[Process] = []

    def command(self, *words: str, account: Account | None = None) -> list[str]:
        """The command line that runs `words` on this host."""
        switch: list[str] = []
        if account is not None:
            switch = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}"]
            switch.append("--clear-groups")
        return ["ip", "netns", "exec", self.namespace, *switch, *words]

    def run(
        self,
        *words: str,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> str:
        """Run a command to its end; returns its standard output."""
        done = subprocess.run(
            self.command(*words, account=account),
            env=env,
            cwd=cwd,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}: {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(
        self,
        log: str,
        *words: str,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> Process:
        """Start a process that writes to the file `log` of this host."""
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                self.command(*words, account=account),
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def pids(self) -> list[int]:
        listed = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self) -> None:
        """SIGKILL to all processes of this host, as when its power fails."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait(30)
        self._processes.clear()

    def unplug(self) -> None:
        """Cut the host off: its processes go on, and no connection ends."""
        ip("link", "set", self._cable, "down")

    def plug_in(self) -> None:
        ip("link", "set", self._cable, "up")


class Network:
    """A bridge with an address of this process, and the hosts on it."""

    def __init__(self, folder: Path) -> None:
        number = os.getpid()
        self._folder, self._prefix = folder, f"hp{number}"
        self._subnet = f"10.213.{number % 250}"
        self.range = f"{self._subnet}.0/24"
        #: Where hosts reach this process.
        self.address = f"{self._subnet}.1"
        self.hosts: list[Host] = []
        ip("link", "add", self._prefix, "type", "bridge")
        ip("address", "add", f"{self.address}/24", "dev", self._prefix)
        ip("link", "set", self._prefix, "up")

    def add(self, name: str) -> Host:
        number = len(self.hosts) + 2
        cable, namespace = f"{self._prefix}-{number}", f"{self._prefix}-{name}"
        (folder := self._folder / name).mkdir(mode=0o755)
        host = Host(name, namespace, cable, f"{self._subnet}.{number}", folder)
        ip("netns", "add", namespace)
        self.hosts.append(host)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("link", "set", cable, "master", self._prefix, "up")
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")
        return host

    def remove(self) -> None:
        for host in self.hosts:
            host.kill()
            ip("netns", "del", host.namespace)
        ip("link", "del", self._prefix)


@contextmanager
def network(folder: Path, names: Sequence[str]) -> Iterator[tuple[Network, Any]]:
    """Hosts with these names; yields the network and the list of hosts."""
    made = Network(folder)
    try:
        yield made, [made.add(name) for name in names]
    finally:
        made.remove()
