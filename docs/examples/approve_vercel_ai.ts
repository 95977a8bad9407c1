// An agent of the Vercel AI SDK whose payments are decided in Holdpoint, with a stub model.
import { generateText, jsonSchema, type ModelMessage, tool } from "npm:ai@7.0.173";
import { MockLanguageModelV4 } from "npm:ai@7.0.173/test";
import { Client } from "./holdpoint.ts";
import { toAnswer, toApprovals } from "./holdpoint_vercel_ai.ts";

const input = { account: "DE02", amount: 250 };
const call = {
  type: "tool-call" as const,
  toolCallId: "call-1",
  toolName: "transfer",
  input: JSON.stringify(input),
};
const usage: any = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };

/** Calls the tool, then repeats its result. */
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }: any) => {
    const results = prompt.flatMap((message: any) =>
      message.role === "tool" ? message.content : []
    ).filter((part: any) => part.type === "tool-result");
    const text = results.map(({ output }: any) => output.value ?? output.reason).join();
    const content = results.length ? [{ type: "text" as const, text }] : [call];
    const unified = results.length ? "stop" : "tool-calls";
    return { content, finishReason: { unified, raw: unified }, usage, warnings: [] } as any;
  },
});

const transfer = tool({
  inputSchema: jsonSchema<typeof input>({
    type: "object",
    properties: { account: { type: "string" }, amount: { type: "number" } },
  }),
  execute: async ({ account, amount }) => `transferred ${amount} to ${account}`,
});

const messages: ModelMessage[] = [{ role: "user", content: "Pay invoice 4711" }];
const ask = () =>
  generateText({ model, tools: { transfer }, toolApproval: { transfer: "user-approval" }, messages });

let result = await ask();
let bodies = toApprovals(result.content);
while (Object.keys(bodies).length) {
  const decisions = await new Client().decide(bodies, { risk: "low" });
  messages.push(...result.response.messages, toAnswer(result.content, decisions));
  result = await ask();
  bodies = toApprovals(result.content);
}
console.log(result.text);
