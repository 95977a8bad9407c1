"""The rule agent: the first rule whose condition holds decides."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from workflows.engine.plans.dataflow import condition_holds, expression_error
from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion
from workflows.engine.values.expressions import Budget


class Rule(BaseModel):
    """A rule; `when` is a JMESPath expression over facts about the execution.

    The facts are results, layer, total_layers, next_layer, context, inputs and decisions.
    `results` maps a task id to {status, output}; `decisions` has the format of
    `GET executions/<id>/decisions/`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: str = Field(max_length=2000)
    decision: Literal["continue", "replan", "abort"]
    reason: str = Field(default="", max_length=2000)
    requirement: str = Field(default="", max_length=4000)

    @field_validator("when")
    @classmethod
    def _is_jmespath(cls, value: str) -> str:
        error = expression_error(value)
        if error:
            raise ValueError(f"not a JMESPath expression: {error}")
        return value


class RuleSettings(BaseModel):
    """`ail.settings` of a workflow that uses the agent `rules`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[Rule, ...] = Field(max_length=100)
    default: Literal["continue", "replan", "abort"] = "continue"


class RuleAgent:
    """Evaluates rules in this process, in well under a millisecond per rule."""

    in_process = True

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        settings = RuleSettings.model_validate(dict(question.settings))
        facts = _facts(question)
        budget = Budget()
        for rule in settings.rules:
            if condition_holds(rule.when, facts, budget):
                return AgentAnswer(
                    decision=rule.decision,
                    reason=rule.reason or f"rule: {rule.when}",
                    requirement=rule.requirement,
                )
        return AgentAnswer(decision=settings.default, reason="no rule holds")


def _facts(question: AgentQuestion) -> dict[str, Any]:
    return {
        "results": {
            name: {"status": each.status.value, "output": each.output}
            for name, each in question.results.items()
        },
        "layer": question.layer,
        "total_layers": question.total_layers,
        "next_layer": list(question.next_layer),
        "context": dict(question.context),
        "inputs": dict(question.inputs),
        "decisions": [dict(each) for each in question.decisions],
    }
