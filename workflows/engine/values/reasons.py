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
    "action_before": gettext_noop("an agent asks whether it may run %(action)s"),
    "action_after": gettext_noop("an agent asks for review of the output of %(action)s"),
    "review_with_rule": gettext_noop("%(review)s; %(rule)s"),
    "permission_missing": gettext_noop("task %(task)s may not %(attempt)s"),
    "layer_signature": gettext_noop("policy requires approval before layer %(layer)s"),
    "agent_decides": gettext_noop("an agent decides after this layer"),
    "layer_validated": gettext_noop("each layer is validated"),
    "plan_change": gettext_noop("the plan is to be changed: %(requirement)s"),
    # What a review rule says about a review.
    "rule_condition": gettext_noop("the condition of %(rule)s holds"),
    "rule_sampled_in": gettext_noop("picked by %(rule)s (hash %(share)s < %(sample)s)"),
    "rule_sampled_out": gettext_noop("sampled out by %(rule)s (hash %(share)s ≥ %(sample)s)"),
    "standing_answer": gettext_noop("standing answer %(grant)s of %(name)s covers it"),
    "rule_failed": gettext_noop("%(rule)s could not be evaluated: %(error)s"),
    "rules_failed": gettext_noop("the rules could not be evaluated: %(error)s"),
    "never_skipped_high_risk": gettext_noop("no rule skips it: it can modify data and has not run"),
    "never_skipped_risk_of_action": gettext_noop("no rule skips it: its risk is high"),
    "never_skipped_always": gettext_noop("no rule skips it: it is required every time"),
    "never_skipped_sent_back": gettext_noop("no rule skips it: a reviewer sent it back"),
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
    # Why a command does not apply.
    "run_has_ended": gettext_noop("The run has ended (%(status)s); it takes no more commands."),
    "not_waiting_for_continue": gettext_noop("The run is not waiting to be continued."),
    "no_agent_decides": gettext_noop(
        "No agent decides in this run: its policy enables none (ail)."
    ),
    "layer_has_begun": gettext_noop("Layer %(layer)s has begun or does not exist."),
    "layer_is_skipped": gettext_noop("Layer %(layer)s will be skipped already."),
    "layer_needs_decision": gettext_noop(
        "Layer %(layer)s needs %(gates)s, so it cannot be skipped. Decide it, or abort the run."
    ),
    "approval_of_layer": gettext_noop("an approval of the layer"),
    "review_of": gettext_noop("the review of %(task)s"),
    "both": gettext_noop("%(first)s and %(second)s"),
    "null_output_only": gettext_noop("Only the output of a task can be set to null."),
    "edits_not_taken": gettext_noop("Only a node review or a plan review takes edits."),
    "quorum_needs_others": gettext_noop("You have approved this already; the quorum needs others."),
    "quorum_takes_no_edits": gettext_noop(
        "Several people approve the same here, so nobody changes it: ask for changes, or reject."
    ),
    "changes_without_edits": gettext_noop("A request for changes neither approves nor edits."),
    "feedback_missing": gettext_noop("Say what should be changed."),
    "changes_of_output_only": gettext_noop(
        "Only the output of a task can be sent back to be changed."
    ),
    "no_changes_requested": gettext_noop(
        "No changes are requested, so there is nothing to submit again."
    ),
    "not_resubmitted": gettext_noop(
        "Changes were requested, and the agent did not submit the action again in time."
    ),
    "no_external_action": gettext_noop("This run has no action of an outside agent."),
    "action_not_approved": gettext_noop("The action is not approved, so it has no result."),
    "result_is_reported": gettext_noop("The result of this action was reported before."),
    "external_action_planned": gettext_noop(
        "The plan of an approval does not change, and no other plan has an external action."
    ),
    "no_more_changes_once": gettext_noop("Changes were requested 1 time, and no more can be."),
    "no_more_changes": gettext_noop("Changes were requested %(times)s times, and no more can be."),
    "hold_not_open": gettext_noop("%(hold)s is not open; it may be decided already."),
    "hold_just_decided": gettext_noop("%(actor)s has decided %(hold)s just now."),
    "no_answer_waits": gettext_noop("%(hold)s has no answer that waits."),
    "decision_took_effect": gettext_noop(
        "This decision has taken effect and can no longer be undone."
    ),
    "nothing_said": gettext_noop("This person has said nothing to take back."),
    "no_escalation": gettext_noop("%(task)s does not ask for a permission any more."),
    "scope_needs_capability": gettext_noop("Only a capability's own permission can be raised."),
    "scope_needs_length": gettext_noop(
        "A grant with the scope '%(scope)s' needs its length in grant_seconds."
    ),
    "scope_takes_no_length": gettext_noop("A grant with the scope '%(scope)s' has no length."),
    "standing_before_actions": gettext_noop(
        "Only an action that an agent asks about before it runs takes a standing answer."
    ),
    "standing_needs_token": gettext_noop(
        "Only an agent that asks with a token, which still exists, takes a standing answer."
    ),
    "standing_needs_approval": gettext_noop("Only an approval can cover later actions."),
    "standing_without_quorum": gettext_noop(
        "Several people approve this action, so one of them cannot approve later ones."
    ),
    "standing_not_allowed": gettext_noop(
        "No approval policy of this action allows standing answers."
    ),
    "standing_not_high_risk": gettext_noop(
        "The policy %(policy)s allows no standing answers for actions of high risk."
    ),
    "hold_has_no_end": gettext_noop("This hold has no end."),
    "no_grant_by_timeout": gettext_noop("Time alone grants no permission."),
    "not_the_next_step": gettext_noop("Step %(step)s is not the next of this hold."),
    "task_exists": gettext_noop("There is a task %(task)s already."),
    "no_such_task": gettext_noop("The plan has no task %(task)s."),
    "task_has_begun": gettext_noop("%(task)s has run, or its layer has begun."),
    "plan_change_open": gettext_noop("A plan change waits for a review; decide it first."),
    "replan_limit": gettext_noop("A run is replanned at most %(times)s times."),
    "failed_replan_limit": gettext_noop(
        "The planner found no plan %(times)s times in this run and is not asked again."
    ),
    "holds_open": gettext_noop("Decide the open reviews of this run first: %(holds)s."),
    "plan_change_decided": gettext_noop("The plan change is not waiting for a decision any more."),
    "plan_change_empty": gettext_noop("Nothing of the change is left; reject it instead."),
    "plan_review_edits": gettext_noop('edits of a plan review are {"drop": [ids of added tasks]}'),
    "plan_keeps_begun": gettext_noop("A new plan must keep the tasks that have begun: %(tasks)s."),
    "reviewed_stays": gettext_noop("%(task)s has a review, so it cannot be removed."),
    "reviewed_inputs_only": gettext_noop(
        "%(task)s has a review, so only its inputs can be changed."
    ),
    "review_wait_lost": gettext_noop(
        "%(task)s waits for the review of %(reviewed)s; the change would remove that wait."
    ),
    "reviewed_output_kept": gettext_noop(
        "%(input)s of %(task)s is the reviewed output of %(source)s; it cannot be replaced."
    ),
    "workflow_in_use": gettext_noop(
        "The workflow has executions, review rules or legal holds; disable it instead."
    ),
    "not_a_code_task": gettext_noop("%(task)s is not a code task of this run."),
    "task_not_succeeded": gettext_noop("%(task)s has not succeeded."),
    "task_problem": gettext_noop("%(task)s: %(problem)s."),
    "may_not_revoke": gettext_noop(
        "Only operators, admins and the person who granted it can revoke it."
    ),
    "grant_revoked": gettext_noop("%(actor)s has already revoked it."),
    "backtests_running": gettext_noop(
        "%(number)s of your backtests are running; wait until one ends."
    ),
    "backtest_not_done": gettext_noop("This backtest has no report yet."),
    "unknown_command": gettext_noop("Unknown command."),
    "delivery_pending": gettext_noop("This delivery is already pending."),
    "endpoint_blocked": gettext_noop("Nothing is sent to this endpoint: %(reason)s."),
    "endpoint_parked": gettext_noop("it is parked, because %(problem)s"),
    "receiver_gone": gettext_noop("the receiver answered 410 Gone: it accepts no more messages"),
    "tries_failed": gettext_noop("%(failures)s tries in a row failed, the last with: %(error)s"),
    "secret_unreadable": gettext_noop("%(error)s; rotate the secret, then resume"),
    "endpoint_disabled": gettext_noop("it is disabled"),
    "endpoint_owner_disabled": gettext_noop("its owner's account is disabled"),
    "endpoint_owner_roles": gettext_noop("its owner's roles no longer allow webhooks"),
    "endpoint_token_ended": gettext_noop("the token that set its URL has ended; set the URL again"),
    # Why somebody may not decide, undo or see this.
    "not_allowed": gettext_noop("You may not do this."),
    "account_disabled": gettext_noop("Your account is disabled."),
    "access_ended": gettext_noop(
        "%(actor)s may no longer act: the account is not active, or the token was revoked."
    ),
    "right_lost": gettext_noop("%(actor)s no longer has the right to do this."),
    "account_gone": gettext_noop("Your account no longer exists."),
    "only_an_agent_decides": gettext_noop(
        "An agent decides this. An operator can continue or abort the run."
    ),
    "auditors_only_read": gettext_noop("Auditors can read decisions but not make them."),
    "quorum_needs_another": gettext_noop(
        "You have already approved this; the quorum needs another person."
    ),
    "not_in_group": gettext_noop("The group %(groups)s decides this, and you are not in it."),
    "delegator_may_not": gettext_noop(
        "You stand in for %(name)s, who may not approve or reject this either."
    ),
    "delegator_may_not_approve": gettext_noop(
        "You stand in for %(name)s, who may not approve this either."
    ),
    "approved_for": gettext_noop(
        "%(name)s has approved this already, or a delegate has; the quorum needs another person."
    ),
    "no_group": gettext_noop("No group can decide this. An operator can abort the run."),
    "either": gettext_noop("%(first)s or %(last)s"),
    "shaped_by_start": gettext_noop("You started this run, so somebody else has to approve it."),
    "shaped_by_replan": gettext_noop(
        "You asked for this change of the plan, so somebody else has to approve it."
    ),
    "shaped_by_plan": gettext_noop(
        "You changed the plan of this run, so somebody else has to approve it."
    ),
    "shaped_by_context": gettext_noop(
        "You changed the context of this run, so somebody else has to approve it."
    ),
    "shaped_by_skip": gettext_noop(
        "You skipped a layer of this run, so somebody else has to approve it."
    ),
    "shaped_by_message": gettext_noop(
        "You wrote to the agent of this run, so somebody else has to approve it."
    ),
    "shaped_by_edit": gettext_noop(
        "You edited a step of this run, so somebody else has to approve it."
    ),
    "shaped_by_origin": gettext_noop(
        "You started or changed the run that this one is a fork of, so somebody else has to "
        "approve it."
    ),
    # What the deny list says.
    "denied_path": gettext_noop("%(path)s belongs to the host, and no permission reaches it"),
    "denied_path_below": gettext_noop(
        "%(path)s holds %(denied)s, which belongs to the host: no permission reaches it"
    ),
    "denied_unresolved_path": gettext_noop("%(path)s cannot be resolved: %(error)s"),
    "denied_metadata_name": gettext_noop(
        "%(host)s is a metadata service of the host, and no permission reaches it"
    ),
    "denied_loopback": gettext_noop(
        "%(host)s is a service of this machine, and no permission reaches it "
        "(HOLDPOINT_LOOPBACK_TARGETS names the exceptions)"
    ),
    "denied_address": gettext_noop(
        "%(address)s is a device or metadata address of the host, and no permission reaches it"
    ),
    "denied_database": gettext_noop(
        "%(host)s is a database of this installation, and no permission reaches it"
    ),
    "denied_variable": gettext_noop(
        "%(name)s belongs to this installation and is never handed out"
    ),
    "grant_denied": gettext_noop("Nobody can grant this: %(problem)s."),
    "folder_grant_needs_operator": gettext_noop(
        "It asks for a folder and everything below. Only an operator or an admin can grant that; "
        "somebody else has to approve it."
    ),
    "ceiling_unknown": gettext_noop(
        "Your group's ceiling %(ceilings)s is no permission set and lets nothing pass. The setting"
        " grant_ceilings has to be corrected, or somebody else has to approve it."
    ),
    "above_ceiling": gettext_noop(
        "You may grant up to “%(ceilings)s”, and this is more. Somebody else has to approve it."
    ),
    "approval_needs_scope": gettext_noop(
        "This approval takes the scope “%(scope)s”, which this token does not have."
    ),
    "confirm_first": gettext_noop("Confirm with your code first."),
    "scope_missing": gettext_noop("This token does not have the scope “%(scope)s”."),
    "may_not_reveal": gettext_noop(
        "Only reviewers who can decide here and auditors can reveal masked values."
    ),
    "not_your_decision": gettext_noop("%(actor)s decided this; only they or an admin can undo it."),
    "not_decided_yet": gettext_noop("Nobody has decided this yet."),
    "too_late_to_undo": gettext_noop("This decision has taken effect and can no longer be undone."),
    "run_moved_on": gettext_noop("The run has moved on since you looked."),
    "run_is_busy": gettext_noop("The run is being moved on right now. Try again in a moment."),
    "run_is_busy_now": gettext_noop("The run is being moved on. Try again."),
    "hold_not_visible": gettext_noop("not visible to this person"),
    "link_is_used": gettext_noop("You have decided since the link was sent."),
    "message_is_used": gettext_noop(
        "You have decided since this message was made. It is being updated: read it and press the"
        " button again."
    ),
    "review_changed": gettext_noop("What this review shows has changed since you looked."),
    "hold_is_closed": gettext_noop("This hold is no longer open."),
    "claimed_by_other": gettext_noop("Somebody else has claimed this."),
    "hold_without_deadline": gettext_noop("This review has no deadline; it waits anyway."),
    # What became of one review of a bulk action.
    "not_found": gettext_noop("Not found."),
    "high_risk": gettext_noop("High risk: open this review and decide it on its own."),
    "done_approved": gettext_noop("Approved."),
    "done_rejected": gettext_noop("Rejected."),
    "done_changes_requested": gettext_noop("Changes requested."),
    "more_approvals_needed": gettext_noop("Approved; more approvals are needed."),
    "done_undone": gettext_noop("Undone."),
    "done_claimed": gettext_noop("Claimed."),
    "done_released": gettext_noop("Released."),
    "was_not_claimed": gettext_noop("You had not claimed it."),
    "done_assigned": gettext_noop("Assigned to %(name)s."),
    # Why a task failed.
    "condition_failed": gettext_noop("when: %(error)s"),
    "permission_lost": gettext_noop("a permission that the task used was revoked or expired"),
    "permission_set_unknown": gettext_noop("%(problem)s; the task does not run without it"),
    "tool_above_ceiling": gettext_noop(
        "%(tool)s runs with the permission set %(permissions)s, which is above the ceiling of this"
        " run (%(ceiling)s)"
    ),
    "task_timed_out": gettext_noop("did not finish within %(seconds)s s"),
    "tool_timed_out": gettext_noop("%(tool)s did not finish in time"),
    "runner_not_configured": gettext_noop("the runner %(runner)s is not configured"),
    "runner_unavailable": gettext_noop("the runner %(runner)s cannot be reached: %(error)s"),
    "remote_call_lost": gettext_noop("the runner %(runner)s does not know the call any more"),
    "remote_result_refused": gettext_noop("the runner's result is refused: %(error)s"),
    "remote_permission": gettext_noop(
        "the tool needs permission to %(attempt)s, which a remote task cannot request"
    ),
    "no_tool_server": gettext_noop("there is no tool server '%(server)s', or it is disabled"),
    "no_code": gettext_noop("there is no code to run"),
    "no_such_capability": gettext_noop(
        "there is no capability '%(capability)s', or it is disabled"
    ),
    # Why an agent gave no answer.
    "no_such_agent": gettext_noop("no agent is registered as '%(agent)s'"),
    "no_answer_in_time": gettext_noop("no answer within %(seconds)s s"),
    "run_is_aborting": gettext_noop("the run is being aborted"),
    # Why a person's answer ended a task, and why a speculative result was dropped.
    "permission_refused": gettext_noop("%(actor)s refused the permission"),
    "permission_refused_because": gettext_noop("%(actor)s refused the permission: %(comment)s"),
    "permission_is_granted": gettext_noop(
        "it needs permission to %(attempt)s, which it has; granting it again would not help"
    ),
    "permission_above_ceiling": gettext_noop(
        "it needs permission to %(attempt)s, which is above the ceiling of this run (%(ceiling)s);"
        " nobody can grant it"
    ),
    "speculation_changed": gettext_noop("its inputs or permissions changed"),
    "speculation_too_old": gettext_noop("it was too old"),
    "speculation_not_read_only": gettext_noop("its tool is not read-only any more"),
    # Changes of the plan that commands ask for.
    "adds_task": gettext_noop("add the task %(task)s"),
    "changes_inputs": gettext_noop("change the inputs of %(task)s"),
    "plan_unchanged": gettext_noop("The planner found nothing to change in the plan."),
    "no_tool_fits": gettext_noop("No tool fits the requirement."),
    "nearest_tools": gettext_noop("%(problem)s Nearest tools: %(tools)s."),
    "plan_needs_inputs": gettext_noop(
        "the new tasks need %(inputs)s; give it as available_context"
    ),
    "plan_invalid": gettext_noop("the new plan cannot be run: %(error)s"),
    "replanned": gettext_noop("replan: %(requirement)s"),
    # What a timeout, a rejection or a lost worker causes.
    "nobody_decided": gettext_noop("nobody decided in time"),
    "change_does_not_fit": gettext_noop("%(timeout)s; the change no longer fits: %(problem)s"),
    "aborted": gettext_noop("aborted"),
    "task_rejected": gettext_noop("%(task)s was rejected"),
    "layer_approval_rejected": gettext_noop("layer approval was rejected"),
    "layer_validation_rejected": gettext_noop("layer validation was rejected"),
    "agent_decision_rejected": gettext_noop("agent decision was rejected"),
    "workers_lost": gettext_noop(
        "given up: %(lost)s workers in a row ended without recording a step"
    ),
    "workers_lost_running": gettext_noop("%(reason)s; tasks under way: %(tasks)s"),
    "workers_lost_error": gettext_noop("%(reason)s; %(error)s"),
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

    def __str__(self) -> str:
        return self.text

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
