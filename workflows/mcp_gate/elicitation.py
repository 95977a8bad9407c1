"""Ask people for the input that a server requests during a call (elicitation).

Each question is an approval of the action `server.tool.elicitation`: people fill in its arguments,
which are the answer (form mode), or agree to open an address (URL mode).  The call goes on
meanwhile, so its time limit also limits the wait.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
)
from pydantic import ValidationError

from workflows import conf
from workflows.approvals import services as approvals
from workflows.approvals.selectors import approval_body, with_status
from workflows.approvals.services import is_web_address
from workflows.common.schemas import schema_errors, schema_problem
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.decide import Refused
from workflows.mcp_server.threads import in_thread
from workflows.mcp_server.waiting import waiting_call
from workflows.models import Approval, GateCall
from workflows.realtime.subscription import Subscription, channel_group

from .callers import GateCaller
from .policies import tool_infos

#: How many questions a server may ask during one call.
MAX_QUESTIONS: Final = 5
_SUFFIX: Final = ".elicitation"
#: Seconds of the call's time that the server has for its answer after the last moment to decide.
_ANSWER_SECONDS: Final = 5.0
#: A question is read without a notification too, because Redis may be unavailable.
_POLL_SECONDS: Final = 5.0
_MAX_MESSAGE: Final = 4000
_MAX_URL: Final = 2000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a server asks: `arguments` that people complete by the schema, or to open `url`."""

    message: str
    schema: dict[str, Any]
    arguments: dict[str, Any]
    url: str = ""

    @classmethod
    def of(cls, params: ElicitRequestParams) -> Prompt:
        """Return what people can answer; raises ValueError with the reason otherwise."""
        if isinstance(params, ElicitRequestURLParams):
            if len(params.url) > _MAX_URL or not is_web_address(params.url):
                raise ValueError("People open only addresses that begin with https:// or http://.")
            schema: dict[str, Any] = {"type": "object", "properties": {"url": {"type": "string"}}}
            return cls(params.message, schema, {"url": params.url}, params.url)
        schema = dict(params.requested_schema)
        if problem := _problem_of(schema):
            raise ValueError(f"People cannot answer this schema: {problem}.")
        defaults = {
            name: rules["default"]
            for name, rules in schema["properties"].items()
            if isinstance(rules, dict) and "default" in rules
        }
        return cls(params.message, schema, defaults)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that people see."""

    approval_id: int
    execution_id: int
    review_url: str


class Questions:
    """The questions that a server asks during one call; those that are open end with it.

    `waits(text)` reports to the agent's client that people are asked.
    """

    def __init__(
        self, caller: GateCaller, call_id: int, waits: Callable[[str], Awaitable[None]]
    ) -> None:
        self._caller, self._call_id, self._waits = caller, call_id, waits
        self._end = time.monotonic() + conf.gate_call_seconds() - _ANSWER_SECONDS
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[ElicitResult | ErrorData]] = set()
        self._asked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def answer(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask people and return their answer; called on the loop of the pool."""
        asked = asyncio.run_coroutine_threadsafe(self._in_task(params), self._loop)
        return await asyncio.wrap_future(asked)

    async def _in_task(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        task = asyncio.create_task(self._answer(params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await task

    async def _answer(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        try:
            prompt = Prompt.of(params)
        except ValueError as problem:
            return _refused(str(problem))
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            return _refused(f"A server may ask at most {MAX_QUESTIONS} times during one call.")
        try:
            async with waiting_call(self._caller.caller):
                question = await in_thread(self._ask, prompt)
                return await self._decision(question, prompt)
        except Exception as error:
            # The server gets no details: it is not the one who configures policies and tokens.
            logger.warning("a question of an MCP server was not asked: %s", error)
            return ErrorData(code=INVALID_REQUEST, message="People could not be asked.")

    def _ask(self, prompt: Prompt) -> Question:
        seconds = max(1, round(self._end - time.monotonic()))
        return ask(self._caller, self._call_id, prompt, seconds)

    async def _decision(self, question: Question, prompt: Prompt) -> ElicitResult:
        """Wait for the decision, at most until the call has to end."""
        text = f"the server asks people: {question.review_url}"
        try:
            await self._waits(text)
            async with Subscription(channel_group(question.execution_id)) as news:
                while await in_thread(is_open, self._caller, question):
                    left = self._end - time.monotonic()
                    if left <= 0:
                        break
                    await news.wait(min(left, _POLL_SECONDS))
                    await self._waits(text)
        finally:
            # Also after a cancellation: nobody decides a question of a call that has ended.
            result = await in_thread(end, question, prompt)
        return result


def _refused(message: str) -> ErrorData:
    return ErrorData(code=INVALID_PARAMS, message=message)


def _problem_of(schema: Mapping[str, Any]) -> str:
    problem = schema_problem(dict(schema))
    if problem or schema.get("type") != "object":
        return problem or "it is not of type object"
    return "" if isinstance(schema.get("properties"), dict) else "it has no properties"


# --- in the database ------------------------------------------------------------------------------


def ask(caller: GateCaller, call_id: int, prompt: Prompt, seconds: int) -> Question:
    """Ask people a question of the server that a call was sent to."""
    context, gate = caller.context()
    caller.caller.count("start")
    call = GateCall.objects.get(pk=call_id)
    info = tool_infos(gate, [call.tool])[call.tool]
    server, _, tool = call.tool.partition(".")
    answer = "it gets the arguments as the answer"
    if prompt.url:
        answer = "open the address and finish there what it asks for: it gets the answer `accept`"
    approval = approvals.ask(
        actor=context.user,
        incomplete=True,
        fields={
            "action": {
                "name": info.action[: 199 - len(_SUFFIX)] + _SUFFIX,
                "title": f"{server} asks during {tool}"[:200],
                "description": prompt.message[:_MAX_MESSAGE],
                "arguments": prompt.arguments,
                "schema": prompt.schema,
            },
            "phase": TriggerPhase.BEFORE_EXECUTION.value,
            # Always high, so that no rule answers instead of a person.
            "risk": "high",
            "editable": () if prompt.url else True,
            "context": f"Gate `{gate.name}`. The MCP server waits for this input at most "
            f"{seconds} s. If you approve, {answer}; if you reject, it gets the answer `decline`.",
            "requested_by": {"agent": call.client, "session": call.session, "url": prompt.url},
            "timeout_seconds": seconds,
            "on_timeout": "reject",
            "max_change_requests": 0,
        },
    )
    body = approval_body(_approval(approval.pk))
    return Question(approval.pk, approval.execution_id, body["review_url"])


def _approval(approval_id: int) -> Approval:
    return with_status(Approval.objects.filter(pk=approval_id)).get()


def is_open(caller: GateCaller, question: Question) -> bool:
    """Whether people can still decide; raises if the token may not use the gate any more."""
    caller.context()
    status: str = _approval(question.approval_id).status  # type: ignore[attr-defined]
    return status == "pending"


def end(question: Question, prompt: Prompt) -> ElicitResult:
    """Return the decision as the server gets it, and cancel a question that nobody decided."""
    approval = _approval(question.approval_id)
    if approval.status in ("pending", "changes_requested"):  # type: ignore[attr-defined]
        with suppress(Refused):  # decided in this moment
            approvals.cancel(
                approval=approval,
                actor=approval.owner,
                reason="The call of the server has ended.",
                source="mcp",
                by_gate=True,
            )
        approval = _approval(question.approval_id)
    match approval.status:  # type: ignore[attr-defined]
        case "approved":
            return _accepted(approval, prompt)
        case "rejected":
            return ElicitResult(action="decline")
    return ElicitResult(action="cancel")


def _accepted(approval: Approval, prompt: Prompt) -> ElicitResult:
    if prompt.url:
        return ElicitResult(action="accept")
    content = dict(approval_body(approval)["arguments"])
    if not schema_errors(prompt.schema, content):
        with suppress(ValidationError):
            return ElicitResult(action="accept", content=content)
    logger.warning("the answer of approval %s does not match the schema", approval.pk)
    return ElicitResult(action="cancel")
