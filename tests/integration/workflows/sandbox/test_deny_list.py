"""Programs with a stored grant of the host: the deny list still applies."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.support.http_server import Server
from workflows.common import landlock
from workflows.engine.policy.permissions import PermissionSet, named
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.sandbox import deno_setup
from workflows.sandbox.code_request import RunEnvironment

from .conftest import SECRET, Bench

READ = {
    "python": "open(path).read()",
    "typescript": "return await Deno.readTextFile(path)",
}
WRITE = {
    "python": "open(path, 'w').write('x')",
    "typescript": "await Deno.writeTextFile(path, 'x'); return 1",
}
LANGUAGES = sorted(READ)
CODE = Path(deno_setup.__file__).parents[2]


def home_file() -> Path:
    """A file of the product's home, which tests keep in a temporary folder."""
    secret = Path(settings.HOLDPOINT_HOME) / "canary_key"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text(SECRET)
    return secret


def everything(path: str) -> PermissionSet:
    """As wide as a grant could ever be written, however it came about."""
    named = Path(os.path.normpath(path.replace("//", "/")))
    parents = [f"{parent}/" for parent in (named, *named.parents) if parent != Path("/")]
    paths = ("/", str(named), *parents)
    return PermissionSet(
        hosts=("*",), read_paths=paths, write_paths=paths, env_names=("HOLDPOINT_HOME",), run=("*",)
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize(
    "path",
    [
        "/etc/hostname",
        "//etc/./hostname",
        "/srv/../etc/hostname",
        "/proc/self/environ",
        "/proc/self/root/etc/hostname",
        "/proc/self/cwd/x",
        "/dev/null",
        "/root/.profile",
        "/run/x",
        "/var/run/x",
        "{home}/canary_key",
        "{home}/files/../canary_key",
        "{code}/manage.py",
    ],
)
def test_a_grant_of_everything_does_not_reach_the_host(
    bench: Bench, language: str, code: dict[str, str], path: str
) -> None:
    secret = home_file()
    path = path.replace("{home}", str(settings.HOLDPOINT_HOME)).replace("{code}", str(CODE))
    with pytest.raises(TaskFailed, match="no permission reaches it"):
        bench.run(language, code[language], inputs={"path": path}, permissions=everything(path))
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_link_in_a_granted_folder_does_not_reach_the_host(bench: Bench, language: str) -> None:
    home_file()
    (bench.scratch / "innocent").symlink_to(settings.HOLDPOINT_HOME)
    granted = PermissionSet(read_paths=(f"{bench.scratch}/",))
    path = str(bench.scratch / "innocent" / "canary_key")
    with pytest.raises(TaskFailed, match="no permission reaches it"):
        bench.run(language, READ[language], inputs={"path": path}, permissions=granted)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_granted_path_that_became_a_link_is_not_followed(bench: Bench, language: str) -> None:
    """What was granted is the place of that name; the link leads to another one."""
    granted = bench.scratch / "report"
    granted.symlink_to(bench.secret)
    permissions = PermissionSet(read_paths=(str(granted),))
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run(language, READ[language], inputs={"path": str(granted)}, permissions=permissions)
    assert caught.value.resource == str(bench.secret)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_granted_file_that_became_a_folder_is_not_granted(bench: Bench, language: str) -> None:
    granted = bench.scratch / "report"
    granted.mkdir()
    (granted / "inside").write_text(SECRET)
    permissions = PermissionSet(read_paths=(str(granted),))
    path = str(granted / "inside")
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run(language, READ[language], inputs={"path": path}, permissions=permissions)
    assert caught.value.resource == path


LISTING = {
    "python": "import os\nos.listdir(path)",
    "typescript": "return [...Deno.readDirSync(path)].map((each) => each.name)",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_folder_is_requested_as_a_whole(bench: Bench, language: str) -> None:
    folder = bench.scratch / "data"
    folder.mkdir()
    (folder / "a").write_text("x")
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run(language, LISTING[language], inputs={"path": str(folder)})
    assert caught.value.resource == f"{folder}/"
    permissions = caught.value.requested
    assert permissions.has_folders
    result = bench.run(
        language, LISTING[language], inputs={"path": str(folder)}, permissions=permissions
    )
    assert result.value == ["a"]


def test_no_hard_link_to_a_denied_file_is_created(bench: Bench) -> None:
    secret = home_file()
    code = f"Deno.linkSync('{secret}', '{bench.scratch}/mine'); return 1"
    with pytest.raises(TaskFailed, match="no permission reaches it"):
        bench.run("typescript", code, permissions=everything(str(bench.scratch)))
    assert not (bench.scratch / "mine").exists()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", [READ, WRITE], ids=["read", "write"])
def test_a_granted_file_that_became_a_hard_link_is_not_granted(
    bench: Bench, language: str, code: dict[str, str]
) -> None:
    granted = bench.scratch / "report"
    granted.hardlink_to(bench.secret)
    permissions = PermissionSet(read_paths=(str(granted),), write_paths=(str(granted),))
    with pytest.raises(TaskFailed, match="granted but not possible this way"):
        bench.run(language, code[language], inputs={"path": str(granted)}, permissions=permissions)
    assert bench.secret.read_text() == SECRET


HARD_LINKED = {
    "read": "open('linked').read()",
    "read bytes": "from pathlib import Path\nPath('linked').read_bytes()",
    "write": "open('linked', 'w').write('x')",
    "append": "open('linked', 'a').write('x')",
    "write text": "from pathlib import Path\nPath('linked').write_text('x')",
    "through a symbolic link": "open('link').read()",
}


@pytest.mark.parametrize("use", sorted(HARD_LINKED))
def test_a_hard_link_in_a_granted_folder_is_not_opened(bench: Bench, use: str) -> None:
    """Its other name may lie anywhere, here in a folder that is not granted."""
    (bench.scratch / "linked").hardlink_to(bench.secret)
    (bench.scratch / "link").symlink_to("linked")
    with pytest.raises(TaskFailed, match="The file is a hard link") as caught:
        bench.run(
            "python", HARD_LINKED[use], permissions=named("filesystem"), scratch_dir=bench.scratch
        )
    assert SECRET not in str(caught.value)
    assert bench.secret.read_text() == SECRET


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://168.63.129.16/machine",
        "http://metadata.google.internal/",
    ],
)
@pytest.mark.parametrize("granted", [True, False])
def test_a_metadata_address_opens_no_escalation(
    bench: Bench, language: str, address: str, *, granted: bool
) -> None:
    code = {"python": "fetch(path)", "typescript": "return (await fetch(path)).status"}[language]
    permissions = everything("/srv/x") if granted else PermissionSet()
    with pytest.raises(TaskFailed, match="no permission reaches it"):
        bench.run(language, code, inputs={"path": address}, permissions=permissions)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_name_rebound_to_metadata_ends_the_program(
    bench: Bench, language: str, web_server: Server
) -> None:
    """Whatever the resolver answers, also on a redirect, also behind a harmless first answer."""
    answers = itertools.cycle([["127.0.0.1"], ["169.254.169.254"]])
    host = f"localhost:{web_server.port}"
    code = {
        "python": "try:\n    fetch(path)\nexcept OSError:\n    pass\nfetch(path)",
        "typescript": "try { await fetch(path) } catch {} return (await fetch(path)).status",
    }[language]
    with pytest.raises(TaskFailed, match="metadata address"):
        bench.run(
            language,
            code,
            inputs={"path": f"http://{host}/echo"},
            permissions=PermissionSet(hosts=(host,)),
            config={"resolver": lambda _host, _port: next(answers)},
        )


