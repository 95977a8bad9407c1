"""Hostile text in every place that takes text: no page changes in anything but text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.desk import echo, note_errors, started, until
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in

#: Each would do something if it were more than text.
HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    '"><svg onload=window.pwned=3>',
    "' onmouseover='window.pwned = 4' x='",
    '<a href="javascript:window.pwned=5">open</a>',
    "javascript:window.pwned=6",
    "<iframe srcdoc='<script>parent.pwned=7</script>'></iframe>",
    "<button class='button primary fake'>Approve</button>",
    "<div class='notice good fake'>Approved by admin</div>",
    "</textarea></pre></template><form class='fake' action='/review/'>",
    "<!-- comment --><style class='fake'>* { display: none }</style>",
    "{{ 7|add:7 }} {% debug %} ${7*7} <%= 7*7 %>",
    "\u202egnp.exe\u202c \u2066isolate\u2069 zero\u200bwidth\ufeff",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "line\r\nLocation: nowhere\r\n\r\n<h1 class='fake'>body</h1>",
    "revi\u0435wer approved this",  # a Cyrillic letter
    "x" * 3_000,
)
ALL = "\n".join(HOSTILE)
SHORT = "<img src=x onerror=pwned=8>\u202e{{ 1 }}"
#: Nothing of this may be in a page, whatever the text was.
MARKUP = (
    "img[src='x'], [onerror], [onload], [onmouseover], [onclick], .fake, iframe, main style,"
    " main script, a[href^='javascript:'], [style]:not(svg *)"
)
WATCH = """
window.reports = [];
document.addEventListener('securitypolicyviolation', (event) => {
  window.reports.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
#: Characters that turn or hide text, in what is read: not in the fields that keep them for editing.
UNSEEN = r"""
() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const holder = walk.currentNode.parentElement;
    if (holder.closest('textarea, template, script, [hidden]')) continue;
    if (/[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u001b]/.test(walk.currentNode.data)) {
      found.push(`${holder.tagName}.${holder.className}: ${walk.currentNode.data.slice(0, 80)}`);
    }
  }
  return found;
}
"""
#: Every element of the page as it is built, without its words and its addresses.
BUILD = """
() => [...document.querySelectorAll('main, main *')]
  .filter((each) => !each.closest('[hx-trigger=load] *'))
  .map((each) => [each.tagName, each.className.baseVal ?? each.className,
    ...['type', 'role', 'hidden', 'disabled', 'data-kind', 'dir', 'tabindex']
      .map((name) => each.getAttribute(name))].join(' '))
"""
#: What reaches beyond the right edge, the deepest first.
WIDE = """
() => [...document.querySelectorAll('main *')]
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth)
  .map((each) => `${each.tagName}.${each.className} ${each.textContent.slice(0, 40)}`)
  .reverse().slice(0, 5)
"""


@dataclass
class Watched:
    """A page whose dialogs, errors and policy reports are kept; `faults`: what was found amiss."""

    page: Page
    product: Product
    said: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.add_init_script(WATCH)
        self.page.on("console", self._console)
        note_errors(self.page, self.said)
        self.page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type == "error" or "Security Policy" in message.text:
            self.said.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def check(self, path: str, *, holds: str = "") -> None:
        """Go there: it has the text, and nothing of it became markup.  Faults are gathered."""
        self.said.clear()
        answer = self.page.goto(f"{self.product.address}{path}")
        assert answer is not None
        self.page.wait_for_load_state("networkidle")
        self._note(path, "status", answer.status, 200)
        for width in (1440, 390):
            self.page.set_viewport_size({"width": width, "height": 900})
            wider = self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            beyond = self.page.evaluate(WIDE) if wider > 0 else []
            self._note(path, f"wider than {width} px", (max(0, wider), beyond), (0, []))
        self._note(path, "markup", self.page.locator(MARKUP).count(), 0)
        self._note(path, "scripts that ran", self.page.evaluate("window.pwned"), None)
        self._note(path, "refused by the policy", self.page.evaluate("window.reports"), [])
        self._note(path, "unseen characters", self.page.evaluate(UNSEEN), [])
        self._note(path, "console and dialogs", self.said, [])
        if holds:
            self._note(path, f"shows {holds}", holds in self.page.content(), True)

    def _note(self, path: str, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.faults.append(f"{path}: {what}: {found}")


@pytest.fixture
def watched(browser: Browser, product: Product) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    sign_in(page, product, "admin")
    yield Watched(page, product)
    context.close()


def harmless(text: str) -> str:
    """Text of the same length and lines, with nothing in it."""
    return re.sub(r"\S", "a", text)


def texts_of(tame: Callable[[str], str]) -> dict[str, str]:
    numbered = enumerate(HOSTILE)
    return {"all": tame(ALL), **{f"{at} {tame(text[:40])}": tame(text) for at, text in numbered}}


def workflow_of(api: Api, name: str, tame: Callable[[str], str]) -> int:
    task = echo("a.-_b", {"$from": "inputs", "select": "text"}, "AFTER_EXECUTION")
    task["title"] = tame(SHORT)
    task["human_review"]["instructions"] = tame(ALL)
    body = {"name": name, "title": tame(SHORT), "description": tame(ALL), "plan": {"tasks": [task]}}
    status, made = api("workflows/", body)
    assert status == 201, made
    return int(made["id"])


def run_of(api: Api, name: str, tame: Callable[[str], str]) -> str:
    body = {"workflow": name, "inputs": {"text": texts_of(tame)}, "title": tame(SHORT)}
    status, run = api("executions/", body)
    assert status == 201, run
    until(api, run["id"], "PAUSED_FOR_REVIEW")
    return str(run["id"])


def test_content_policy_violations_are_detected(watched: Watched) -> None:
    """The watch of these tests is awake: markup and scripts that got into a page are noticed."""
    page = watched.page
    page.goto(f"{watched.product.address}/review/")
    page.evaluate(
        """() => {
          const script = document.createElement('script');
          script.textContent = 'window.pwned = 1';
          const box = document.createElement('div');
          box.innerHTML = HOSTILE_IMAGE;
          document.querySelector('main').append(script, box);
        }""".replace("HOSTILE_IMAGE", json.dumps(HOSTILE[1]))
    )
    for directive in ("script-src-elem", "script-src-attr"):
        page.wait_for_function(
            "(name) => window.reports.some((each) => each.startsWith(name))", arg=directive
        )
    assert page.evaluate("window.pwned") is None
    assert page.locator(MARKUP).count() == 2
    assert any("Security Policy" in each for each in watched.said)


def test_hostile_text_builds_the_page_that_harmless_text_builds(
    watched: Watched, product: Product
) -> None:
    admin = Api(product, "admin", "read,run,decide,admin")
    operator = Api(product, "operator", "read,run")
    watched.page.goto("about:blank")  # nothing it asked for answers after the cookies are gone
    watched.page.context.clear_cookies()
    sign_in(watched.page, product, "reviewer")
    built = {}
    for name, tame in (("hostile-built", str), ("harmless-built", harmless)):
        workflow_of(admin, name, tame)
        run = run_of(operator, name, tame)
        watched.check(f"/review/{run}/{run}-1/")
        watched.page.set_viewport_size({"width": 1440, "height": 900})
        built[name] = watched.page.evaluate(BUILD)
        assert watched.page.get_by_role("button", name="Approve", exact=True).count() == 1
    assert not watched.faults, "\n".join(watched.faults)
    assert len(built["hostile-built"]) > 100
    # Counted: PostgreSQL orders the keys of an object by their length in bytes.
    assert Counter(built["hostile-built"]) == Counter(built["harmless-built"])


def test_hostile_text_stays_text(watched: Watched, product: Product) -> None:
    admin = Api(product, "admin", "read,run,decide,admin")
    workflow = workflow_of(admin, "hostile-words", str)
    first, second = (run_of(admin, "hostile-words", str) for _ in range(2))
    texts = texts_of(str)
    assert admin(f"executions/{first}/messages/", {"content": ALL})[0] == 200
    decide = Api(product, "reviewer", "read,decide")
    answer = {
        "execution_id": first,
        "hold_id": f"{first}-1",
        "version": admin(f"executions/{first}/")[1]["version"],
        "decision": "APPROVE",
        "comment": ALL,
        "edits": {**texts, "more": ALL},
    }
    status, decided = decide("reviews/resume/", answer)
    assert status == 200, decided
    until(admin, first, "COMPLETED")
    product.command("shell", "-c", _DESCRIBED.format(text=json.dumps(ALL)))
    product.command("shell", "-c", _VIEW.format(text=json.dumps(SHORT)))

    escaped = "&lt;img src=x onerror="
    watched.check(f"/review/{second}/{second}-1/", holds=escaped)
    for path in (
        f"/review/{first}/{first}-1/",
        "/review/",
        f"/review/?hold={second}-1",
        f"/runs/{first}/",
        f"/runs/{second}/",
        "/runs/",
        "/history/",
        f"/history/{decided['record_id']}/",
        "/workflows/",
        f"/workflows/{workflow}/",
        "/tools/",
        "/tools/builtin.echo/",
        "/insights/",
    ):
        watched.check(path)
    assert not watched.faults, "\n".join(watched.faults)


_DESCRIBED = """
from graphrag.models import Tool
Tool.objects.filter(name="builtin.echo").update(description={text})
"""
_VIEW = """
from django.contrib.auth.models import User
from reviews.models import SavedView
SavedView.objects.create(owner=User.objects.get(username="admin"), name={text}, shared=True)
"""


def test_large_and_deep_values_fit_the_page(watched: Watched, product: Product) -> None:
    admin = Api(product, "admin", "read,run")
    deep: Any = ALL
    for level in range(50):
        deep = {f"level {level}": deep} if level % 2 else [deep]
    big = {"big": "<b>x</b>" * 32_000}
    many = {"$from": "inputs", "select": "[big, big, big]"}
    for value, inputs in ((deep, {}), (many, big)):
        run = started(admin, echo("a", value, "AFTER_EXECUTION"), inputs=inputs)
        watched.check(f"/review/{run}/{run}-1/")
        watched.check(f"/runs/{run}/")
    # One text of 1 MB is no result: its task fails, and what it ran with is shown.
    one = {"$from": "inputs", "select": "join('', [big, big, big, big])"}
    status, made = admin("executions/", {"plan": {"tasks": [echo("a", one)]}, "inputs": big})
    assert status == 201, made
    until(admin, made["id"], "FAILED")
    watched.check(f"/runs/{made['id']}/")
    assert not watched.faults, "\n".join(watched.faults)
