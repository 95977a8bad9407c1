/**
 * Ask people for approval from a TypeScript agent; one file without dependencies, for Node 20+,
 * Deno and Bun.
 *
 *     import { Client, Rejected } from "./holdpoint.ts";
 *
 *     const transfer = new Client().requiresApproval(
 *       { name: "payments.transfer", risk: "high", editable: ["/amount"] },
 *       async ({ account, amount }: { account: string; amount: number }) => { ... },
 *     );
 *     try {
 *       await transfer({ account: "DE02", amount: 250 }); // waits for a person
 *     } catch (error) {
 *       if (error instanceof Rejected) console.log("not approved:", error.reason);
 *     }
 *
 * The server and the token come from HOLDPOINT_URL and HOLDPOINT_TOKEN, or from the options.
 * The client fails closed: `approve` returns only approvals whose arguments have the digest that
 * the server states, and are the requested ones unless a reviewer edited them. All else throws.
 * Network errors are retried with backoff and jitter. The same name, arguments and `key` continue
 * the same approval after a restart. An approval is for one execution; actions should be
 * idempotent by the approval's id, because a program can die before it reports.
 */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = { [name: string]: Json };
export type Body = { action: { name: string; arguments: Arguments }; [field: string]: unknown };
export type Ask = {
  risk?: "low" | "medium" | "high";
  editable?: boolean | string[];
  title?: string;
  description?: string;
  schema?: Arguments;
  output?: Json;
  [field: string]: unknown;
};
export type Waiting = { key?: string; timeout?: number; signal?: AbortSignal };

/** An approval as last read; `arguments` are the decided ones, `body` is the full response. */
export type Decision = {
  id: string;
  status: string;
  arguments: Arguments;
  arguments_digest: string;
  edited: boolean;
  comment: string;
  body: { [field: string]: any };
};

// --- errors --------------------------------------------------------------------------------------

/** Base class: the action is not approved. */
export class HoldpointError extends Error {
  override name = this.constructor.name;
}
/** The server refused the request; `code` is stable. */
export class Problem extends HoldpointError {
  readonly status: number;
  readonly code: string;
  constructor(status: number, body: any) {
    super(`${status} ${body?.code ?? "unknown"}: ${body?.detail ?? ""}`);
    this.status = status;
    this.code = String(body?.code ?? "unknown");
  }
}
/** The server gave no usable response for longer than `patience`. */
export class Unreachable extends HoldpointError {}
/** The server's answer does not belong to the request: a digest, an edit or a field is wrong. */
export class InvalidResponse extends HoldpointError {}
/** The deadline passed, or the signal aborted. The approval stays pending only with a `key`. */
export class NotDecided extends HoldpointError {}
/** The approval ended without permission; `reason` is for people and models. */
export class NotApproved extends HoldpointError {
  readonly decision: Decision;
  readonly reason: string;
  constructor(decision: Decision, reason: string) {
    super(reason);
    this.decision = decision;
    this.reason = reason;
  }
}
export class Rejected extends NotApproved {}
export class ChangesRequested extends NotApproved {}
export class Expired extends NotApproved {}
export class Cancelled extends NotApproved {}
export class Failed extends NotApproved {}
export class AlreadyExecuted extends NotApproved {}

const ENDED = new Map<string, [typeof NotApproved, string]>([
  ["rejected", [Rejected, "A reviewer rejected this action."]],
  ["changes_requested", [ChangesRequested, "A reviewer asked for changes."]],
  ["expired", [Expired, "Nobody approved this action in time."]],
  ["cancelled", [Cancelled, "The approval was cancelled."]],
  ["completed", [AlreadyExecuted, "This action was executed before."]],
  ["failed", [Failed, "The approval failed."]],
]);

// --- canonical JSON ------------------------------------------------------------------------------

/** Return the canonical JSON text: sorted keys, ASCII, no spaces, whole numbers as digits. */
export function canonical(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return stringText(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
    const names = Object.keys(value).sort(byCodePoint);
    const item = (name: string) => `${stringText(name)}:${canonical((value as any)[name])}`;
    return `{${names.map(item).join(",")}}`;
  }
  throw new TypeError(`${typeof value} cannot be written as JSON`);
}

