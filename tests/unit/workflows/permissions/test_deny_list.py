"""The deny list: every spelling of a denied place is denied, and nothing lifts it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from workflows.engine.policy.permissions import NAMED, Operation, PermissionSet, canonical_path
from workflows.permissions import deny_list

HOME = str(settings.HOLDPOINT_HOME)
CODE = str(Path(deny_list.__file__).resolve().parents[1])

DENIED = [
    "/etc",
    "/etc/passwd",
    "/root/.ssh/id_rsa",
    "/home/alice",
    "/proc/self/root/etc/passwd",
    "/sys/kernel",
    "/dev/sda",
    "/run/secrets/key",
    "/var/run/docker.sock",
    "/boot/vmlinuz",
    "/var/lib/holdpoint/abc/postgres",
    HOME,
    f"{HOME}/secret_key",
    f"{HOME}/demo-passwords.txt",
    f"{HOME}/sandbox/somebody-elses-run",
    CODE,
    f"{CODE}/config/settings/base.py",
    sys.prefix,
    f"{sys.prefix}/bin/python",
]
PARENTS = ["/", "/var", "/var/lib", str(Path(CODE).parent)]
#: Ways to write the same place that a person or a check may overlook.
DISGUISES = [
    lambda path: path,
    lambda path: f"/{path}",
    lambda path: f"{path}/",
    lambda path: f"/srv/..{path}",
    lambda path: f"/srv/../..{path}/.",
    lambda path: path.replace("/", "//"),
    lambda path: path.replace("/", "/./"),
    str.upper,
    str.title,
    lambda path: f"{path}.",
    lambda path: f"{path} ",
    lambda path: path.replace("e", "\uff45", 1),
    lambda path: path.replace("s", "\u017f", 1),
]


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("path", [*DENIED, *PARENTS])
def test_every_spelling_of_a_denied_path_is_denied(path: str, operation: Operation) -> None:
    for disguise in DISGUISES if path != "/" else DISGUISES[:7]:
        assert deny_list.path_problem(disguise(path), operation), disguise(path)


@pytest.mark.parametrize("path", ["/srv/data", "/opt/reports/", "/var/log/app.log", "/tmp/x"])
def test_other_places_are_not_denied(path: str) -> None:
    assert deny_list.path_problem(path, "read") is None
    assert deny_list.path_problem(path, "write") is None


def test_programs_of_the_host_are_readable_and_never_writable() -> None:
    assert deny_list.path_problem("/usr/share/dict/words", "read") is None
    assert "/usr" in str(deny_list.path_problem("/usr/local/bin/tool", "write"))


def test_a_symbolic_link_leads_to_what_is_denied(tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/etc")
    assert deny_list.path_problem(str(tmp_path / "innocent" / "passwd"), "read")
    (tmp_path / "far").symlink_to(tmp_path / "innocent")
    assert deny_list.path_problem(str(tmp_path / "far"), "read")


def test_the_folder_of_the_run_is_the_only_exception(settings: Any, tmp_path: Path) -> None:
    for files in (Path(settings.HOLDPOINT["file_root"]), tmp_path / "elsewhere"):
        settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": files}
        own, other = files / "runs" / "7", files / "runs" / "70"
        for operation in ("read", "write"):
            problem_with = partial(deny_list.path_problem, operation=operation, scratch=own)
            assert problem_with(f"{own}/report.csv") is None
            for path in (f"{other}/report.csv", f"{own}/../70/report.csv", f"{files}/", f"{files}"):
                assert problem_with(path), path
            assert deny_list.path_problem(f"{own}/report.csv", operation), "of another run"
    assert deny_list.path_problem(f"{HOME}/files/../secret_key", "read")
    for root in ("/", "/var", HOME, str(Path(HOME).parent)):
        settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": root}
        assert deny_list.path_problem(f"{HOME}/secret_key", "read"), root
        assert deny_list.path_problem("/etc/passwd", "read"), root


def test_sockets_of_the_databases_are_denied(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = {"HOST": "/srv/postgres", "PORT": "5433"}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    settings.REDIS_URL = "unix://:secret@/srv/redis/redis.sock?db=0"
    assert deny_list.path_problem("/srv/postgres/.s.PGSQL.5433", "write")
    assert deny_list.path_problem("/srv/redis/redis.sock", "read")
    assert deny_list.path_problem("/srv/redis/", "read")
    assert deny_list.path_problem("/srv/other/", "read") is None


@pytest.mark.parametrize(
    ("ports", "expected"),
    [("5433,5434", ("5433", "5434")), ("5433", ("5433", "5433")), ("", ("5432", "5432")),
     ("5433,", ("5433", "5432"))],
)  # fmt: skip
def test_each_of_several_database_servers_is_denied(
    settings: Any, monkeypatch: pytest.MonkeyPatch, ports: str, expected: tuple[str, str]
) -> None:
    """libpq takes lists of hosts and ports; connections to other places still work."""
    database = {"HOST": "127.0.0.1,127.0.0.2", "PORT": ports}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": ["*"]}
    for host, port in zip(("127.0.0.1", "127.0.0.2"), expected, strict=True):
        assert "database" in str(deny_list.host_problem(host, int(port)))
    assert deny_list.host_problem("192.0.2.1", 443) is None
    database = {"HOST": "/srv/first,/srv/second", "PORT": ports}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    for folder, port in zip(("/srv/first", "/srv/second"), expected, strict=True):
        assert deny_list.path_problem(f"{folder}/.s.PGSQL.{port}", "write")


def test_an_unresolved_database_host_is_looked_up_again(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = {"HOST": "late.database.test", "PORT": "5432"}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    answers: list[Any] = [OSError("not yet"), [(2, 1, 6, "", ("192.0.2.77", 0))]]

    def look_up(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(deny_list.socket, "getaddrinfo", look_up)
    assert deny_list.host_problem("192.0.2.77", 5432) is None
    assert "database" in str(deny_list.host_problem("192.0.2.77", 5432))
    assert answers == []


def test_files_with_secrets_are_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY_FILE", "/srv/keys/holdpoint")
    assert deny_list.path_problem("/srv/keys/holdpoint", "read")
    assert deny_list.path_problem("/srv/keys/", "read")
    assert deny_list.path_problem("/srv/keys/other", "read") is None


def test_the_databases_are_denied_as_hosts(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "default", {"HOST": "127.0.0.1", "PORT": "5433"})
    settings.REDIS_URL = "redis://localhost:6380/0"
    for entry in ("127.0.0.1:5433", "localhost:6380", "127.0.0.1:6380", "[::ffff:127.0.0.1]:6380"):
        assert deny_list.problem_of(PermissionSet(hosts=(entry,))), entry
    assert deny_list.problem_of(PermissionSet(hosts=("127.0.0.1:5434",))) is None


@pytest.mark.parametrize(
    "name",
    ["SECRET_KEY", "DATABASE_URL_FILE", "DATABASE_OWNER_URL", "HOLDPOINT_LLM_API_KEY",
     "EMAIL_HOST_PASSWORD"],
)  # fmt: skip
def test_variables_of_the_product_are_denied(name: str) -> None:
    assert name in str(deny_list.problem_of(PermissionSet(env_names=(name,))))


# --- loopback -------------------------------------------------------------------------------------

LOOPBACK = ["127.0.0.1:9000", "localhost:9000", "127.9.9.9:80", "[::1]:80", "[::ffff:7f00:1]:80"]


@pytest.mark.parametrize("entry", LOOPBACK)
def test_services_of_this_machine_are_denied_unless_named(settings: Any, entry: str) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": ["127.0.0.1:8000"]}
    assert "this machine" in str(deny_list.problem_of(PermissionSet(hosts=(entry,))))
    named = PermissionSet(hosts=("127.0.0.1:8000",))
    assert deny_list.problem_of(named) is None
    assert deny_list.without_denied(named.union(PermissionSet(hosts=(entry,)))) == named
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": ["*"]}
    assert deny_list.problem_of(PermissionSet(hosts=(entry,))) is None


# --- laws -----------------------------------------------------------------------------------------

_PARTS = st.sampled_from(["etc", "ETC", "srv", "data", "var", "run", "proc", "self", "root", "x."])
_PATHS = st.lists(_PARTS, max_size=4).map(lambda parts: "/" + "/".join(parts))
_GRANTED = st.one_of(_PATHS, st.sampled_from([*DENIED, *PARENTS, "$SCRATCH", "$SCRATCH/out"]))
_HOSTS = st.sampled_from(
    ["*", "*:443", "169.254.169.254:80", "[fd00:ec2::254]:80", "api.example.com:443",
     "metadata.google.internal:80", "100.100.100.200:80", "168.63.129.16:32526", "10.0.0.7:80"]
)  # fmt: skip
_SETS = st.builds(
    PermissionSet,
    hosts=st.lists(_HOSTS, max_size=4).map(tuple),
    read_paths=st.lists(_GRANTED, max_size=4).map(tuple),
    write_paths=st.lists(_GRANTED, max_size=4).map(tuple),
    env_names=st.lists(st.sampled_from(["SECRET_KEY", "LANG", "HOLDPOINT_HOME"])).map(tuple),
)


@given(_SETS, _SETS)
def test_no_added_permission_lifts_the_deny_list(own: PermissionSet, grant: PermissionSet) -> None:
    effective = deny_list.without_denied(own.union(grant))
    assert deny_list.problem_of(effective) is None
    assert own.union(grant).covers(effective)
    assert deny_list.without_denied(effective) == effective
    for path in (*DENIED, *PARENTS):
        assert not effective.allows("read", path)
        assert not effective.allows("write", path)


@given(_PATHS)
def test_no_permission_covers_a_denied_place(path: str) -> None:
    """A granted folder never has a denied place below it."""
    folder = canonical_path(path + "/")
    effective = deny_list.without_denied(PermissionSet(read_paths=(folder,)))
    if not effective.is_empty:
        for denied in (*DENIED, *deny_list.SYSTEM_FOLDERS):
            assert not effective.allows("read", denied)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_no_named_set_holds_anything_denied(name: str) -> None:
    assert deny_list.without_denied(NAMED[name]) == NAMED[name]


def test_a_runs_working_folder_is_allowed_only_to_it(tmp_path: Path) -> None:
    scratch = Path(HOME) / "sandbox" / "run" / "scratch"
    bound = NAMED["filesystem"].bound(str(scratch))
    assert deny_list.without_denied(bound).is_empty
    assert deny_list.without_denied(bound, scratch=scratch) == bound
    beside = PermissionSet(read_paths=(f"{scratch.parent}/other/", f"{scratch.parent}/"))
    assert deny_list.without_denied(beside, scratch=scratch).is_empty
