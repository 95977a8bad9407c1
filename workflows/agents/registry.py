"""The registry of decision agents, and calls to them with a time limit."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import lru_cache
from typing import Protocol

from workflows.engine.protocol.ports import AgentAnswer, AgentQuestion, Heartbeat, TaskFailed
from workflows.engine.values.reasons import Reason

from .llm import LLMAgent
from .rules import RuleAgent


class DecisionAgent(Protocol):
    """Decides after a layer whether the execution continues.

    `in_process` agents answer at once and are called directly.  Other agents (such as a model
    behind a network) are called in a thread, with the time limit of the policy.
    """

    in_process: bool

    def decide(self, question: AgentQuestion) -> AgentAnswer:
        """The decision; any exception counts as a malformed answer."""


_agents: dict[str, DecisionAgent] = {"rules": RuleAgent(), "llm": LLMAgent()}


def register(name: str, agent: DecisionAgent) -> None:
    """Register an agent under the name that a policy's `ail.agent` uses."""
    _agents[name] = agent


def agent_names() -> frozenset[str]:
    """Return the names that a policy may use, including "external"."""
    return frozenset(_agents) | {"external"}


# One pool per process, made at first use and never replaced.
@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=8, thread_name_prefix="agent")


class RegisteredAgents:
    """engine.ports.Agents."""

    def ask(self, question: AgentQuestion, heartbeat: Heartbeat) -> AgentAnswer:
        agent = _agents.get(question.agent)
        if agent is None:
            raise TaskFailed(Reason("no_such_agent", {"agent": question.agent}), retryable=False)
        try:
            if agent.in_process:
                return agent.decide(question)
            return _decide_in_thread(agent, question, heartbeat)
        except TaskFailed:
            raise
        except Exception as error:
            raise TaskFailed(f"malformed answer: {type(error).__name__}: {error}") from error


def _decide_in_thread(
    agent: DecisionAgent, question: AgentQuestion, heartbeat: Heartbeat
) -> AgentAnswer:
    future = _threads().submit(agent.decide, question)
    end = time.monotonic() + question.timeout_seconds
    while time.monotonic() < end:
        try:
            return future.result(timeout=min(0.1, max(0.0, end - time.monotonic())))
        except FutureTimeout:
            if future.done():
                raise
            if heartbeat():
                raise TaskFailed(Reason("run_is_aborting")) from None
    future.cancel()
    raise TaskFailed(Reason("no_answer_in_time", {"seconds": f"{question.timeout_seconds:g}"}))
