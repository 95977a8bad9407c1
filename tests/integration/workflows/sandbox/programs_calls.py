"""Hostile Python programs that attack the worker through calls and returned values."""

from __future__ import annotations

from typing import Any

from workflows.engine.policy.permissions import PermissionSet, named

from .programs import SECONDS, Ending, Hostile

_SCRATCH = named("filesystem")
_TZ = PermissionSet(env_names=("TZ",))
_SHARED = "x = 'a'\nfor i in range(60): x = [x, x]\n"


def _python(name: str, code: str, ending: Ending, told: str = "", **options: Any) -> Hostile:
    return Hostile(name, code, ending, told, language="python", **options)


HANDED_OVER = (
    _python("result that shares its parts", _SHARED + "x", "failure", "too large"),
    _python("long text many times", "['a' * 1000000] * 9000", "failure", "too large"),
    _python("shared parts as headers", _SHARED + "fetch('http://a.example/', headers={'a': x})",
            "failure", "TypeError"),
    _python("shared parts as a default", "import os\n" + _SHARED + "os.getenv('TZ', x)",
            "failure", "TypeError", permissions=_TZ),
    _python("list as a body", "fetch('http://localhost:{port}/', method='POST', body=[b'x' * 9])",
            "failure", "TypeError", permissions=PermissionSet(hosts=("localhost:1",))),
    _python("list as an address", "fetch(['http://a.example/'])", "failure", "TypeError"),
    _python("number as a method", "fetch('http://a.example/', method=1)", "failure", "TypeError"),
    _python("list as headers", "fetch('http://a.example/', headers=[1])", "failure", "TypeError"),
    _python("time beyond all times", "import time\ntime.sleep(10 ** 400)", "failure", "Overflow"),
    _python("no time", "import time\ntime.sleep(float('nan'))", "failure", "NaN"),
    _python("NUL in a key", "{'a\\0': 1}", "failure", "NUL"),
    _python("huge whole number", "10 ** 4000", "failure", "digits"),
    _python("number too long to write", "10 ** 5000", "failure", "digits"),
    _python("infinity", "[float('inf')]", "failure", "JSON"),
    _python("deeper than any stack", "x = []\nfor i in range(200000): x = [x]\nx", "failure"),
    _python("string of shared parts", _SHARED + "str(x)", "failure", seconds=SECONDS),
    _python("printing shared parts", _SHARED + "print(x)", "failure", seconds=SECONDS),
)  # fmt: skip

ASKED_FOR = (
    _python("path of nothing", "open('').read()", "escalation", "$SCRATCH"),
    _python("links that mean the worker", "open('/proc/self/cwd/pyproject.toml').read()",
            "failure", "/proc"),
    _python("text that is turned around", "open('/nowhere/\\u202etxt.exe')", "failure",
            "how it reads"),
    _python("path without end", "open('/' + 'x' * 500000)", "failure", "4096 characters"),
    _python("name without end", "import os\nos.getenv('X' * 300000)", "failure", "No permission"),
    _python("parents that nobody granted", "import os\nos.makedirs('{scratch}/../a/b/c')",
            "escalation", permissions=_SCRATCH, options={"with_scratch": True}),
    _python("prefix of a granted path", "open('/nowhere/ab').read()", "escalation", "/nowhere/ab",
            permissions=PermissionSet(read_paths=("/nowhere/a",))),
    _python("folders without bottom", "import os\nd = '.'\nwhile True:\n    d += '/a'\n"
            "    os.mkdir(d)", "failure", permissions=_SCRATCH, seconds=SECONDS),
    _python("mapped address", "fetch('http://[::ffff:127.0.0.1]:{port}/')", "escalation",
            "[::ffff:7f00:1]:{port}", permissions=PermissionSet(hosts=("*",))),
    _python("compatible address", "fetch('http://[::127.0.0.1]:{port}/')", "escalation",
            "[::7f00:1]:{port}", permissions=PermissionSet(hosts=("*",))),
    _python("port 0", "fetch('http://127.0.0.1:0/')", "failure", "port 0"),
    _python("final dot", "fetch('http://localhost.:{port}/')", "escalation", "localhost:{port}"),
    _python("user in the address", "fetch('http://a.example@127.0.0.1:{port}/')", "failure",
            "user"),
    _python("digits of another script", "fetch('http://①②⑦.0.0.1:{port}/')", "failure", "URL"),
    _python("sleep in many tasks", "import asyncio\nasync def f():\n"
            "    await asyncio.gather(*[f() for _ in range(1000)])\nawait f()", "failure",
            seconds=SECONDS),
    _python("long program in a program", "exec('x = 1\\n' * 10 ** 6)", "failure",
            seconds=SECONDS),
    _python("comparison without end", "class A:\n    def __eq__(s, o): return s == o\nA() == A()",
            "failure", "Recursion"),
)  # fmt: skip

CALLS = HANDED_OVER + ASKED_FOR
