"""Addresses, selections and query strings that no page of the admin sends: never a 500."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.urls import reverse

pytestmark = pytest.mark.django_db

#: Every model of the admin with pages of its own; the dashboard of the queues has no rows.
MODELS = tuple(
    model._meta
    for model in apps.get_models()
    if admin.site.is_registered(model) and model._meta.app_label != "django_rq"
)
LABELS = tuple(options.label_lower for options in MODELS)
#: Keys that no row has: a NUL, and a number that no column holds.
ODD_KEYS = ("%00", "9" * 30)


def page(name: str, label: str) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_{name}")


def refused(response: Any) -> bool:
    """Whether the answer is a page that says so."""
    return response.status_code in (400, 404) and b"<h1" in response.content


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("key", ODD_KEYS)
def test_addresses_of_impossible_rows(staff: Any, label: str, key: str) -> None:
    client = staff("root")
    url = page("changelist", label)
    for name in ("change", "history", "delete"):
        response = client.get(f"{url}{key}/{name}/")
        # Django redirects from an object that is gone.
        assert refused(response) or (key != "%00" and response.status_code in (302, 403)), name


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("key", ["abc", "a\0b", "9" * 30])
def test_selections_of_impossible_rows(staff: Any, label: str, key: str) -> None:
    client = staff("root")
    url = page("changelist", label)
    actions = admin.site.get_model_admin(apps.get_model(label)).get_actions(
        client.get(url).wsgi_request
    )
    for action in actions or ("delete_selected",):
        response = client.post(url, {"action": action, "_selected_action": [key]})
        if actions and "\0" in key:
            assert refused(response), action
        assert response.status_code < 500, action


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    "query",
    [
        "{field}__regex=[",
        "{field}__startswith=a",
        "{field}__exact=%00",
        "{field}=%00&{field}=1",
        "q=%00",
        "o=%00",
        "p=%00",
        "_to_field=%00",
        "%00=1",
    ],
)
def test_query_strings_of_lists(staff: Any, label: str, query: str) -> None:
    field = apps.get_model(label)._meta.pk.name
    response = staff("root").get(f"{page('changelist', label)}?{query.format(field=field)}")
    assert refused(response), response.status_code


@pytest.mark.parametrize("label", LABELS)
def test_each_filter_refuses_unlisted_operators(staff: Any, label: str, rf: Any) -> None:
    client = staff("root")
    url = page("changelist", label)
    model_admin = admin.site.get_model_admin(apps.get_model(label))
    fields = [each for each in model_admin.list_filter if not isinstance(each, type)]
    names = [each if isinstance(each, str) else each[0] for each in fields]
    for name in names:
        for query in (f"{name}__regex=[", f"{name}__icontains=a", f"{name}__exact=%00"):
            assert refused(client.get(f"{url}?{query}")), query
        assert client.get(f"{url}?{name}__isnull=1").status_code == 200


@pytest.mark.parametrize("label", LABELS)
def test_each_filter_has_a_title_and_lists_rows(staff: Any, label: str) -> None:
    client = staff("root")
    url = page("changelist", label)
    shown = (client.get(url).context or {}).get("cl")
    for spec in shown.filter_specs if shown else ():
        assert not re.search(r"_| at$|vanished", str(spec.title))
        for choice in list(spec.choices(shown))[1:4]:
            assert client.get(url + choice["query_string"]).status_code == 200, choice


def test_lookups_that_no_filter_has_are_refused(staff: Any) -> None:
    client, url = staff("root"), page("changelist", "workflows.apitoken")
    for query in (
        "revoked_at__isnull=True&status=revoked&o=1",
        "colour=red",
        "digest__startswith=a&colour=red",
        "user__password=a",
        "user__password__gte=a",
    ):
        assert refused(client.get(f"{url}?{query}")), query
    assert refused(client.post(f"{url}?revoked_at__isnull=True"))


def test_the_term_of_an_autocomplete_field(staff: Any) -> None:
    url = reverse("admin:autocomplete")
    place = "app_label=workflows&model_name=hold&field_name=previous"
    assert refused(staff("root").get(f"{url}?{place}&term=a%00"))


def test_the_link_to_an_object_on_the_site(staff: Any) -> None:
    client = staff("root")
    for kind in (*ContentType.objects.values_list("pk", flat=True), 99999, "9" * 30):
        for key in ("1", "%00", "9" * 30):
            response = client.get(f"/admin/r/{kind}/{key}/")
            assert refused(response) or response.status_code == 302, (kind, key)
