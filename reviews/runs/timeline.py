"""The timeline of a run: one sentence per event, grouped by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components import labels as components_labels
from reviews.components.number_formatting import counted
from reviews.components.reasons import render_reason, render_stored
from reviews.decisions.masking import Rules, masked
from reviews.templatetags.desk import duration_text, seconds_text
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.task_errors import attempt_reason
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.replanning import requirement_reason
from workflows.models import ExecutionEvent

Payload = Mapping[str, Any]


@dataclass(slots=True)
class Group:
    """The events of one layer; `done` of its `total` tasks are settled."""

    title: str
    done: int = 0
    total: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence, its subject in bold, its colour, and whether it names its actor."""

    text: str
    subject: str = ""
    look: str = "quiet"
    names_actor: bool = False


@dataclass(frozen=True, slots=True)
class HiddenRules:
    """Masking rules of the whole run, and of the data of tasks by (task id, side)."""

    rules: Rules
    of_tasks: Mapping[tuple[str, str], Rules]


#: Maximum characters of a message in the timeline, and in its details.
_MAX_SUMMARY, _MAX_DETAILS = 1500, 200_000
_ROLES = {
    "user": N_("person"),
    "assistant": N_("agent"),
    "system": N_("system"),
    "tool": N_("tool"),
}
_SHAPES = {"quiet": "·", "good": "✓", "bad": "✕", "waiting": "◔", "running": "▶"}


def timeline(
    events: Iterable[ExecutionEvent],
    counts: Mapping[int, tuple[int, int]],
    hidden: HiddenRules,
    forks: Mapping[int, str] | None = None,
    links: Mapping[int, tuple[str, str]] | None = None,
    layer: int | None = None,
) -> list[Group]:
    """Return the groups in order.

    Args:
        counts: layer → (settled, total) tasks.
        hidden: masking rules.
        forks: layer of a checkpoint → fork URL.
        links: event seq → (URL, text) of a page with details.
        layer: that of the first event; None before the first layer.
    """
    groups = [Group(_("Start")) if layer is None else _group(layer, counts)]
    for event in events:
        if event.kind in ("layer_started", "layer_skipped"):
            groups.append(_group(int(event.payload["layer"]), counts))
        line = entry(event, hidden)
        if event.kind == "layer_closed" and forks:
            line["fork_url"] = forks.get(event.payload["layer"], "")
        if links and event.seq in links:
            line["link_url"], line["link_text"] = links[event.seq]
        groups[-1].entries.append(line)
    return [group for group in groups if group.entries]


def _group(layer: int, counts: Mapping[int, tuple[int, int]]) -> Group:
    done, total = counts.get(layer, (0, 0))
    return Group(_("Layer %(layer)s") % {"layer": layer + 1}, done, total)


def entry(event: ExecutionEvent, hidden: HiddenRules) -> dict[str, Any]:
    """Return one event as a line of the timeline."""
    if event.kind == "message_added":
        return _message(event)
    line = _LINES.get(event.kind, _other)(event.payload, event.actor)
    actor = "" if line.names_actor or event.actor in ("system", "") else event.actor
    return {
        "seq": event.seq,
        "kind": "event",
        "meaning": line.look,
        "shape": _SHAPES[line.look],
        "sentence": mask_secrets(line.text),
        "subject": line.subject,
        "at": event.created_at,
        "actor": actor,
        "json": json.dumps(_masked_payload(event, hidden), indent=2, ensure_ascii=False),
    }


def _masked_payload(event: ExecutionEvent, hidden: HiddenRules) -> Any:
    """Return the masked payload; edits are masked with the rules of the task's data."""
    noted = {"kind": event.kind, "seq": event.seq, "source": event.source, **event.payload}
    if event.kind == "task_resubmitted":
        # The next review shows these values, masked by their schema.
        del noted["resubmitted"]
    view = masked({**noted, "edits": None} if "edits" in noted else noted, hidden.rules)
    if noted.get("edits") is None:
        return view.value
    side = "inputs" if noted.get("phase") == TriggerPhase.BEFORE_EXECUTION else "output"
    rules = hidden.of_tasks.get((noted.get("task_id") or "", side), hidden.rules)
    return {**view.value, "edits": masked(noted["edits"], rules, after=view).value}


def _message(event: ExecutionEvent) -> dict[str, Any]:
    role, content = str(event.payload.get("role", "")), _content(event)
    is_long = len(content) > _MAX_SUMMARY
    author = event.payload.get("author") or event.actor
    return {
        "seq": event.seq,
        "kind": "message",
        "meaning": "quiet",
        "shape": "“",
        "sentence": f"{content[:_MAX_SUMMARY]} …" if is_long else content,
        "subject": "",
        "at": event.created_at,
        "actor": str(author).removeprefix("agent:"),
        "role": _(_ROLES[role]) if role in _ROLES else role,
        "json": content[:_MAX_DETAILS] if is_long else "",
    }


