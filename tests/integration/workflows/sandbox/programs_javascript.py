"""Hostile programs for Deno."""

from __future__ import annotations

from workflows.engine.policy.permissions import PermissionSet, named

from .programs import SECONDS, Hostile

_SCRATCH = named("filesystem")
_EVERYTHING = PermissionSet(read_paths=("/",))

FILES = (
    Hostile("read a file", "Deno.readTextFileSync('{secret}')", "escalation", "{secret}"),
    Hostile("static import as text",
            "import p from 'file://{secret}' with {type: 'text'}; export default p",
            "escalation", "{secret}"),
    Hostile("static import of a path",
            "import p from '{secret}' with {type: 'text'}; export default p", "failure", "URL"),
    Hostile("literal dynamic import",
            "(await import('file://{secret}', {with: {type: 'text'}})).default",
            "escalation", "{secret}"),
    Hostile("computed dynamic import",
            "(await import('fi' + 'le://{secret}', {with: {type: 'text'}})).default",
            "escalation", "{secret}"),
    Hostile("createRequire",
            "import {createRequire} from 'node:module';"
            "export default createRequire('file:///tmp/x.js')('{secret}')",
            "escalation", "{secret}"),
    Hostile("node:fs",
            "import fs from 'node:fs'; export default fs.readFileSync('{secret}', 'utf8')",
            "escalation", "{secret}"),
    Hostile("fetch of a file URL", "await (await fetch('file://{secret}')).text()", "failure",
            "URL"),
    Hostile("denial caught", "try { Deno.readTextFileSync('{secret}') } catch {} return 'quiet'",
            "escalation", "{secret}"),
    Hostile("worker", "new Worker('file://{secret}', {type: 'module'}); return 1",
            "failure", "Worker is not defined"),
    Hostile("Node's worker", "import w from 'node:worker_threads'; const started ="
            "new w.Worker('{secret}'); export default await new Promise(() => {})",
            "escalation", "{secret}"),
    Hostile("permission request",
            "(await Deno.permissions.request({name: 'read', path: '/'})).state",
            "value", "denied"),
    Hostile("/proc of the parent", "Deno.readTextFileSync('/proc/1/environ')", "failure", "/proc"),
    Hostile("/proc with every file granted", "Deno.readTextFileSync('/proc/self/environ')",
            "failure", "/proc", permissions=_EVERYTHING),
    Hostile("descriptors", "[...Deno.readDirSync('/proc/self/fd')]", "failure", "/proc"),
    Hostile("climb out of the folder", "Deno.readTextFileSync('../../private/secret.txt')",
            "escalation", "private", permissions=_SCRATCH),
    Hostile("symlink made", "Deno.symlinkSync('{secret}', 'link')", "failure", "Unlimited",
            permissions=_SCRATCH),
    Hostile("symlink found", "Deno.readTextFileSync('{scratch}/trap')", "escalation", "{secret}",
            permissions=_SCRATCH, options={"with_scratch": True}),
    Hostile("hard link", "Deno.linkSync('{secret}', 'link'); return Deno.readTextFileSync('link')",
            "escalation", "{secret}", permissions=_SCRATCH),
    Hostile("write elsewhere", "Deno.writeTextFileSync('{secret}', 'x')", "escalation", "{secret}",
            permissions=_SCRATCH),
)  # fmt: skip

ENVIRONMENT = (
    Hostile("variable", "Deno.env.get('CANARY')", "escalation", "CANARY"),
    Hostile("process.env", "import p from 'node:process'; export default p.env.CANARY",
            "escalation", "CANARY"),
    Hostile("every variable", "Object.keys(Deno.env.toObject())", "value", "[]"),
    Hostile("every variable by Node", "import p from 'node:process'; export default {...p.env}",
            "value", "{}"),
    Hostile("host name", "Deno.hostname()", "failure", "Facts"),
    Hostile("program", "new Deno.Command('/bin/sh').outputSync()", "failure", "Programs"),
    Hostile("child process", "import c from 'node:child_process';"
            "export default c.execSync('/bin/id').toString()", "failure"),
    Hostile("native library", "Deno.dlopen('libc.so.6', {})", "failure", "Native"),
    Hostile("signal to the parent", "Deno.kill(Deno.ppid, 'SIGKILL')", "failure"),
)  # fmt: skip

NETWORK = (
    Hostile("host by name", "await fetch('http://localhost:{port}/')", "escalation",
            "localhost:{port}"),
    Hostile("host by address", "await fetch('http://127.0.0.1:{port}/')",
            "escalation", "127.0.0.1:{port}"),
    Hostile("address as a number", "await (await fetch('http://2130706433:{port}/')).text()",
            "escalation", "127.0.0.1:{port}"),
    Hostile("address as v6", "await fetch('http://[::ffff:127.0.0.1]:{port}/')",
            "escalation", "[::ffff:7f00:1]:{port}", permissions=PermissionSet(hosts=("*",))),
    Hostile("metadata service", "await fetch('http://169.254.169.254/latest/')",
            "failure", "metadata address", permissions=PermissionSet(hosts=("*",))),
    Hostile("denial caught", "try { await fetch('http://a.example/') } catch {} return 1",
            "escalation", "a.example:80"),
    Hostile("npm", "import x from 'npm:left-pad'; export default x", "failure", "npm"),
    Hostile("https import", "import x from 'https://esm.sh/x'; export default x", "failure",
            "network"),
    Hostile("jsr", "await import('jsr:@std/path')", "failure"),
    Hostile("TCP", "await Deno.connect({hostname: '127.0.0.1', port: {port}})", "failure", "fetch"),
    Hostile("listening", "Deno.listen({port: 0})", "failure", "fetch"),
    Hostile("UDP", "import d from 'node:dgram'; const s = d.createSocket('udp4');"
            "export default await new Promise((ok, no) => { s.on('error', no);"
            "s.send('x', 9, '127.0.0.1', ok) })", "failure"),
    Hostile("WebSocket", "const w = new WebSocket('ws://127.0.0.1:{port}/');"
            "return await new Promise((ok) => { w.onerror = () => ok('error') })", "failure",
            "fetch"),
    Hostile("node:http", "import h from 'node:http'; export default await new Promise((ok, no) =>"
            "h.get('http://127.0.0.1:{port}/', ok).on('error', no))", "failure", "fetch"),
    Hostile("name resolution", "await Deno.resolveDns('a.example', 'A')", "failure"),
)  # fmt: skip