/** Return the SHA-256 of the canonical JSON text, as the server computes it. */
export async function digest(value: unknown): Promise<string> {
  const data = new TextEncoder().encode(canonical(value));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function numberText(value: number): string {
  if (!Number.isFinite(value)) throw new TypeError("JSON has no such number");
  if (Number.isInteger(value)) {
    const [digits, exponent] = String(Math.abs(value)).split("e+");
    if (exponent === undefined) return String(value === 0 ? 0 : value);
    const [whole, fraction = ""] = digits.split(".");
    return (value < 0 ? "-" : "") + whole + fraction.padEnd(Number(exponent), "0");
  }
  if (Math.abs(value) >= 1e-4) return String(value);
  const [digits, exponent] = value.toExponential().split("e-");
  return `${digits}e-${exponent.padStart(2, "0")}`;
}

function stringText(value: string): string {
  const escaped = (unit: string) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0");
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

function byCodePoint(one: string, other: string): number {
  const a = Array.from(one, (each) => each.codePointAt(0)!);
  const b = Array.from(other, (each) => each.codePointAt(0)!);
  const at = a.findIndex((point, index) => point !== b[index]);
  return at < 0 ? a.length - b.length : at >= b.length ? 1 : a[at] - b[at];
}

// --- the client ----------------------------------------------------------------------------------

const RETRY = new Set([408, 425, 429, 500, 502, 503, 504]);
const MAX_BYTES = 16 * 2 ** 20;
const LONGEST_POLL = 50; // seconds; the server allows 55
const IN_ACTION = ["title", "description", "schema", "output"];

export class Client {
  readonly #base: string;
  readonly #token: string;
  readonly #agent?: string;
  readonly #patience: number;
  readonly #firstPause: number;

  /** `patience` is how many seconds in a row the server may be unreachable. */
  constructor(
    options: {
      url?: string;
      token?: string;
      agent?: string;
      patience?: number;
      firstPause?: number;
    } = {},
  ) {
    const url = options.url ?? environment("HOLDPOINT_URL");
    const token = options.token ?? environment("HOLDPOINT_TOKEN");
    if (!/^https?:\/\//.test(url)) throw new TypeError("HOLDPOINT_URL must be an http(s) URL");
    if (!/^[!-~]+$/.test(token)) throw new TypeError("HOLDPOINT_TOKEN must be a token of Holdpoint");
    this.#base = `${url.replace(/\/+$/, "")}/api/v1/approvals/`;
    this.#token = token;
    this.#agent = options.agent;
    this.#patience = options.patience ?? 300;
    this.#firstPause = options.firstPause ?? 0.5;
  }

  /** Ask for approval and wait; return the decision only if it is an approval. */
  async approve(name: string, args: Arguments, ask: Ask & Waiting = {}): Promise<Decision> {
    const { key, timeout, signal, ...more } = ask;
    const bodies = { "": requestBody(name, args, more) };
    const decided = await this.#decide(bodies, { "": key }, new Wait(timeout, signal));
    return approval(decided[""]);
  }

  /** Ask for all bodies, which an adapter made by call id; return the decisions by call id. */
  async decide(
    bodies: { [call: string]: Body },
    { key, timeout, signal, ...more }: Ask & Waiting = {},
  ): Promise<{ [call: string]: Decision["body"] }> {
    const calls = Object.keys(bodies);
    const asked = Object.fromEntries(calls.map((call) => [call, { ...bodies[call], ...more }]));
    const keys = Object.fromEntries(calls.map((call) => [call, key && `${key}:${call}`]));
    const decided = await this.#decide(asked, keys, new Wait(timeout, signal));
    return Object.fromEntries(calls.map((call) => [call, decided[call].body]));
  }

  /** Send a body of POST /api/v1/approvals/ without waiting. */
  ask(body: Body, waiting: Waiting = {}): Promise<Decision> {
    return this.#post(body, waiting.key, new Wait(waiting.timeout, waiting.signal));
  }

  /** Wait until an approval is no longer pending. The decision may be a rejection. */
  wait(id: string, waiting: Waiting = {}): Promise<Decision> {
    return this.#wait(id, new Wait(waiting.timeout, waiting.signal));
  }

  /** Answer ChangesRequested with other arguments, and wait as `approve` does. */
  async resubmit(id: string, args: Arguments, waiting: Waiting = {}): Promise<Decision> {
    return await this.#resubmit(id, { arguments: args }, waiting);
  }

  /** Answer ChangesRequested with another output of an executed action, and wait. */
  async resubmitOutput(id: string, output: unknown, waiting: Waiting = {}): Promise<Decision> {
    return await this.#resubmit(id, { output }, waiting);
  }

  async #resubmit(
    id: string,
    values: { arguments: Arguments } | { output: unknown },
    waiting: Waiting,
  ): Promise<Decision> {
    const wait = new Wait(waiting.timeout, waiting.signal);
    const key = crypto.randomUUID();
    await this.#send("POST", `${encodeURIComponent(id)}/resubmit/`, values, wait, key);
    const decision = await this.#wait(id, wait);
    // The arguments of an executed action do not change.
    const body = { action: { name: "", arguments: decision.arguments, ...values } };
    return approval(await checked(decision, body));
  }

  /** Withdraw the request: reviewers no longer see it. */
  async cancel(id: string, reason: string, timeout = 30): Promise<void> {
    const path = `${encodeURIComponent(id)}/cancel/`;
    await this.#send("POST", path, { reason }, new Wait(timeout), crypto.randomUUID());
  }

  /** Report what happened; `arguments` are the executed ones, if not the decided ones. */
  async report(
    decision: Decision,
    result: { ok: boolean; output?: unknown; error?: string; arguments?: Arguments },
  ): Promise<void> {
    const executed = await digest(result.arguments ?? decision.arguments);
    const error = result.error === undefined ? {} : { error: result.error };
    const output = asJson(result.output);
    const body = { ok: result.ok, output, arguments_digest: executed, ...error };
    const path = `${encodeURIComponent(decision.id)}/result/`;
    await this.#send("POST", path, body, new Wait(60), `result-${decision.id}`);
  }

  /**
   * Return a function that runs `action` only after approval, with the decided arguments, and
   * reports the result. `key` returns the key with which an approval is continued.
   */
  requiresApproval<A extends Arguments, R>(
    options: Ask & {
      name: string;
      timeout?: number;
      signal?: AbortSignal;
      key?: (args: A) => string;
    },
    action: (args: A) => Promise<R> | R,
  ): (args: A) => Promise<R> {
    const { name, key, ...ask } = options;
    return async (args: A): Promise<R> => {
      const decision = await this.approve(name, args, { ...ask, key: key?.(args) });
      if ((await digest(decision.arguments)) !== decision.arguments_digest) {
        throw new InvalidResponse("the digest of the arguments is not the decision's digest");
      }
      let output: R;
      try {
        output = await action(decision.arguments as A);
      } catch (error) {
        await this.#reported(decision, { ok: false, error: String(error) });
        throw error;
      }
      await this.#reported(decision, { ok: true, output });
      return output;
    };
  }

  /** Return a function that asks a person a question; give it to an agent as a tool. */
  humanAsTool(
    options: { name?: string; timeout?: number } = {},
  ): (question: string, context?: string) => Promise<string> {
    return async (question, context = "") => {
      const decision = await this.approve(
        options.name ?? "human.ask",
        { question, answer: "" },
        {
          title: question.slice(0, 200),
          context: context || undefined,
          risk: "low",
          editable: ["/answer"],
          instructions: "Write your answer into the field, then approve.",
          timeout: options.timeout,
        },
      );
      return String(decision.arguments.answer || decision.comment);
    };
  }

  async #reported(decision: Decision, result: Parameters<Client["report"]>[1]): Promise<void> {
    try {
      await this.report(decision, result);
    } catch (error) {
      // The action has happened: its result must not be hidden.
      console.warn(`The result of approval ${decision.id} was not reported: ${error}`);
    }
  }

  async #decide(
    bodies: { [call: string]: Body },
    keys: { [call: string]: string | undefined },
    wait: Wait,
  ): Promise<{ [call: string]: Decision }> {
    const pending = new Map<string, Decision>();
    const decided: { [call: string]: Decision } = {};
    try {
      for (const call of Object.keys(bodies)) {
        pending.set(call, await this.#post(bodies[call], keys[call], wait));
      }
      for (const call of Object.keys(bodies)) {
        let decision = pending.get(call)!;
        if (decision.status === "pending") decision = await this.#wait(decision.id, wait);
        decided[call] = await checked(decision, bodies[call]);
        pending.delete(call);
      }
    } catch (error) {
      if (error instanceof NotDecided) {
        for (const [call, { id }] of pending) {
          // Without a key nobody can continue this approval.
          if (keys[call] === undefined) {
            await this.cancel(id, "The agent stopped waiting.", 10).catch(() => undefined);
          }
        }
      }
      throw error;
    }
    return decided;
  }

  async #post(body: Body, key: string | undefined, wait: Wait): Promise<Decision> {
    const { name, arguments: args } = body.action;
    const sent = this.#agent ? { requested_by: { agent: this.#agent }, ...body } : body;
    const header = key === undefined ? crypto.randomUUID() : await digest([name, args, key]);
    const answer = await this.#send("POST", "", sent, wait, header);
    if (typeof answer.id !== "string" || typeof answer.status !== "string") {
      throw new InvalidResponse("the response has no id and status");
    }
    if (answer.status !== "pending") return this.#read(answer.id, 0, wait);
    if (answer.arguments_digest !== (await digest(args))) {
      throw new InvalidResponse("the server holds other arguments than the ones sent");
    }
    return decisionOf(answer);
  }

  async #read(id: string, seconds: number, wait: Wait): Promise<Decision> {
    const path = `${encodeURIComponent(id)}/${seconds ? `?wait=${seconds}` : ""}`;
    const decision = await decisionOf(
      await this.#send("GET", path, undefined, wait, undefined, seconds),
    );
    if (decision.id !== id) throw new InvalidResponse("the server answered about another approval");
    return decision;
  }

  async #wait(id: string, wait: Wait): Promise<Decision> {
    for (;;) {
      const asked = Date.now();
      const seconds = Math.floor(Math.min(LONGEST_POLL, Math.max(1, wait.left())));
      const decision = await this.#read(id, seconds, wait);
      if (decision.status !== "pending") return decision;
      if (Date.now() - asked < 1000) await wait.pause(1); // the server does not hold the request
      wait.check(`approval ${id} is still pending`);
    }
  }

  /** Send one request until it has a usable response; `key` makes a repeated POST safe. */
  async #send(
    method: string,
    path: string,
    body: unknown,
    wait: Wait,
    key?: string,
    longest = 0,
  ): Promise<{ [field: string]: any }> {
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.#token}`,
      Accept: "application/json",
    };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key !== undefined) headers["Idempotency-Key"] = key;
    const data = body === undefined ? undefined : JSON.stringify(body);
    const started = Date.now();
    let pause = this.#firstPause;
    for (;;) {
      let failure: string;
      let least = 0;
      try {
        const limit = Math.min(longest + 15, Math.max(wait.left(), 1));
        const signals = [AbortSignal.timeout(limit * 1000), ...wait.signals()];
        const response = await fetch(this.#base + path, {
          method,
          headers,
          body: data,
          redirect: "manual", // a redirect would send the token elsewhere
          signal: AbortSignal.any(signals),
        });
        const text = await textOf(response);
        const parsed = parse(text);
        if (response.ok && parsed !== undefined) {
          if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
            throw new InvalidResponse("the response is not a JSON object");
          }
          return parsed as { [field: string]: any };
        }
        if (!response.ok && !RETRY.has(response.status)) throw new Problem(response.status, parsed);
        failure = response.ok ? "the response is not JSON" : `HTTP ${response.status}`;
        least = Math.min(Number(response.headers.get("Retry-After")) || 0, 30);
      } catch (error) {
        if (error instanceof HoldpointError) throw error;
        failure = String(error);
      }
      const what = `${method} ${this.#base}${path}: ${failure}`;
      if (Date.now() - started > this.#patience * 1000) throw new Unreachable(what);
      wait.check(what);
      await wait.pause(Math.max(least, pause * (0.5 + Math.random() / 2)));
      pause = Math.min(pause * 2, 30);
    }
  }
}

