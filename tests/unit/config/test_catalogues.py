"""The catalogues are complete, in step with the code and with what the product reads.

When one of these fails: `make messages`, write what it lists, run it again.
"""

import io
import re
from collections.abc import Iterator

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo

from reviews.components.number_formatting import NOUNS
from tests.architecture.files import ROOT, files_with
from tests.messages.catalogues import LANGUAGES, as_mo, po_path, read
from tests.messages.gather import DOMAINS, messages_of, template_of

FILES = [(language, domain) for language in LANGUAGES for domain in DOMAINS]
PLACE = re.compile(r"%\((\w+)\)s")
NO_BREAK = "\N{NO-BREAK SPACE}"
NARROW = "\N{NARROW NO-BREAK SPACE}"
#: What a French typesetter would send back.
MISSET = [
    re.compile(rf"(?<![{NO_BREAK}{NARROW}\d]):(?!//|\d)"),
    re.compile(rf"(?<!{NARROW})[;!?]"),
    re.compile(rf"«(?!{NO_BREAK})|(?<!{NO_BREAK})»|[“”]|\w'\w"),
]


def entries(catalog: Catalog) -> Iterator[tuple[Message, list[str], list[str]]]:
    """Each entry with its English and its translated forms."""
    for message in catalog:
        if message.id:
            yield message, forms(message.id), forms(message.string)


def forms(text: object) -> list[str]:
    return [str(each) for each in text] if isinstance(text, tuple | list) else [str(text)]


def keys(catalog: Catalog) -> set[tuple[object, str | None]]:
    return {(message.id, message.context) for message in catalog if message.id}


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_marked_string_is_in_every_catalogue(domain: str) -> None:
    wanted = keys(template_of(domain))
    assert len(wanted) > 50
    for language in LANGUAGES:
        assert keys(read(language, domain)) == wanted, language


@pytest.mark.parametrize(("language", "domain"), FILES)
def test_nothing_waits_for_a_translation(language: str, domain: str) -> None:
    waiting = [
        english[0]
        for message, english, translated in entries(read(language, domain))
        if message.fuzzy or not all(translated) or len(translated) != len(english)
    ]
    assert waiting == []


@pytest.mark.parametrize(("language", "domain"), FILES)
def test_the_compiled_file_says_what_the_written_one_says(language: str, domain: str) -> None:
    written = read(language, domain)
    compiled = read_mo(io.BytesIO(po_path(language, domain).with_suffix(".mo").read_bytes()))
    expected = read_mo(io.BytesIO(as_mo(written)))
    assert told(compiled) == told(expected)


def told(catalog: Catalog) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {tuple(english): tuple(translated) for _message, english, translated in entries(catalog)}


@pytest.mark.parametrize("domain", DOMAINS)
def test_places_are_the_same_on_both_sides(domain: str) -> None:
    """What is counted may be left unsaid where it is one: "one" instead of 1."""
    wrong = []
    for _message, english, translated in entries(read("fr", domain)):
        places = set(PLACE.findall(" ".join(english)))
        for number, text in enumerate(translated):
            spare = {"n"} if len(english) > 1 and number == 0 else set()
            if not places - spare <= set(PLACE.findall(text)) <= places:
                wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_translation_brings_no_markup_of_its_own(domain: str) -> None:
    """Templates trust a translation as they trust the string it stands for."""
    tags = re.compile(r"<[^>]*>|&\w+;|\"")
    wrong = [
        text
        for _message, english, translated in entries(read("fr", domain))
        for source, text in zip(english, translated, strict=True)
        if sorted(tags.findall(text)) != sorted(tags.findall(source))
    ]
    assert wrong == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_french_is_set_as_french_is(domain: str) -> None:
    """Unbreakable spaces before : ; ! ? and inside guillemets, and the curly apostrophe."""
    wrong = []
    for _message, _english, translated in entries(read("fr", domain)):
        for text in translated:
            plain = re.sub(r"<[^>]*>", "", text)
            if any(rule.search(plain) for rule in MISSET):
                wrong.append(text)
    assert wrong == []


def test_a_count_in_a_template_has_its_noun_in_every_language() -> None:
    used = {
        noun
        for path in files_with(".html")
        for noun in re.findall(r"\|counted:\"([^\"]+)\"", path.read_text(encoding="utf-8"))
    }
    used |= {
        noun
        for path in (ROOT / "reviews").rglob("*.py")
        for noun in re.findall(r"\bcounted\([^\n]*, \"(\w[\w ]*)\"\)", path.read_text("utf-8"))
    }
    assert used
    assert used <= set(NOUNS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<p>{% translate 'Yes' %}</p>", ["Yes"]),
        (
            '    <a title="{% translate "It\'s so" %}">\n  {{ x|default:_("none") }}',
            ["It's so", "none"],
        ),
        (
            "{% blocktranslate trimmed count n=3 %}\n {{ n }} run\n{% plural %}{{ n }} runs"
            "{% endblocktranslate %}",
            [("%(n)s run", "%(n)s runs")],
        ),
    ],
)
def test_strings_of_a_template_are_found(text: str, found: list[object]) -> None:
    assert [each.id for each in messages_of(text, ".html", "a.html", "django")] == found
