"""Who may decide a hold, and the reason in words when somebody may not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db.models import Count, Exists, OuterRef, Q

from workflows.engine.permissions import NAMED
from workflows.engine.state import HoldReason
from workflows.executions import access
from workflows.models import Execution, Hold, Shaper
from workflows.permissions import deny_list, grants

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class NotAllowed(Exception):
    """The person may see this and may not do it.  `message` says why, in words."""

    def __init__(self, message: str, code: str = "not_allowed") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Right:
    """What a person may do with a hold; `reason` is set when one of the two is missing."""

    approve: bool
    reject: bool
    reason: str = ""
    code: str = ""

    @property
    def any(self) -> bool:
        return self.approve or self.reject


def right_of(
    user: User, hold: Hold, *, groups: Collection[str], shaped: Collection[str], four_eyes: bool
) -> Right:
    """The right of an active user whose groups are `groups`.

    `shaped` are the ways in which the user shaped what is asked; `hold.execution` is loaded.
    """
    refusal = _refusal(user, hold, groups)
    if refusal is not None:
        return Right(approve=False, reject=False, reason=refusal[1], code=refusal[0])
    own = _own_work(user, hold, shaped) if four_eyes else ""
    if own:
        return Right(approve=False, reject=True, reason=own, code="four_eyes")
    above = _above_role(hold, groups)
    return Right(approve=not above, reject=True, reason=above, code="ceiling" if above else "")


def _refusal(user: User, hold: Hold, groups: Collection[str]) -> tuple[str, str] | None:
    """A code and the words, or None."""
    if not user.is_active:
        return "inactive", "Your account is switched off."
    if hold.decider != "human":
        return "agent_decides", "An agent decides this. An operator can continue or abort the run."
    if access.AUDITOR in groups:
        return "auditor", "Auditors read what was decided and decide nothing themselves."
    if not deciding_groups(hold.groups, groups):
        return "not_in_group", _outside(hold.groups)
    if hold.status == Hold.Status.OPEN and user.get_username() in hold.approvals:
        return "already_voted", "You have approved this already; the quorum needs somebody else."
    return None


def deciding_groups(wanted: Collection[str], groups: Collection[str]) -> frozenset[str]:
    """The groups through which a member of `groups` decides a hold that names `wanted`."""
    return (frozenset(wanted) & frozenset(groups)) - access.NON_DECIDING_ROLES


def _outside(wanted: Collection[str]) -> str:
    names = " or ".join(sorted(frozenset(wanted) - access.NON_DECIDING_ROLES))
    if not names:
        return "No group can decide this. An operator can abort the run."
    return f"The group {names} decides this, and you are not in it."


#: Ways of shaping a run, the plainest first, and what a person is told who did so.
_WAYS = {
    Shaper.Way.START: "You started this run, so somebody else has to approve it.",
    Shaper.Way.REPLAN: "You asked for this change of the plan, so somebody else has to approve it.",
    Shaper.Way.PLAN: "You changed the plan of this run, so somebody else has to approve it.",
    Shaper.Way.CONTEXT: "You changed the context of this run, so somebody else has to approve it.",
    Shaper.Way.SKIP: "You skipped a layer of this run, so somebody else has to approve it.",
    Shaper.Way.ASKED: "You wrote to the agent of this run, so somebody else has to approve it.",
    Shaper.Way.EDIT: "You edited a step of this run, so somebody else has to approve it.",
    Shaper.Way.ORIGIN: (
        "You started or changed the run that this one is a fork of, so somebody else has to"
        " approve it."
    ),
}


def _own_work(user: User, hold: Hold, shaped: Collection[str]) -> str:
    """Why the user would approve work of their own; "" when they would not."""
    ways = {*shaped, *([Shaper.Way.START] if hold.execution.created_by_id == user.pk else ())}
    return next((words for way, words in _WAYS.items() if way in ways), "")


def _above_role(hold: Hold, groups: Collection[str]) -> str:
    """Why an escalation asks for more than these groups may grant; "" when it does not."""
    if hold.reason != HoldReason.ESCALATION or not isinstance(hold.payload, dict):
        return ""
    deciding = frozenset(groups) - access.NON_DECIDING_ROLES
    need = grants.missing_permissions(hold.payload)
    denied = deny_list.problem_of(need)
    if denied:
        return f"Nobody can grant this: {denied}."
    if need.has_folders and not grants.may_grant_folders(groups):
        return (
            "It asks for a folder and everything below. Only an operator or an admin can grant "
            "that; somebody else has to approve it."
        )
    if grants.may_grant(deciding, need):
        return ""
    ceilings = grants.ceilings_of(deciding)
    unknown = ", ".join(f"“{name}”" for name in ceilings if name not in NAMED)
    if unknown:
        return (
            f"Your group's ceiling {unknown} is no permission set and lets nothing pass. "
            "The setting grant_ceilings has to be corrected, or somebody else has to approve it."
        )
    sets = " or ".join(ceilings)
    return f"You may grant up to “{sets}”, and this is more. Somebody else has to approve it."


# --- facts ----------------------------------------------------------------------------------------


def fresh_user(user: User) -> User:
    """The person and their groups as the database knows them now; NotAllowed when there is none."""
    try:
        person: User = access.annotate_groups(get_user_model().objects.all()).get(pk=user.pk)
    except get_user_model().DoesNotExist:
        raise NotAllowed("Your account no longer exists.", "inactive") from None
    access.set_credential(person, access.credential_of(user))
    return access.limit_to_workflows(person, access.allowed_workflow_ids(user))


def group_names(user: User) -> frozenset[str]:
    """The groups the user is in now.  A superuser is in those they were put in, no more."""
    return access.groups_of(user)


def four_eyes(execution: Execution) -> bool:
    """Whether those who shaped a run are barred from approving in it."""
    return bool(execution.policy.get("four_eyes", True))


def shapers_of(hold: Hold) -> frozenset[str]:
    """Names of everybody who shaped what a hold asks about; see Shaper.Way for how."""
    return shapers_of_each([hold])[hold.pk]


def shapers_of_each(holds: Iterable[Hold]) -> dict[str, frozenset[str]]:
    """The same for several holds, by their ids, in one query."""
    asked = list(holds)
    found = defaultdict(list)
    rows = Shaper.objects.filter(execution_id__in={each.execution_id for each in asked})
    for execution_id, name, since in rows.values_list("execution_id", "name", "since"):
        found[execution_id].append((name, since))
    return {
        hold.pk: frozenset(
            name for name, since in found[hold.execution_id] if since < hold.opened_seq
        )
        for hold in asked
    }


def cannot_be_approved(holds: Iterable[Hold]) -> frozenset[str]:
    """Ids of the open holds of people that too few people are left to approve; two queries.

    They are active members of a hold's groups who have not approved it yet and, with four eyes, did
    not shape what it asks about; `execution` of each is loaded.
    """
    asked = [each for each in holds if each.status == Hold.Status.OPEN and each.decider == "human"]
    if not asked:
        return frozenset()
    shapers = shapers_of_each(asked)
    needs = {}
    for hold in asked:
        gone = frozenset(hold.approvals)
        if four_eyes(hold.execution):
            gone |= shapers[hold.pk]
        needs[hold.pk] = (deciding_groups(hold.groups, hold.groups), gone)
    left = _people_left(set(needs.values()))
    return frozenset(
        hold.pk for hold in asked if left[needs[hold.pk]] < hold.quorum - len(hold.approvals)
    )


Need = tuple[frozenset[str], frozenset[str]]


def _people_left(needs: Collection[Need]) -> dict[Need, int]:
    """How many active people of these groups, without these names, may decide; one query."""
    numbered = {f"need_{number}": need for number, need in enumerate(needs)}
    every = frozenset[str]().union(*(groups for groups, _ in needs))
    people = get_user_model().objects.filter(is_active=True, groups__name__in=every)
    counts = people.exclude(groups__name=access.AUDITOR).aggregate(
        **{
            key: Count(
                "pk", filter=Q(groups__name__in=groups) & ~Q(username__in=gone), distinct=True
            )
            for key, (groups, gone) in numbered.items()
        }
    )
    return {need: counts[key] for key, need in numbered.items()}


def ways_of(user: User, hold: Hold) -> frozenset[str]:
    """The ways in which the user shaped what a hold asks about."""
    return ways_of_each(user, [hold])[hold.pk]


def ways_of_each(user: User, holds: Iterable[Hold]) -> dict[str, frozenset[str]]:
    """The same for several holds, by their ids, in one query."""
    asked = list(holds)
    found = defaultdict(list)
    rows = Shaper.objects.filter(
        execution_id__in={each.execution_id for each in asked}, name=user.get_username()
    )
    for execution_id, way, since in rows.values_list("execution_id", "way", "since"):
        found[execution_id].append((way, since))
    return {
        hold.pk: frozenset(
            way for way, since in found[hold.execution_id] if since < hold.opened_seq
        )
        for hold in asked
    }


def shaped_by(user: User, *, execution: str, opened_seq: str) -> Exists:
    """Whether the user may not approve a hold because of four eyes, as `right_of` says it.

    For lists: the columns that name the hold's run, and the event that opened it.
    """
    mine = Shaper.objects.filter(
        execution_id=OuterRef(execution),
        name=user.get_username(),
        since__lt=OuterRef(opened_seq),
    )
    return Exists(mine.exclude(execution__policy__four_eyes=False))


def right_now(user: User, hold: Hold) -> Right:
    """The right of `user` on `hold` by what the database says now (two queries)."""
    return right_of(
        user,
        hold,
        groups=group_names(user),
        shaped=ways_of(user, hold),
        four_eyes=four_eyes(hold.execution),
    )