/** A deadline, and a signal with which the caller ends the wait. */
class Wait {
  readonly #end: number;
  readonly #signal?: AbortSignal;
  constructor(seconds?: number, signal?: AbortSignal) {
    this.#end = seconds === undefined ? Infinity : Date.now() + seconds * 1000;
    this.#signal = signal;
  }
  left(): number {
    return (this.#end - Date.now()) / 1000;
  }
  signals(): AbortSignal[] {
    return this.#signal ? [this.#signal] : [];
  }
  check(what: string): void {
    if (this.#signal?.aborted) throw new NotDecided("the wait was cancelled");
    if (this.left() <= 0) throw new NotDecided(`the deadline passed: ${what}`);
  }
  pause(seconds: number): Promise<void> {
    const milliseconds = Math.max(0, Math.min(seconds, this.left())) * 1000;
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      if (this.#signal?.aborted) done();
      else this.#signal?.addEventListener("abort", done);
    });
  }
}

function requestBody(name: string, args: Arguments, more: Ask): Body {
  canonical(args); // throws for what JSON cannot represent, which stringify would change silently
  const given = Object.entries(more).filter(([, value]) => value !== undefined);
  const action = given.filter(([field]) => IN_ACTION.includes(field));
  const rest = given.filter(([field]) => !IN_ACTION.includes(field));
  const phase = more.output === undefined ? {} : { phase: "AFTER_EXECUTION" };
  return {
    action: { name, arguments: args, ...Object.fromEntries(action) },
    ...phase,
    ...Object.fromEntries(rest),
  };
}

/** Return the decision of a response, once it is complete and its digest is right. */
async function decisionOf(body: { [field: string]: any }): Promise<Decision> {
  for (const field of ["id", "status", "arguments_digest"]) {
    if (typeof body[field] !== "string" || !body[field]) {
      throw new InvalidResponse(`the response has no ${field}`);
    }
  }
  if (body.status !== "pending") {
    const args = body.arguments;
    if (args === null || typeof args !== "object" || Array.isArray(args)) {
      throw new InvalidResponse("the response has no arguments");
    }
    if ((await digest(args)) !== body.arguments_digest) {
      throw new InvalidResponse("the digest of the arguments is not the decision's digest");
    }
  }
  return {
    id: body.id,
    status: body.status,
    arguments: body.arguments ?? {},
    arguments_digest: body.arguments_digest,
    edited: body.edited === true,
    comment: String(body.comment ?? ""),
    body,
  };
}

/** Return `decision` if it can be one about `body`. */
async function checked(decision: Decision, body: Body): Promise<Decision> {
  if (decision.status !== "approved" && !ENDED.has(decision.status)) {
    throw new InvalidResponse(`the status ${decision.status} is not known to this client`);
  }
  const editable = body.editable ?? true;
  if (decision.edited && (editable === false || (editable as string[]).length === 0)) {
    throw new InvalidResponse("a reviewer edited what is not editable");
  }
  const fixed = !decision.edited || "output" in body.action;
  const differs = decision.arguments_digest !== (await digest(body.action.arguments));
  if (decision.status === "approved" && fixed && differs) {
    throw new InvalidResponse("other arguments were approved than the ones requested");
  }
  return decision;
}

/** Return `decision` if it is an approval; throw otherwise. */
function approval(decision: Decision): Decision {
  const ended = ENDED.get(decision.status);
  if (ended) throw new ended[0](decision, decision.comment || ended[1]);
  return decision;
}

async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MAX_BYTES) {
      await reader.cancel();
      throw new InvalidResponse("the response is too large");
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function asJson(value: unknown): unknown {
  try {
    canonical(value);
    return value;
  } catch {
    return value === undefined ? null : { type: typeof value };
  }
}

function environment(name: string): string {
  return (globalThis as any).process?.env?.[name] ?? "";
}
