"""Sentences that Holdpoint makes, stored as a code with parameters.

A producer makes a `Reason`.  Rows, events and responses hold its English text, and beside the text
its code and parameters (`reason_fields`).  Pages render the code in the language of the reader
(`reviews.components.reasons`).

To add a reason: add its code and its text to `TEMPLATES`, and make it with
`Reason("code", {"name": value})`.  A text never changes its placeholders: stored rows have the old
ones, so new placeholders need a new code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def gettext_noop(text: str) -> str:
    """Mark a text for extraction by `makemessages`, as Django's function of this name does."""
    return text


#: Code → English text with named placeholders.
TEMPLATES: Final[Mapping[str, str]] = {
    # Why a hold opened.
    "review_before": gettext_noop("task %(task)s asks for review before it runs"),
    "review_after": gettext_noop("task %(task)s asks for review of its output"),
    "review_with_rule": gettext_noop("%(review)s; %(rule)s"),
    "permission_missing": gettext_noop("task %(task)s may not %(attempt)s"),
    "layer_signature": gettext_noop("layer %(layer)s needs a signature (policy: %(policy)s)"),
    "agent_decides": gettext_noop("an agent decides after this layer"),
    "layer_validated": gettext_noop("each layer is validated"),
    "plan_change": gettext_noop("the plan is to be changed: %(requirement)s"),
    # What a review rule says about a review.
    "rule_condition": gettext_noop("the condition of %(rule)s holds"),
    "rule_sampled_in": gettext_noop("picked by %(rule)s (hash %(share)s < %(sample)s)"),
    "rule_sampled_out": gettext_noop("sampled out by %(rule)s (hash %(share)s ≥ %(sample)s)"),
    "rule_failed": gettext_noop("%(rule)s could not be worked out: %(error)s"),
    "rules_failed": gettext_noop("no rule could be asked: %(error)s"),
    "never_skipped_high_risk": gettext_noop(
        "no rule spares it: it goes beyond reading and has not run"
    ),
    "never_skipped_always": gettext_noop("no rule spares it: it asks each time"),
    "never_skipped_sent_back": gettext_noop("no rule spares it: a reviewer sent it back"),
    "rule_of_task": gettext_noop("the task's own rule"),
    "rule_published": gettext_noop("rule %(name)s v%(version)s"),
    "rule_draft": gettext_noop("rule %(name)s"),
    # What a permission set allows, one sentence per entry.
    "allows_nothing": gettext_noop("Use nothing beyond its inputs."),
    "allows_host": gettext_noop("Connect to %(host)s on %(port)s."),
    "any_public_host": gettext_noop("any public host"),
    "hosts_below": gettext_noop("any host below %(domain)s"),
    "private_host": gettext_noop("the private host %(host)s"),
    "any_port": gettext_noop("any port"),
    "one_port": gettext_noop("port %(port)s"),
    "allows_reading": gettext_noop("Read %(path)s."),
    "allows_writing": gettext_noop("Write %(path)s."),
    "path_everything": gettext_noop("every file of the machine"),
    "path_scratch": gettext_noop("the working folder of the run"),
    "path_in_scratch": gettext_noop("%(path)s in the working folder of the run"),
    "path_folder": gettext_noop("the folder %(path)s and everything below"),
    "path_file": gettext_noop("the file %(path)s"),
    "allows_variable": gettext_noop("Read the environment variable %(name)s."),
    "allows_any_program": gettext_noop("Start any program."),
    "allows_program": gettext_noop("Start the program %(program)s."),
    # What a task tried to do, for the middle of a sentence.
    "attempt_net": gettext_noop("connect to %(resource)s"),
    "attempt_read": gettext_noop("read %(resource)s"),
    "attempt_write": gettext_noop("write %(resource)s"),
    "attempt_env": gettext_noop("read the environment variable %(resource)s"),
    "attempt_run": gettext_noop("start the program %(resource)s"),
    "attempt_other": gettext_noop("%(operation)s %(resource)s"),
    "working_folder": gettext_noop("working folder%(path)s"),
    "folder": gettext_noop("%(path)s and everything below"),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence, or a part of one: a code of `TEMPLATES` and the values of its placeholders.

    Values are data and are never read as a template, whatever they contain.  A value that is a
    reason itself is rendered first.
    """

    code: str
    params: Mapping[str, str | int | Reason] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.render(str)

    def render(self, translate: Callable[[str], str]) -> str:
        """Return the sentence; `translate` maps an English template to another language."""
        values = {
            name: value.render(translate) if isinstance(value, Reason) else value
            for name, value in self.params.items()
        }
        return translate(TEMPLATES[self.code]) % values

    def dumped_params(self) -> dict[str, Any]:
        """Return the parameters as JSON; `load_reason` reads them."""
        return {
            name: {"code": value.code, "params": value.dumped_params()}
            if isinstance(value, Reason)
            else value
            for name, value in self.params.items()
        }


def reason_fields(name: str, reason: Reason | str | None) -> dict[str, Any]:
    """Return what is stored for a sentence called `name`: its text, code and parameters.

    A text that a person or a tool wrote, given as a string, has no code.
    """
    if isinstance(reason, Reason):
        return {
            name: reason.text,
            f"{name}_code": reason.code,
            f"{name}_params": reason.dumped_params(),
        }
    return {name: reason or "", f"{name}_code": "", f"{name}_params": {}}


def placeholders(code: str) -> frozenset[str]:
    """Return the names of a template's placeholders."""
    return frozenset(_PLACEHOLDER.findall(TEMPLATES[code]))


def load_reason(code: object, params: object) -> Reason | None:
    """Return a stored reason; None if this version's `TEMPLATES` cannot render it."""
    if not isinstance(code, str) or code not in TEMPLATES or not isinstance(params, Mapping):
        return None
    if params.keys() != placeholders(code):
        return None
    loaded: dict[str, str | int | Reason] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            nested = load_reason(value.get("code"), value.get("params"))
            if nested is None:
                return None
            loaded[name] = nested
        else:
            loaded[name] = value
    return Reason(code, loaded)
