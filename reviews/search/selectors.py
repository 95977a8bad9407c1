"""Search of everything that a user may see, in groups.

Only the text that lists show is searched: titles, tasks, tools, reasons, comments and names.
Inputs, outputs and the masked secrets of comments are not searched.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.db.models import Model, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from graphrag.catalogue.selectors import tools
from reviews.audit.history import Filters, filtered, records
from reviews.components import labels
from reviews.queue.filters import QueueFilters, apply_filters
from reviews.queue.selectors import pending
from reviews.templatetags.desk import look_of
from workflows.common.full_text import full_text_filter
from workflows.common.number_parsing import parse_natural_number
from workflows.executions.access import (
    ADMIN,
    AUDITOR,
    OPERATOR,
    roles_of,
    visible_to,
    workflows_for,
)
from workflows.models import ExecutionWords

if TYPE_CHECKING:
    from django.contrib.auth.models import User

M = TypeVar("M", bound=Model)

#: Results per group.
_MAX_SHOWN = 5
#: Roles that see the decisions of everybody, and so the names of all people.
_SEE_PEOPLE = frozenset({ADMIN, AUDITOR, OPERATOR})


@dataclass(frozen=True, slots=True)
class Result:
    """One match: a link, and a line about it."""

    title: str
    detail: str
    url: str


@dataclass(frozen=True, slots=True)
class Group:
    """The first matches of one kind; `more_url` is the list of all, "" without one."""

    key: str
    heading: str
    results: tuple[Result, ...]
    more_url: str = ""


def search(user: User, q: str) -> tuple[Group, ...]:
    """Return the groups that have matches for `q`, a text or the number of a run."""
    number = parse_natural_number(q.removeprefix("#"))
    groups = (
        _reviews(user, q, number),
        _runs(user, q, number),
        _workflows(user, q),
        _tools(q),
        _people(user, q),
        _records(user, q, number),
    )
    return tuple(group for group in groups if group.results)


def _first(*rows: Iterable[M]) -> list[M]:
    """Return the first rows of several queries, each row once; one more than is shown."""
    found = {row.pk: row for each in rows for row in islice(each, _MAX_SHOWN + 1)}
    return list(found.values())[: _MAX_SHOWN + 1]


def _group(
    key: str, heading: str, results: Iterable[Result], list_name: str = "", **query: str
) -> Group:
    found = tuple(results)
    has_list = list_name and len(found) > _MAX_SHOWN
    url = f"{reverse(list_name)}?{urlencode(query)}" if has_list else ""
    return Group(key, heading, found[:_MAX_SHOWN], url)


def _each_word(q: str, *columns: str) -> Q:
    """Return a filter for rows that have each word of `q` in one of the columns."""
    conditions = [
        reduce(operator.or_, (Q(**{f"{column}__icontains": word}) for column in columns))
        for word in q.split()
    ]
    return reduce(operator.and_, conditions)


def _reviews(user: User, q: str, number: int | None) -> Group:
    of_run = pending(user).filter(execution_id=number) if number is not None else ()
    rows = _first(of_run, apply_filters(pending(user), QueueFilters(q=q)))
    results = (
        Result(
            labels.row_sentence(hold),
            labels.run_title(hold.execution.title, hold.execution_id),
            reverse("reviews:decision", args=(hold.execution_id, hold.pk)),
        )
        for hold in rows
    )
    return _group("reviews", _("Open reviews"), results, "reviews:queue", tab="open", q=q)


def _runs(user: User, q: str, number: int | None) -> Group:
    seen = visible_to(user).order_by("-id")
    of_number = seen.filter(pk=number) if number is not None else ()
    rows = _first(of_number, seen.filter(full_text_filter(q, ExecutionWords.objects.all())))
    results = (
        Result(
            labels.run_title(run.title, run.pk),
            look_of(run.status).word,
            reverse("reviews:run", args=(run.pk,)),
        )
        for run in rows
    )
    return _group("runs", _("Runs"), results, "reviews:runs", q=q)


def _workflows(user: User, q: str) -> Group:
    named = _each_word(q, "title", "name", "description")
    rows = workflows_for(user).filter(named, enabled=True).order_by("title")
    results = (
        Result(each.title, each.description, reverse("reviews:workflow", args=(each.pk,)))
        for each in _first(rows)
    )
    return _group("workflows", _("Workflows"), results)


def _tools(q: str) -> Group:
    rows = tools().filter(_each_word(q, "name", "description"))
    results = (
        Result(each.name, each.description, reverse("reviews:tool", args=(each.name,)))
        for each in _first(rows)
    )
    return _group("tools", _("Tools"), results, "reviews:tools", q=q)


def _people(user: User, q: str) -> Group:
    may_open = user.is_staff and user.has_perm("auth.view_user")
    if not may_open and not roles_of(user) & _SEE_PEOPLE:
        return _group("people", "", ())
    named = _each_word(q, "username", "first_name", "last_name")
    rows: QuerySet[User] = get_user_model().objects.filter(named).order_by("username")
    results = (
        Result(
            each.get_username(),
            each.get_full_name(),
            reverse("admin:auth_user_change", args=(each.pk,))
            if may_open
            else f"{reverse('reviews:history')}?{urlencode({'reviewer': each.get_username()})}",
        )
        for each in _first(rows)
    )
    return _group("people", _("People"), results)


def _records(user: User, q: str, number: int | None) -> Group:
    rows = records(user).with_keys().select_related("withdraws")
    of_run = filtered(rows, Filters(execution=number)) if number is not None else ()
    results = (
        Result(
            labels.record_sentence(record),
            labels.run_title(record.workflow_title, record.execution_id),
            reverse("reviews:record", args=(record.pk,)),
        )
        for record in _first(of_run, filtered(rows, Filters(q=q)))
    )
    return _group("records", _("Decisions"), results, "reviews:history", q=q)
