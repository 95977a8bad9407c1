"""The LLM agent: decisions by a model with an OpenAI-compatible or Anthropic API.

The model gets all results of the layer, unredacted, the decisions of people and agents, and one
continuing conversation: messages of people, earlier reports and its own answers.  The conversation
is stored in the execution's messages, with secrets masked, so it continues over pauses, restarts
and forks.

Settings: HOLDPOINT["llm_model"] ("openai:gpt-5" or "anthropic:claude-…"), "llm_base_url",
"llm_api_key"; a workflow may give its own `instructions` in `ail.settings`.  Needs the extra `llm`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

from workflows.common import background_loop
from workflows.engine.plans.task_errors import TaskFailed
from workflows.engine.protocol.commands import shortened
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model

INSTRUCTIONS = (
    "You decide between the layers of a workflow. You receive the results of the layer that has "
    "just ended and what would run next. Answer `continue` to go on as planned, `replan` with a "
    "requirement in plain words when the results call for work that is not planned, or `abort` "
    "with a reason when going on would do harm. Give a short reason in every case."
)


#: Maximum length of a report on a layer, in characters.
MAX_REPORT_LENGTH = 400_000
#: The key that marks cut values in a report.
CUT = "cut_for_length"


class LayerDecision(BaseModel):
    """The structured output of the model."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["continue", "replan", "abort"]
    reason: str = Field(default="", max_length=2000)
    requirement: str = Field(default="", max_length=4000)


class LLMAgent:
    """Asks a model over HTTP, with the time limit of the policy."""

    in_process = False

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        return background_loop.run(_ask(question), timeout=question.timeout_seconds)


async def _ask(question: AgentQuestion) -> AgentAnswer:
    # Before the import, because it reports a missing setting or extra.
    model = configured_model()
    from pydantic_ai import Agent

    report = _report(question)
    instructions = str(question.settings.get("instructions") or INSTRUCTIONS)
    agent: Agent[object, LayerDecision] = Agent(
        model, output_type=LayerDecision, instructions=instructions, retries=1
    )
    result = await agent.run(report, message_history=_history(question))
    output = result.output
    return AgentAnswer(
        decision=output.decision,
        reason=output.reason,
        requirement=output.requirement,
        messages=(
            {"role": "tool", "content": report},
            {"role": "assistant", "content": output.model_dump_json()},
        ),
    )


def _report(question: AgentQuestion) -> str:
    """Return the layer's results as JSON text of at most `MAX_REPORT_LENGTH` characters.

    Long values are cut to their beginning and marked with `CUT` if the report would be longer.
    """
    facts: dict[str, Any] = {
        "layer": question.layer + 1,
        "of_layers": question.total_layers,
        "results": {
            name: {"status": each.status.value, "output": each.output}
            for name, each in question.results.items()
        },
        "next_layer": list(question.next_layer),
        "inputs": dict(question.inputs),
        "context": dict(question.context),
        "decisions": [dict(each) for each in question.decisions],
    }
    report = json.dumps(facts, ensure_ascii=False)
    if len(report) <= MAX_REPORT_LENGTH:
        return report
    results = facts.pop("results")
    # The beginning is JSON inside a JSON string, whose escaped quotes at worst double its length.
    share = MAX_REPORT_LENGTH // (3 * (len(facts) + max(1, len(results))))
    shown = {name: _beginning(value, share) for name, value in facts.items()}
    shown["results"] = {
        name: {"status": each["status"], "output": _beginning(each["output"], share)}
        for name, each in results.items()
    }
    return shortened(json.dumps({CUT: True, **shown}, ensure_ascii=False), MAX_REPORT_LENGTH)


def _beginning(value: Any, longest: int) -> Any:
    """Return the value, or the beginning of its JSON text if that is longer than `longest`."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= longest:
        return value
    return {CUT: True, "characters": len(text), "beginning": text[:longest]}


def _history(question: AgentQuestion) -> list[ModelMessage]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    history: list[ModelMessage] = []
    for message in question.conversation:
        text = str(message["content"])
        if message["role"] == "assistant":
            history.append(ModelResponse(parts=[TextPart(text)]))
        elif message["role"] == "system":
            history.append(ModelRequest(parts=[SystemPromptPart(text)]))
        else:
            history.append(ModelRequest(parts=[UserPromptPart(text)]))
    return history


def configured_model() -> Model:
    """Return the configured model; raises TaskFailed if there is none or the extra is missing."""
    name = str(settings.HOLDPOINT.get("llm_model") or "")
    family, _, model = name.partition(":")
    if family not in ("openai", "anthropic") or not model:
        raise TaskFailed(
            "no language model is configured: set HOLDPOINT_LLM_MODEL", retryable=False
        )
    try:
        return _openai(model) if family == "openai" else _anthropic(model)
    except ImportError as error:
        message = "install the extra `llm` to use a language model"
        raise TaskFailed(message, retryable=False) from error


def _openai(model: str) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=_base_url(), api_key=_api_key())
    return OpenAIChatModel(model, provider=provider)


def _anthropic(model: str) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(base_url=_base_url(), api_key=_api_key() or "none")
    return AnthropicModel(model, provider=provider)


def _base_url() -> str | None:
    return str(settings.HOLDPOINT.get("llm_base_url") or "") or None


def _api_key() -> str | None:
    return str(settings.HOLDPOINT.get("llm_api_key") or "") or None
