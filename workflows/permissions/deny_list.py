"""The deny list: what no permission set, grant or ceiling ever reaches.

It covers this host and the product on it: system folders, home folders, the product's home, code,
virtual environment, configuration and audit files, the databases' sockets and ports, the product's
own environment variables, and the addresses at which clouds hand out credentials.

`workflows.permissions.effective` applies the list when it works out what a task may do. The
sandbox, the built-in tools and the HTTP client apply it again when a file or a connection is
opened, and the runner turns a request for a denied resource into a failed task instead of a hold.

A path is denied when it lies in a denied folder, or holds one: a permission for `/` or `/var`
would cover `/etc` or `/var/run`. The folder of the file tools (`HOLDPOINT_FILE_ROOT`) is denied
too, because it has the files of all runs; the only exception is the working folder of the task
(`scratch`), and the most specific of the two wins. Paths are compared as they are spelled and with
symbolic links resolved, without regard to case, Unicode compatibility forms and trailing dots.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
import sys
import sysconfig
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from django.conf import settings

from workflows.common import real_paths
from workflows.engine.policy.permissions import (
    ANY,
    IPAddress,
    Operation,
    PermissionSet,
    embedded_addresses,
    is_scratch_path,
    parse_address,
    split_host_port,
)
from workflows.engine.values.reasons import Reason

Parts = tuple[str, ...]

#: Denied on every host, whether the folder exists there or not.
SYSTEM_FOLDERS: Final = (
    "/etc", "/root", "/home", "/Users", "/proc", "/sys", "/dev", "/run", "/var/run", "/boot",
    "/var/spool", "/var/lib/holdpoint",
)  # fmt: skip
#: Programs and libraries of the host: tasks may read them and never change them.
PROGRAM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: Homes of service accounts that are no home folders.
_NO_HOMES: Final = frozenset(("/", "/tmp", "/var/tmp", "/var", "/nonexistent", "/srv", "/opt"))  # noqa: S108 - not used as a place to write
_FIRST_PERSON: Final = 1000

_DENIED_NETWORKS: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "169.254.0.0/16",  # link-local: metadata of AWS, Azure, Google Cloud and others
        "168.63.129.16/32",  # Azure's host
        "100.100.100.200/32",  # metadata of Alibaba Cloud
        "192.0.0.192/32",  # metadata of Oracle Cloud
        "224.0.0.0/4",  # multicast
        "255.255.255.255/32",  # broadcast
        "::/128",  # this host
        "fd00:ec2::/32",  # metadata of AWS
        "fd20:ce::/32",  # metadata of Google Cloud
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)
#: Names of metadata services. They are refused before anybody resolves them.
_METADATA_NAMES: Final = frozenset(
    (
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data",
        "instance-data.ec2.internal", "metadata.azure.internal", "metadata.azure.com",
        "metadata.platformequinix.com", "metadata.packet.net",
    )
)  # fmt: skip

_OWN_PREFIXES: Final = ("HOLDPOINT_", "DJANGO_", "EMAIL_")
_OWN_NAMES: Final = frozenset(
    ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL",
     "ALLOWED_HOSTS", "PGPASSWORD", "PGPASSFILE")
)  # fmt: skip


def problem_of(permissions: PermissionSet, *, scratch: Path | None = None) -> Reason | None:
    """Return why something in `permissions` is denied; None if nothing is."""
    problems = (
        *(path_problem(path, "read", scratch=scratch) for path in permissions.read_paths),
        *(path_problem(path, "write", scratch=scratch) for path in permissions.write_paths),
        *(host_problem(*split_host_port(entry)) for entry in permissions.hosts),
        *(variable_problem(name) for name in permissions.env_names),
    )
    return next(filter(None, problems), None)


def without_denied(permissions: PermissionSet, *, scratch: Path | None = None) -> PermissionSet:
    """Return `permissions` without the entries that the deny list covers.

    `scratch` is the working folder of a task, which is allowed wherever it lies.
    """
    return permissions.model_copy(
        update={
            "hosts": tuple(
                entry for entry in permissions.hosts if not host_problem(*split_host_port(entry))
            ),
            "read_paths": tuple(
                path
                for path in permissions.read_paths
                if not path_problem(path, "read", scratch=scratch)
            ),
            "write_paths": tuple(
                path
                for path in permissions.write_paths
                if not path_problem(path, "write", scratch=scratch)
            ),
            "env_names": tuple(
                name for name in permissions.env_names if not variable_problem(name)
            ),
        }
    )


# -- paths -----------------------------------------------------------------------------------


def path_problem(
    path: str, operation: Operation, *, scratch: Path | None = None, below: bool = True
) -> Reason | None:
    """Return why `path` is denied for "read" or "write"; None if it is not.

    With `below`, everything below `path` is checked too, because a permission covers it.  A path
    below `$SCRATCH` is never denied here, because it is replaced by the working folder later.
    """
    if is_scratch_path(path):
        return None
    spelled = os.path.normpath(path)
    denied = {**_roots(operation), **_file_root()}
    allowed = _both_forms((str(scratch),)) if scratch is not None else {}
    # Check the spelling first: a link below /proc depends on the process that resolves it.
    try:
        resolved = str(real_paths.resolve(spelled))
    except (OSError, RuntimeError) as error:
        return Reason("denied_unresolved_path", {"path": path, "error": str(error)})
    for form in (spelled, resolved):
        problem = _outside(form, denied, allowed) or (_around(form, denied) if below else None)
        if problem:
            return problem
    return None


def file_root_problem(root: str) -> Reason | None:
    """Return why `root` cannot have the files of runs: it is itself on the list; None if it can."""
    denied = _roots("write")
    folder = next((denied[parts] for parts in _both_forms((root,)) if parts in denied), None)
    return None if folder is None else Reason("denied_path", {"path": folder})


def _outside(path: str, denied: Mapping[Parts, str], allowed: Iterable[Parts]) -> Reason | None:
    """Return why `path` itself is denied, by the most specific folder that contains it."""
    parts = _folded(path)
    roots = [root for root in denied if parts[: len(root)] == root]
    if not roots:
        return None
    deepest = max(roots, key=len)
    if any(len(root) > len(deepest) and parts[: len(root)] == root for root in allowed):
        return None
    return Reason("denied_path", {"path": denied[deepest]})


def _around(path: str, denied: Mapping[Parts, str]) -> Reason | None:
    """Return which denied folder lies below `path`; None if none does."""
    parts = _folded(path)
    inside = next((root for root in denied if root[: len(parts)] == parts != root), None)
    if inside is None:
        return None
    return Reason("denied_path_below", {"path": path, "denied": denied[inside]})


def _folded(path: str) -> Parts:
    """Return the components of `path` in a form that is equal for all its spellings."""
    plain = unicodedata.normalize("NFKC", path).casefold()
    parts = (part.rstrip(". ") or part for part in plain.split("/"))
    return tuple(part for part in parts if part not in ("", "."))


def _both_forms(paths: Iterable[str]) -> dict[Parts, str]:
    """Map folded components to the path, as spelled and with links resolved."""
    found: dict[Parts, str] = {}
    for path in paths:
        for form in (os.path.normpath(path), str(real_paths.resolve(path))):
            found.setdefault(_folded(form), form)
    return found


def _roots(operation: Operation) -> dict[Parts, str]:
    roots = _denied_roots(_configured_paths(), os.environ.get("HOME", ""))
    return {**_both_forms_of_programs(), **roots} if operation == "write" else roots


# One per process, never invalidated: links of system folders are resolved at first use.
@lru_cache(maxsize=1)
def _both_forms_of_programs() -> dict[Parts, str]:
    return _both_forms(PROGRAM_FOLDERS)


# Keyed by setting and home; bounded by 16; links and accounts are read once per process.
@lru_cache(maxsize=16)
def _denied_roots(configured: tuple[str, ...], home: str) -> dict[Parts, str]:
    environment = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    if sys.prefix != sys.base_prefix:
        environment.append(sys.prefix)
    paths = (*SYSTEM_FOLDERS, _code(), *environment, *_home_folders(home), *configured)
    return {parts: path for parts, path in _both_forms(paths).items() if parts}


def _home_folders(home: str) -> tuple[str, ...]:
    own = os.geteuid()
    accounts = [
        entry.pw_dir
        for entry in pwd.getpwall()
        if entry.pw_uid == own or _FIRST_PERSON <= entry.pw_uid < 65_534
    ]
    return tuple(path for path in (home, *accounts) if path and path not in _NO_HOMES)


def _configured_paths() -> tuple[str, ...]:
    """Return the paths of this installation from its settings and environment."""
    files = [
        value
        for name, value in os.environ.items()
        if name.endswith("_FILE") and is_own_variable(name) and value.startswith("/")
    ]
    if not settings.configured:
        return tuple(sorted(files))
    product = settings.HOLDPOINT
    named = (str(product["home"]), str(product["audit_heads_file"]))
    return tuple(sorted((*files, *named, *_database_sockets())))


def _file_root() -> dict[Parts, str]:
    root = settings.HOLDPOINT.get("file_root") if settings.configured else None
    return _both_forms((str(root),)) if root else {}


def product_paths() -> tuple[str, ...]:
    """Return the product's own code, home, configuration files and sockets."""
    return (_code(), *installation_paths())


