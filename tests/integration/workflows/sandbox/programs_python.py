"""Hostile programs for Monty."""

from __future__ import annotations

from typing import Any

from workflows.engine.policy.permissions import PermissionSet, named

from .programs import SECONDS, Ending, Hostile

_SCRATCH = named("filesystem")
_EVERYTHING = PermissionSet(read_paths=("/",))


def _python(name: str, code: str, ending: Ending, told: str = "", **options: Any) -> Hostile:
    return Hostile(name, code, ending, told, language="python", **options)


FILES = (
    _python("open", "open('{secret}').read()", "escalation", "{secret}"),
    _python("pathlib", "from pathlib import Path\nPath('{secret}').read_text()",
            "escalation", "{secret}"),
    _python("exists", "import os\nos.path.exists('{secret}')", "escalation", "{secret}"),
    _python("listing", "import os\nos.listdir('/')", "failure", "/ holds"),
    _python("walk", "import os\nlist(os.walk('/etc'))", "failure", "/etc"),
    _python("denial caught", "try:\n    open('{secret}')\nexcept BaseException:\n    pass\n'quiet'",
            "escalation", "{secret}"),
    _python("denial in finally", "try:\n    open('{secret}')\nfinally:\n    while True: pass",
            "escalation", "{secret}"),
    _python("/proc with every file granted", "open('/proc/self/environ').read()",
            "failure", "/proc",
            permissions=_EVERYTHING),
    _python("device", "open('/dev/zero', 'rb').read()", "failure", "/dev", permissions=_EVERYTHING),
    _python("climb", "open('../private/secret.txt').read()", "escalation", "private",
            permissions=_SCRATCH, options={"with_scratch": True}),
    _python("symlink found", "open('trap').read()", "escalation", "{secret}", permissions=_SCRATCH,
            options={"with_scratch": True}),
    _python("listing through a symlink", "import os\n[x for x in os.walk('.')][0][2]", "value",
            "trap",
            permissions=_SCRATCH, options={"with_scratch": True}),
    _python("moving a secret in", "import os\nos.rename('{secret}', 'mine')",
            "escalation", "{secret}",
            permissions=_SCRATCH, options={"with_scratch": True}),
    _python("write elsewhere", "open('{secret}', 'w')", "escalation", "{secret}",
            permissions=_SCRATCH),
    _python("write without end",
            "f = open('big', 'w')\nfor i in range(100):\n    f.write('x' * 1000000)",
            "failure", "wrote more", permissions=_SCRATCH,
            options={"config": {"max_file_bytes": 3 << 20}}),
    _python("null byte", "open('/etc/passwd\\0.txt').read()", "failure", "null"),
)  # fmt: skip

ENVIRONMENT = (
    _python("getenv", "import os\nos.getenv('CANARY')", "escalation", "CANARY"),
    _python("environ", "import os\ndict(os.environ)", "value", "{}"),
    _python("subprocess", "import subprocess\nsubprocess.run(['id'])", "failure", "ModuleNotFound"),
    _python("os.system", "import os\nos.system('id')", "failure", "AttributeError"),
    _python("os.fork", "import os\nwhile True: os.fork()", "failure", "AttributeError"),
    _python("ctypes", "import ctypes\nctypes.CDLL(None)", "failure", "ModuleNotFound"),
    _python("socket", "import socket\nsocket.create_connection(('127.0.0.1', {port}))",
            "failure", "ModuleNotFound"),
    _python("threads", "import threading\nwhile True: threading.Thread().start()", "failure",
            "Module"),
    _python("__import__", "__import__('os').system('id')", "failure"),
    _python("importlib", "import importlib\nimportlib.import_module('os')", "failure",
            "ModuleNotFound"),
    _python("pickle", "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
            "failure", "ModuleNotFound"),
    _python("subclasses", "().__class__.__base__.__subclasses__()", "failure"),
    _python("globals of a function", "(lambda: 1).__globals__['__builtins__']", "failure"),
    _python("frames", "(x for x in [1]).gi_frame.f_back.f_globals", "failure"),
    _python("eval", "eval('open(\"{secret}\").read()')", "escalation", "{secret}"),
    _python("fetch replaced", "fetch = open\nfetch('{secret}')", "escalation", "{secret}"),
)  # fmt: skip

NETWORK = (
    _python("host by name", "fetch('http://localhost:{port}/')", "escalation", "localhost:{port}"),
    _python("host by address", "fetch('http://127.0.0.1:{port}/')", "escalation",
            "127.0.0.1:{port}"),
    _python("address as a number", "fetch('http://2130706433:{port}/')", "failure", "neither"),
    _python("metadata service", "fetch('http://169.254.169.254/')", "failure",
            "metadata address",
            permissions=PermissionSet(hosts=("*",))),
    _python("file URL", "fetch('file://{secret}')", "failure", "http"),
    _python("header smuggling", "fetch('http://localhost:{port}/', headers={'A': 'b\\r\\nC: d'})",
            "failure", "header"),
    _python("endless requests", "while True:\n    try:\n        fetch('http://localhost:1/')\n"
            "    except OSError:\n        pass", "failure", "too many",
            permissions=PermissionSet(hosts=("localhost:1",)),
            options={"config": {"max_fetches": 20}}),
    _python("wrong arguments", "fetch(1, 2, 3, 4, 5, 6)", "failure", "TypeError"),
)  # fmt: skip

EXHAUSTION = (
    _python("endless loop", "while True: pass", "failure", "did not end", seconds=SECONDS),
    _python("timeout caught", "while True:\n    try:\n        while True: pass\n"
            "    except BaseException: pass", "failure", "did not end", seconds=SECONDS),
    _python("sleep", "import time\ntime.sleep(100)", "failure", "did not end", seconds=SECONDS),
    _python("many sleeps", "import time\nwhile True: time.sleep(0)", "failure", seconds=SECONDS),
    _python("list", "x = []\nwhile True: x.append('a' * 1000)", "failure", "memory"),
    _python("string", "'a' * 10**12", "failure", "memory"),
    _python("doubling", "x = 'a'\nwhile True: x += x", "failure", "memory"),
    _python("big number", "10 ** 10 ** 10", "failure"),
    _python("format width", "f'{1:>{10**11}}'", "failure"),
    _python("recursion", "def f(): return f()\nf()", "failure", "Recursion"),
    _python("recursion in repr", "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
            "failure"),
    _python("regular expression", "import re\nre.match('(a+)+$', 'a' * 40 + 'b')", "value", "None",
            seconds=SECONDS),
    _python("nested source", "(" * 5000 + ")" * 5000, "failure", seconds=SECONDS),
    _python("output without end", "while True: print('x' * 10000)", "failure", "printed",
            options={"config": {"flood_bytes": 4 << 20}}),
    _python("huge result", "'x' * 30_000_000", "failure"),
    _python("deep result", "v = []\nfor i in range(500): v = [v]\nv", "failure"),
    _python("cycle", "a = []\na.append(a)\nlen(a)", "value", "1"),
    _python("not a number", "float('nan')", "failure", "JSON"),
)  # fmt: skip

PYTHON = FILES + ENVIRONMENT + NETWORK + EXHAUSTION
