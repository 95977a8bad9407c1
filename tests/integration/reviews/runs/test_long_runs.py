"""The page of a run with many tasks: small at first, and every part of it can be reached."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.urls import reverse

from reviews.runs.window import NEWEST_EVENTS, SHOWN_EVENTS, WHOLE_PLAN
from tests.integration.reviews.conftest import MakeUser, Start, echo
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.engine.protocol.events import ExecutionStarted, LayerStarted, TaskSucceeded
from workflows.executions.services import start_execution
from workflows.journal.writer import DjangoJournal
from workflows.models import Execution, ExecutionEvent, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

LAYERS, WIDTH = 10, 20
TASKS = LAYERS * WIDTH
LARGEST_PAGE = 100_000


def plan(layers: int, width: int) -> list[dict[str, Any]]:
    """Layers of tasks; each task waits for one of the layer before."""
    return [
        {
            **echo(f"t{layer}_{number}", f"value {layer}/{number}"),
            "depends_on": [f"t{layer - 1}_{number}"] if layer else [],
        }
        for layer in range(layers)
        for number in range(width)
    ]


@pytest.fixture
def done(start: Start) -> Execution:
    """Completed, with more tasks and events than its page shows at once."""
    return start(*plan(LAYERS, WIDTH))


def links_of(page: Page) -> list[str]:
    return page.attributes("svg.dag a", "href")


@pytest.mark.parametrize(("layers", "width"), [(40, 50), (1, 2000), (2000, 1)])
def test_the_page_of_2000_tasks_is_small(
    start: Start, operator: User, layers: int, width: int
) -> None:
    start(echo("warm"))
    run = start_execution(actor=operator, plan={"tasks": plan(layers, width)})
    with DjangoJournal(owner="a worker").claim(str(run.pk)) as work:
        assert work is not None
        work.record(ExecutionStarted(total_layers=layers, total_tasks=2000))
        names = tuple(f"t0_{number}" for number in range(width))
        work.record(LayerStarted(layer=0, tasks=names, skips={}))
        for name in names[:NEWEST_EVENTS]:
            work.record(_succeeded(name))
        work.commit()
    answer = browser(operator).get(f"/runs/{run.pk}/")
    assert len(answer.content) <= LARGEST_PAGE
    assert Page(answer).attributes("details.task", "id")[0] == "task-t0_0"


def _succeeded(name: str) -> TaskSucceeded:
    value = {"value": "x"}
    return TaskSucceeded(task_id=name, attempt=1, duration_ms=80, inputs=value, output="x")


def test_the_page_leads_to_every_task(done: Execution, operator: User) -> None:
    url = f"/runs/{done.pk}/"
    page = open_page(operator, url)
    assert f"Tasks {TASKS - WIDTH + 1} to {TASKS} of {TASKS}, from layer {LAYERS}" in page.text
    # Every link of the diagram has its task, here or on the page that it leads to.
    links = links_of(page)
    assert links
    for link in links:
        where, _, name = link.partition("#")
        there = Page(browser(operator).get(url + where)) if where else page
        assert len(there.texts(f"details#{name}")) == 1
    assert any(link.startswith("?") for link in links)
    assert any("more" in text for text in page.texts("svg.dag .name"))


def test_all_tasks_and_layers_are_listed_from_page_to_page(done: Execution, operator: User) -> None:
    client, url, names, heads = browser(operator), f"/runs/{done.pk}/", [], set()
    link = "?task=t0_0"
    while link:
        page = Page(client.get(url + link.partition("#")[0]))
        names += page.attributes("details.task", "id")
        heads |= {text.partition(" ·")[0] for text in page.texts("svg.dag .layer-head")}
        following = [each for each in page.links if each.endswith("#tasks")]
        after = [each for each in following if _task(each) not in names]
        link = after[0] if after else ""
    assert names == [f"task-{each['id']}" for each in plan(LAYERS, WIDTH)]
    assert heads == {f"Layer {number}" for number in range(1, LAYERS + 1)}


def _task(link: str) -> str:
    return f"task-{parse_qs(urlsplit(link).query)['task'][0]}"


def test_all_events_are_shown_from_page_to_page(done: Execution, operator: User) -> None:
    client, url = browser(operator), f"/runs/{done.pk}/"
    page = Page(client.get(url))
    seqs = [int(each[1:]) for each in page.attributes(".story > li", "id")]
    assert len(seqs) == NEWEST_EVENTS
    assert seqs[-1] == done.version
    assert f"{done.version - NEWEST_EVENTS} earlier events are not shown" in page.text
    # The first group is the layer that its events belong to, not the start.
    groups = page.attributes("section.story-group", "aria-label")
    assert groups == [f"Layer {LAYERS - 1}", f"Layer {LAYERS}"]
    seen = set(seqs)
    while "Show earlier events" in page.names("link"):
        (link,) = (each for each in page.links if _since(each) and _since(each) < min(seen))
        page = Page(client.get(url + link.partition("#")[0]))
        shown = [int(each[1:]) for each in page.attributes(".story > li", "id")]
        assert len(shown) <= SHOWN_EVENTS
        assert "newer events are not shown" in page.text
        assert "Show the newest events" in page.names("link")
        seen |= set(shown)
    assert seen == set(range(1, done.version + 1))


def _since(link: str) -> int:
    return int(parse_qs(urlsplit(link).query).get("since", ["0"])[0])


def test_the_data_of_a_task_and_of_an_event_loads_when_it_is_opened(
    done: Execution, operator: User, make_user: MakeUser
) -> None:
    url = f"/runs/{done.pk}/"
    page = open_page(operator, url)
    assert f"value {LAYERS - 1}/15" not in page.text
    (part,) = page.attributes(f"details#task-t{LAYERS - 1}_15", "hx-get")
    assert f"value {LAYERS - 1}/15" in open_page(operator, url + part, **HTMX).text
    # Without scripts, the page that the task leads to has its data.
    assert f"value {LAYERS - 1}/15" in open_page(operator, f"{url}?task=t{LAYERS - 1}_15").text
    # A refresh keeps the data of tasks that are open.
    refreshed = open_page(operator, f"{url}?open=t{LAYERS - 1}_15", **HTMX)
    assert f"value {LAYERS - 1}/15" in refreshed.text
    begun = ExecutionEvent.objects.filter(execution=done, kind="execution_started").get()
    part = f"{url}?part=event&since={begun.seq}"
    assert '"kind": "execution_started"' in open_page(operator, part, **HTMX).text
    for wrong in ("part=task&task=nobody", "part=task&task=%00", "part=event&since=99999999"):
        assert browser(operator).get(f"{url}?{wrong}", headers=HTMX).status_code == 404
    stranger = browser(make_user("stranger", "other"))
    for right in ("part=task&task=t0_0", "part=event&since=1"):
        assert stranger.get(f"{url}?{right}", headers=HTMX).status_code == 404


def test_the_admin_shows_the_same_parts(done: Execution, make_user: MakeUser) -> None:
    admin = make_user("root", is_staff=True, is_superuser=True)
    url = reverse("admin:workflows_execution_change", args=(done.pk,))
    page = open_page(admin, url)
    (part,) = page.attributes(f"details#task-t{LAYERS - 1}_15", "hx-get")
    assert f"value {LAYERS - 1}/15" in open_page(admin, url + part, **HTMX).text
    assert open_page(admin, f"{url}?task=t3_7").attributes("details.task", "id")[0] == "task-t3_7"


def test_a_refresh_keeps_the_part_that_is_shown(done: Execution, operator: User) -> None:
    page = open_page(operator, f"/runs/{done.pk}/?task=t3_7&since=5")
    (refresh,) = page.attributes("#run-live", "hx-get")
    again = open_page(operator, refresh, **HTMX)
    assert again.attributes("details.task", "id") == page.attributes("details.task", "id")
    assert again.attributes(".story > li", "id") == page.attributes(".story > li", "id")
    # Addresses that name nothing show the page as it is without them.
    for wrong in ("task=nobody", "task=%00", "since=99999999", "since=x", "open=%00,nobody"):
        shown = open_page(operator, f"/runs/{done.pk}/?{wrong}")
        assert shown.attributes(".story > li", "id")[-1] == f"e{done.version}"


def test_many_open_reviews_are_counted(start: Start, reviewer: User) -> None:
    run = start(*(echo(f"t{number}", phase="BEFORE_EXECUTION") for number in range(60)))
    assert Hold.objects.filter(execution=run, status=Hold.Status.OPEN).count() == 60
    page = open_page(reviewer, f"/runs/{run.pk}/")
    assert len(page.texts(".run-hold")) == 20
    assert "40 more open reviews in the queue" in page.names("link")
    (link,) = (each for each in page.links if each.startswith("/review/?"))
    rows = open_page(reviewer, link).attributes("[data-hold]", "data-execution")
    assert set(rows) == {str(run.pk)}


def test_a_short_plan_is_shown_whole(start: Start, operator: User) -> None:
    run = start(*plan(1, WHOLE_PLAN))
    page = open_page(operator, f"/runs/{run.pk}/")
    assert all(re.fullmatch(r"#task-t0_\d+", link) for link in links_of(page))
    assert len(page.texts("details.task .task-body dt")) >= WHOLE_PLAN
    assert "Show later tasks" not in page.names("link")
