"""Masks: secrets are hidden, other values are shown, and an edit restores every secret."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.decisions import masking
from reviews.decisions.masking import (
    DOTS,
    Masked,
    NotRestorable,
    Rules,
    is_marked,
    mark,
    restored,
)
from workflows.common.redaction import mask_secrets
from workflows.engine.values.bounded_json import canonical, path_text

GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0"
BEARER = "Bearer abcdef123456"
NO_RULES = Rules(None, ())


def masked(value: Any, rules: Rules = NO_RULES, **options: Any) -> Masked:
    return masking.masked(value, rules, **options)


def shown(value: Any, rules: Rules = NO_RULES) -> Any:
    return masked(value, rules).value


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"password": "hunter2"}, {"password": mark(1)}),
        ({"API-Key": 1234}, {"API-Key": mark(1)}),
        (
            {"credentials": {"user": "bob", "n": [1]}},
            {"credentials": {"user": mark(1), "n": [mark(2)]}},
        ),
        ({"headers": {"Authorization": BEARER}}, {"headers": {"Authorization": mark(1)}}),
        ({"text": f"use {GITHUB} now"}, {"text": f"use {mark(1)} now"}),
        ({"url": "postgres://me:pw@db/x"}, {"url": f"postgres://me:{mark(1)}@db/x"}),
        ({"log": f"> {BEARER}\nok"}, {"log": f"> Bearer {mark(1)}\nok"}),
        ({"env": 'API_KEY="s3"'}, {"env": f'API_KEY="{mark(1)}"'}),
        ({"env": "DB_PASSWORD=hunter"}, {"env": f"DB_PASSWORD={mark(1)}"}),
        ([{"token": "a"}, {"token": "b"}, {"token": "a"}], [{"token": mark(n)} for n in (1, 2, 1)]),
        ({GITHUB: 1}, {mark(1): 1}),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", mark(1)),
    ],
)
def test_secrets_are_hidden(value: Any, hidden: Any) -> None:
    assert shown(value) == hidden


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 200, "password": "", "secret": None, "token": False, "api_key": {}},
        {"to": "ann@example.org", "phone": "+43 660 1234567", "card": "4111 1111 1111 1111"},
        {"commit": "9fceb02d0ae598e95dc970b74767f19372d61af8", "sum": "a" * 64},
        {"text": "A basic understanding of token economics: the password is not needed."},
        {"author": "Ann", "keys": ["a"], "monkey": "x"},
        3.5,
        None,
        "",
    ],
)
def test_ordinary_values_stay(value: Any) -> None:
    assert shown(value) == value


def test_a_schema_declares_secrets() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pin": {"type": "integer", "writeOnly": True},
            "word": {"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
            "either": {"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/word"}]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/word"}},
            "open": {"type": "string"},
        },
        "$defs": {"word": {"type": "string", "format": "password"}},
    }
    value = {"pin": 7, "word": "x", "either": "y", "list": ["z"], "open": "o"}
    assert shown(value, Rules(schema, ())) == {
        "pin": mark(1),
        "word": mark(2),
        "either": mark(3),
        "list": [mark(4)],
        "open": "o",
    }
    assert shown({"a": 1}, Rules({"type": "nonsense"}, ())) == {"a": 1}


def test_a_workflow_declares_secrets() -> None:
    rules = Rules(None, ("customer.iban", "notes.*"))
    value = {
        "customer": [{"iban": "AT1", "name": "Ann"}],
        "iban": "AT2",
        "notes": {"first": "x"},
    }
    assert shown(value, rules) == {
        "customer": [{"iban": mark(1), "name": "Ann"}],
        "iban": "AT2",
        "notes": {"first": mark(2)},
    }


def test_secrets_are_listed_with_their_paths() -> None:
    (one,) = masked({"a": {"token": "x"}, "b": [{"token": "x"}]}).secrets
    assert (one.number, one.value, one.paths) == (1, "x", ("a.token", "b[0].token"))


def test_compared_values_share_mask_numbers() -> None:
    before = masked({"token": "a", "secret": "b"})
    after = masked({"token": "c", "secret": "b"}, after=before)
    assert after.value == {"token": mark(3), "secret": mark(2)}
    assert [each.number for each in after.secrets] == [2, 3]


def test_a_mask_written_by_an_agent_is_an_ordinary_value() -> None:
    value = {"note": f"see {mark(1)}", "password": "p"}
    view = masked(value)
    assert view.value == {"note": f"see {mark(1)}", "password": mark(2)}
    assert restored(view.value, view) == value


def test_edits_around_masks_keep_the_secrets() -> None:
    view = masked({"items": [{"token": "a"}, {"token": "b"}], "text": f"x {GITHUB}", "pin": 4711})
    edited = {"items": [view.value["items"][1]], "text": f"y {view.value['text']}", "pin": mark(4)}
    assert restored(edited, view) == {
        "items": [{"token": "b"}],
        "text": f"y x {GITHUB}",
        "pin": 4711,
    }
    assert restored({**view.value, "pin": 5}, view)["pin"] == 5


@pytest.mark.parametrize(
    ("edited", "path"),
    [
        ({"password": mark(9)}, "password"),
        ({"password": mark(1), "note": mark(1)}, "note"),
        ({"password": mark(1), "note": f"it is {mark(1)}"}, "note"),
        ({"password": mark(1), "list": [mark(1)]}, "list[0]"),
        ({mark(1): 1}, path_text((mark(1),))),
    ],
)
def test_a_mask_moved_to_another_field_is_refused(edited: Any, path: str) -> None:
    with pytest.raises(NotRestorable) as refused:
        restored(edited, masked({"password": "hunter2", "note": "", "list": []}))
    assert refused.value.path == path


def test_texts_without_a_way_to_reveal_have_dots() -> None:
    assert mask_secrets(f"no {GITHUB}, no {BEARER}") == f"no {DOTS}, no Bearer {DOTS}"
    assert not is_marked(DOTS)


_words = st.sampled_from(
    [
        GITHUB,
        BEARER,
        "password=",
        "token: ",
        '"',
        "'",
        "x1",
        "[",
        "]",
        DOTS,
        " ",
        mark(1),
        mark(2),
        " 1]",
        "://a:b@c",
        "\n",
    ]
)
_texts = st.lists(_words, max_size=6).map("".join) | st.text(max_size=10)
_keys = st.sampled_from(["password", "token", "note", "a", "max_tokens"]) | _texts
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(_json)
def test_an_unedited_payload_keeps_its_secrets(value: Any) -> None:
    view = masked(value)
    assert canonical(restored(view.value, view)) == canonical(value)


@given(_json, _json)
def test_a_second_masked_value_keeps_its_secret(first: Any, second: Any) -> None:
    view = masked(second, after=masked(first))
    assert canonical(restored(view.value, view)) == canonical(second)


@given(_json, st.text("abcdefgh", min_size=6, max_size=12))
def test_a_declared_secret_is_nowhere_in_the_output(value: Any, secret: str) -> None:
    whole = {"value": value, "deep": [{"client_secret": {"inner": [secret]}}]}
    assert secret not in canonical(masked(whole).value) or secret in canonical(value)
