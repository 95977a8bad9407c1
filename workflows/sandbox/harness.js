// Runs one program that arrives on stdin and reports on stdout, in lines that begin with a marker
// only this run knows. The program is imported as data: an entry module would be allowed to read
// files through its static imports.
const { stdin, stdout, exit } = Deno;
const { parse, stringify } = JSON;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);
const encode = encoder.encode.bind(encoder);
const waiting = new Map();
const EMPTY_STATUS = [204, 205, 304];
let lastId = 0;

function readStart() {
  const chunk = new Uint8Array(65536);
  let text = "";
  while (!text.endsWith("\n")) {
    const count = stdin.readSync(chunk);
    if (count === null) exit(70);
    text += decode(chunk.subarray(0, count), { stream: true });
  }
  return parse(text);
}

const start = readStart();

function send(message) {
  let bytes = encode(`\n${start.marker}${stringify(message)}\n`);
  while (bytes.length) bytes = bytes.subarray(stdout.writeSync(bytes));
}

// Reading on for as long as the program runs also ends it when the worker is gone.
async function listen() {
  const chunk = new Uint8Array(65536);
  let text = "";
  for (;;) {
    const count = await stdin.read(chunk);
    if (count === null) exit(70);
    text += decode(chunk.subarray(0, count), { stream: true });
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
      const reply = parse(text.slice(0, end));
      text = text.slice(end + 1);
      waiting.get(reply.id)?.(reply);
      waiting.delete(reply.id);
    }
  }
}

async function fetchThroughWorker(input, init) {
  const { stack } = new Error();
  const request = new Request(input, init);
  const body = request.body && new Uint8Array(await request.arrayBuffer());
  const id = ++lastId;
  const answered = new Promise((resolve) => waiting.set(id, resolve));
  const headers = [...request.headers];
  const { method, url } = request;
  send({ kind: "fetch", id, method, url, headers, body: body && body.toBase64(), stack });
  const reply = await answered;
  if (reply.error) throw new TypeError(reply.error);
  const content = EMPTY_STATUS.includes(reply.status) ? null : Uint8Array.fromBase64(reply.body);
  const response = new Response(content, {
    status: reply.status,
    statusText: reply.reason,
    headers: reply.headers,
  });
  Object.defineProperty(response, "url", { value: reply.url });
  return response;
}

function visibleEnvironment() {
  const pairs = start.env.map((name) => [name, Deno.env.get(name)]);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

async function load() {
  for (const form of start.forms) {
    try {
      return [form, await import(form.url)];
    } catch (error) {
      if (form === start.forms.at(-1)) throw error;
    }
  }
}

function report(error) {
  let [name, message, stack] = ["Error", "", ""];
  try {
    [name, message, stack] = error instanceof Error
      ? [String(error.name), String(error.message), String(error.stack)]
      : ["thrown", String(error), ""];
  } catch {
    message = "something that cannot be printed was thrown";
  }
  send({ kind: "error", name, message: message.slice(0, 4000), stack: stack.slice(0, 8000) });
}

async function run() {
  try {
    const [form, module] = await load();
    if (form.refusal) throw new Error(form.refusal);
    if (!("default" in module)) throw new Error("the module has no default export");
    const program = module.default;
    const named = start.names.map((name) => start.inputs[name]);
    const value = await (typeof program === "function" ? program(start.inputs, ...named) : program);
    send({ kind: "result", json: stringify(value) ?? "null" });
  } catch (error) {
    report(error);
  }
}

globalThis.fetch = fetchThroughWorker;
delete globalThis.Worker;
Deno.env.toObject = visibleEnvironment;
listen();
await run();
exit(0);