def installation_paths() -> tuple[str, ...]:
    """Return the product's home, configuration files and sockets."""
    return _configured_paths()


def path_below(folders: Iterable[str], paths: Iterable[str]) -> tuple[str, str] | None:
    """Return a path of `paths` and the folder that it lies below, links resolved; else None.

    A path or folder that cannot be resolved counts as none.
    """
    resolved = [path for each in paths if (path := _resolved_path(each))]
    for folder in filter(None, map(_resolved_path, folders)):
        for path in resolved:
            if path.is_relative_to(folder):
                return str(path), str(folder)
    return None


def _resolved_path(path: str) -> Path | None:
    try:
        return real_paths.resolve(os.path.normpath(path)) if path else None
    except (OSError, RuntimeError):
        return None


def _code() -> str:
    return str(Path(__file__).resolve().parents[2])


def _database_sockets() -> list[str]:
    found = [
        f"{folder}/.s.PGSQL.{port}" for folder, port in _database_servers() if folder[:1] == "/"
    ]
    redis = urlsplit(settings.REDIS_URL)
    if redis.scheme == "unix":
        # Before an @ are a name and a password.
        found.append(unquote(f"{redis.netloc.rpartition('@')[2]}{redis.path}"))
    return found


# -- hosts -----------------------------------------------------------------------------------


