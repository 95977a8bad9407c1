"""Hostile programs that use less known parts of Deno: imports, Node's modules, disks."""

from __future__ import annotations

from workflows.engine.policy.permissions import PermissionSet, named

from .programs import SECONDS, Hostile

_SCRATCH = named("filesystem")
_HERE = PermissionSet(read_paths=("/nowhere/a",), write_paths=("/nowhere/a",))

IMPORTS = (
    Hostile("import of data", "(await import('data:text/javascript,export default Deno"
            ".readTextFileSync(\"{secret}\")')).default", "escalation", "{secret}"),
    Hostile("import of a blob", "const u = URL.createObjectURL(new Blob(["
            "'import p from \"file://{secret}\" with {type: \"text\"}; export default p'],"
            "{type: 'text/javascript'})); return (await import(u)).default",
            "escalation", "{secret}"),
    Hostile("worker that evaluates", "import w from 'node:worker_threads';"
            "export default await new Promise((ok, no) => { const x = new w.Worker("
            "'require(\"worker_threads\").parentPort.postMessage(require(\"fs\")"
            ".readFileSync(\"{secret}\", \"utf8\"))', {eval: true});"
            "x.on('message', ok); x.on('error', no) })", "failure"),
    Hostile("worker of a blob", "const {Worker: W} = await import('node:worker_threads');"
            "const x = new W(new URL(URL.createObjectURL(new Blob(['postMessage(1)']))));"
            "return await new Promise((ok) => x.on('message', ok))", "failure", "URL"),
    Hostile("another context", "import vm from 'node:vm'; export default vm.runInNewContext("
            "'this.constructor.constructor(\"return typeof Deno + typeof Worker\")()')",
            "value", "undefined"),
    Hostile("Node's loader", "import m from 'node:module'; export default m._load('{secret}')",
            "escalation", "{secret}"),
    Hostile("native library by Node", "import p from 'node:process';"
            "p.dlopen({exports: {}}, '/lib/x86_64-linux-gnu/libc.so.6'); export default 1",
            "failure", "Native"),
    Hostile("extension of a database", "import {DatabaseSync as D} from 'node:sqlite';"
            "new D(':memory:', {allowExtension: true}).loadExtension('x'); export default 1",
            "failure", "Native"),
    Hostile("attached database", "import {DatabaseSync as D} from 'node:sqlite';"
            "new D(':memory:').exec(\"attach '{secret}' as x\"); export default 1", "failure",
            "attached"),
    Hostile("raw operations", "return Deno[Deno.internal].core.ops"
            ".op_read_file_text_sync('{secret}')", "failure"),
    Hostile("WASI", "import {WASI} from 'node:wasi';"
            "new WASI({version: 'preview1', preopens: {'/': '/'}}); export default 1",
            "failure", "/ holds"),
    Hostile("inspector", "import i from 'node:inspector'; i.open(0); export default i.url()",
            "failure", "Facts"),
    Hostile("heap snapshot", "import v from 'node:v8'; v.writeHeapSnapshot('{secret}');"
            "export default 1", "escalation", "{secret}"),
    Hostile("user of the machine", "import os from 'node:os'; export default os.userInfo()",
            "failure", "Facts"),
    Hostile("kill by Node", "import p from 'node:process'; p.kill(p.ppid, 'SIGKILL');"
            "export default 1", "failure", "Programs"),
    Hostile("stopped by itself", "import p from 'node:process'; p.kill(p.pid, 'SIGSTOP');"
            "export default 1", "failure", "did not end", seconds=SECONDS),
    Hostile("descriptors by number", "import fs from 'node:fs'; const got = [];"
            "for (let i = 3; i < 40; i++) { try { fs.writeSync(i, 'x'); got.push(i) } catch {} }"
            "export default got", "value", "[]"),
    Hostile("input that never comes", "import fs from 'node:fs'; import {Buffer} from"
            " 'node:buffer'; export default fs.readSync(0, Buffer.alloc(10))", "failure",
            "did not end", seconds=SECONDS),
)  # fmt: skip

