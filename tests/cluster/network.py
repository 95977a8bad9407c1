"""Hosts as network namespaces on one bridge, which has no way out, or as loopback addresses."""

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

import psutil

from config.devserver.embedded.layout import Account
from tests.support.processes import ROOT

Process = subprocess.Popen[bytes]


def missing() -> str:
    """What this machine lacks for a network of hosts; "" if nothing."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if not all(map(shutil.which, ("ip", "tc", "setpriv"))):
        return "needs ip, tc and setpriv (Debian: iproute2, util-linux)"
    name = f"hp{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.decode().strip()}"
    ip("netns", "del", name)
    return ""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host:
    """An address of the loopback and a folder; its processes end with it."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address, folder
        folder.mkdir(mode=0o755)
        self._processes: list[Process] = []

    def command(self, *words: str, account: Account | None = None) -> list[str]:
        """The command line that runs `words` on this host."""
        if account is None or not account.switch:
            return [*words]
        switch = ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
        return [*switch, *words]

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
        """All processes of this host, of which some may have ended."""
        found = list[int]()
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(process.pid).children(recursive=True)
                found += [process.pid, *(child.pid for child in children)]
        return found

    def kill(self) -> None:
        """SIGKILL to all processes of this host, as when its power fails."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait(30)
        self._processes.clear()


class NamespaceHost(Host):
    """A machine with a network of its own."""

    def __init__(self, name: str, namespace: str, cable: str, address: str, folder: Path) -> None:
        super().__init__(name, address, folder)
        self.namespace, self._cable = namespace, cable
        self._mounted: list[Path] = []

    def command(self, *words: str, account: Account | None = None) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *super().command(*words, account=account)]

    def pids(self) -> list[int]:
        listed = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in listed.stdout.split()]

    def mount(self, folder: Path, mebibytes: int) -> None:
        """Give a folder a file system of its own, until the host is removed."""
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        self._mounted.append(folder)

    def remove(self) -> None:
        self.kill()
        for folder in self._mounted:
            subprocess.run(["umount", str(folder)], check=True, capture_output=True)
        # A namespace removes its cable later, when the next network may have one of this name.
        with contextlib.suppress(subprocess.CalledProcessError):  # it was never made
            ip("link", "del", self._cable)
        ip("netns", "del", self.namespace)

    def unplug(self) -> None:
        """Cut the host off: its processes go on, and no connection ends."""
        ip("link", "set", self._cable, "down")

    def plug_in(self) -> None:
        ip("link", "set", self._cable, "up")

    def slow_down(self) -> None:
        """Let 64 kB a second reach the host; packets wait for half a second, or are lost."""
        limits = ["rate", "512kbit", "burst", "16kb", "latency", "500ms"]
        self._tc("replace", "tbf", *limits)

    def speed_up(self) -> None:
        self._tc("del")

    def _tc(self, verb: str, *words: str) -> None:
        command = ["tc", "qdisc", verb, "dev", self._cable, "root", *words]
        subprocess.run(command, check=True, capture_output=True)


class Network:
    """A bridge with an address of this process, and the hosts on it."""

    def __init__(self, folder: Path) -> None:
        number = os.getpid()
        self._folder, self._prefix = folder, f"hp{number}"
        self._subnet = f"10.213.{number % 250}"
        self.range = f"{self._subnet}.0/24"
        #: Where hosts reach this process.
        self.address = f"{self._subnet}.1"
        self.hosts: list[NamespaceHost] = []
        ip("link", "add", self._prefix, "type", "bridge")
        ip("address", "add", f"{self.address}/24", "dev", self._prefix)
        ip("link", "set", self._prefix, "up")

    def add(self, name: str) -> NamespaceHost:
        number = len(self.hosts) + 2
        cable, namespace = f"{self._prefix}-{number}", f"{self._prefix}-{name}"
        address = f"{self._subnet}.{number}"
        host = NamespaceHost(name, namespace, cable, address, self._folder / name)
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
            host.remove()
        ip("link", "del", self._prefix)


@contextmanager
def network(folder: Path, names: Sequence[str]) -> Iterator[tuple[Network, Any]]:
    """Hosts with these names; yields the network and the list of hosts."""
    made = Network(folder)
    try:
        yield made, [made.add(name) for name in names]
    finally:
        made.remove()


def loopback(folder: Path, names: Sequence[str]) -> list[Host]:
    """Hosts at addresses of the loopback, which Linux has without root and without namespaces."""
    high, low = divmod(os.getpid(), 250)
    subnet = f"127.{1 + high % 250}.{1 + low}"
    return [Host(name, f"{subnet}.{n}", folder / name) for n, name in enumerate(names, 1)]
