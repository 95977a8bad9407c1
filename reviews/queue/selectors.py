"""Read the queue: tabs, rows, counts."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from reviews.components.number_formatting import count_up_to
from reviews.decisions.rights import deciding_groups, group_names, shaped_by, shaped_hold_by
from reviews.models import ReviewClaim
from workflows.executions import access
from workflows.models import Hold, Waiting

from .filters import QueueFilters, apply_filters, apply_order

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Tabs of the queue, in their order.
TABS = ("me", "groups", "claimed", "open", "decided")
#: Tabs of holds that the user's groups decide.
ADDRESSED = ("me", "groups")
#: Tabs that show the number of their rows.
COUNTED_TABS = ("me", "groups", "claimed", "open")

NO_FILTERS = QueueFilters()


class Viewer:
    """A user viewing the queue; groups are read once."""

    def __init__(self, user: User) -> None:
        self.user = user

    @cached_property
    def groups(self) -> frozenset[str]:
        return group_names(self.user)

    @cached_property
    def deciding(self) -> list[str]:
        """The groups through which the user decides, also for absent people."""
        if access.AUDITOR in self.groups:
            return []
        groups = self.groups | access.delegated_groups_of(self.user)
        return sorted(deciding_groups(groups, groups))

    def counted(self, tab: str) -> QuerySet[Waiting, Any]:
        """The rows of `Waiting`, one per hold, that count the tabs `me` and `groups`."""
        mine = Waiting.objects.filter(group__in=self.deciding)
        only = access.allowed_workflow_ids(self.user)
        if only is not None:
            mine = mine.filter(execution__workflow__in=only)
        if tab == "me":
            busy = ReviewClaim.objects.filter(expires_at__gt=Now()).exclude(user=self.user)
            shaped = shaped_hold_by(self.user, execution="execution_id", hold="hold_id")
            mine = mine.exclude(shaped).exclude(
                hold_id__in=self._approved.union(busy.values("hold_id"), all=True)
            )
        return mine.values("hold_id").distinct()

    def tab(self, name: str) -> Q:
        """The condition on open holds of a tab."""
        mine = Q(groups__overlap=self.deciding)
        has_claim = Q(claim__user=self.user, claim__expires_at__gt=Now())
        match name:
            case "me":
                return mine & self._open_to_me() & self._free_to_claim()
            case "groups":
                return mine
            case "claimed":
                return has_claim
        return Q()

    # Each subquery is small, uses an index and runs once for all rows.

    def _open_to_me(self) -> Q:
        approved = Q(approver_ids__contains=[self.user.pk])
        return ~approved & ~Q(
            shaped_by(self.user, execution="execution_id", opened_seq="opened_seq")
        )

    @property
    def _approved(self) -> QuerySet[Hold, Any]:
        """Open holds that the user has approved and whose quorum needs more."""
        begun = Hold.objects.filter(status=Hold.Status.OPEN).exclude(approvals=[])
        return begun.filter(approver_ids__contains=[self.user.pk]).values("pk")

    def _free_to_claim(self) -> Q:
        return Q(claim=None) | Q(claim__user=self.user) | Q(claim__expires_at__lte=Now())


def pending(user: User) -> QuerySet[Hold]:
    """Open holds that people decide, of executions the user may see; newest first."""
    return access.filter_visible(_open(), user)


def _open_for_groups(user: User) -> QuerySet[Hold]:
    """Open holds for a user who filters by their own groups.

    Deciders of a hold may see its run, so the visibility check is left out.
    """
    if not user.is_active or access.allowed_workflow_ids(user) is not None:
        return pending(user)
    return _open()


def _open() -> QuerySet[Hold]:
    return (
        Hold.objects.filter(status=Hold.Status.OPEN, decider="human")
        .select_related("execution__workflow", "execution__created_by", "claim__user")
        .order_by("-opened_at", "-id")
    )


def decided(user: User) -> QuerySet[Hold]:
    """Decided holds of executions the user may see, newest first."""
    settled = (Hold.Status.APPROVED, Hold.Status.REJECTED, Hold.Status.RETURNED)
    rows = Hold.objects.filter(status__in=settled, decider="human", execution__erased_at=None)
    rows = rows.select_related("execution__workflow", "execution__created_by")
    rows = rows.order_by("-decided_at", "-id")
    return access.filter_visible(rows, user)


def tab_counts(viewer: Viewer, tabs: tuple[str, ...] = COUNTED_TABS) -> dict[str, int]:
    """Number of rows per tab, limited as in `count_up_to`; one statement per tab."""
    waiting = _open_and_visible(viewer)
    lists: dict[str, QuerySet[Any, Any]] = {
        "me": viewer.counted("me"),
        "groups": viewer.counted("groups"),
        "claimed": waiting.filter(viewer.tab("claimed")),
        "open": waiting,
    }
    return {tab: count_up_to(lists[tab]) for tab in tabs}


def _open_and_visible(viewer: Viewer) -> QuerySet[Hold]:
    """The rows of `pending(viewer.user)`; for most holds only their groups are read."""
    members = access.audience_members(viewer.user)
    if members is None or access.allowed_workflow_ids(viewer.user) is not None:
        return pending(viewer.user)
    # Deciders of a hold may see its run.
    visible = access.is_addressed_to(members, execution="execution_id")
    return _open().filter(Q(groups__overlap=viewer.deciding) | Q(visible))


def waiting_count(user: User) -> int:
    """Number of holds the user can decide, limited as in `count_up_to`."""
    return tab_counts(Viewer(user), ("me",))["me"]


def queue(
    viewer: Viewer,
    tab: str,
    filters: QueueFilters = NO_FILTERS,
    runs: Collection[int] | None = None,
) -> QuerySet[Hold]:
    """Holds of a tab that match the filters, open ones in the requested order.

    With `runs`, only holds of these few executions.
    """
    prefiltered = Q() if runs is None else Q(execution_id__in=runs)
    if tab == "decided":
        return apply_filters(decided(viewer.user).filter(prefiltered), filters, decided=True)
    holds = _open_for_groups(viewer.user) if tab in ADDRESSED else pending(viewer.user)
    holds = holds.filter(prefiltered, viewer.tab(tab))
    return apply_order(apply_filters(holds, filters), filters)


def listing_rows(holds: QuerySet[Hold]) -> QuerySet[Hold]:
    """Each hold with the columns of a listing: no payload, and no data of its run."""
    return (
        holds.select_related(None)
        .select_related("execution__workflow", "claim__user")
        .defer(
            *("payload", "execution__state", "execution__inputs", "execution__context"),
            *("execution__policy", "execution__policy_overrides"),
        )
    )


def page_rows(holds: QuerySet[Hold]) -> QuerySet[Hold]:
    """Each hold with the columns that a row of the page shows: no state and plan of its run."""
    return (
        holds.select_related(None)
        .select_related("execution__created_by", "claim__user")
        .only(
            *("task_id", "task_title", "phase", "reason", "target", "layer", "payload"),
            *("status", "critical", "stated_risk", "quorum", "approvals", "opened_at"),
            *("expires_at", "decided_at", "decided_by", "decided_by_id", "decision"),
            *(f"execution__{name}" for name in ("title", "version", "total_layers", "policy")),
            *("execution__created_by__username", "claim__expires_at", "claim__user__username"),
        )
    )


def pending_of(user: User, execution_id: int) -> list[Hold]:
    """The open holds of one execution, oldest first; [] when it is not visible."""
    return list(pending(user).filter(execution_id=execution_id).order_by("opened_seq"))


def next_review(user: User, hold: Hold) -> Hold | None:
    """The next hold the user can decide: of the same run, else the next newer, else the oldest.

    It has the columns of its address only.
    """
    rest = queue(Viewer(user), "me").exclude(pk=hold.pk)
    rest = rest.select_related(None).only("execution_id")
    newer = Q(opened_at__gt=hold.opened_at) | Q(opened_at=hold.opened_at, pk__gt=hold.pk)
    same_run = rest.filter(execution_id=hold.execution_id)
    return same_run.first() or rest.filter(newer).first() or rest.first()