PATHS = (
    Hostile("prefix of a granted path", "Deno.readTextFileSync('/nowhere/ab')", "escalation",
            "/nowhere/ab", permissions=_HERE),
    Hostile("case of a granted path", "Deno.readTextFileSync('/nowhere/A')", "escalation",
            "/nowhere/A", permissions=_HERE),
    Hostile("another spelling of é", "Deno.readTextFileSync('/nowhere/e\\u0301')", "escalation",
            "/nowhere/e\u0301", permissions=PermissionSet(read_paths=("/nowhere/é",))),
    Hostile("encoded climb", "Deno.readTextFileSync(new URL('file:///nowhere/a/%2e%2e/b'))",
            "escalation", "/nowhere/b", permissions=_HERE),
    Hostile("text that is turned around", "Deno.readTextFileSync('/nowhere/\\u202etxt.exe')",
            "failure", "how it reads"),
    Hostile("path without end", "Deno.readTextFileSync('/' + 'x'.repeat(500000))", "failure",
            "4096 characters"),
    Hostile("name without end", "Deno.env.get('X'.repeat(300000))", "failure", "No permission"),
    Hostile("links that mean the worker", "Deno.readLinkSync('/proc/self/exe')", "failure",
            "/proc"),
    Hostile("folder of the worker", "Deno.readTextFileSync('/proc/self/cwd/pyproject.toml')",
            "failure", "/proc"),
    Hostile("temporary file anywhere", "Deno.makeTempFileSync()", "failure", "dir: '.'"),
    Hostile("unix socket", "await Deno.connect({transport: 'unix', path: '{scratch}/x'})",
            "failure", "fetch", permissions=_SCRATCH, options={"with_scratch": True}),
    Hostile("unix socket by Node", "import h from 'node:http'; export default await new Promise("
            "(ok, no) => h.get({socketPath: '{scratch}/x', path: '/'}, ok).on('error', no))",
            "failure", "fetch", permissions=_SCRATCH, options={"with_scratch": True}),
    Hostile("event source", "new EventSource('http://127.0.0.1:{port}/');"
            "await new Promise(() => {}); return 1", "failure", seconds=SECONDS),
    Hostile("client of its own", "Deno.createHttpClient({proxy: {url: 'http://127.0.0.1:{port}'}});"
            "return await fetch('http://127.0.0.1:{port}/')", "failure", "fetch"),
    Hostile("port 0", "await fetch('http://127.0.0.1:0/')", "failure", "port 0"),
    Hostile("final dot", "await fetch('http://localhost.:{port}/')", "escalation",
            "localhost:{port}"),
)  # fmt: skip

DISK = (
    Hostile("disk filled by many files", "const b = new Uint8Array(1e6);"
            "for (let i = 0; i < 1000; i++) Deno.writeFileSync('f' + i, b); return 1",
            "failure", "wrote more", permissions=_SCRATCH, seconds=10,
            options={"config": {"max_file_bytes": 4 << 20}}),
    Hostile("files without number", "for (let i = 0;; i++) Deno.writeTextFileSync('f' + i, '');"
            "return 1", "failure", "files", permissions=_SCRATCH, seconds=10,
            options={"config": {"max_files": 50}}),
    Hostile("folders without bottom", "for (;;) { Deno.mkdirSync('a'); Deno.chdir('a') } return 1",
            "failure", "deep", permissions=_SCRATCH, seconds=10),
    Hostile("folder without rights", "Deno.mkdirSync('a/b', {recursive: true});"
            "Deno.writeTextFileSync('a/b/c', 'x'); Deno.chmodSync('a/b', 0);"
            "Deno.chmodSync('a', 0); return 1", "value", "1", permissions=_SCRATCH),
)  # fmt: skip

REPORTS = (
    Hostile("line of a million digits", "const e = new Error('x'); e.stack ="
            "'data:a/b;base64,x:' + '1'.repeat(5000) + ':1'; throw e; return 1", "failure", "x"),
    Hostile("line that is not there", "const e = new Error('x'); e.stack ="
            "'data:a/b;base64,x:99999:1'; throw e; return 1", "failure", "x"),
    Hostile("denial made up", "const e = new Error('Requires run access to \"/bin/sh\"');"
            "e.name = 'NotCapable'; throw e; return 1", "failure", "Programs"),
    Hostile("NUL in a result", "'a\\0b'", "failure", "NUL"),
    Hostile("half a character in a result", "'a\\ud800'", "failure", "surrogate"),
    Hostile("key twice in a result", "const write = Deno.stdout.writeSync; Deno.stdout.writeSync ="
            "(b) => { const t = new TextDecoder().decode(b).replace('\"1\"',"
            "JSON.stringify('{\"a\":1,\"a\":2}')); write.call(Deno.stdout,"
            "new TextEncoder().encode(t)); return b.length }; return 1", "failure", "twice"),
    Hostile("huge number in a result", "JSON.rawJSON('9'.repeat(5000))", "failure", "digits"),
    Hostile("compressed bomb", "const c = new CompressionStream('gzip'); const w = c.writable"
            ".getWriter(); (async () => { for (let i = 0; i < 3000; i++) await w.write("
            "new Uint8Array(1 << 20)); await w.close() })(); const d = c.readable.pipeThrough("
            "new DecompressionStream('gzip')); return (await new Response(d).arrayBuffer())"
            ".byteLength", "failure"),
)  # fmt: skip

DOORS = IMPORTS + PATHS + DISK + REPORTS
