"""Decisions in the words of other products, as decisions of ours.  Pure.

The shapes are those in which people answer LangChain's middleware, the agent inbox, MCP
elicitations, Airflow's human operators and workflow engines with a plain `approved`.  The table is
in docs/protocol.md, with a test for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

APPROVE, REJECT, REQUEST_CHANGES = "APPROVE", "REJECT", "REQUEST_CHANGES"
OURS = (APPROVE, REJECT, REQUEST_CHANGES)

#: Word → decision, of the words that need nothing else.
WORDS = {
    "approve": APPROVE,
    "accept": APPROVE,
    "reject": REJECT,
    "decline": REJECT,
    "ignore": REJECT,
    "request_changes": REQUEST_CHANGES,
    "revise": REQUEST_CHANGES,
}
EDIT, RESPOND, RESPONSE, CANCEL = "edit", "respond", "response", "cancel"
KNOWN = ", ".join([*WORDS, EDIT, RESPOND, RESPONSE])

#: What a body has that is written in other words; `decision` is our own.
FOREIGN_FIELDS = frozenset(
    {
        "type", "decisions", "action", "chosen_options", "approved", "edited_action", "args",
        "message", "content", "params_input",
    }
)  # fmt: skip


class UnknownDecisionFormat(ValueError):
    """`path` names the part that has no meaning here, `code` is stable."""

    def __init__(self, path: str, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class TranslatedDecision:
    """What an answer comes to.

    `instead` says that `edits` stand in for the output of the task, so that only a hold after it
    can take them; `tool` is the one that the sender believes they edited a call of.
    """

    decision: str
    edits: Any = None
    comment: str = ""
    instead: bool = False
    tool: str = ""


def is_foreign(body: Mapping[str, Any]) -> bool:
    """Whether `body` is, in part, in other words than ours."""
    decision = body.get("decision")
    own = not isinstance(decision, str) or decision in OURS
    return not FOREIGN_FIELDS.isdisjoint(body) or not own


def translate_decision(body: Mapping[str, Any]) -> TranslatedDecision:
    """What a foreign answer means; raises UnknownDecisionFormat.

    Fields that are no part of an answer are not looked at.
    """
    found = [name for name in _DIALECTS if name in body]
    if len(found) != 1:
        where = found[1] if found else "decision"
        names = ", ".join(_DIALECTS)
        raise UnknownDecisionFormat(where, f"give exactly one of {names}")
    return _DIALECTS[found[0]](body)


def _by_word(name: str) -> Callable[[Mapping[str, Any]], TranslatedDecision]:
    return lambda body: _of_word(name, body)


def _of_word(name: str, body: Mapping[str, Any]) -> TranslatedDecision:
    given = body[name]
    word = given.lower() if isinstance(given, str) else ""
    if word == EDIT:
        return _edited(body)
    if word == RESPOND:
        return TranslatedDecision(APPROVE, edits=_said(body, word), instead=True)
    if word == RESPONSE:
        # The inbox sends the agent back to work with what was said.
        return TranslatedDecision(REQUEST_CHANGES, comment=_said(body, word))
    if word == CANCEL:
        message = "cancel decides nothing: the hold stays open; send decline to reject"
        raise UnknownDecisionFormat(name, message, "no_decision")
    if word not in WORDS:
        raise UnknownDecisionFormat(
            name, f"must be one of {', '.join(OURS)}, {KNOWN}", "invalid_choice"
        )
    content = _object("content", body) if word == "accept" else None
    return TranslatedDecision(WORDS[word], edits=content or None, comment=_comment(body))


def _edited(body: Mapping[str, Any]) -> TranslatedDecision:
    """The arguments that were changed: LangChain's `edited_action` or the inbox's `args`."""
    name = "edited_action" if "edited_action" in body else "args"
    call = _object(name, body)
    if call is None:
        if body.get("edits") is not None:
            return TranslatedDecision(APPROVE, comment=_comment(body))
        raise UnknownDecisionFormat(name, "edit needs edited_action, args or edits", "required")
    if not isinstance(call.get("args"), dict):
        raise UnknownDecisionFormat(f"{name}.args", "must be an object of arguments")
    tool = call.get("name", call.get("action", ""))
    return TranslatedDecision(
        APPROVE,
        edits=call["args"],
        comment=_comment(body),
        tool=tool if isinstance(tool, str) else "",
    )


def _said(body: Mapping[str, Any], word: str) -> str:
    said = body.get("message", body.get("args"))
    if not isinstance(said, str) or not said:
        raise UnknownDecisionFormat("message", f"{word} needs a message", "required")
    return said


def _comment(body: Mapping[str, Any]) -> str:
    said = body.get("message", "")
    if not isinstance(said, str):
        raise UnknownDecisionFormat("message", "must be text")
    return said


def _object(name: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise UnknownDecisionFormat(name, "must be an object")
    return value


def _list_of_one(body: Mapping[str, Any]) -> TranslatedDecision:
    given = body["decisions"]
    if not isinstance(given, list) or len(given) != 1 or not isinstance(given[0], dict):
        raise UnknownDecisionFormat(
            "decisions", "must be a list of one decision: one hold, one decision"
        )
    try:
        return _of_word("type", {"type": None, **given[0]})
    except UnknownDecisionFormat as error:
        path = f"decisions[0].{error.path}"
        raise UnknownDecisionFormat(path, error.message, error.code) from None


def _chosen(body: Mapping[str, Any]) -> TranslatedDecision:
    given = body["chosen_options"]
    word = given[0] if isinstance(given, list) and len(given) == 1 else None
    decision = WORDS.get(word.lower()) if isinstance(word, str) else None
    if decision is None:
        raise UnknownDecisionFormat("chosen_options", 'must be ["Approve"] or ["Reject"]')
    return TranslatedDecision(decision, edits=_object("params_input", body) or None)


def _flag(body: Mapping[str, Any]) -> TranslatedDecision:
    if not isinstance(body["approved"], bool):
        raise UnknownDecisionFormat("approved", "must be true or false")
    return TranslatedDecision(APPROVE if body["approved"] else REJECT, comment=_comment(body))


_DIALECTS: dict[str, Callable[[Mapping[str, Any]], TranslatedDecision]] = {
    "decision": _by_word("decision"),
    "type": _by_word("type"),
    "decisions": _list_of_one,
    "action": _by_word("action"),
    "chosen_options": _chosen,
    "approved": _flag,
}
