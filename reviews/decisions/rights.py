"""Check who may decide a hold, with the reason for a refusal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from reviews.models import Decision, HumanReviewRecord
from workflows.engine.policy.permissions import NAMED
from workflows.engine.protocol.state import HoldReason
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.models import Absence, Execution, Hold, Shaper
from workflows.permissions import deny_list, grants

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class NotAllowed(Exception):
    """The user may see the hold but not do this; `reason` explains it, `message` in English."""

    def __init__(self, reason: Reason, code: str = "not_allowed") -> None:
        self.code = code
        self.reason = reason
        self.message = reason.text
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class Right:
    """A user's rights on a hold; `refusal` explains why one of them is missing."""

    approve: bool
    reject: bool
    refusal: Reason | None = None
    code: str = ""
    #: The absent person for whom the user decides; "" and None for a right of their own.
    on_behalf_of: str = ""
    on_behalf_of_id: int | None = None

    @property
    def reason(self) -> str:
        """The refusal in English, "" if there is none."""
        return self.refusal.text if self.refusal else ""

    def denied(self) -> NotAllowed:
        """Return the exception for a missing right."""
        return NotAllowed(self.refusal or Reason("not_allowed"), self.code)

    @property
    def any(self) -> bool:
        return self.approve or self.reject


def right_of(
    user: User, hold: Hold, *, groups: Collection[str], shaped: Collection[str], four_eyes: bool
) -> Right:
    """Return the rights of a user whose groups are `groups`.

    `shaped` are the ways in which the user influenced the payload; `hold.execution` is loaded.
    """
    refusal = _refusal(user, hold, groups)
    if refusal is not None:
        return Right(approve=False, reject=False, refusal=refusal[1], code=refusal[0])
    own = _own_work(user, hold, shaped) if four_eyes else None
    if own:
        return Right(approve=False, reject=True, refusal=own, code="four_eyes")
    above = _above_role(hold, groups)
    return Right(approve=not above, reject=True, refusal=above, code="ceiling" if above else "")


def _refusal(user: User, hold: Hold, groups: Collection[str]) -> tuple[str, Reason] | None:
    """A code and a reason, or None."""
    if not user.is_active:
        return "inactive", Reason("account_disabled")
    if hold.decider != "human":
        return "agent_decides", Reason("only_an_agent_decides")
    if access.AUDITOR in groups:
        return "auditor", Reason("auditors_only_read")
    if not deciding_groups(hold.groups, groups):
        return "not_in_group", _outside(hold.groups)
    if hold.status == Hold.Status.OPEN and user.pk in hold.approver_ids:
        return "already_voted", Reason("quorum_needs_another")
    return None


def deciding_groups(wanted: Collection[str], groups: Collection[str]) -> frozenset[str]:
    """The groups through which a member of `groups` decides a hold that names `wanted`."""
    return (frozenset(wanted) & frozenset(groups)) - access.NON_DECIDING_ROLES


def _outside(wanted: Collection[str]) -> Reason:
    names = sorted(frozenset(wanted) - access.NON_DECIDING_ROLES)
    return Reason("not_in_group", {"groups": _either(names)}) if names else Reason("no_group")


def _either(names: Sequence[str]) -> Reason | str:
    """Return `a`, `a or b`, `a or b or c`; `names` is not empty."""
    *rest, last = names
    return Reason("either", {"first": _either(rest), "last": last}) if rest else last


#: Ways of influencing a run, the most obvious first, with the reason for that user.
_REFUSAL_BY_SHAPING = {
    Shaper.Way.START: Reason("shaped_by_start"),
    Shaper.Way.REPLAN: Reason("shaped_by_replan"),
    Shaper.Way.PLAN: Reason("shaped_by_plan"),
    Shaper.Way.CONTEXT: Reason("shaped_by_context"),
    Shaper.Way.SKIP: Reason("shaped_by_skip"),
    Shaper.Way.ASKED: Reason("shaped_by_message"),
    Shaper.Way.EDIT: Reason("shaped_by_edit"),
    Shaper.Way.ORIGIN: Reason("shaped_by_origin"),
}


def _own_work(user: User, hold: Hold, shaped: Collection[str]) -> Reason | None:
    """Return why an approval would break the four-eyes rule; None if it would not."""
    ways = {*shaped, *([Shaper.Way.START] if hold.execution.created_by_id == user.pk else ())}
    return next((reason for way, reason in _REFUSAL_BY_SHAPING.items() if way in ways), None)


def _above_role(hold: Hold, groups: Collection[str]) -> Reason | None:
    """Return why these groups may not grant the permission; None if they may."""
    if hold.reason != HoldReason.ESCALATION or not isinstance(hold.payload, dict):
        return None
    deciding = frozenset(groups) - access.NON_DECIDING_ROLES
    need = grants.missing_permissions(hold.payload)
    denied = deny_list.problem_of(need)
    if denied:
        return Reason("grant_denied", {"problem": denied})
    if need.has_folders and not grants.may_grant_folders(groups):
        return Reason("folder_grant_needs_operator")
    if grants.may_grant(deciding, need):
        return None
    ceilings = grants.ceilings_of(deciding)
    unknown = ", ".join(f"“{name}”" for name in ceilings if name not in NAMED)
    if unknown:
        return Reason("ceiling_unknown", {"ceilings": unknown})
    return Reason("above_ceiling", {"ceilings": _either(ceilings) if ceilings else ""})


