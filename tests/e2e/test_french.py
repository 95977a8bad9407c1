"""French for whoever chose it: every page, without an English sentence left, and a whole review.

What a page says is held against the catalogue: a string of ours that stands there in English though
it has a French translation is a fault. Data of runs stays as it is.
"""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.product import Product
from tests.e2e.scene import Scene, echo
from tests.e2e.test_review import Api, password, wait_for_pause
from tests.e2e.test_review import sign_in as sign_in_in_english
from tests.e2e.walk import (
    EVERYTHING,
    LATER,
    MEASURE,
    NARROW,
    NARROWEST,
    PARTS,
    SIDEWAYS,
    WIDE,
    Walk,
    profile,
    unwalked,
)
from tests.messages.catalogues import read
from tests.messages.gather import DOMAINS

#: Colours are the same in every language, and most of the time that axe takes: the English walk has
#: measured them.
BUT_COLOURS = {
    **EVERYTHING,
    "rules": {"target-size": {"enabled": True}, "color-contrast": {"enabled": False}},
}
PLACE = re.compile(r"%\\\((\w+)\\\)s|%%")
#: Data that is called like a string of ours (a field of the demo's tool), and French that reads so.
ALSO_DATA = {"Value", "Python", "Comment"}
#: What the walk looks for on the pages, and the name of the rule that it publishes.
WORDS = {
    "Name": "Nom",
    "Address": "Adresse",
    "Add webhook": "Ajouter le webhook",
    "Send a test message": "Envoyer un message d’essai",
    "Try a rule on past reviews": "Essayer une règle sur les revues passées",
    "Name of the rule": "Nom de la règle",
    "nothing": "rien",
    "Skip the review when": "Sauter la revue quand",
    "Hold it against past reviews": "Confronter aux revues passées",
    "Publish": "Publier",
    "What is to be done?": "Que faut-il faire ?",
    "Suggest a plan": "Proposer un plan",
    "Approve with 1 change": "Approuver avec 1 modification",
    "Reject…": "Rejeter…",
    "Approve": "Approuver",
    "reviewer approved this": "reviewer a approuvé ceci",
    "reviewer approved": "reviewer a approuvé",
    "There is nothing here for you": "Il n’y a rien ici pour vous",
}
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


class FrenchWalk(Walk):
    """Each page: its language, its words, its width, and the rules of axe but those of colour."""

    words = WORDS

    def __init__(self, product: Product) -> None:
        super().__init__(product)
        self.ours = english()

    def look_at(self, state: str) -> None:
        language = self.page.locator("html").get_attribute("lang")
        if language != "fr":
            self.faults.append(f"{state}: its language is {language}")
        for text in self.page.evaluate(SAID):
            if self.ours.fullmatch(text):
                self.faults.append(f"{state}: in English: {text}")
        for width in (WIDE["width"], NARROW, NARROWEST):
            self.resize(width)
            if self.page.evaluate(SIDEWAYS) > 0:
                self.faults.append(f"{state}: scrolls sideways at {width}")
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        found = self.page.evaluate(MEASURE, BUT_COLOURS)
        self.faults += [f"{state}: {each}" for each in found["faults"]]


def choose_french(page: Page, product: Product) -> None:
    """On the page for signing in, which is then there in French."""
    page.goto(f"{product.address}/login/?next=/review/")
    page.get_by_role("button", name="Français").click()
    expect(page.get_by_role("button", name="Se connecter")).to_be_visible()
    page.wait_for_load_state()


def sign_in(page: Page, product: Product, user: str) -> None:
    """Choose French on the page for signing in, and sign in."""
    choose_french(page, product)
    page.get_by_label("Nom d’utilisateur").fill(user)
    page.get_by_label("Mot de passe").fill(password(product, user))
    page.get_by_role("button", name="Se connecter").click()
    page.wait_for_url(f"{product.address}/review/")


@pytest.fixture(scope="module")
def walk(product: Product, browser: Browser) -> FrenchWalk:
    """The pages of everybody, in French."""
    walk = FrenchWalk(product)
    scene = None
    for user, part in PARTS.items():
        context = profile(browser)
        walk.page = context.new_page()
        if scene is None:
            scene = Scene(product, walk.page)
            choose_french(walk.page, product)
            walk.measure("the page for signing in")
        sign_in(walk.page, product, user)
        part(walk, scene)
        context.close()
    return walk


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
