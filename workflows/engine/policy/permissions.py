"""Permission sets: the resources that a task may use.

A `PermissionSet` lists hosts, paths to read, paths to write, environment names and programs. It is
frozen, canonical (equal sets compare equal) and closed under `union`, `difference` and `cap`.

Hosts are `host`, `host:port`, `*.domain`, `*.domain:port`, `*` or `*:port`; without a port every
port is covered. `*.domain` covers every name below the domain, not the domain itself. A private
host (localhost, a name without dots, `*.internal`, an address that is not global, ...) is only ever
covered by its own exact `host:port`, never by a wildcard.

Paths are absolute, or start with `$SCRATCH`, the working folder of one run. An absolute path that
ends in `/` is a folder and covers everything below it, compared component by component; without
the `/` it is one file. A path in the working folder covers everything below it either way. A path
holding `..` is refused.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from workflows.engine.values.reasons import Reason

SCRATCH: Final = "$SCRATCH"
ANY: Final = "*"
MAX_PATH: Final = 4096

Operation = Literal["net", "read", "write", "env", "run"]
OPERATIONS: Final[tuple[Operation, ...]] = ("net", "read", "write", "env", "run")

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\Z")
_PROGRAM = re.compile(r"[^\x00-\x20,\x7f]{1,4096}\Z")
_PRIVATE_SUFFIXES: Final = frozenset(
    ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private")
)
_NON_GLOBAL_NETWORKS: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20",
        "5f00::/16", "fc00::/7", "fe80::/9", "ff00::/8",
    )
)  # fmt: skip
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_SIX_TO_FOUR: Final = ipaddress.IPv6Network("2002::/16")

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


# -- hosts -----------------------------------------------------------------------------------


def is_global_address(address: IPAddress) -> bool:
    """Whether `address` is reached over the public internet.

    An address that embeds an IPv4 address (v4-mapped, NAT64, 6to4) is checked as that address.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = _embedded_v4(address)
        if inner is not None:
            return is_global_address(inner)
    if any(address.version == net.version and address in net for net in _NON_GLOBAL_NETWORKS):
        return False
    return address.is_global


def _embedded_v4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        return ipaddress.IPv4Address((int(address) >> 80) & 0xFFFF_FFFF)
    return None


def embedded_addresses(address: IPAddress) -> tuple[ipaddress.IPv4Address, ...]:
    """Return the IPv4 addresses embedded in an IPv6 address, to which packets may be delivered."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [_embedded_v4(address), *(address.teredo or ())]
    if address in _IPV4_COMPATIBLE and int(address) > 1:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _LOCAL_NAT64:
        # RFC 6052: a /48 prefix, then 16 bits, an octet of zeros, 16 bits.
        high, low = int(address) >> 64 & 0xFFFF, int(address) >> 40 & 0xFFFF
        found += [
            ipaddress.IPv4Address(high << 16 | low),
            ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF),
        ]
    return tuple(dict.fromkeys(each for each in found if each is not None))


def parse_address(host: str) -> IPAddress | None:
    """Return `host` as an IP address; None if it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_private_host(host: str) -> bool:
    """Whether `host` (canonical, without port) is a private host, by its spelling only."""
    address = parse_address(host)
    if address is not None:
        return not is_global_address(address)
    return "." not in host or host.rpartition(".")[2] in _PRIVATE_SUFFIXES or _is_home_arpa(host)


def _is_home_arpa(host: str) -> bool:
    return host == "home.arpa" or host.endswith(".home.arpa")


def canonical_host(host: str) -> str:
    """Return `host` in lower case and punycode, without a final dot, and IPv6 in brackets.

    Raises ValueError for an invalid host.
    """
    address = parse_address(host)
    if address is not None:
        if "%" in host:
            raise ValueError(f"{host!r} names a network zone")
        return f"[{address.compressed}]" if address.version == 6 else str(address)
    if len(host) > 1024:
        raise ValueError("the host name is too long")
    try:
        name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError as error:
        raise ValueError(f"{host!r} is not a host name") from error
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.match(label) for label in labels):
        raise ValueError(f"{host!r} is not a host name")
    if re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]):
        raise ValueError(f"{host!r} is neither an address nor a name")
    return name


def split_host_port(entry: str) -> tuple[str, int | None]:
    """Split `host:port`, `[v6]:port` or a host into host and port (None without a port).

    Raises ValueError for an invalid port.
    """
    bare_v6 = entry.count(":") > 1 and not entry.startswith("[")
    host, colon, port = (entry, "", "") if bare_v6 else _cut_port(entry)
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{entry!r} has a bad port")
    return host, int(port) if colon else None


