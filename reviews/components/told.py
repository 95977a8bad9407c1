"""The sentences that the product keeps in English and pages show in the reader's language.

`%(name)s` stands for what varies. See reviews.components.sentences.
"""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop as N_

#: Why a run stopped (workflows.engine.gates).
_WHY: Final = (
    N_("task %(task)s asks for review before it runs"),
    N_("task %(task)s asks for review of its output"),
    N_("task %(task)s may not connect to %(resource)s"),
    N_("task %(task)s may not read %(resource)s"),
    N_("task %(task)s may not write %(resource)s"),
    N_("task %(task)s may not read the environment variable %(resource)s"),
    N_("task %(task)s may not start the program %(resource)s"),
    N_("layer %(layer)s needs a signature (policy: %(policy)s)"),
    N_("an agent decides after this layer"),
    N_("each layer is validated"),
    N_("the plan is to be changed: %(requirement)s"),
)
#: Why a rule spared a review or did not (workflows.engine.review_rules).
_SPARING: Final = (
    N_("the condition of rule %(name)s holds"),
    N_("the condition of the task's own rule holds"),
    N_("picked by rule %(name)s (hash %(share)s)"),
    N_("picked by the task's own rule (hash %(share)s)"),
    N_("sampled out by rule %(name)s (hash %(share)s)"),
    N_("sampled out by the task's own rule (hash %(share)s)"),
    N_("rule %(name)s could not be worked out: %(error)s"),
    N_("the task's own rule could not be worked out: %(error)s"),
    N_("no rule could be asked: %(error)s"),
    N_("no rule spares it: it goes beyond reading and has not run"),
    N_("no rule spares it: it asks each time"),
    N_("no rule spares it: a reviewer sent it back"),
)
#: What code tried (workflows.engine.task_errors).
_TRIED: Final = (
    N_("connect to %(resource)s"),
    N_("read %(resource)s"),
    N_("write %(resource)s"),
    N_("read %(resource)s and everything below"),
    N_("write %(resource)s and everything below"),
    N_("read the environment variable %(resource)s"),
    N_("start the program %(resource)s"),
)
#: What a permission set allows (workflows.engine.permissions).
_ALLOWED: Final = (
    N_("Use nothing beyond its inputs."),
    N_("Connect to any public host on any port."),
    N_("Connect to any public host on port %(port)s."),
    N_("Connect to any host below %(host)s on any port."),
    N_("Connect to any host below %(host)s on port %(port)s."),
    N_("Connect to the private host %(host)s on any port."),
    N_("Connect to the private host %(host)s on port %(port)s."),
    N_("Connect to %(host)s on any port."),
    N_("Connect to %(host)s on port %(port)s."),
    N_("Read every file of the machine."),
    N_("Read the working folder of the run."),
    N_("Read %(path)s in the working folder of the run."),
    N_("Read the folder %(path)s and everything below."),
    N_("Read the file %(path)s."),
    N_("Write every file of the machine."),
    N_("Write the working folder of the run."),
    N_("Write %(path)s in the working folder of the run."),
    N_("Write the folder %(path)s and everything below."),
    N_("Write the file %(path)s."),
    N_("Read the environment variable %(name)s."),
    N_("Start any program."),
    N_("Start the program %(name)s."),
)
#: Why somebody may not decide (reviews.decisions.rights).
_RIGHTS: Final = (
    N_("Your account is switched off."),
    N_("Your account no longer exists."),
    N_("An agent decides this. An operator can continue or abort the run."),
    N_("Auditors read what was decided and decide nothing themselves."),
    N_("You have approved this already; the quorum needs somebody else."),
    N_("No group can decide this. An operator can abort the run."),
    N_("The group %(names)s decides this, and you are not in it."),
    N_("You started this run, so somebody else has to approve it."),
    N_("You asked for this change of the plan, so somebody else has to approve it."),
    N_("You changed the plan of this run, so somebody else has to approve it."),
    N_("You changed the context of this run, so somebody else has to approve it."),
    N_("You skipped a layer of this run, so somebody else has to approve it."),
    N_("You wrote to the agent of this run, so somebody else has to approve it."),
    N_("You edited a step of this run, so somebody else has to approve it."),
    N_(
        "You started or changed the run that this one is a fork of, so somebody else has to "
        "approve it."
    ),
    N_(
        "Your group's ceiling %(names)s is no permission set and lets nothing pass. "
        "The setting grant_ceilings has to be corrected, or somebody else has to approve it."
    ),
    N_("You may grant up to “%(names)s”, and this is more. Somebody else has to approve it."),
    N_(
        "It asks for a folder and everything below. Only an operator or an admin can grant "
        "that; somebody else has to approve it."
    ),
    N_("Nobody can grant this: %(why)s."),
)
#: What could not be done now.
_REFUSED: Final = (
    N_("A plan change waits for a review; decide it first."),
    N_("Decide the open holds first: %(names)s."),
    N_("It has been run; switch it off instead of removing it."),
    N_("Layer %(layer)s has begun or does not exist."),
    N_("Layer %(layer)s will be skipped already."),
    N_("Nothing is sent to this endpoint: %(reason)s."),
    N_("Nothing of the change is left; reject it instead."),
    N_("Operators, admins and whoever gave it can take it back."),
    N_("Somebody else has claimed this."),
    N_("Several people approve the same here, so nobody changes it: ask for changes, or reject."),
    N_("The run does not wait for `continue`."),
    N_("The run has ended (%(status)s); it takes no more commands."),
    N_("The run has moved on since you looked."),
    N_("The run is being moved on right now. Try again in a moment."),
    N_("The run is being moved on. Try again."),
    N_("A run is replanned at most %(number)s times."),
    N_("This delivery is on its way already."),
    N_("This hold has no end."),
    N_("This hold is not open any more."),
    N_("This page does not know that command."),
    N_("This review has no deadline; it waits anyway."),
    N_("Time alone grants no permission."),
    N_("You have approved this already; the quorum needs others."),
    N_("%(name)s has taken it back already."),
    N_("%(task)s has run, or its layer has begun."),
    N_("%(task)s has not succeeded."),
    N_("%(task)s is no code task of this run."),
)
#: What became of each of several answers (reviews.queue.bulk).
_BULK: Final = (
    N_("Claimed."),
    N_("Released."),
    N_("You had not claimed it."),
    N_("Given to %(name)s."),
    N_("Approved."),
    N_("Rejected."),
    N_("Approved; more approvals are needed."),
    N_("Rejected; more approvals are needed."),
    N_("High risk: open it and decide about it by itself."),
    N_("Not found."),
    N_("Taken back."),
)
#: What is wrong with a value.
_FAULTS: Final = (
    N_("is required"),
    N_("is not a known field"),
    N_("must be true or false"),
    N_("must be %(kinds)s, not %(kind)s"),
    N_("must be one of %(names)s"),
    N_("must be between %(least)s and %(most)s"),
    N_("must be plain text of at most %(number)s characters"),
    N_("must have between 1 and 60 plain characters"),
    N_("must have at most %(number)s characters"),
    N_("must have at least %(number)s characters"),
    N_("must have at most %(number)s items"),
    N_("must have at least %(number)s items"),
    N_("must be the number of a run"),
    N_("must be a date like 2026-01-31, or an ISO 8601 time"),
    N_("must be a JSON object"),
    N_("must be a JSON object, as in {}"),
    N_("must be approve or reject"),
    N_("must say why; it goes into every record"),
    N_("must name between 1 and %(number)s reviews"),
    N_("must name a person"),
    N_("names one review twice"),
    N_("is being saved just now"),
    N_("is one too many: %(number)s views are kept"),
    N_("is nobody who can decide this review"),
    N_("is missing; open the page again"),
    N_("fits none of the forms that are allowed"),
    N_("fits more than one of the forms of which it may fit only one"),
    N_("has a character that cannot be stored"),
    N_("has an item twice"),
    N_("has unknown fields"),
    N_("cannot be taken away; change its value instead"),
    N_("would put the deadline more than 30 days ahead"),
    N_("a rejection takes no edits"),
    N_("is not valid JSON (%(error)s)"),
    N_("Not all of it was shown, so it cannot be approved here."),
    N_("a plan has a list of tasks"),
    N_("give it a name of 1 to 100 characters"),
    N_("give the workflow a name"),
    N_("say in a few words what is to be done"),
    N_("use some letters or digits"),
    N_("this moment has passed"),
    N_("only an admin's token may have the scope 'admin'"),
    N_("%(task)s needs this input"),
    N_("there is no tool %(name)s to be added"),
    N_("there is no task %(name)s"),
    N_("tasks wait for each other: %(names)s"),
    N_("the id %(name)s is used more than once"),
)
#: Why nothing is sent to an endpoint (workflows.webhooks.endpoints).
_STANDING: Final = (
    N_("it is parked, because %(reason)s"),
    N_("it is switched off"),
    N_("its owner's account is switched off"),
    N_("its owner's roles no longer allow webhooks"),
)
#: Why a result that was worked out ahead was dropped (workflows.speculation.run).
_DROPPED: Final = (
    N_("its inputs or permissions changed"),
    N_("it was too old"),
    N_("its tool is not read-only any more"),
    N_("it needs a permission"),
)
#: Why a run was given up (workflows.engine.decide).
_GIVEN_UP: Final = (
    N_("given up: %(count)s workers in a row ended without recording a step"),
    N_("tasks under way: %(tasks)s"),
)
#: Why a run was aborted, when nobody gave a reason (workflows.engine.decide).
_ABORTED: Final = (
    N_("aborted"),
    N_("nobody decided in time"),
    N_("layer approval was rejected"),
    N_("%(task)s was rejected"),
)
#: What to know about the groups of a workflow or run (workflows.executions.services).
_GROUPS: Final = (N_("The group %(name)s has no active member who may decide."),)
#: What speaks for a tool in a plan (graphrag.ranking).
_REASONS: Final = (
    N_("matches %(words)s"),
    N_("is near in meaning %(number)s"),
    N_("is central in past runs (%(number)s the average)"),
)
TOLD: Final[tuple[str, ...]] = (
    *_WHY,
    *_SPARING,
    *_TRIED,
    *_ALLOWED,
    *_RIGHTS,
    *_REFUSED,
    *_BULK,
    *_FAULTS,
    *_STANDING,
    *_DROPPED,
    *_GIVEN_UP,
    *_ABORTED,
    *_GROUPS,
    *_REASONS,
)
