"""The language of a page: a choice, else what the browser asks for; programs are told English."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils.translation import get_language, gettext

from config.web.languages import FOR_PROGRAMS, LanguageMiddleware, words_version


def answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{get_language()} {gettext('Yes')}")


def told(path: str = "/review/", **more: str) -> HttpResponse:
    request = RequestFactory().get(path, headers={"Accept-Language": more.get("accepts", "")})
    if "chose" in more:
        request.COOKIES["holdpoint_language"] = more["chose"]
    return LanguageMiddleware(answer)(request)


@pytest.mark.parametrize(
    ("accepts", "language"),
    [
        ("", "en"),
        ("fr", "fr"),
        ("fr-CA, en;q=0.5", "fr"),
        ("de, fr;q=0.4, en;q=0.3", "fr"),
        ("de", "en"),
        ("*", "en"),
        ("x" * 3_000, "en"),
    ],
)
def test_a_browser_is_answered_in_what_it_asks_for(accepts: str, language: str) -> None:
    response = told(accepts=accepts)
    assert response.content.decode().startswith(language)
    assert response["Content-Language"] == language
    assert {"Accept-Language", "Cookie"} <= set(response["Vary"].split(", "))


def test_a_choice_comes_before_the_browser() -> None:
    assert told(accepts="en", chose="fr").content.decode() == "fr Oui"
    assert told(accepts="fr", chose="en").content.decode() == "en Yes"
    assert told(accepts="fr", chose="../../etc").content.decode() == "fr Oui"


@pytest.mark.parametrize("path", FOR_PROGRAMS)
def test_programs_are_told_english(path: str) -> None:
    response = told(path, accepts="fr", chose="fr")
    assert response.content.decode() == "en Yes"
    assert not response.has_header("Vary"), "what does not depend on the language may be kept"


def test_the_language_is_given_back() -> None:
    before = get_language()
    told(accepts="fr")
    assert get_language() == before


def test_the_words_of_scripts_are_a_script_that_browsers_keep() -> None:
    response = Client().get(f"/words/fr-{words_version()}.js", headers={"Accept-Language": "en"})
    assert response.status_code == 200
    assert response["Content-Type"] == 'text/javascript; charset="utf-8"'
    assert "immutable" in response["Cache-Control"]
    assert "n > 1" in response.content.decode(), "French counts its plural from two on"
    assert Client().get("/words/fr-old.js")["Cache-Control"] == "no-cache"
    assert Client().get(f"/words/de-{words_version()}.js").status_code == 404


def test_choosing_needs_the_token_of_a_form() -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/language/", {"language": "fr"}).status_code == 403
    response = Client().post("/language/", {"language": "fr", "next": "/login/"})
    assert (response.status_code, response["Location"]) == (302, "/login/")
    cookie = response.cookies["holdpoint_language"]
    assert (cookie.value, cookie["httponly"], cookie["samesite"]) == ("fr", True, "Lax")


def test_a_choice_leads_nowhere_else() -> None:
    response = Client().post("/language/", {"language": "xx", "next": "https://elsewhere.example/"})
    assert response["Location"] == "/"
    assert "holdpoint_language" not in response.cookies