def _cut_port(entry: str) -> tuple[str, str, str]:
    if entry.startswith("["):
        host, bracket, rest = entry.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{entry!r} is not a host")
        return host + bracket, rest[:1], rest[1:]
    return entry.partition(":")


def _canonical_host_entry(entry: str) -> str:
    host, port = split_host_port(entry)
    if host == ANY:
        name = ANY
    elif host.startswith("*."):
        name = "*." + canonical_host(host[2:])
        if "." not in name[2:] or parse_address(name[2:]) or is_private_host(name[2:]):
            raise ValueError(f"{entry!r}: a wildcard needs a public domain of at least two labels")
    else:
        name = canonical_host(host)
        if port is None and is_private_host(name):
            raise ValueError(f"{entry!r} is a private host: name its port, as in {name}:8080")
    return name if port is None else f"{name}:{port}"


def _host_name_covers(pattern: str, name: str) -> bool:
    if pattern == name:
        return True
    if pattern == ANY:
        return name.startswith("*") or not is_private_host(name)
    return pattern.startswith("*.") and name.endswith(pattern[1:])


def _host_covers(entry: str, other: str) -> bool:
    host, port = split_host_port(entry)
    other_host, other_port = split_host_port(other)
    return port in (None, other_port) and _host_name_covers(host, other_host)


def _host_meet(entry: str, other: str) -> str | None:
    host, port = split_host_port(entry)
    other_host, other_port = split_host_port(other)
    if port is not None and other_port is not None and port != other_port:
        return None
    if _host_name_covers(host, other_host):
        name = other_host
    elif _host_name_covers(other_host, host):
        name = host
    else:
        return None
    met_port = other_port if port is None else port
    return name if met_port is None else f"{name}:{met_port}"


# -- paths, names ----------------------------------------------------------------------------


def _is_plain(character: str) -> bool:
    # Format characters (Cf) can hide or reorder text, and reviewers must read what they grant.
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def canonical_path(path: str) -> str:
    """Return `path` without empty and `.` parts; an absolute path keeps its final `/`.

    Raises ValueError for a relative path, `..` and control characters.
    """
    if len(path) > MAX_PATH:
        raise ValueError(f"a path may not be longer than {MAX_PATH} characters")
    if not all(map(_is_plain, path)):
        raise ValueError("a path may not hold control characters, or such that change how it reads")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"{path!r} may not climb with '..'")
    if path.startswith("/"):
        is_folder = parts and path.endswith(("/", "/."))
        return "/" + "/".join(parts) + ("/" if is_folder else "")
    if parts and parts[0] == SCRATCH:
        return "/".join(parts)
    raise ValueError(f"{path!r} is not absolute and does not start with {SCRATCH}")


def is_folder_path(path: str) -> bool:
    """Whether a canonical path covers everything below it."""
    return path.endswith("/") or is_scratch_path(path)


def is_scratch_path(path: str) -> bool:
    """Whether a canonical path lies in the working folder of a run."""
    return path == SCRATCH or path.startswith(SCRATCH + "/")


def _path_covers(entry: str, other: str) -> bool:
    if entry in ("/", other):
        return True
    folder = entry.removesuffix("/")
    return is_folder_path(entry) and (other == folder or other.startswith(folder + "/"))


def _path_meet(entry: str, other: str) -> str | None:
    if _path_covers(entry, other):
        return other
    return entry if _path_covers(other, entry) else None


def _canonical_env(name: str) -> str:
    if not _ENV_NAME.match(name):
        raise ValueError(f"{name!r} is not the name of an environment variable")
    return name


def _canonical_program(name: str) -> str:
    if not _PROGRAM.match(name):
        raise ValueError(f"{name!r} is not the name of a program")
    return name


def _equal(entry: str, other: str) -> bool:
    return entry == other


def _equal_meet(entry: str, other: str) -> str | None:
    return entry if entry == other else None


def _program_covers(entry: str, other: str) -> bool:
    return entry in (ANY, other)


def _program_meet(entry: str, other: str) -> str | None:
    if _program_covers(entry, other):
        return other
    return entry if _program_covers(other, entry) else None


