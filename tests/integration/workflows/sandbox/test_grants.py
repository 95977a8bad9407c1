"""Programs with a grant: network, files and environment that were refused before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.http_server import Server
from workflows.engine.policy.permissions import PermissionSet, named
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .conftest import Bench

FETCH = {
    "typescript": "const r = await fetch(url); return [r.status, r.url, await r.text()]",
    "python": "r = fetch(url)\n[r['status'], r['url'], r['text']]",
}
LANGUAGES = sorted(FETCH)


def fetch(bench: Bench, language: str, url: str, *hosts: str, **options: Any) -> Any:
    permissions = PermissionSet(hosts=hosts)
    return bench.run(
        language, FETCH[language], inputs={"url": url}, permissions=permissions, **options
    ).value


def needed(bench: Bench, language: str, url: str, *hosts: str, **options: Any) -> PermissionSet:
    with pytest.raises(PermissionEscalationNeeded) as caught:
        fetch(bench, language, url, *hosts, **options)
    assert caught.value.operation == "net"
    return caught.value.requested


@pytest.mark.parametrize("language", LANGUAGES)
def test_granting_the_requested_set_is_enough(
    bench: Bench, web_server: Server, language: str
) -> None:
    url = f"http://localhost:{web_server.port}/echo"
    requested = needed(bench, language, url)
    assert requested == PermissionSet(hosts=(f"localhost:{web_server.port}",))
    status, final, text = fetch(bench, language, url, *requested.hosts)
    assert (status, final, json.loads(text)["method"]) == (200, url, "GET")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_redirect_escalates_for_its_own_host(
    bench: Bench, web_server: Server, language: str
) -> None:
    here, there = f"localhost:{web_server.port}", f"127.0.0.1:{web_server.port}"
    url = f"http://{here}/redirect?to=http://{there}/echo"
    requested = needed(bench, language, url, here)
    assert requested == PermissionSet(hosts=(here, there))
    assert fetch(bench, language, url, *requested.hosts)[1] == f"http://{there}/echo"


@pytest.mark.parametrize("language", LANGUAGES)
def test_dns_rebinding_reaches_nothing(bench: Bench, web_server: Server, language: str) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    host = f"rebind.example:{web_server.port}"
    before = len(web_server.seen)
    requested = needed(bench, language, f"http://{host}/", host, config={"resolver": rebinding})
    assert requested == PermissionSet(hosts=(host, f"127.0.0.1:{web_server.port}"))
    assert asked == ["rebind.example"]
    assert len(web_server.seen) == before


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_large_response_is_an_error_in_the_program(
    bench: Bench, web_server: Server, language: str
) -> None:
    host = f"localhost:{web_server.port}"
    with pytest.raises(TaskFailed, match="1048576 bytes"):
        fetch(bench, language, f"http://{host}/large?bytes=2000000", host)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pending_request_ends_with_the_run(
    bench: Bench, web_server: Server, language: str
) -> None:
    host = f"localhost:{web_server.port}"
    with pytest.raises(TaskFailed):
        fetch(bench, language, f"http://{host}/silent", host, timeout_seconds=1)


def test_methods_headers_and_bodies_are_sent(bench: Bench, web_server: Server) -> None:
    host = f"localhost:{web_server.port}"
    code = {
        "typescript": "await (await fetch(url, {method: 'POST', body: 'é',"
        "headers: {'X-A': 'b'}})).json()",
        "python": "import json\njson.loads(fetch(url, method='POST', body='é',"
        "headers={'X-A': 'b'})['text'])",
    }
    for language, program in code.items():
        answer: Any = bench.run(
            language,
            program,
            inputs={"url": f"http://{host}/echo"},
            permissions=PermissionSet(hosts=(host,)),
        ).value
        assert (answer["method"], answer["body"]) == ("POST", "é")
        assert {name.lower(): value for name, value in answer["headers"].items()}["x-a"] == "b"


FILES = {
    "typescript": "Deno.writeTextFileSync('out.txt', 'one'); Deno.mkdirSync('sub');"
    "Deno.renameSync('out.txt', 'sub/out.txt'); Deno.writeTextFileSync('sub/out.txt', 'two',"
    "{append: true}); return [Deno.readTextFileSync('sub/out.txt'), [...Deno.readDirSync('.')]"
    ".map((e) => e.name)]",
    "python": "import os\nwith open('out.txt', 'w') as f:\n    f.write('o')\n    f.write('ne')\n"
    "os.mkdir('sub')\nos.rename('out.txt', 'sub/out.txt')\nwith open('sub/out.txt', 'a') as f:\n"
    "    f.write('two')\n[open('sub/out.txt').read(), os.listdir('.')]",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kept", [True, False])
def test_files_in_the_working_folder(bench: Bench, language: str, kept: bool) -> None:
    options = {"scratch_dir": bench.scratch} if kept else {}
    result = bench.run(language, FILES[language], permissions=named("filesystem"), **options)
    assert result.value == ["onetwo", ["sub"]]
    assert (bench.scratch / "sub" / "out.txt").exists() is kept


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_write_is_granted_by_its_exact_path(bench: Bench, language: str) -> None:
    target = bench.scratch / "a b: é" / "out.txt"
    target.parent.mkdir()
    code = {
        "typescript": "Deno.writeTextFileSync(path, 'x') ?? null",
        "python": "open(path, 'w').write('x')",
    }[language]
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run(language, code, inputs={"path": str(target)})
    assert (caught.value.operation, caught.value.resource) == ("write", str(target))
    bench.run(language, code, inputs={"path": str(target)}, permissions=caught.value.requested)
    assert target.read_text() == "x"
    target.with_name("other.txt").write_text("kept")
    other = str(target.with_name("other.txt"))
    with pytest.raises(PermissionEscalationNeeded):
        bench.run(language, code, inputs={"path": other}, permissions=caught.value.requested)
    assert target.with_name("other.txt").read_text() == "kept"


STEPS = {
    "typescript": "Deno.mkdirSync('a/b', {recursive: true}); Deno.writeTextFileSync('a/b/c', 'x');"
    "return Deno.readTextFileSync('a/b/c')",
    "python": "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nopen('a/b/c').read()",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_grants_one_after_the_other_are_enough(bench: Bench, language: str) -> None:
    """What is made on the way is not there yet when the walls go up."""
    permissions, resources = PermissionSet(), []
    for _ in range(6):
        try:
            assert bench.run(language, STEPS[language], permissions=permissions).value == "x"
            break
        except PermissionEscalationNeeded as need:
            permissions = need.requested
            resources.append(f"{need.operation} {need.resource}")
    else:
        pytest.fail(f"still asks: {resources}")
    assert resources[-1] == "read $SCRATCH/a/b/c"


def test_a_path_with_a_comma_grants_nothing_else(bench: Bench) -> None:
    permissions = PermissionSet(read_paths=(f"{bench.scratch}/a,/",))
    code = f"Deno.readTextFileSync('{bench.secret}')"
    with pytest.raises(TaskFailed, match="comma"):
        bench.run("typescript", code, permissions=permissions)


@pytest.mark.parametrize("language", LANGUAGES)
def test_only_the_granted_variable_is_visible(bench: Bench, language: str) -> None:
    code = {
        "typescript": "[Deno.env.get('A'), Deno.env.toObject()]",
        "python": "import os\n[os.getenv('A'), os.environ]",
    }[language]
    permissions = PermissionSet(env_names=("A", "CANARY", "LD_PRELOAD"))
    result = bench.run(language, code, permissions=permissions, env={"A": "1", "B": "2"})
    assert result.value == ["1", {"A": "1"}]


def test_a_temporary_folder_is_named_for_the_rerun(bench: Bench) -> None:
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run("typescript", "Deno.writeTextFileSync('x', '1')")
    assert caught.value.resource == "$SCRATCH/x"
    permissions = caught.value.requested
    assert bench.run("typescript", "Deno.writeTextFileSync('x', '1')", permissions=permissions)