# --- facts ----------------------------------------------------------------------------------------


def fresh_user(user: User) -> User:
    """Reload the user and their groups; raises NotAllowed when the account is gone."""
    person = access.read_user(user.pk)
    if person is None:
        raise NotAllowed(Reason("account_gone"), "inactive")
    access.set_credential(person, access.credential_of(user))
    return access.limit_to_workflows(person, access.allowed_workflow_ids(user))


def group_names(user: User) -> frozenset[str]:
    """The user's groups; being a superuser adds none."""
    return access.groups_of(user)


def four_eyes(execution: Execution) -> bool:
    """Whether people who influenced the run may not approve in it."""
    return bool(execution.policy.get("four_eyes", True))


def shapers_of(hold: Hold) -> frozenset[int]:
    """Ids of the people who influenced a hold's payload, see Shaper.Way."""
    return shapers_of_each([hold])[hold.pk]


def shapers_of_each(holds: Iterable[Hold]) -> dict[str, frozenset[int]]:
    """Map hold ids to `shapers_of` in one query."""
    hold_list = list(holds)
    shapings = defaultdict(list)
    rows = Shaper.objects.filter(execution_id__in={each.execution_id for each in hold_list})
    for execution_id, user_id, since in rows.values_list("execution_id", "user", "since"):
        shapings[execution_id].append((user_id, since))
    return {
        hold.pk: frozenset(
            user_id for user_id, since in shapings[hold.execution_id] if since < hold.opened_seq
        )
        for hold in hold_list
    }


def cannot_be_approved(holds: Iterable[Hold]) -> frozenset[str]:
    """Ids of the open holds that too few people can still approve; two queries.

    Active members of a hold's groups count who have not approved it yet and, with four eyes, did
    not influence its payload; `execution` of each hold is loaded.
    """
    open_holds = [
        each for each in holds if each.status == Hold.Status.OPEN and each.decider == "human"
    ]
    if not open_holds:
        return frozenset()
    shapers = shapers_of_each(open_holds)
    needs = {}
    for hold in open_holds:
        excluded = frozenset(user_id for user_id in hold.approver_ids if user_id is not None)
        if four_eyes(hold.execution):
            excluded |= shapers[hold.pk]
        needs[hold.pk] = (deciding_groups(hold.groups, hold.groups), excluded)
    left = _people_left(set(needs.values()))
    return frozenset(
        hold.pk for hold in open_holds if left[needs[hold.pk]] < hold.quorum - len(hold.approvals)
    )


Need = tuple[frozenset[str], frozenset[int]]


def _people_left(needs: Collection[Need]) -> dict[Need, int]:
    """Count the active deciders per (groups, excluded people); one query."""
    numbered = {f"need_{number}": need for number, need in enumerate(needs)}
    every = frozenset[str]().union(*(groups for groups, _ in needs))
    people = get_user_model().objects.filter(is_active=True, groups__name__in=every)
    counts = people.exclude(groups__name=access.AUDITOR).aggregate(
        **{
            key: Count("pk", filter=Q(groups__name__in=groups) & ~Q(pk__in=excluded), distinct=True)
            for key, (groups, excluded) in numbered.items()
        }
    )
    return {need: counts[key] for key, need in numbered.items()}


def ways_of(user: User, hold: Hold) -> frozenset[str]:
    """The ways in which the user influenced a hold's payload."""
    rows = Shaper.objects.filter(
        execution_id=hold.execution_id, user=user.pk, since__lt=hold.opened_seq
    )
    return frozenset(rows.values_list("way", flat=True))


def ways_of_each(user: User, holds: Iterable[Hold]) -> dict[str, frozenset[str]]:
    """Map hold ids to `ways_of` in one query."""
    hold_list = list(holds)
    shapings = defaultdict(list)
    rows = Shaper.objects.filter(
        execution_id__in={each.execution_id for each in hold_list}, user=user.pk
    )
    for execution_id, way, since in rows.values_list("execution_id", "way", "since"):
        shapings[execution_id].append((way, since))
    return {
        hold.pk: frozenset(
            way for way, since in shapings[hold.execution_id] if since < hold.opened_seq
        )
        for hold in hold_list
    }


def shaped_by(user: User, *, execution: str, opened_seq: str) -> Exists:
    """Whether the user may not approve a hold because of four eyes, as `right_of` says it.

    For lists: the columns that name the hold's run, and the event that opened it.
    """
    return Exists(_shapings(user, execution).filter(since__lt=OuterRef(opened_seq)))