class _Rule:
    """Canonical form, comparison and intersection of the entries of one field."""

    def __init__(
        self,
        canonical: Callable[[str], str],
        covers: Callable[[str, str], bool],
        meet: Callable[[str, str], str | None],
    ) -> None:
        self.canonical, self.covers, self.meet = canonical, covers, meet

    def reduce(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Return the canonical entries, sorted, without those that another entry covers."""
        unique = sorted({self.canonical(entry) for entry in entries})
        return tuple(
            entry
            for entry in unique
            if not any(other != entry and self.covers(other, entry) for other in unique)
        )

    def includes(self, entries: Iterable[str], wanted: str) -> bool:
        return any(self.covers(entry, wanted) for entry in entries)


_HOSTS = _Rule(_canonical_host_entry, _host_covers, _host_meet)
_PATHS = _Rule(canonical_path, _path_covers, _path_meet)
_ENV = _Rule(_canonical_env, _equal, _equal_meet)
_RUN = _Rule(_canonical_program, _program_covers, _program_meet)
_RULES: Final = {
    "hosts": _HOSTS,
    "read_paths": _PATHS,
    "write_paths": _PATHS,
    "env_names": _ENV,
    "run": _RUN,
}
_FIELD_OF: Final[dict[str, str]] = dict(zip(OPERATIONS, _RULES, strict=True))


# -- the value -------------------------------------------------------------------------------


class PermissionSet(BaseModel):
    """Hosts, paths, environment variables and programs that a task may use.

    Every field is a tuple of strings in canonical form; an invalid entry raises ValidationError. A
    path in `write_paths` may be written, not read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: Annotated[tuple[str, ...], AfterValidator(_HOSTS.reduce)] = ()
    read_paths: Annotated[tuple[str, ...], AfterValidator(_PATHS.reduce)] = ()
    write_paths: Annotated[tuple[str, ...], AfterValidator(_PATHS.reduce)] = ()
    env_names: Annotated[tuple[str, ...], AfterValidator(_ENV.reduce)] = ()
    run: Annotated[tuple[str, ...], AfterValidator(_RUN.reduce)] = ()

    def entries(self, field: str) -> tuple[str, ...]:
        """Return the entries of the field with this name."""
        entries: tuple[str, ...] = getattr(self, field)
        return entries

    def covers(self, other: PermissionSet) -> bool:
        """Whether this set allows everything that `other` allows."""
        return all(
            rule.includes(self.entries(field), entry)
            for field, rule in _RULES.items()
            for entry in other.entries(field)
        )

    def allows(self, operation: Operation, resource: str) -> bool:
        """Whether `operation` on `resource` ("api.example:443", "/srv/x", "HOME") is allowed.

        A resource that is not a valid entry is never allowed.
        """
        try:
            return self.covers(smallest_cover(operation, resource))
        except ValueError:
            return False

    def union(self, other: PermissionSet) -> PermissionSet:
        """Return the smallest set that allows everything that either set allows."""
        return PermissionSet(
            **{field: self.entries(field) + other.entries(field) for field in _RULES}
        )

    def difference(self, other: PermissionSet) -> PermissionSet:
        """Return the entries of this set that `other` does not cover."""
        return PermissionSet(
            **{
                field: tuple(
                    entry
                    for entry in self.entries(field)
                    if not rule.includes(other.entries(field), entry)
                )
                for field, rule in _RULES.items()
            }
        )

    def bound(self, scratch: str) -> PermissionSet:
        """Return the set with `$SCRATCH` replaced by the absolute path `scratch`."""
        root = canonical_path(scratch).removesuffix("/")

        def bind(path: str) -> str:
            return f"{root}{path.removeprefix(SCRATCH)}/" if is_scratch_path(path) else path

        return self.model_copy(
            update={
                "read_paths": _PATHS.reduce(map(bind, self.read_paths)),
                "write_paths": _PATHS.reduce(map(bind, self.write_paths)),
            }
        )

    @property
    def is_empty(self) -> bool:
        """Whether the set allows nothing."""
        return not any(self.entries(field) for field in _RULES)

    @property
    def has_folders(self) -> bool:
        """Whether the set allows a folder outside the working folder of a run."""
        return any(
            is_folder_path(path) and not is_scratch_path(path)
            for path in (*self.read_paths, *self.write_paths)
        )

    @property
    def is_beyond_reading(self) -> bool:
        """Whether the set allows network access, writes or programs."""
        return bool(self.hosts or self.write_paths or self.run)

    def descriptions(self) -> tuple[Reason, ...]:
        """Return what is allowed, one sentence per entry."""
        reasons = [_DESCRIPTIONS[field](entry) for field in _RULES for entry in self.entries(field)]
        return tuple(reasons) or (Reason("allows_nothing"),)

    def __str__(self) -> str:
        return " ".join(each.text for each in self.descriptions())


def _host_description(entry: str) -> Reason:
    host, port = split_host_port(entry)
    where: str | Reason = host
    if host == ANY:
        where = Reason("any_public_host")
    elif host.startswith("*."):
        where = Reason("hosts_below", {"domain": host[2:]})
    elif is_private_host(host):
        where = Reason("private_host", {"host": host})
    ports = Reason("any_port") if port is None else Reason("one_port", {"port": port})
    return Reason("allows_host", {"host": where, "port": ports})


def _path_reason(path: str) -> Reason:
    if path == "/":
        return Reason("path_everything")
    if path == SCRATCH:
        return Reason("path_scratch")
    if path.startswith(SCRATCH):
        return Reason("path_in_scratch", {"path": path.removeprefix(SCRATCH + "/")})
    return Reason("path_folder" if is_folder_path(path) else "path_file", {"path": path})


def _program_description(entry: str) -> Reason:
    if entry == ANY:
        return Reason("allows_any_program")
    return Reason("allows_program", {"program": entry})


#: Field → what describes one of its entries.
_DESCRIPTIONS: Final[dict[str, Callable[[str], Reason]]] = {
    "hosts": _host_description,
    "read_paths": lambda path: Reason("allows_reading", {"path": _path_reason(path)}),
    "write_paths": lambda path: Reason("allows_writing", {"path": _path_reason(path)}),
    "env_names": lambda name: Reason("allows_variable", {"name": name}),
    "run": _program_description,
}


def smallest_cover(operation: Operation, resource: str) -> PermissionSet:
    """Return the smallest set that allows `operation` on `resource`.

    Raises ValueError if no set can: an unknown operation, a relative path, an invalid host.
    """
    if operation not in _FIELD_OF:
        raise ValueError(f"no permission exists for {operation!r}")
    try:
        return PermissionSet(**{_FIELD_OF[operation]: (resource,)})
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ValueError(reason if len(reason) <= 300 else f"{reason[:300]}…") from None


def cap(requested: PermissionSet, ceiling: PermissionSet) -> PermissionSet:
    """Return the intersection of `requested` and `ceiling`."""
    return PermissionSet(
        **{
            field: tuple(
                met
                for mine in requested.entries(field)
                for theirs in ceiling.entries(field)
                if (met := rule.meet(mine, theirs)) is not None
            )
            for field, rule in _RULES.items()
        }
    )


def admits(ceiling: PermissionSet, need: PermissionSet) -> bool:
    """Whether `need` may be granted under a ceiling.

    The ceiling must cover each entry, or have entries of its field while the entry is exact: one
    host with its port, one path, one variable, one program.
    """
    return all(
        rule.includes(ceiling.entries(field), entry)
        or (bool(ceiling.entries(field)) and _is_exact(field, entry))
        for field, rule in _RULES.items()
        for entry in need.entries(field)
    )


def _is_exact(field: str, entry: str) -> bool:
    if field == "hosts":
        host, port = split_host_port(entry)
        return port is not None and not host.startswith(ANY)
    return entry not in (ANY, "/")


# -- named sets ------------------------------------------------------------------------------

NAMED: Final[dict[str, PermissionSet]] = {
    "minimal": PermissionSet(),
    "readonly": PermissionSet(read_paths=(SCRATCH,)),
    "filesystem": PermissionSet(read_paths=(SCRATCH,), write_paths=(SCRATCH,)),
    "network-api": PermissionSet(hosts=("*:443",)),
    "mcp-standard": PermissionSet(
        hosts=("*:443",),
        read_paths=(SCRATCH,),
        write_paths=(SCRATCH,),
        env_names=("LANG", "TZ"),
    ),
    "trusted": PermissionSet(
        hosts=("*",),
        read_paths=(SCRATCH,),
        write_paths=(SCRATCH,),
        env_names=("HOME", "LANG", "PATH", "TZ", "USER"),
        run=(ANY,),
    ),
}


def named(name: str) -> PermissionSet:
    """Return the named set; raises ValueError with the known names."""
    try:
        return NAMED[name]
    except KeyError:
        raise ValueError(f"unknown permission set {name!r}; one of {', '.join(NAMED)}") from None
