"""Inputs, results, logs and errors of programs in both languages."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed

from .conftest import Bench

INPUTS: dict[str, Any] = {"lines": ["a", "b"], "n": 2, "not a name": True, "class": 1, "é": "ü"}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("lines.length", 2),
        ("lines.length;", 2),
        ("{n, first: lines[0]}", {"n": 2, "first": "a"}),
        ("await Promise.resolve(n + 1) // a remark", 3),
        ("inputs['not a name'] && inputs.class", 1),
        ("é", "ü"),
        ("const twice: number = n * 2;\nreturn twice", 4),
        ("const n = 5; return n", 5),
        ("var n = 6; return n", 6),
        ("export default 7", 7),
        ("export default Promise.resolve([1])", [1]),
        ("export default (given: {n: number}) => given.n", 2),
        ("export default async function ({lines}) { return lines }", ["a", "b"]),
        ("import { basename } from 'node:path';\nexport default basename('/a/b')", "b"),
        ("enum Kind { A = 3 }\nreturn Kind.A", 3),
        ("undefined", None),
        ("return", None),
        ("[undefined, NaN, new Date(0)]", [None, None, "1970-01-01T00:00:00.000Z"]),
        ("new Date(0).getHours()", 0),
        ("`${Deno.stdin ? 'x' : ''}\\u2028é`", "x\u2028é"),
    ],
)
def test_typescript(bench: Bench, code: str, value: Any) -> None:
    assert bench.run("typescript", code, inputs=INPUTS).value == value


def test_javascript_is_not_typescript(bench: Bench) -> None:
    assert bench.run("javascript", "lines.map((x) => x + 1)", inputs=INPUTS).value == ["a1", "b1"]
    with pytest.raises(TaskFailed, match="SyntaxError"):
        bench.run("javascript", "const x: number = 1; return x")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("len(lines)", 2),
        ("inputs['not a name'] and inputs['class']", 1),
        ("é", "ü"),
        ("lines.append('c')\nlines", ["a", "b", "c"]),
        ("n = 5\nn", 5),
        ("n = 5", None),
        ("def f(x):\n    return {'x': (x, 1.5)}\nf(n)", {"x": [2, 1.5]}),
        ("import json, re, math\njson.loads('[1]')", [1]),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\nawait f()", 1),
        ("10 ** 30", 10**30),
    ],
)
def test_python(bench: Bench, code: str, value: Any) -> None:
    assert bench.run("python", code, inputs=INPUTS).value == value


@pytest.mark.parametrize(
    ("language", "code", "message"),
    [
        ("typescript", "let x = ;", "SyntaxError: Expression expected (line 1)"),
        ("typescript", "\n\nthrow new TypeError('bad')\nreturn 1", "TypeError: bad (line 3)"),
        ("typescript", "throw 'just text'\nreturn 1", "thrown: just text"),
        ("typescript", "const x = 1; x", "The program gives no value"),
        ("typescript", "export const x = 1", "the module has no default export"),
        ("typescript", "10n", "TypeError: Do not know how to serialize a BigInt"),
        ("python", "x = (", "SyntaxError"),
        ("python", "\n1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("python", "{1, 2}", "a set has no JSON form"),
        ("python", "{1: 2}", "every key of a dict must be a str"),
        ("python", "class A: pass\nA()", "a A has no JSON form"),
        ("python", "unknown", "NameError"),
        ("python", "unknown()", "NameError"),
        ("python", "import requests", "No module named 'requests'"),
    ],
)
def test_failures_have_message_and_line(
    bench: Bench, language: str, code: str, message: str
) -> None:
    with pytest.raises(TaskFailed) as caught:
        bench.run(language, code)
    assert message in caught.value.message
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("language", "code", "line"),
    [
        ("typescript", "const a = 1;\nreturn Deno.readTextFileSync('/srv/hosts')", 2),
        ("typescript", "export default () => {\n\nreturn fetch('http://a.example/')\n}", 3),
        ("typescript", "Deno.env.get('HOME')", 1),
        ("python", "x = 1\ndef f():\n    return open('/srv/hosts')\nf()", 3),
        ("python", "\nfetch('http://a.example/')", 2),
    ],
)
def test_an_escalation_names_the_line(bench: Bench, language: str, code: str, line: int) -> None:
    with pytest.raises(PermissionEscalationNeeded) as caught:
        bench.run(language, code)
    assert caught.value.line == line
    assert caught.value.current.is_empty
    assert caught.value.requested.covers(caught.value.current)
    assert not caught.value.requested.is_empty


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("typescript", "console.log('out'); console.error('err'); return 1"),
        ("python", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1"),
    ],
)
def test_printed_text_comes_back(bench: Bench, language: str, code: str) -> None:
    result = bench.run(language, code)
    assert (result.value, result.stdout, result.stderr) == (1, "out\n", "err\n")
    assert 0 < result.duration < 10


@pytest.mark.parametrize(
    ("language", "code"),
    [("typescript", "console.log('x'.repeat(5000)); return 1"), ("python", "print('x' * 5000)\n1")],
)
def test_printed_text_is_bounded(bench: Bench, language: str, code: str) -> None:
    result = bench.run(language, code, config={"max_output_bytes": 100})
    assert result.stdout == "x" * 100 + "\n[4901 more bytes were not kept]"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("typescript", "console.log('a\\0b'); throw new Error('a\\0b\\ud800'); return 1"),
        ("python", "raise ValueError('a\\0b')"),
    ],
)
def test_failures_can_be_stored(bench: Bench, language: str, code: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        bench.run(language, code)
    assert "a\ufffdb" in caught.value.message
    caught.value.message.encode()


def test_unfinished_lines_do_not_reach_the_result(bench: Bench) -> None:
    code = "Deno.stdout.writeSync(new TextEncoder().encode('no newline')); return 1"
    result = bench.run("typescript", code)
    assert (result.value, result.stdout) == (1, "no newline")


@pytest.mark.parametrize("language", ["typescript", "python"])
def test_code_size_is_bounded(bench: Bench, language: str) -> None:
    with pytest.raises(TaskFailed, match="bytes"):
        bench.run(language, "1" * 2000, config={"max_code_bytes": 1000})


@pytest.mark.parametrize(
    ("language", "code"),
    [("typescript", "(() => { for (;;); })()"), ("python", "while True: pass")],
)
def test_a_program_is_stopped(bench: Bench, language: str, code: str) -> None:
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    started = time.monotonic()
    with pytest.raises(TaskFailed, match="stopped"):
        bench.run(language, code, should_stop=stop.is_set)
    assert time.monotonic() - started < 8
    timer.join()


def test_concurrent_runs_are_isolated(bench: Bench) -> None:
    def one(number: int) -> tuple[int, str]:
        language = "typescript" if number % 2 else "python"
        printing = "console.log(i), i * 2" if number % 2 else "print(i)\ni * 2"
        result = bench.run(language, printing, inputs={"i": number})
        assert isinstance(result.value, int)
        return result.value, result.stdout

    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(one, range(30)))
    assert results == [(number * 2, f"{number}\n") for number in range(30)]


@pytest.mark.parametrize("language", ["typescript", "python"])
def test_deep_and_large_inputs(bench: Bench, language: str) -> None:
    deep: Any = 1
    for _ in range(20):
        deep = [{"a": deep}]
    large = "x" * 300_000
    code = "[deep, large.length]" if language == "typescript" else "[deep, len(large)]"
    result = bench.run(language, code, inputs={"deep": deep, "large": large})
    assert result.value == [deep, 300_000]
