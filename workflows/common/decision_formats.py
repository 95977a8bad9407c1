"""Translate decisions in the formats of other products. Pure functions.

The formats come from LangChain's middleware, the agent inbox, MCP elicitations, Airflow's human
operators, and workflow engines with a plain `approved`. The table is in docs/protocol.md; a test
checks each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

APPROVE, REJECT, REQUEST_CHANGES = "APPROVE", "REJECT", "REQUEST_CHANGES"
OURS = (APPROVE, REJECT, REQUEST_CHANGES)

#: Word → decision, for the words that need no other field.
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

#: Fields of other formats; `decision` is the native field.
FOREIGN_FIELDS = frozenset(
    {
        "type", "decisions", "action", "chosen_options", "approved", "edited_action", "args",
        "message", "content", "params_input",
    }
)  # fmt: skip


class UnknownDecisionFormat(ValueError):
    """The body is not a known format; `path` names the invalid part, `code` is stable."""

    def __init__(self, path: str, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class TranslatedDecision:
    """A decision in the native format.

    Attributes:
        instead: `edits` replace the output of the task, so only a hold after the task accepts them.
        tool: the tool whose call the sender has edited, if the format names it.
    """

    decision: str
    edits: Any = None
    comment: str = ""
    instead: bool = False
    tool: str = ""


def is_foreign(body: Mapping[str, Any]) -> bool:
    """Whether any part of `body` is in a foreign format."""
    decision = body.get("decision")
    is_native = not isinstance(decision, str) or decision in OURS
    return not FOREIGN_FIELDS.isdisjoint(body) or not is_native


def translate_decision(body: Mapping[str, Any]) -> TranslatedDecision:
    """Translate a body in a foreign format; raise UnknownDecisionFormat.

    Fields that no format defines are ignored.
    """
    formats = [name for name in _FORMATS if name in body]
    if len(formats) != 1:
        where = formats[1] if formats else "decision"
        names = ", ".join(_FORMATS)
        raise UnknownDecisionFormat(where, f"give exactly one of {names}")
    return _FORMATS[formats[0]](body)


def _by_word(name: str) -> Callable[[Mapping[str, Any]], TranslatedDecision]:
    return lambda body: _of_word(name, body)


def _of_word(name: str, body: Mapping[str, Any]) -> TranslatedDecision:
    given = body[name]
    word = given.lower() if isinstance(given, str) else ""
    if word == EDIT:
        return _edited(body)
    if word == RESPOND:
        return TranslatedDecision(APPROVE, edits=_message_text(body, word), instead=True)
    if word == RESPONSE:
        # The agent inbox lets the agent continue with the message of the person.
        return TranslatedDecision(REQUEST_CHANGES, comment=_message_text(body, word))
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
    """Read edited arguments: LangChain's `edited_action` or the agent inbox's `args`."""
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


def _message_text(body: Mapping[str, Any], word: str) -> str:
    message = body.get("message", body.get("args"))
    if not isinstance(message, str) or not message:
        raise UnknownDecisionFormat("message", f"{word} needs a message", "required")
    return message


def _comment(body: Mapping[str, Any]) -> str:
    message = body.get("message", "")
    if not isinstance(message, str):
        raise UnknownDecisionFormat("message", "must be text")
    return message


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


_FORMATS: dict[str, Callable[[Mapping[str, Any]], TranslatedDecision]] = {
    "decision": _by_word("decision"),
    "type": _by_word("type"),
    "decisions": _list_of_one,
    "action": _by_word("action"),
    "chosen_options": _chosen,
    "approved": _flag,
}
