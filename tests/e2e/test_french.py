"""French for whoever chose it: every page, without an English sentence left, and a whole review.

What a page says is held against the catalogue: a string of ours that stands there in English though
it has a French translation is a fault. Data of runs stays as it is.
"""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.urls import resolve
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.test_accessibility import (
    EVERYTHING,
    LATER,
    MEASURE,
    NARROW,
    NARROWEST,
    SIDEWAYS,
    WIDE,
    Api,
    Scene,
    echo,
    profile,
    unwalked,
    wait_for_pause,
)
from tests.e2e.test_review import password
from tests.e2e.test_review import sign_in as sign_in_in_english
from tests.messages.catalogues import read
from tests.messages.gather import DOMAINS

PLACE = re.compile(r"%\\\((\w+)\\\)s|%%")
#: Data that is called like a string of ours (a field of the demo's tool), and French that reads so.
ALSO_DATA = {"Value", "Python", "Comment"}
SAID = """() => {
  const said = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (parent.closest("pre, code, script, style, textarea, [lang=en], .mono")) continue;
    said.push(walker.currentNode.data);
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]"))
    for (const name of ["aria-label", "title", "placeholder"])
      if (element.hasAttribute(name)) said.push(element.getAttribute(name));
  said.push(document.title);
  return said.map(text => text.replace(/\\s+/g, " ").trim()).filter(Boolean);
}"""


def english() -> re.Pattern[str]:
    """Every string of ours that reads differently in French, as one pattern."""
    found: set[str] = set()
    for domain in DOMAINS:
        for message in read("fr", domain):
            ids = message.id if isinstance(message.id, tuple | list) else (message.id,)
            texts = message.string if isinstance(message.string, tuple | list) else ()
            same = {*texts, str(message.string)}
            found |= {each for each in ids if is_telling(each) and each not in same}
    looks = [PLACE.sub(".{1,60}?", re.escape(each)) for each in found]
    return re.compile("|".join(looks))


def is_telling(text: str) -> bool:
    """Whether a text can be told from a name: two words at least, or one with a capital."""
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"%\(\w+\)s|<[^>]*>", "", text))
    return text not in ALSO_DATA and (len(words) > 1 or (len(words) == 1 and words[0].istitle()))


class FrenchWalk:
    """Goes from page to page; keeps what is wrong."""

    def __init__(self, product: Product, page: Page) -> None:
        self.product = product
        self.page = page
        self.ours = english()
        self.faults: list[str] = []
        self.seen: set[str] = set()

    def go(self, path: str) -> None:
        self.page.goto(f"{self.product.address}{path}", wait_until="load")
        self.measure(path)

    def measure(self, state: str) -> None:
        """The page as it stands: its language, its words, its rules, and its width."""
        if "/nothing/here/" not in self.page.url:
            self.seen.add(resolve(urlsplit(self.page.url).path).view_name)
        language = self.page.locator("html").get_attribute("lang")
        if language != "fr":
            self.faults.append(f"{state}: its language is {language}")
        for text in self.page.evaluate(SAID):
            if self.ours.fullmatch(text):
                self.faults.append(f"{state}: in English: {text}")
        for width in (WIDE["width"], NARROW, NARROWEST):
            self.page.set_viewport_size({"width": width, "height": WIDE["height"]})
            if self.page.evaluate(SIDEWAYS) > 0:
                self.faults.append(f"{state}: scrolls sideways at {width}")
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        found = self.page.evaluate(MEASURE, EVERYTHING)
        self.faults += [f"{state}: {each}" for each in found["faults"]]


def sign_in(page: Page, product: Product, user: str) -> None:
    """Choose French on the page for signing in, and sign in."""
    page.goto(f"{product.address}/login/?next=/review/")
    page.get_by_role("button", name="Français").click()
    page.get_by_label("Nom d’utilisateur").fill(user)
    page.get_by_label("Mot de passe").fill(password(product, user))
    page.get_by_role("button", name="Se connecter").click()
    page.wait_for_url("**/review/")


@pytest.fixture(scope="module")
def walk(product: Product, browser: Browser) -> FrenchWalk:
    """The pages of everybody, in French."""
    first = profile(browser)
    walk = FrenchWalk(product, first.new_page())
    scene = Scene(product, walk.page)
    walk.page.goto(f"{product.address}/login/?next=/review/")
    walk.page.get_by_role("button", name="Français").click()
    walk.measure("the page for signing in")
    first.close()
    for user, part in (("operator", operators), ("reviewer", reviewers), ("auditor", auditors)):
        context = profile(browser)
        walk.page = context.new_page()
        sign_in(walk.page, product, user)
        part(walk, scene)
        context.close()
    return walk


def operators(walk: FrenchWalk, scene: Scene) -> None:
    walk.measure("an empty queue")
    for run in (scene.before, scene.escalated, scene.done, scene.grown):
        walk.go(f"/runs/{run}/")
    walk.go(f"/runs/{scene.done}/learned/")
    walk.go(f"/runs/{scene.done}/compare/{scene.grown}/")
    walk.go(f"/runs/{scene.grown}/plan/2/")
    walk.go(f"/runs/{scene.grown}/fork/1/")
    for name in ("runs", "workflows", "grants", "capabilities", "tokens", "webhooks", "plan"):
        walk.go(f"/{name}/")
    walk.page.goto(f"{walk.product.address}/workflows/")
    walk.page.locator("main a[href^='/workflows/']").first.click()
    walk.page.wait_for_url("**/workflows/*/")
    walk.measure("a workflow")
    rules(walk)
    webhook(walk)


