/**
 * Vercel AI SDK: from tool approval requests to the tool message with the responses.
 *
 *     let result = await generateText({ model, tools, messages });
 *     for (let bodies; Object.keys((bodies = toApprovals(result.content))).length; ) {
 *       messages.push(...result.response.messages);
 *       messages.push(toAnswer(result.content, await new Client().decide(bodies)));
 *       result = await generateText({ model, tools, messages });
 *     }
 *
 * Written for ai 7.0 (packages/ai/src/generate-text/tool-approval-request-output.ts,
 * collect-tool-approvals.ts; packages/provider-utils/src/types/tool-approval-response.ts). The SDK
 * cannot run a call with other arguments, so reviewers cannot edit them; an edited approval is
 * answered as a denial that names the arguments.
 */
import type { Arguments, Body } from "./holdpoint.ts";

type Part = { type: string; approvalId?: string; isAutomatic?: boolean; toolCall?: unknown };
type Decisions = { [call: string]: { [field: string]: any } };
type ToolCall = { toolName: string; input: unknown };

/** Return request bodies by approval id. */
export function toApprovals(content: readonly Part[]): { [call: string]: Body } {
  return Object.fromEntries(requests(content).map((part) => [part.approvalId, body(part)]));
}

/** Return the tool message that answers every request. */
export function toAnswer(content: readonly Part[], decisions: Decisions) {
  return { role: "tool" as const, content: requests(content).map((p) => answer(p, decisions)) };
}

function requests(content: readonly Part[]): Part[] {
  return content.filter((each) => each.type === "tool-approval-request" && !each.isAutomatic);
}

function body(part: Part): Body {
  const { toolName, input } = part.toolCall as ToolCall;
  return { action: { name: toolName, arguments: input as Arguments }, editable: false };
}

function answer(part: Part, decisions: Decisions) {
  const decision = decisions[part.approvalId!];
  if (!decision || decision.status === "pending") throw new Error("this call is not decided yet");
  const edited = decision.edited !== false;
  const approved = decision.status === "approved" && !edited;
  let reason = decision.comment || `The approval was ${decision.status}.`;
  if (decision.status === "approved" && edited) {
    reason = `Approved only with these arguments: ${JSON.stringify(decision.arguments)}`;
  }
  const type = "tool-approval-response" as const;
  return { type, approvalId: part.approvalId!, approved, ...(approved ? {} : { reason }) };
}
