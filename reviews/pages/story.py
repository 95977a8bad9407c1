"""What happened, one sentence per event, grouped by layer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from reviews.templatetags.desk import seconds_words
from workflows.engine.faults import attempt_words
from workflows.models import ExecutionEvent

from . import words

Payload = Mapping[str, Any]


@dataclass(slots=True)
class Group:
    """The events of one layer: `done` of its `total` tasks have settled."""

    title: str
    done: int = 0
    total: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """A sentence, the name in it that stands out, its colour, and whether it names its actor."""

    text: str
    subject: str = ""
    look: str = "quiet"
    names_actor: bool = False


#: Characters of a message that stand in the timeline, and that can be unfolded.
_MAX_SAID, _MAX_READ = 1500, 200_000
_ROLES = {"user": "person", "assistant": "agent", "system": "system", "tool": "tool"}
_SHAPES = {"quiet": "·", "good": "✓", "bad": "✕", "waiting": "◔", "running": "▶"}


def timeline(
    events: Iterable[ExecutionEvent],
    counts: Mapping[int, tuple[int, int]],
    forks: Mapping[int, str] | None = None,
    links: Mapping[int, tuple[str, str]] | None = None,
) -> list[Group]:
    """Groups in order; `counts` gives (settled, all) tasks per layer.

    `forks` is where a new run can go on from: layer of a checkpoint → address.  `links` are pages
    that tell more of an event: its seq → address and words.
    """
    groups = [Group("Start")]
    for event in events:
        if event.kind in ("layer_started", "layer_skipped"):
            layer = int(event.payload["layer"])
            done, total = counts.get(layer, (0, 0))
            groups.append(Group(f"Layer {layer + 1}", done, total))
        line = entry(event)
        if event.kind == "layer_closed" and forks:
            line["fork_url"] = forks.get(event.payload["layer"], "")
        if links and event.seq in links:
            line["link_url"], line["link_words"] = links[event.seq]
        groups[-1].entries.append(line)
    return [group for group in groups if group.entries]


def entry(event: ExecutionEvent) -> dict[str, Any]:
    """One event as a line of the timeline."""
    if event.kind == "message_added":
        return _message(event)
    line = _LINES.get(event.kind, _other)(event.payload, event.actor)
    told = {"kind": event.kind, "seq": event.seq, "source": event.source, **event.payload}
    actor = "" if line.names_actor or event.actor in ("system", "") else event.actor
    return {
        "seq": event.seq,
        "kind": "event",
        "meaning": line.look,
        "shape": _SHAPES[line.look],
        "sentence": line.text,
        "subject": line.subject,
        "at": event.created_at,
        "actor": actor,
        "json": json.dumps(told, indent=2, ensure_ascii=False),
    }


def _message(event: ExecutionEvent) -> dict[str, Any]:
    role, content = str(event.payload.get("role", "")), str(event.payload.get("content", ""))
    is_long = len(content) > _MAX_SAID
    author = event.payload.get("author") or event.actor
    return {
        "seq": event.seq,
        "kind": "message",
        "meaning": "quiet",
        "shape": "“",
        "sentence": f"{content[:_MAX_SAID]} …" if is_long else content,
        "subject": "",
        "at": event.created_at,
        "actor": str(author).removeprefix("agent:"),
        "role": _ROLES.get(role, role),
        "json": content[:_MAX_READ] if is_long else "",
    }


def _forked(payload: Payload, actor: str) -> _Line:
    return _Line(f"goes on from run {payload['parent']} after its layer {payload['layer'] + 1}")


def _started(payload: Payload, actor: str) -> _Line:
    tasks = words.counted(payload["total_tasks"], "task")
    return _Line(f"the run begins: {tasks} in {words.counted(payload['total_layers'], 'layer')}")


def _layer(payload: Payload, actor: str) -> _Line:
    names = list(payload["tasks"])
    runs = [name for name in names if name not in payload.get("skips", {})]
    text = f"starts {', '.join(runs[:4])}" if runs else "nothing to run"
    if len(runs) > 4:
        text = f"starts {words.counted(len(runs), 'task')}"
    skipped = len(names) - len(runs)
    return _Line(text + (f"; {words.counted(skipped, 'task')} skipped" if skipped else ""))


def _succeeded(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    duration = payload.get("duration_ms", 0)
    took = f" in {seconds_words(duration / 1000)}" if duration >= 50 else ""
    return _Line(f"{name} done{took}", name, "good")


def _errored(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    again = "; it is tried again" if payload.get("retry_at") else ""
    return _Line(f"{name} failed: {payload['error']}{again}", name, "bad")


def _escalated(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    tried = attempt_words(payload["operation"], payload["resource"])
    return _Line(f"{name} asks to {tried}", name, "waiting")


def _hit(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    seconds = payload["seconds"]
    saved = f"; {seconds_words(seconds)} saved" if seconds >= 0.05 else ""
    return _Line(f"{name} was computed while the decision was open{saved}", name)


def _missed(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    return _Line(f"what was computed ahead for {name} was dropped: {payload['reason']}", name)


def _opened(payload: Payload, actor: str) -> _Line:
    name = words.about(payload.get("task_id") or "", payload["reason"])
    who = "a person" if payload["decider"] == "human" else "an agent"
    phase = words.phase_words(payload.get("phase") or "")
    return _Line(f"{name} waits for {who}{' ' + phase if phase else ''}", name, "waiting")


def _spared(payload: Payload, actor: str) -> _Line:
    name = payload["task_id"]
    when = words.phase_words(payload.get("phase") or "", past=True)
    return _Line(
        _("%(task)s was not reviewed %(when)s: %(why)s")
        % {"task": name, "when": when, "why": payload["why"]},
        name,
    )


def _voted(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or "it"
    text = f"{payload['voter']} approved {name}; more have to"
    return _Line(text, name, "good", names_actor=True)


def _decided(payload: Payload, actor: str) -> _Line:
    name = words.about(payload.get("task_id") or "", payload["reason"])
    approved = payload["decision"] == "APPROVE"
    verb, look = ("approved", "good") if approved else ("rejected", "bad")
    if payload.get("by_timeout"):
        return _Line(f"{name} was {verb}: nobody decided in time", name, look, names_actor=True)
    edits = " with changes" if payload.get("edited") else ""
    comment = f": “{payload['comment']}”" if payload.get("comment") else ""
    return _Line(f"{actor} {verb} {name}{edits}{comment}", name, look, names_actor=True)


def _capability(payload: Payload, actor: str) -> _Line:
    name = payload["capability"]
    return _Line(f"the capability {name} may do more from now on", name, "waiting")


def _expired(payload: Payload, actor: str) -> _Line:
    return _Line(f"time ran out for {payload.get('task_id') or 'a decision'}", look="waiting")


def _extended(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or "a decision"
    return _Line(f"{name} got {seconds_words(payload['seconds'])} more", name)


def _hold_escalated(payload: Payload, actor: str) -> _Line:
    name = payload.get("task_id") or _("it")
    groups, told = words.group_words(payload["groups"]), ", ".join(payload["told"])
    if groups and told:
        text = _("nobody decided about %(name)s yet: %(groups)s may decide too, %(told)s is told")
    elif groups:
        text = _("nobody decided about %(name)s yet: %(groups)s may decide too")
    else:
        text = _("nobody decided about %(name)s yet: %(told)s is told")
    subject = payload.get("task_id") or ""
    return _Line(text % {"name": name, "groups": groups, "told": told}, subject, "waiting")


def _closed(payload: Payload, actor: str) -> _Line:
    end = "ended with failures" if payload.get("failed") else "is done"
    return _Line(f"layer {payload['layer'] + 1} {end}; a checkpoint was kept")


def _skip_asked(payload: Payload, actor: str) -> _Line:
    return _Line(f"layer {payload['layer'] + 1} will be skipped")


def _skipped(payload: Payload, actor: str) -> _Line:
    return _Line(f"skipped {words.counted(len(payload['tasks']), 'task')}")


def _agent(payload: Payload, actor: str) -> _Line:
    reason = f": {payload['reason']}" if payload.get("reason") else ""
    return _Line(f"agent {payload['agent']} says {payload['decision']}{reason}", names_actor=True)


def _agent_asked(payload: Payload, actor: str) -> _Line:
    return _Line("the agent will be asked at the next boundary")


def _agent_failed(payload: Payload, actor: str) -> _Line:
    return _Line(f"agent {payload['agent']} gave no answer: {payload['error']}", look="bad")


def _revised(payload: Payload, actor: str) -> _Line:
    parts = [
        f"{key} {', '.join(payload[key])}"
        for key in ("added", "removed", "changed")
        if payload.get(key)
    ]
    wish = f" for “{payload['requirement']}”" if payload.get("requirement") else ""
    return _Line(f"the plan was changed{wish}: {'; '.join(parts) or 'nothing in its tasks'}")


def _proposed(payload: Payload, actor: str) -> _Line:
    who = str(actor).removeprefix("agent:") or "somebody"
    names = ", ".join(payload.get("added", ())) or "nothing new"
    text = f"{who} proposes another plan for “{payload['requirement']}”: it would add {names}"
    return _Line(text, look="waiting", names_actor=True)


def _replan_failed(payload: Payload, actor: str) -> _Line:
    return _Line(f"no new plan was found: {payload['error']}", look="bad")


def _context(payload: Payload, actor: str) -> _Line:
    return _Line(f"the context was updated: {', '.join(payload['updates'])}")


def _refused(payload: Payload, actor: str) -> _Line:
    return _Line(f"{payload['command']} was refused: {payload['error']}", look="bad")


def _not_learned(payload: Payload, actor: str) -> _Line:
    return _Line(f"nothing was learned from this run: {payload.get('error', '')}".rstrip(": "))


def _completed(payload: Payload, actor: str) -> _Line:
    return _Line("the run is complete", look="good")


def _failed(payload: Payload, actor: str) -> _Line:
    reason = f": {payload['error']}" if payload.get("error") else ""
    return _Line(f"the run has failed{reason}", look="bad")


def _aborted(payload: Payload, actor: str) -> _Line:
    who = actor if actor not in ("", "system") else ""
    text = f"{who} aborted the run" if who else "the run was aborted"
    return _Line(f"{text}: {payload['reason']}", look="bad", names_actor=True)


def _other(payload: Payload, actor: str) -> _Line:
    return _Line("something was noted")


_LINES: dict[str, Callable[[Payload, str], _Line]] = {
    "execution_started": _started,
    "execution_forked": _forked,
    "layer_started": _layer,
    "task_succeeded": _succeeded,
    "task_errored": _errored,
    "task_escalated": _escalated,
    "speculation_hit": _hit,
    "speculation_miss": _missed,
    "hold_opened": _opened,
    "review_spared": _spared,
    "hold_voted": _voted,
    "hold_decided": _decided,
    "capability_permission_updated": _capability,
    "hold_expired": _expired,
    "hold_extended": _extended,
    "hold_escalated": _hold_escalated,
    "layer_closed": _closed,
    "layer_skip_requested": _skip_asked,
    "layer_skipped": _skipped,
    "agent_decided": _agent,
    "agent_failed": _agent_failed,
    "agent_requested": _agent_asked,
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
