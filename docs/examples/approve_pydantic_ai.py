"""A pydantic-ai agent whose payments are decided in Holdpoint. A stub stands in for the model."""

from holdpoint import Client
from holdpoint_pydantic_ai import to_answer, to_approvals
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool, then repeat its result."""
    results = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
    if results:
        return ModelResponse(parts=[TextPart(str(results[0].content))])
    call = ToolCallPart("transfer", {"account": "DE02", "amount": 250}, tool_call_id="call-1")
    return ModelResponse(parts=[call])


agent = Agent(FunctionModel(model), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def transfer(account: str, amount: float) -> str:
    """Transfer money."""
    return f"transferred {amount:g} to {account}"


result = agent.run_sync("Pay invoice 4711")
while isinstance(result.output, DeferredToolRequests):
    decisions = Client().decide(to_approvals(result.output), risk="low")
    result = agent.run_sync(
        message_history=result.all_messages(),
        deferred_tool_results=to_answer(result.output, decisions),
    )
print(result.output)
