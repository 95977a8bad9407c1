// Answers one request with one decision per case of standard input; prints the answers.
import { toAnswer, toApprovals } from "./holdpoint_vercel_ai.ts";

const cases = JSON.parse(await new Response(Deno.stdin.readable).text());
console.log(JSON.stringify(cases.map(({ input, decision }: any) => {
  const toolCall = { type: "tool-call", toolCallId: "c", toolName: "pay", input };
  const content = [
    { type: "text", text: "x" },
    { type: "tool-approval-request", approvalId: "a", toolCall },
    { type: "tool-approval-request", approvalId: "automatic", toolCall, isAutomatic: true },
  ];
  const asked = toApprovals(content);
  try {
    return { asked, answer: toAnswer(content, decision ? { a: decision } : {}) };
  } catch (error: any) {
    return { asked, error: error.message };
  }
})));