@pytest.mark.parametrize("language", LANGUAGES)
def test_services_of_this_machine_open_no_escalation(
    bench: Bench, language: str, web_server: Server, settings: Any
) -> None:
    named_target = f"127.0.0.1:{web_server.port}"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "loopback_targets": [named_target]}
    code = {"python": "fetch(path)['status']", "typescript": "return (await fetch(path)).status"}
    for host in (f"localhost:{web_server.port}", f"127.0.0.1:{web_server.port + 1}", "[::1]:80"):
        for permissions in (PermissionSet(), PermissionSet(hosts=(host,))):
            with pytest.raises(TaskFailed, match="service of this machine"):
                bench.run(
                    language,
                    code[language],
                    inputs={"path": f"http://{host}/echo"},
                    permissions=permissions,
                )
    granted = PermissionSet(hosts=(named_target,))
    url = f"http://{named_target}/echo"
    result = bench.run(language, code[language], inputs={"path": url}, permissions=granted)
    assert result.value == 200


# --- races ----------------------------------------------------------------------------------------

READS = {
    "python": """\
seen = set()
for _ in range(400):
    try:
        seen.add(open('dir/secret.txt').read())
    except OSError:
        pass
sorted(seen)""",
    "typescript": """\
const seen = new Set<string>();
for (let i = 0; i < 400; i++) {
  try { seen.add(Deno.readTextFileSync('dir/secret.txt')); } catch { /* swapped meanwhile */ }
}
return [...seen].sort();""",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_folder_swapped_while_it_is_opened_is_refused(bench: Bench, language: str) -> None:
    """A thread swaps a folder for a link to a private one as fast as it can."""
    folder, away = bench.scratch / "dir", bench.scratch / "away"
    folder.mkdir()
    (folder / "secret.txt").write_text("harmless")
    link = bench.scratch / "link"
    link.symlink_to(bench.secret.parent)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(folder, away)  # noqa: PTH104 - as quick as can be
            os.rename(link, folder)  # noqa: PTH104
            os.rename(folder, link)  # noqa: PTH104
            os.rename(away, folder)  # noqa: PTH104

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        endings = [_ending(bench, language) for _ in range(3)]
    finally:
        over.set()
        thread.join()
    # Asked about, it was told where the link led; it never read what lies there.
    assert set(endings) <= {"harmless", "", f"read {bench.secret}"}


def _ending(bench: Bench, language: str) -> str:
    try:
        result = bench.run(
            language, READS[language], permissions=named("filesystem"), scratch_dir=bench.scratch
        )
    except PermissionEscalationNeeded as need:
        return f"{need.operation} {need.resource}"
    assert isinstance(result.value, list)
    return ", ".join(map(str, result.value))


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_a_granted_folder_swapped_before_landlock_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deno itself opens by name; the ruleset names what was checked, or nothing."""
    folder = bench.scratch / "data"
    folder.mkdir()
    landlock_rules = deno_setup.landlock_rules

    def swapped(environment: RunEnvironment, home: Path) -> landlock.LandlockRules | None:
        made = landlock_rules(environment, home)
        folder.rmdir()
        folder.symlink_to(bench.secret.parent)
        return made

    monkeypatch.setattr(deno_setup, "landlock_rules", swapped)
    code = f"return Deno.readTextFileSync('{folder}/secret.txt');"
    permissions = PermissionSet(read_paths=(f"{folder}/",))
    with pytest.raises((TaskFailed, PermissionEscalationNeeded)) as caught:
        bench.run("typescript", code, permissions=permissions)
    assert SECRET not in str(caught.value)
    assert folder.is_symlink()


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_landlock_allows_only_what_deno_needs(bench: Bench) -> None:
    """Its own executable and harness, system libraries, two devices, the folders of the run."""
    environment = RunEnvironment.of(
        bench.request("typescript", "", permissions=everything(str(bench.scratch))), bench.temp
    )
    rules = deno_setup.landlock_rules(environment, bench.temp)
    assert rules is not None
    opened = {*rules.execute, *rules.read, *rules.write}
    needed = {deno_setup.binary(), deno_setup.HARNESS, "/dev/null", "/dev/urandom"}
    assert needed <= opened
    for path in opened - needed:
        assert not environment.problem("read", Path(path)), path
    environment.scratch.rmdir()