def shaped_hold_by(user: User, *, execution: str, hold: str) -> Exists:
    """Like `shaped_by`, for rows that have the hold's id and not the event that opened it.

    A hold is read only if the user influenced its run; a join would read every hold.
    """
    later = Hold.objects.filter(pk=OuterRef(OuterRef(hold)), opened_seq__gt=OuterRef("since"))
    return Exists(_shapings(user, execution).filter(Exists(later)))


def _shapings(user: User, execution: str) -> QuerySet[Shaper, Any]:
    mine = Shaper.objects.filter(execution_id=OuterRef(execution), user=user.pk)
    return mine.exclude(execution__policy__four_eyes=False)


def right_now(user: User, hold: Hold) -> Right:
    """Return the present rights of `user` on `hold`, of their own or for an absent person.

    Two queries; more for a quorum, and for a delegate.
    """
    own = _own_right(user, hold)
    if own.any and _was_approved_for(user, hold):
        reason = Reason("approved_for", {"name": user.get_username()})
        return Right(approve=False, reject=False, refusal=reason, code="already_voted")
    return with_delegation(user, hold, own)


def lapsed_votes(hold: Hold) -> list[tuple[HumanReviewRecord, Reason]]:
    """Return the votes on an open hold whose people may not approve it any more, and why.

    `hold.execution` is loaded.  The end of an absence ends no vote of its delegate.
    """
    rows = HumanReviewRecord.objects.standing().filter(hold=hold, decision=Decision.APPROVE)
    votes = rows.filter(reviewer__in=hold.approver_ids).order_by("id")
    reasons = ((vote, _lapse_of(vote, hold)) for vote in votes)
    return [(vote, reason) for vote, reason in reasons if reason is not None]


def _lapse_of(vote: HumanReviewRecord, hold: Hold) -> Reason | None:
    """Return why a vote does not count any more; None if it counts."""
    ids = dict.fromkeys(filter(None, (vote.reviewer_id, vote.on_behalf_of_id)))
    people = [person for person in map(access.read_user, ids) if person is not None]
    if len(people) < len(ids) or not all(person.is_active for person in people):
        return Reason("access_ended", {"actor": vote.actor})
    # For a delegate, the absent person has the right.
    groups = group_names(people[-1])
    is_auditor = any(access.AUDITOR in group_names(person) for person in people)
    if is_auditor or not deciding_groups(hold.groups, groups) or _above_role(hold, groups):
        return Reason("right_lost", {"actor": vote.actor})
    return None


def _own_right(user: User, hold: Hold) -> Right:
    return right_of(
        user,
        hold,
        groups=group_names(user),
        shaped=ways_of(user, hold),
        four_eyes=four_eyes(hold.execution),
    )


# --- absences -------------------------------------------------------------------------------------


def with_delegation(user: User, hold: Hold, own: Right) -> Right:
    """Return the right `own`, or the right of an absent person whom the user stands in for.

    A delegate decides only what they cannot decide themselves, with at most the rights that the
    absent person has of their own, so that delegations do not chain.  Four eyes applies to both.
    """
    if own.code != "not_in_group" or not deciding_groups(
        hold.groups, access.delegated_groups_of(user)
    ):
        return own
    if hold.status == Hold.Status.OPEN and user.pk in hold.approver_ids:
        reason = Reason("quorum_needs_another")
        return Right(approve=False, reject=False, refusal=reason, code="already_voted")
    rows = Absence.objects.current().filter(delegate=user.pk).select_related("user")
    rights = [_right_for(user, each.user, hold) for each in rows.order_by("begins_at", "pk")]
    return max(rights, key=lambda right: (right.approve, right.reject), default=own)


def _right_for(user: User, absent: User, hold: Hold) -> Right:
    """Return the right of `user` as the delegate of `absent`."""
    name = absent.get_username()
    theirs = _own_right(absent, hold)
    voted = theirs.code == "already_voted" or _was_approved_for(absent, hold)
    if voted or not theirs.any:
        reason = Reason("approved_for" if voted else "delegator_may_not", {"name": name})
        code = "already_voted" if voted else "delegator"
        return Right(approve=False, reject=False, refusal=reason, code=code)
    if not theirs.approve:
        reason = Reason("delegator_may_not_approve", {"name": name})
        return Right(
            approve=False,
            reject=True,
            refusal=reason,
            code=theirs.code,
            on_behalf_of=name,
            on_behalf_of_id=absent.pk,
        )
    own_work = _own_work(user, hold, ways_of(user, hold)) if four_eyes(hold.execution) else None
    if own_work is not None:
        return Right(
            approve=False,
            reject=True,
            refusal=own_work,
            code="four_eyes",
            on_behalf_of=name,
            on_behalf_of_id=absent.pk,
        )
    return Right(approve=True, reject=True, on_behalf_of=name, on_behalf_of_id=absent.pk)


def _was_approved_for(person: User, hold: Hold) -> bool:
    """Whether a delegate's approval of the open hold counts as the person's."""
    if not hold.approvals or hold.status != Hold.Status.OPEN:
        return False
    records = HumanReviewRecord.objects.standing().filter(hold=hold, decision=Decision.APPROVE)
    return records.filter(on_behalf_of_id=person.pk).exists()
