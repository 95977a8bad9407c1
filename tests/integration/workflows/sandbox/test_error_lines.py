"""The line that is named, wherever in the program it stands, behind the second wall too."""

from __future__ import annotations

import pytest

from tests.support.http_server import Server
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .conftest import Bench

IN_A_BLOCK = """
type Row = { id: number };
function check(row: Row): number {
  if (row.id > 1) {
    %s
  }
  return 0;
}
return await check({ id: 2 });
"""


@pytest.mark.parametrize("language", ["typescript", "javascript"])
def test_an_error_in_a_block_has_its_line(bench: Bench, language: str) -> None:
    code = IN_A_BLOCK % 'throw new RangeError("too many");'
    if language == "javascript":
        code = code.replace("type Row = { id: number };", "").replace("row: Row): number", "row)")
    with pytest.raises(TaskFailed) as raised:
        bench.run(language, code)
    assert raised.value.message == "RangeError: too many (line 5)"


def test_an_error_that_is_caught_can_be_read(bench: Bench) -> None:
    code = "try { if (inputs) { throw new Error('a'); } } catch (e) { return String(e.stack); }"
    assert str(bench.run("typescript", code).value).startswith("Error: a")


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("return fetch('%s').then((answer) => answer.status);", "net"),
        ("return Deno.readTextFileSync('/srv/hostname').length;", "read"),
    ],
)
def test_a_need_in_a_block_has_its_line(
    bench: Bench, web_server: Server, call: str, operation: str
) -> None:
    url = f"http://127.0.0.1:{web_server.port}/"
    code = (IN_A_BLOCK % call.replace("%s", url)).replace("): number {", "): any {")
    with pytest.raises(PermissionEscalationNeeded) as raised:
        bench.run("typescript", code)
    assert (raised.value.operation, raised.value.line) == (operation, 5)
