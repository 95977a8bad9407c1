"""Pages as their readers have them: elements by role and name, links, fields and visible text.

Tests look for these and not for markup, so that a template may change its elements and classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bs4 import BeautifulSoup, Tag
from django.test import Client

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Headers of a request for a part of a page.
HTMX: Final = {"HX-Request": "true"}

#: Role → the elements that have it in the HTML specification, besides those with `role=`.
_ELEMENTS: Final = {
    "button": "button, input[type=submit]",
    "checkbox": "input[type=checkbox]",
    "combobox": "select",
    "deletion": "del",
    "heading": "h1, h2, h3, h4",
    "insertion": "ins",
    "link": "a[href]",
    "listitem": "li",
    "mark": "mark",
    "navigation": "nav",
    "row": "tr",
    "textbox": "textarea, input:not([type]), input[type=text], input[type=search]",
}


def browser(user: User | None, *, csrf: bool = False) -> Client:
    """Return a client that is signed in as `user`."""
    client = Client(enforce_csrf_checks=csrf)
    if user is not None:
        client.force_login(user)
    return client


def open_page(user: User, path: str, status: int = 200, **headers: str) -> Page:
    """Open a page as `user`; the status of the response must be `status`."""
    response = browser(user).get(path, headers=headers)
    assert response.status_code == status, path
    return Page(response)


class Page:
    """A parsed response."""

    def __init__(self, response: Any) -> None:
        #: As it was sent, for text that must be nowhere in it.
        self.html = response.content.decode()
        self._soup = BeautifulSoup(self.html, "html.parser")

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole page and not a part for htmx."""
        return self._soup.html is not None

    @property
    def text(self) -> str:
        """The visible text of the main part, with single spaces."""
        main = self._soup.main
        return _text(self._soup if main is None else main)

    def names(self, role: str) -> list[str]:
        """Return the accessible names of the visible, enabled elements of a role, in order."""
        found = self._soup.select(f"{_ELEMENTS.get(role, '')}, [role={role}]".lstrip(", "))
        return [self._name(each) for each in found if _is_usable(each)]

    def texts(self, selector: str) -> list[str]:
        """Return the visible text of each element that a CSS selector finds."""
        return [_text(each) for each in self._soup.select(selector)]

    def attributes(self, selector: str, name: str) -> list[str]:
        """Return an attribute of each element that a CSS selector finds; "" without it."""
        return [str(each.get(name, "")) for each in self._soup.select(selector)]

    @property
    def links(self) -> set[str]:
        """The addresses of all links."""
        return {str(each["href"]) for each in self._soup.select("a[href]")}

    @property
    def actions(self) -> set[str]:
        """The addresses of all forms."""
        return {str(each["action"]) for each in self._soup.select("form[action]")}

    def answers(self, name: str) -> set[str]:
        """Return the values of the enabled buttons that submit the field `name`."""
        found = self._soup.select(f'button[name="{name}"]')
        return {str(each["value"]) for each in found if _is_usable(each)}

    def fields(self, form: str = "form") -> dict[str, str]:
        """Return what the form that a CSS selector finds sends: name → value of its fields."""
        found = self._soup.select_one(form)
        assert found is not None, form
        controls = found.select("input[name], textarea[name], select[name]")
        return {str(each["name"]): _value(each) for each in controls if _is_sent(each)}

    def value(self, selector: str) -> str:
        """Return the value of the field that a CSS selector finds, sent or not."""
        found = self._soup.select_one(selector)
        assert found is not None, selector
        return _value(found)

    def _name(self, element: Tag) -> str:
        if label := element.get("aria-label"):
            return str(label)
        if ids := element.get("aria-labelledby"):
            return " ".join(_text(each) for each in self._soup.select(f"#{ids}"))
        label_of = element.get("id") and self._soup.select_one(f'label[for="{element["id"]}"]')
        return _text(label_of or element)


def _text(element: Tag) -> str:
    texts = (each for each in element.find_all(string=True) if not each.find_parents(_is_invisible))
    return " ".join("".join(texts).split())


def _is_invisible(element: Tag) -> bool:
    unseen = element.has_attr("hidden") or element.get("aria-hidden") == "true"
    return unseen or element.name in ("script", "style", "template")


def _is_usable(element: Tag) -> bool:
    outer = [element, *element.find_parents()]
    return not any(each.has_attr("disabled") or _is_invisible(each) for each in outer)


def _is_sent(control: Tag) -> bool:
    if any(each.has_attr("disabled") for each in (control, *control.find_parents("fieldset"))):
        return False
    return control.get("type") not in ("checkbox", "radio") or control.has_attr("checked")


def _value(control: Tag) -> str:
    if control.name == "textarea":
        return control.get_text().removeprefix("\n")
    if control.name == "select":
        chosen = control.select_one("option[selected]") or control.select_one("option")
        return str(chosen.get("value", chosen.get_text())) if chosen else ""
    return str(control.get("value", "on" if control.get("type") == "checkbox" else ""))
