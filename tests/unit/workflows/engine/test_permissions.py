"""PermissionSet: parsing, coverage, descriptions and combinations."""

from __future__ import annotations

import ipaddress

import pytest
from pydantic import ValidationError

from workflows.engine.policy.permissions import (
    NAMED,
    PermissionSet,
    canonical_host,
    canonical_path,
    cap,
    is_global_address,
    named,
    smallest_cover,
)


def hosts(*entries: str) -> PermissionSet:
    return PermissionSet(hosts=entries)


def reads(*entries: str) -> PermissionSet:
    return PermissionSet(read_paths=entries)


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "api.example.com", 8080, True),
        ("api.example.com:443", "API.Example.COM.", 443, True),
        ("api.example.com:443", "api.example.com", 80, False),
        ("api.example.com", "evil-api.example.com", 443, False),
        ("example.com", "sub.example.com", 443, False),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "notexample.com", 443, False),
        ("*.example.com:443", "a.example.com", 80, False),
        ("*", "anything.example.org", 1, True),
        ("*:443", "anything.example.org", 443, True),
        ("*:443", "anything.example.org", 80, False),
        ("*", "8.8.8.8", 53, True),
        ("*", "localhost", 443, False),
        ("*", "127.0.0.1", 443, False),
        ("*", "intranet", 443, False),
        ("*", "db.internal", 443, False),
        ("*", "[::1]", 443, False),
        ("*", "169.254.169.254", 80, False),
        ("localhost:8080", "localhost", 8080, True),
        ("localhost:8080", "localhost", 8081, False),
        ("localhost:8080", "127.0.0.1", 8080, False),
        ("[::1]:80", "[0:0:0:0:0:0:0:1]", 80, True),
    ],
)
def test_host_entries(entry: str, host: str, port: int, allowed: bool) -> None:
    assert hosts(entry).allows("net", f"{host}:{port}") is allowed


@pytest.mark.parametrize(
    "entry",
    ["", "localhost", "127.0.0.1", "intranet", "*.com", "*.localhost", "a.*.com", "**", "http://a.com",
     "a.com/x", "a.com:0", "a.com:65536", "a.com:", "a.com:8x", "user@a.com", "a b.com",
     "2130706433:80",
     "0x7f.1:80", "127.1:80", "-a.com", "a..com", "[::1", "fe80::1%eth0", "*.127.0.0.1",
     "a.com\n",
     "\u0661.com:8\u0660", "*.8.8.8.8:1"],
)  # fmt: skip
def test_bad_host_entries(entry: str) -> None:
    with pytest.raises(ValidationError):
        hosts(entry)


@pytest.mark.parametrize(
    ("entry", "path", "allowed"),
    [
        ("/srv/data", "/srv/data", True),
        ("/srv/data", "/srv/data/a/b", False),
        ("/srv/data", "/srv/data/", False),
        ("/srv/data/", "/srv/data/a/b", True),
        ("/srv/data/", "/srv/data", True),
        ("/srv/data/", "/srv/database", False),
        ("/srv/data", "/srv/database", False),
        ("/srv/data", "/srv", False),
        ("/srv/data/", "//srv/./data//x", True),
        ("/", "/anything", True),
        ("/", "$SCRATCH/x", True),
        ("$SCRATCH", "$SCRATCH/x", True),
        ("$SCRATCH/a", "$SCRATCH/b", False),
        ("$SCRATCH", "/tmp/x", False),
        ("/srv/data", "/srv/data/../secret", False),
        ("/srv/data", "relative", False),
    ],
)
def test_path_entries(entry: str, path: str, allowed: bool) -> None:
    assert reads(entry).allows("read", path) is allowed


@pytest.mark.parametrize(
    "path", ["", "relative", "/a/../b", "..", "/a\0b", "/a\nb", "$SCRATCHED", "~/x"]
)
def test_bad_paths(path: str) -> None:
    with pytest.raises(ValueError):
        canonical_path(path)


def test_scratch_is_bound_to_a_folder() -> None:
    bound = PermissionSet(read_paths=("$SCRATCH/in", "/srv")).bound("/tmp/run/")
    assert bound.read_paths == ("/srv", "/tmp/run/in/")
    assert bound.allows("read", "/tmp/run/in/a/b")
    assert reads("/").allows("read", "/tmp/run/in")


def test_reading_and_writing_are_separate() -> None:
    assert not reads("/a").allows("write", "/a")
    assert not PermissionSet(write_paths=("/a",)).allows("read", "/a")


def test_entries_are_canonical_and_without_repetition() -> None:
    assert reads("/b", "/a/x", "/a//", "/a") == reads("/a/", "/b")
    assert reads("/a/x", "/a") != reads("/a")
    assert hosts("A.example.com:443", "*.example.com", "a.example.com") == hosts("*.example.com")
    assert hosts("*", "localhost:1").hosts == ("*", "localhost:1")
    assert PermissionSet(run=("git", "*")).run == ("*",)


