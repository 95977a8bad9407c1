// Runs one call of holdpoint.ts per line of standard input, and prints its outcome as one line.
import * as holdpoint from "../../../../workflows/approvals/client/holdpoint.ts";

const decoder = new TextDecoderStream();
let rest = "";
for await (const chunk of Deno.stdin.readable.pipeThrough(decoder)) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop()!;
  for (const line of lines) {
    console.log(JSON.stringify(await outcome(JSON.parse(line))));
  }
}

async function outcome(ask: any): Promise<unknown> {
  try {
    return { value: await run(ask) };
  } catch (error: any) {
    return { error: error.constructor.name, message: error.message, reason: error.reason };
  }
}

async function run(ask: any): Promise<unknown> {
  if (ask.call === "digest") {
    return await Promise.all(ask.values.map((value: unknown) => holdpoint.digest(value)));
  }
  const client = new holdpoint.Client({ firstPause: 0.01, ...ask.client });
  const { name = "payments.transfer", args, more } = ask;
  if (ask.call === "approve") return await client.approve(name, args, more);
  if (ask.call === "ask") return await client.ask({ action: { name, arguments: args } }, more);
  if (ask.call === "wait") return await client.wait(ask.id, more);
  if (ask.call === "resubmit") return await client.resubmit(ask.id, args, more);
  if (ask.call === "resubmitOutput") return await client.resubmitOutput(ask.id, ask.output, more);
  if (ask.call === "human") return await client.humanAsTool(more)(ask.question);
  if (ask.call === "abort") {
    return await client.approve(name, args, { signal: AbortSignal.timeout(300) });
  }
  const guarded = client.requiresApproval({ name, ...more }, (decided: any) => {
    if (ask.call === "fail") throw new RangeError(`no ${decided.amount}`);
    return `${decided.amount} to ${decided.account}`;
  });
  return await guarded(args);
}