def host_problem(host: str, port: int | None) -> Reason | None:
    """Return why `host` (canonical, or a pattern) is denied by its spelling; None if it is not."""
    if is_metadata_name(host):
        return Reason("denied_metadata_name", {"host": host})
    address = parse_address(host)
    if address is not None:
        return task_address_problem(host, port, address)
    if port is not None and (host, port) in _database_hosts():
        return _database_problem(host, port)
    if host == "localhost" or host.endswith(".localhost"):
        return _loopback_problem(host, port)
    return None


def is_metadata_name(host: str) -> bool:
    """Whether `host` names a metadata service, by its spelling."""
    return host.lower().removesuffix(".") in _METADATA_NAMES


def task_address_problem(host: str, port: int | None, address: IPAddress) -> Reason | None:
    """Return why no task may connect to `address` by the name `host`; None if tasks may.

    In addition to `address_problem`, tasks may connect to this machine's loopback interface only
    at the targets in the settings, as they are spelled there.
    """
    problem = address_problem(address, port)
    if not problem and any(each.is_loopback for each in (address, *embedded_addresses(address))):
        return _loopback_problem(host, port)
    return problem


def _loopback_problem(host: str, port: int | None) -> Reason | None:
    if port is not None and _is_loopback_target(f"{host}:{port}"):
        return None
    return Reason("denied_loopback", {"host": host if port is None else f"{host}:{port}"})


def _is_loopback_target(target: str) -> bool:
    if not settings.configured:
        return False
    product = settings.HOLDPOINT
    named = (*product["loopback_targets"], *product["http_allow_hosts"])
    return ANY in product["loopback_targets"] or target in named


def address_problem(address: IPAddress, port: int | None) -> Reason | None:
    """Return why nothing may connect to `address`, by any name; None if it is allowed.

    An address that embeds another one (IPv4-mapped, NAT64, 6to4, Teredo) is checked as both.
    """
    for each in (address, *embedded_addresses(address)):
        if any(each.version == net.version and each in net for net in _DENIED_NETWORKS):
            return Reason("denied_address", {"address": str(address)})
        if port is not None and any(
            port == known and each in _addresses(name) for name, known in _database_hosts()
        ):
            return _database_problem(str(address), port)
    return None


def _database_problem(host: str, port: int) -> Reason:
    return Reason("denied_database", {"host": f"{host}:{port}"})


def _database_hosts() -> tuple[tuple[str, int], ...]:
    """Return host and port of PostgreSQL and Redis, if they listen on TCP."""
    if not settings.configured:
        return ()
    redis = urlsplit(settings.REDIS_URL)
    found = [
        (host.lower(), int(port))
        for host, port in _database_servers()
        if host and not host.startswith("/") and port.isdecimal()
    ]
    if redis.scheme in ("redis", "rediss") and redis.hostname:
        found.append((redis.hostname.lower(), redis.port or 6379))
    return tuple(found)


def product_ports() -> frozenset[int]:
    """Return the TCP ports of PostgreSQL, Redis and the site, without those of the web at large."""
    site = urlsplit(settings.HOLDPOINT["site_url"]).port
    return frozenset(port for _host, port in _database_hosts()) | ({site} if site else set())


def _database_servers() -> list[tuple[str, str]]:
    """Return host (or folder of the socket) and port of each configured PostgreSQL server.

    Both may be comma-separated lists, which libpq pairs; a single port applies to all hosts.
    """
    database = settings.DATABASES["default"]
    hosts = [host.strip() for host in str(database.get("HOST") or "").split(",")]
    ports = [port.strip() or "5432" for port in str(database.get("PORT") or "").split(",")]
    if len(ports) == 1:
        ports *= len(hosts)
    return list(zip_longest(hosts, ports[: len(hosts)], fillvalue="5432"))


def _addresses(name: str) -> frozenset[IPAddress]:
    """Return the addresses of a database's host; none while it cannot be resolved."""
    try:
        return _resolved(name)
    except OSError:
        return frozenset()


# Keyed by the name; bounded by 16; kept until the process ends. Errors are not cached.
@lru_cache(maxsize=16)
def _resolved(name: str) -> frozenset[IPAddress]:
    """Return the addresses of a name."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)


# -- environment -----------------------------------------------------------------------------


def is_own_variable(name: str) -> bool:
    """Whether an environment variable belongs to the product."""
    bare = name.removesuffix("_FILE")
    return bare in _OWN_NAMES or name.startswith(_OWN_PREFIXES)


def variable_problem(name: str) -> Reason | None:
    """Return why the environment variable `name` is denied; None if it is not."""
    return Reason("denied_variable", {"name": name}) if is_own_variable(name) else None