def rules(walk: FrenchWalk) -> None:
    """A draft, its report, and the rules once it is published; it spares nothing."""
    page = walk.page
    page.get_by_role("link", name="Essayer une règle sur les revues passées").click()
    page.locator("#rule-name").fill("rien")
    page.locator("#rule-when").fill("`false`")
    expect(page.locator("#rule-check")).not_to_be_empty()
    walk.measure("a draft of a rule")
    page.locator(".backtest-form [type=submit]").click()
    publish = page.get_by_role("button", name="Publier")
    expect(publish).to_be_visible(timeout=LATER)
    walk.measure("the report of a backtest")
    publish.click()
    page.wait_for_url("**/workflows/*/rules/")
    walk.measure("the rules of a workflow")


def webhook(walk: FrenchWalk) -> None:
    page = walk.page
    page.goto(f"{walk.product.address}/webhooks/")
    page.locator("[name=name]").fill("Personne")
    page.locator("[name=url]").fill(f"{walk.product.address}/nobody-listens")
    page.locator(".webhook-form [type=submit]").click()
    page.wait_for_url(re.compile(r"/webhooks/\d+/$"))
    walk.measure("a webhook")


def reviewers(walk: FrenchWalk, scene: Scene) -> None:
    page = walk.page
    walk.measure("a queue with rows")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    walk.measure("the list of keys")
    page.keyboard.press("Escape")
    walk.go("/notifications/")
    page.locator("[data-bell] summary").click()
    expect(page.locator(".bell-list .told").first).to_be_visible()
    walk.measure("the bell, open")
    walk.go("/notifications/preferences/")
    walk.go("/review/?q=nothing-is-called-this")
    walk.go("/review/?tab=decided")
    for run in (scene.after, scene.escalated, scene.before):
        walk.go(f"/review/{run}/{run}-1/")
    page.get_by_role("textbox", name="Value").fill("y")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Approuver avec 1 modification")).to_be_visible()
    walk.measure("a decision with an edit")
    page.get_by_role("button", name="Rejeter…").click()
    walk.measure("a decision, about to be rejected")
    walk.go(f"/review/{scene.decided}/{scene.decided}-1/")
    page.locator("[data-approve]").click()
    expect(page.get_by_text("reviewer a approuvé ceci")).to_be_visible(timeout=LATER)
    walk.measure("a decision that was made")


def auditors(walk: FrenchWalk, scene: Scene) -> None:
    page = walk.page
    walk.go(f"/review/{scene.before}/{scene.before}-1/")
    for name in ("denied", "spared", "reveals"):
        walk.go(f"/history/{name}/")
    for path in ("/insights/", "/tools/", "/tools/builtin.echo/"):
        walk.go(path)
    walk.go(f"/history/?execution={scene.decided}")
    page.get_by_role("link", name="reviewer a approuvé").first.click()
    page.wait_for_url("**/history/*/")
    walk.measure("a record")
    walk.go("/nothing/here/")


def test_every_page_is_french(walk: FrenchWalk) -> None:
    assert not walk.faults, "\n".join(walk.faults)


def test_every_page_was_walked(walk: FrenchWalk, product: Product, page: Page) -> None:
    sign_in_in_english(page, product, "admin")
    missed = unwalked(walk.seen, page, product)
    assert not missed, f"Pages that are not read in French: {missed}"


def test_english_on_a_french_page_is_noticed(walk: FrenchWalk) -> None:
    for text in ("Nothing waits for you", "You: reviewer", "task a asks for review before it runs"):
        assert walk.ours.fullmatch(text), text
    for text in ("Rien ne vous attend", "3 modifications", "Before it runs, run 3"):
        assert not walk.ours.fullmatch(text), text


def test_a_whole_review_in_french_by_keyboard(page: Page, product: Product) -> None:
    api = Api(product, "operator", "read,run")
    plan: dict[str, Any] = {"tasks": [echo("a", phase="BEFORE_EXECUTION")]}
    _, answer = api("executions/", {"title": "Clavier", "plan": plan})
    run = str(answer["id"])
    wait_for_pause(api, run, "a", page)
    sign_in(page, product, "reviewer")
    page.goto(f"{product.address}/review/?q=Clavier")
    press = page.keyboard.press
    press("j")
    expect(page.locator("#decision")).to_be_visible()
    expect(page.locator("#decision-title")).to_have_text("echo s’exécutera avec ces arguments")
    press("c")
    page.keyboard.type("d’accord")
    press("Escape")
    press("a")
    expect(page.get_by_role("button", name="Approuver", exact=True)).to_be_focused()
    press("Enter")
    expect(page.locator("#toasts")).to_contain_text("reviewer a approuvé ceci", timeout=LATER)
    status, found = api(f"executions/{run}/")
    assert (status, found["holds"][0]["decision"]) == (200, "APPROVE")
    # What programs read stays English, whoever decided.
    assert found["holds"][0]["why"] == "task a asks for review before it runs"