def test_unknown_fields_and_changes_are_refused() -> None:
    with pytest.raises(ValidationError):
        PermissionSet.model_validate({"hots": ["a.com"]})
    with pytest.raises(ValidationError):
        named("minimal").hosts = ("*",)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["A B", "1A", "A=B", "", "*"])
def test_bad_environment_names(name: str) -> None:
    with pytest.raises(ValidationError):
        PermissionSet(env_names=(name,))


def test_smallest_cover_names_exactly_the_resource() -> None:
    assert smallest_cover("net", "LOCALHOST:9") == hosts("localhost:9")
    assert smallest_cover("write", "/a//b") == PermissionSet(write_paths=("/a/b",))
    assert smallest_cover("env", "HOME") == PermissionSet(env_names=("HOME",))
    assert smallest_cover("run", "git") == PermissionSet(run=("git",))


@pytest.mark.parametrize(
    ("operation", "resource"), [("ffi", "x"), ("read", "x"), ("net", "localhost")]
)
def test_smallest_cover_refuses_inexpressible_resources(operation: str, resource: str) -> None:
    with pytest.raises(ValueError):
        smallest_cover(operation, resource)  # type: ignore[arg-type]


def test_cap_is_the_intersection() -> None:
    asked = PermissionSet(
        hosts=("api.example.com:443", "*.example.org", "localhost:80"),
        read_paths=("/srv/", "/etc"),
        env_names=("A", "B"),
        run=("git",),
    )
    ceiling = PermissionSet(
        hosts=("*:443",), read_paths=("/srv/data/",), env_names=("B",), run=("*",)
    )
    assert cap(asked, ceiling) == PermissionSet(
        hosts=("api.example.com:443", "*.example.org:443"),
        read_paths=("/srv/data/",),
        env_names=("B",),
        run=("git",),
    )


def test_named_sets_grow() -> None:
    assert list(NAMED) == [
        "minimal", "readonly", "filesystem", "network-api", "mcp-standard", "trusted",
    ]  # fmt: skip
    assert named("minimal").is_empty
    assert named("filesystem").covers(named("readonly"))
    assert named("mcp-standard").covers(named("filesystem").union(named("network-api")))
    assert named("trusted").covers(named("mcp-standard").union(PermissionSet(env_names=("HOME",))))
    with pytest.raises(ValueError, match="minimal, readonly"):
        named("root")


def test_no_named_set_covers_private_addresses() -> None:
    for permissions in NAMED.values():
        assert not permissions.allows("net", "localhost:5432")
        assert not permissions.allows("net", "169.254.169.254:80")
        assert not permissions.allows("read", "/etc/passwd")


@pytest.mark.parametrize(
    ("name", "beyond"),
    [
        ("minimal", False),
        ("readonly", False),
        ("filesystem", True),
        ("network-api", True),
        ("trusted", True),
    ],
)
def test_modifying_permissions_are_detected(name: str, beyond: bool) -> None:
    assert named(name).is_beyond_reading is beyond


def test_descriptions_are_plain() -> None:
    told = PermissionSet(
        hosts=("*:443", "*.example.com", "localhost:8080"),
        read_paths=("$SCRATCH",),
        write_paths=("$SCRATCH/out", "/srv/", "/opt/notes.txt"),
        env_names=("HOME",),
        run=("git",),
    ).descriptions()
    assert {each.text for each in told} == {
        "Connect to any public host on port 443.",
        "Connect to any host below example.com on any port.",
        "Connect to the private host localhost on port 8080.",
        "Read the working folder of the run.",
        "Write out in the working folder of the run.",
        "Write the folder /srv/ and everything below.",
        "Write the file /opt/notes.txt.",
        "Read the environment variable HOME.",
        "Start the program git.",
    }
    assert len(told) == 9
    assert [each.text for each in reads("/").descriptions()] == ["Read every file of the machine."]
    assert str(named("minimal")) == "Use nothing beyond its inputs."


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
     "0.0.0.0",
     "255.255.255.255", "224.0.0.1", "198.18.0.1", "192.0.2.1", "::1", "::", "fe80::1", "fc00::1",
     "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
     "2002:7f00:1::", "2001:db8::1", "2001::1"],
)  # fmt: skip
def test_addresses_that_are_not_global(address: str) -> None:
    assert not is_global_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_global_addresses(address: str) -> None:
    assert is_global_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("::1", "[::1]"),
        ("[2001:DB8::0]", "[2001:db8::]"),
    ],
)
def test_canonical_hosts(written: str, canonical: str) -> None:
    assert canonical_host(written) == canonical