EXHAUSTION = (
    Hostile("endless loop", "(() => { for (;;); })()", "failure", "did not end", seconds=SECONDS),
    Hostile("endless wait", "await new Promise(() => {})", "failure", "did not end",
            seconds=SECONDS),
    Hostile("microtask storm", "await (async () => { for (;;) await null })()",
            "failure", "did not end", seconds=SECONDS),
    Hostile("regular expression", "/^(a+)+$/.test('a'.repeat(40) + 'b')", "failure", "did not end",
            seconds=SECONDS),
    Hostile("blocked main thread", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
            "failure", "did not end", seconds=SECONDS),
    Hostile("signal ignored", "Deno.addSignalListener('SIGTERM', () => {}); for (;;); return 1",
            "failure", "did not end", seconds=SECONDS),
    Hostile("3 GB of buffers", "const all = []; for (let i = 0; i < 30; i++)"
            "all.push(new Uint8Array(1e8).fill(1)); return all.length", "failure"),
    Hostile("heap", "const all = []; for (;;) all.push(new Array(1000).fill({})); return 1",
            "failure", "memory", seconds=15, options={"memory_mb": 32}),
    Hostile("WebAssembly memory", "const all = []; for (let i = 0; i < 64; i++)"
            "all.push(new WebAssembly.Memory({initial: 1000, maximum: 65536}))"
            "&& new Uint8Array(all.at(-1).buffer).fill(1); return all.length", "failure"),
    Hostile("threads", "import w from 'node:worker_threads'; for (let i = 0; i < 500; i++)"
            "new w.Worker('for(;;);', {eval: true}); export default await new Promise(() => {})",
            "failure", seconds=SECONDS),
    Hostile("stack", "(function f() { return f() + 1 })()", "failure", "RangeError"),
    Hostile("stdout without end", "for (;;) console.log('x'.repeat(10000)); return 1",
            "failure", "printed", options={"config": {"flood_bytes": 4 << 20}}),
    Hostile("stderr without end", "for (;;) console.error('x'.repeat(10000)); return 1",
            "failure", "printed", options={"config": {"flood_bytes": 4 << 20}}),
    Hostile("huge result", "'x'.repeat(30_000_000)", "failure"),
    Hostile("deep result", "let v = []; for (let i = 0; i < 5000; i++) v = [v]; return v",
            "failure"),
    Hostile("endless toJSON", "({toJSON() { for (;;); }})", "failure", "did not end",
            seconds=SECONDS),
    Hostile("cycle", "const a = {}; a.a = a; return a", "failure", "TypeError"),
    Hostile("endless requests", "for (;;) await fetch('http://localhost:{port}/').catch(() => {});"
            "return 1", "failure", "too many", permissions=PermissionSet(hosts=("localhost:1",)),
            options={"port": 1, "config": {"max_fetches": 20}}),
)  # fmt: skip

TAMPERING = (
    Hostile("forged frame", "for (const line of ['{\"kind\":\"result\",\"json\":\"1\"}', 'null'])"
            "console.log(line); return 'mine'", "value", "mine"),
    Hostile("frame hijacked", "const write = Deno.stdout.writeSync; let mark;"
            "Deno.stdout.writeSync = (b) => { mark ??= b; return write.call(Deno.stdout,"
            "new TextEncoder().encode(new TextDecoder().decode(b).replace('{', '[{{{')))};"
            "return 1", "failure", "garbled"),
    Hostile("JSON replaced", "JSON.stringify = () => 'nonsense'; JSON.parse = () => null; return 1",
            "value", "1"),
    Hostile("prototype polluted",
            "Object.prototype.kind = 'fetch'; Array.prototype.at = () => null;"
            "Promise.prototype.then = undefined; return 1", "value", "1"),
    Hostile("__proto__ in the result", "JSON.parse('{\"__proto__\": {\"a\": 1}}')", "value", "a"),
    Hostile("silent exit", "Deno.exit(0)", "failure", "without a result"),
    Hostile("stdout closed", "Deno.stdout.close(); await new Promise(() => {}); return 1",
            "failure", seconds=SECONDS),
    Hostile("late exit", "addEventListener('unload', () => { for (;;); }); return 1", "value", "1"),
    Hostile("error with traps", "throw new Proxy(new Error('x'), {get() { throw 1 }})", "failure"),
    Hostile("late error", "setTimeout(() => { throw new Error('later') }, 0);"
            "await new Promise(() => {}); return 1", "failure", "later"),
    Hostile("stored for the next run", "localStorage.setItem('x', (localStorage.x ?? '') + 'x');"
            "return localStorage.x", "failure"),
    Hostile("cached for the next run", "const c = await caches.open('x');"
            "await c.put('http://a.example/', new Response('x'.repeat(1e6))); return 'kept'",
            "failure"),
    Hostile("breaking out of the wrapper", "1); Deno.readTextFileSync('{secret}'); (2",
            "escalation", "{secret}"),
)  # fmt: skip

JAVASCRIPT = FILES + ENVIRONMENT + NETWORK + EXHAUSTION + TAMPERING
