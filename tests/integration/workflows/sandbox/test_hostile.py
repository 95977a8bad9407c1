"""Hostile programs: none gets out, each ends in time, the worker goes on, nothing is left."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.support.http_server import Server
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .conftest import SECRET, Bench
from .programs import Hostile
from .programs_calls import CALLS
from .programs_doors import DOORS
from .programs_javascript import JAVASCRIPT
from .programs_python import PYTHON

PROGRAMS = JAVASCRIPT + DOORS + PYTHON + CALLS


def _filled(text: str, bench: Bench, port: int) -> str:
    for name, value in (("secret", bench.secret), ("port", port), ("scratch", bench.scratch)):
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _ending(bench: Bench, program: Hostile, code: str) -> tuple[str, str, str]:
    """How the run ended, what to look at, and everything that came out."""
    options: dict[str, Any] = dict(program.options)
    options.pop("port", None)
    if options.pop("with_scratch", False):
        (bench.scratch / "trap").symlink_to(bench.secret)
        options["scratch_dir"] = bench.scratch
    try:
        result = bench.run(
            program.language,
            code,
            permissions=program.permissions,
            timeout_seconds=program.seconds,
            **options,
        )
    except PermissionEscalationNeeded as error:
        return "escalation", error.resource, f"{error} {error.resource}"
    except TaskFailed as error:
        return "failure", error.message, error.message
    return "value", str(result.value), f"{result.value} {result.stdout} {result.stderr}"


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=[f"{program.language}: {program.name}" for program in PROGRAMS]
)
def test_hostile_programs_are_contained(program: Hostile, bench: Bench, web_server: Server) -> None:
    port = program.options.get("port", web_server.port)
    threads, requests = threading.active_count(), len(web_server.seen)
    started = time.monotonic()
    ending, told, everything = _ending(bench, program, _filled(program.code, bench, port))
    assert time.monotonic() - started < program.seconds + 10
    assert ending == program.ending, told
    assert _filled(program.told, bench, port) in told
    assert SECRET not in everything
    assert bench.secret.read_text() == SECRET
    assert len(web_server.seen) == requests
    assert bench.leftovers() == []
    assert threading.active_count() <= threads


def test_the_number_of_hostile_programs() -> None:
    assert len(PROGRAMS) >= 180
    assert len({(program.language, program.name, program.code) for program in PROGRAMS}) == len(
        PROGRAMS
    )


def test_the_worker_still_works_afterwards(bench: Bench) -> None:
    assert bench.run("typescript", "6 * 7").value == 42
    assert bench.run("python", "6 * 7").value == 42