def _content(event: ExecutionEvent) -> str:
    return str(event.payload.get("content", ""))


def _forked(payload: Payload, actor: str) -> _Line:
    text = _("forked from run %(run)s after layer %(layer)s")
    return _Line(text % {"run": payload["parent"], "layer": payload["layer"] + 1})


def _started(payload: Payload, actor: str) -> _Line:
    params = {
        "tasks": counted(payload["total_tasks"], "task"),
        "layers": counted(payload["total_layers"], "layer"),
    }
    return _Line(_("run started: %(tasks)s in %(layers)s") % params)


def _layer(payload: Payload, actor: str) -> _Line:
    names = list(payload["tasks"])
    runs = [name for name in names if name not in payload.get("skips", {})]
    text = _("nothing to run")
    if runs:
        what = ", ".join(runs) if len(runs) <= 4 else counted(len(runs), "task")
        text = _("starts %(what)s") % {"what": what}
    skipped = len(names) - len(runs)
    if skipped:
        more = ngettext("%(text)s; %(n)s task skipped", "%(text)s; %(n)s tasks skipped", skipped)
        text = more % {"text": text, "n": skipped}
    return _Line(text)


def _succeeded(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    duration = payload.get("duration_ms", 0)
    if duration < 50:
        return _Line(_("%(task)s done") % {"task": name}, name, "good")
    params = {"task": name, "time": seconds_text(duration / 1000)}
    return _Line(_("%(task)s done in %(time)s") % params, name, "good")


def _errored(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    text = _("%(task)s failed: %(error)s")
    if payload.get("retry_at"):
        text = _("%(task)s failed: %(error)s; it will be retried")
    return _Line(text % {"task": name, "error": render_stored(payload, "error")}, name, "bad")


def _submitted(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    params = {"task": name, "runner": payload["runner"].title()}
    return _Line(_("%(task)s was submitted to %(runner)s") % params, name)


def _escalated(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    tried = render_reason(attempt_reason(payload["operation"], payload["resource"]))
    return _Line(
        _("%(task)s requests permission to %(do)s") % {"task": name, "do": tried}, name, "waiting"
    )


def _hit(payload: Payload, actor: str) -> _Line:
    name, seconds = payload["task_id"], payload["seconds"]
    text = _("%(task)s was precomputed while the review was open")
    if seconds >= 0.05:
        text = _("%(task)s was precomputed while the review was open; %(time)s saved")
    return _Line(text % {"task": name, "time": seconds_text(seconds)}, name)


def _missed(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    text = _("the precomputed result of %(task)s was discarded: %(reason)s")
    return _Line(text % {"task": name, "reason": render_stored(payload, "reason")}, name)


def _opened(payload: Payload, actor: str) -> _Line:
    name = components_labels.about(payload.get("task_id") or "", payload["reason"])
    phase = components_labels.phase_text(payload.get("phase") or "")
    if payload["decider"] == "human":
        text = (
            _("%(name)s waits for a person %(phase)s")
            if phase
            else _("%(name)s waits for a person")
        )
    else:
        text = (
            _("%(name)s waits for an agent %(phase)s")
            if phase
            else _("%(name)s waits for an agent")
        )
    return _Line(text % {"name": name, "phase": phase}, name, "waiting")


def _review_skipped(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    when = components_labels.phase_text(payload.get("phase") or "", past=True)
    return _Line(
        _("%(task)s was not reviewed %(when)s: %(why)s")
        % {"task": name, "when": when, "why": render_stored(payload, "why")},
        name,
    )


def _voted(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or _("it")
    text = _("%(who)s approved %(name)s; more approvals are needed")
    params = {"who": payload["voter"], "name": name}
    return _Line(text % params, name, "good", names_actor=True)


#: (approved, edited, with a comment) -> the sentence.
_DECIDED = {
    (True, False, False): N_("%(who)s approved %(name)s"),
    (True, False, True): N_("%(who)s approved %(name)s: “%(comment)s”"),
    (True, True, False): N_("%(who)s approved %(name)s with changes"),
    (True, True, True): N_("%(who)s approved %(name)s with changes: “%(comment)s”"),
    (False, False, False): N_("%(who)s rejected %(name)s"),
    (False, False, True): N_("%(who)s rejected %(name)s: “%(comment)s”"),
    (False, True, False): N_("%(who)s rejected %(name)s with changes"),
    (False, True, True): N_("%(who)s rejected %(name)s with changes: “%(comment)s”"),
}


_LOOKS = {"APPROVE": "good", "REJECT": "bad", "REQUEST_CHANGES": "running"}


def _answered(payload: Payload, actor: str) -> _Line:
    line = _decided(payload, actor)
    params = {"sentence": line.text, "time": duration_text(payload["undo_seconds"])}
    return replace(line, text=_("%(sentence)s; can be undone for %(time)s") % params)


#: (a decision, not a vote; withdrawn by its author) -> the sentence.
_WITHDRAWN = {
    (True, True): N_("%(who)s withdrew the decision on %(name)s; it is open again"),
    (False, True): N_("%(who)s withdrew the approval of %(name)s; it is open again"),
    (True, False): N_("%(actor)s withdrew the decision of %(who)s on %(name)s; it is open again"),
    (False, False): N_("%(actor)s withdrew the approval of %(name)s by %(who)s; it is open again"),
}


def _withdrawn(payload: Payload, actor: str) -> _Line:
    who = payload["voter"]
    name = payload.get("task_id") or _("it")
    is_decision = payload["what"] == "decision"
    text = _(_WITHDRAWN[is_decision, actor == who])
    params = {"who": who, "name": name, "actor": actor}
    return _Line(text % params, name, "waiting", names_actor=True)


def _decided(payload: Payload, actor: str) -> _Line:
    name = components_labels.about(payload.get("task_id") or "", payload["reason"])
    if payload.get("answered"):
        text = _("the decision on %(name)s can no longer be undone")
        return _Line(text % {"name": name}, name)
    approved = payload["decision"] == "APPROVE"
    look = _LOOKS[payload["decision"]]
    params = {"who": actor, "name": name, "comment": render_stored(payload, "comment")}
    if payload["decision"] == "REQUEST_CHANGES":
        text = _("%(who)s requested changes to %(name)s: “%(comment)s”")
        return _Line(text % params, name, look, names_actor=True)
    if payload.get("by_timeout"):
        text = _("%(name)s timed out and was rejected")
        if approved:
            text = _("%(name)s timed out and was approved")
        return _Line(text % params, name, look, names_actor=True)
    text = _(_DECIDED[approved, bool(payload.get("edited")), bool(payload.get("comment"))])
    return _Line(text % params, name, look, names_actor=True)


def _resubmitted(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    params = {"who": actor, "name": name}
    text = _("%(who)s submitted %(name)s again")
    return _Line(text % params, name, "waiting", names_actor=True)


def _reported(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    text = _("%(who)s ran %(name)s")
    if not payload["ok"]:
        text = _("%(who)s reported that %(name)s failed: %(error)s")
    if payload["mismatch"]:
        text = _("%(who)s ran %(name)s with other arguments than the approved ones")
    look = "bad" if payload["mismatch"] or not payload["ok"] else "good"
    params = {"who": actor, "name": name, "error": payload["error"] or _("no reason given")}
    return _Line(text % params, name, look, names_actor=True)


def _capability(payload: Payload, actor: str) -> _Line:
    name = payload["capability"]
    text = _("the permissions of the capability %(name)s were extended")
    return _Line(text % {"name": name}, name)


def _expired(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or _("a review")
    return _Line(_("%(name)s timed out") % {"name": name})


def _extended(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or _("a review")
    params = {"name": name, "time": seconds_text(payload["seconds"])}
    return _Line(_("%(name)s was extended by %(time)s") % params, name)


def _hold_escalated(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or _("it")
    groups, names = components_labels.group_text(payload["groups"]), ", ".join(payload["told"])
    if groups and names:
        text = _("%(name)s was escalated: %(groups)s can also decide, %(told)s is notified")
    elif groups:
        text = _("%(name)s was escalated: %(groups)s can also decide")
    else:
        text = _("%(name)s was escalated: %(told)s is notified")
    subject = payload.get("task_id") or ""
    return _Line(text % {"name": name, "groups": groups, "told": names}, subject, "waiting")


def _closed(payload: Payload, actor: str) -> _Line:
    text = _("layer %(layer)s completed; checkpoint saved")
    if payload.get("failed"):
        text = _("layer %(layer)s ended with failures; checkpoint saved")
    return _Line(text % {"layer": payload["layer"] + 1})


def _skip_requested(payload: Payload, actor: str) -> _Line:
    return _Line(_("layer %(layer)s will be skipped") % {"layer": payload["layer"] + 1})


def _skipped(payload: Payload, actor: str) -> _Line:
    number = len(payload["tasks"])
    return _Line(ngettext("skipped %(n)s task", "skipped %(n)s tasks", number) % {"n": number})


def _agent(payload: Payload, actor: str) -> _Line:
    params = {key: payload.get(key) for key in ("agent", "decision", "reason")}
    text = _("agent %(agent)s decided %(decision)s")
    if payload.get("reason"):
        text = _("agent %(agent)s decided %(decision)s: %(reason)s")
    return _Line(text % params, names_actor=True)


def _agent_requested(payload: Payload, actor: str) -> _Line:
    return _Line(_("the agent will be asked after this layer"))


def _agent_failed(payload: Payload, actor: str) -> _Line:
    text = _("agent %(agent)s failed: %(error)s")
    params = {"agent": payload["agent"], "error": render_stored(payload, "error")}
    return _Line(text % params, look="bad")


_REVISED = {
    "added": N_("added %(names)s"),
    "removed": N_("removed %(names)s"),
    "changed": N_("changed %(names)s"),
}


def _revised(payload: Payload, actor: str) -> _Line:
    parts = [
        _(text) % {"names": ", ".join(payload[key])}
        for key, text in _REVISED.items()
        if payload.get(key)
    ]
    params = {"what": "; ".join(parts) or _("no tasks changed")}
    text = _("the plan was changed: %(what)s")
    if payload.get("requirement"):
        params["wish"] = _requirement(payload)
        text = _("the plan was changed for “%(wish)s”: %(what)s")
    return _Line(text % params)


def _requirement(payload: Payload) -> str:
    """Return what a plan change is for."""
    reason = requirement_reason(
        payload.get("cause", ""),
        payload["requirement"],
        added=payload.get("added", ()),
        changed=payload.get("changed", ()),
    )
    return render_reason(reason)


def _proposed(payload: Payload, actor: str) -> _Line:
    params = {
        "who": str(actor).removeprefix("agent:") or _("somebody"),
        "wish": _requirement(payload),
        "names": ", ".join(payload.get("added", ())) or _("no tasks"),
    }
    text = _("%(who)s proposes a new plan for “%(wish)s” that adds %(names)s")
    return _Line(text % params, look="waiting", names_actor=True)


def _replan_failed(payload: Payload, actor: str) -> _Line:
    error = render_stored(payload, "error")
    return _Line(_("no new plan was found: %(error)s") % {"error": error}, look="bad")


def _context(payload: Payload, actor: str) -> _Line:
    names = ", ".join(payload["updates"])
    return _Line(_("the context was updated: %(names)s") % {"names": names})


def _refused(payload: Payload, actor: str) -> _Line:
    params = {
        "command": components_labels.command_text(payload["command"]),
        "error": render_stored(payload, "error"),
    }
    return _Line(_("%(command)s was refused: %(error)s") % params, look="bad")


def _not_learned(payload: Payload, actor: str) -> _Line:
    error = payload.get("error", "")
    if not error:
        return _Line(_("nothing was learned from this run"))
    return _Line(_("nothing was learned from this run: %(error)s") % {"error": error})


def _completed(payload: Payload, actor: str) -> _Line:
    return _Line(_("the run is complete"), look="good")


def _failed(payload: Payload, actor: str) -> _Line:
    if not payload.get("error"):
        return _Line(_("the run has failed"), look="bad")
    error = render_stored(payload, "error")
    return _Line(_("the run has failed: %(error)s") % {"error": error}, look="bad")


def _aborted(payload: Payload, actor: str) -> _Line:
    params = {"who": actor, "reason": render_stored(payload, "reason")}
    text = _("the run was aborted: %(reason)s")
    if actor not in ("", "system"):
        text = _("%(who)s aborted the run: %(reason)s")
    return _Line(text % params, look="bad", names_actor=True)


def _other(payload: Payload, actor: str) -> _Line:
    return _Line(_("event recorded"))


_LINES: dict[str, Callable[[Payload, str], _Line]] = {
    "execution_started": _started,
    "execution_forked": _forked,
    "layer_started": _layer,
    "task_submitted": _submitted,
    "task_succeeded": _succeeded,
    "task_errored": _errored,
    "task_escalated": _escalated,
    "speculation_hit": _hit,
    "speculation_miss": _missed,
    "hold_opened": _opened,
    "review_spared": _review_skipped,
    "hold_voted": _voted,
    "hold_answered": _answered,
    "hold_withdrawn": _withdrawn,
    "hold_decided": _decided,
    "task_resubmitted": _resubmitted,
    "result_reported": _reported,
    "capability_permission_updated": _capability,
    "hold_expired": _expired,
    "hold_extended": _extended,
    "hold_escalated": _hold_escalated,
    "layer_closed": _closed,
    "layer_skip_requested": _skip_requested,
    "layer_skipped": _skipped,
    "agent_decided": _agent,
    "agent_failed": _agent_failed,
    "agent_requested": _agent_requested,
    "plan_revised": _revised,
    "plan_proposed": _proposed,
    "replan_failed": _replan_failed,
    "context_updated": _context,
    "command_refused": _refused,
    "graph_update_failed": _not_learned,
    "execution_completed": _completed,
    "execution_failed": _failed,
    "execution_aborted": _aborted,
}
