"""The bounded parser: accepted and refused documents, and the place of each error."""

from __future__ import annotations

import json
import time
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repetitions import often
from workflows.engine.values.bounded_json import (
    BoundedJSONError,
    Limits,
    canonical,
    check_value,
    digest,
    parse,
    path_text,
)

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=25,
)
BRACKETS = ["[", "]", "{", "}", ",", ":", "[[[", "]]]", '{"a":', "{}", " ", "\n"]
SCRAPS = ['"', '"a"', '"b":', '"\\ud83d\\ude00"', '"\\\\"', '"\\""', '"x\\u0041"', "\\", "\\u0000"]
WORDS = ["1", "-", "1e400", "0.5", "1e-9", "NaN", "Infinity", "true", "null", "9" * 40, "E+400"]
ODD = ["\\ud800", "é", "\x00"]
PIECES = st.sampled_from([*BRACKETS, *SCRAPS, *WORDS, *ODD])
SMALL = Limits(max_bytes=400, depth=3, nodes=12, key_length=4, string_length=8, int_digits=20)


def refusal(data: bytes | str, limits: Limits | None = None) -> BoundedJSONError:
    with pytest.raises(BoundedJSONError) as caught:
        parse(data, limits=limits or Limits())
    return caught.value


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_agrees_with_json_loads(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse(text) == json.loads(text) == value
    assert json.dumps(parse(text.encode())) == json.dumps(value)
    check_value(value)


@given(st.binary(max_size=80))
def test_any_bytes_parse_or_are_refused(data: bytes) -> None:
    try:
        found = parse(data)
    except BoundedJSONError:
        return
    assert json.dumps(found) == json.dumps(json.loads(data))


@settings(max_examples=often(400, 20_000), deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_accepts_exactly_the_documents_within_the_limits(text: str) -> None:
    expected = by_the_rules(text, SMALL)
    try:
        found = parse(text, limits=SMALL)
    except BoundedJSONError:
        assert expected is REFUSED
    else:
        assert expected is not REFUSED
        assert json.dumps(found) == json.dumps(expected)


REFUSED = object()


def by_the_rules(text: str, limits: Limits) -> Any:
    """The slow and obvious form of the same rules."""
    try:
        assert len(text.encode()) <= limits.max_bytes
        value = json.loads(text, object_pairs_hook=each_key_once)
        assert obey(value, limits, 0) <= limits.nodes
    except (AssertionError, ValueError):
        return REFUSED
    return value


def each_key_once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(items)) == len(items)
    return dict(items)


def obey(value: Any, limits: Limits, depth: int) -> int:
    """Assert the rules on `value`; how many values it holds."""
    if isinstance(value, str):
        assert len(value) <= limits.string_length
        assert "\x00" not in value.encode().decode()
    elif isinstance(value, float):
        assert isfinite(value)
    elif isinstance(value, int):
        assert len(str(abs(value))) <= limits.int_digits
    elif value is not None:
        assert depth < limits.depth
        keys = list(value) if isinstance(value, dict) else []
        assert all(len(key) <= limits.key_length for key in keys)
        assert "\x00" not in "".join(keys).encode().decode()
        items = value.values() if isinstance(value, dict) else value
        return 1 + sum(obey(item, limits, depth + 1) for item in items)
    return 1


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ('{"edits": {"items": [1, 2, {"name": NaN}]}}', "edits.items[2].name", "finite"),
        ('{"a": [-Infinity]}', "a[0]", "finite"),
        ('{"a": {"b": 1e400}}', "a.b", "finite"),
        ('{"a": ' + "9" * 400 + ".5}", "a", "finite"),
        ('{"a": ["x", "\\u0000"]}', "a[1]", "NUL"),
        ('{"a": {"\\u0000": 1}}', 'a["\\u0000"]', "NUL"),
        ('{"a": "\\ud800"}', "a", "surrogate"),
        ('{"a": "\\udc00\\ud800"}', "a", "surrogate"),
        ('{"a": {"\\ud800": 1}}', 'a["\\ud800"]', "surrogate"),
        ('{"a": "\ud800"}', "a", "surrogate"),
        ('[{"a": 1, "b": {"k": 1, "k": 2}}]', "[0].b.k", "twice"),
        ('{"a": 1, "\\u0061": 2}', "a", "twice"),
        ('{"a": ' + "1" * 5_000 + "}", "a", "1000 digits"),
        ('{"a": -' + "1" * 1_001 + "}", "a", "1000 digits"),
        ('{"a": [1, 2}', "a[1]", "not valid JSON"),
        ('{"odd key": {"b": tru}}', '["odd key"].b', "not valid JSON"),
        ('{"a": "\x00"}', "a", "not valid JSON"),
        ("", "", "not valid JSON"),
        ("[1] 2", "", "not valid JSON"),
        ('{"' + "k" * 300 + '": 1}', '["' + "k" * 57 + '..."]', "key longer than 256"),
        ('{"a": "' + "x" * (256 * 1024 + 1) + '"}', "a", "longer than 262144"),
        (json.dumps({"a": list(range(10_000))}), "a[9998]", "more than 10000 values"),
        (b'{"a": "\xff"}', "", "UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "", "UTF-8"),
        ("[" * 65 + "]" * 65, "[0]" * 64, "64 levels"),
        ('{"a": ' * 65 + "1" + "}" * 65, ".".join("a" * 64), "64 levels"),
        (b" " * (1024 * 1024 + 1), "", "1048576 bytes"),
        ("é" * (1024 * 512 + 1), "", "1048576 bytes"),
    ],
    ids=range(28),
)
def test_a_refusal_names_the_place(document: bytes | str, path: str, message: str) -> None:
    error = refusal(document)
    assert error.path == path
    assert message in error.message
    assert str(error) == (f"{path}: {error.message}" if path else error.message)


@pytest.mark.parametrize(
    "document",
    [
        "[" * 64 + "]" * 64,
        '{"a":' * 64 + "1" + "}" * 64,
        '["' + "[" * 500 + '", "\\"[[[["]',
        '"' + "\\\\" * 300 + '"',
        json.dumps([0] * 9_999),
        json.dumps({"k" * 256: "x" * 256 * 1024}),
        "1" * 1_000,
        "-" + "1" * 1_000,
        "0." + "0" * 500 + "1",
        "1e-400",
        '"\\ud83d\\ude00 1e999 \\\\u0000"',
        b'\xef\xbb\xbf{"a": 1}',
    ],
    ids=range(12),
)
def test_the_limits_themselves_are_allowed(document: bytes | str) -> None:
    expected = json.loads(document)
    assert parse(document) == expected
    check_value(expected)


@pytest.mark.parametrize(
    "document",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b'[{"a":' * 60_000,
        b"[]," * 300_000,
        b'"[' * 500_000,
        b'["\\"' + b"[" * 100_000,
        b"1" * 1_000_000,
        b"[" + b"1e5," * 200_000 + b"1]",
        b"\\" * 1_000_000,
        b'{"a":1,' * 100_000,
    ],
    ids=range(11),
)
def test_hostile_documents_are_refused_at_once(document: bytes) -> None:
    started = time.process_time()
    assert len(refusal(document).path) <= 300
    assert time.process_time() - started < 1


def test_exactly_one_level_too_many_is_refused_also_when_it_is_empty() -> None:
    value: Any = []
    for _ in range(64):
        value = [value]
    with pytest.raises(BoundedJSONError, match="64 levels"):
        check_value(value)
    check_value(value[0])


def test_parsed_values_are_walked_without_recursion() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"a": deep}
    circle: list[Any] = []
    circle.append(circle)
    lots: Any = [0] * 5_000
    for _ in range(20):
        lots = [lots] * 5_000
    for value in (deep, circle, lots):
        with pytest.raises(BoundedJSONError):
            check_value(value)


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"a": [float("nan")]}, "a[0]", "finite"),
        ({"a": {1: 2}}, "a", "key that is not text"),
        ({"a": ({"b": object()},)}, "a[0].b", "object, which JSON cannot hold"),
        ({"a": b"raw"}, "a", "bytes, which JSON cannot hold"),
        ({"a": {"b\ud800": 1}}, 'a["b\\ud800"]', "surrogate"),
        ({"a": "x\x00"}, "a", "NUL"),
        ({"a": 10**1_000}, "a", "1000 digits"),
        ({"k" * 257: 1}, '["' + "k" * 57 + '..."]', "key longer than 256"),
        (["x" * 250_000] * 5, "[4]", "1048576 bytes"),
    ],
    ids=range(9),
)
def test_check_value_names_the_place(value: Any, path: str, message: str) -> None:
    with pytest.raises(BoundedJSONError) as caught:
        check_value(value)
    assert caught.value.path == path
    assert message in caught.value.message


def test_check_value_takes_tuples_and_whole_numbers_at_the_limit() -> None:
    check_value({"a": (1, 2, (True, None)), "b": -(10**1_000) + 1, "c": 1e308})


@given(VALUES)
def test_canonical_text_is_stable(value: Any) -> None:
    text = canonical(value)
    assert text.isascii()
    assert canonical(json.loads(text)) == text
    assert canonical(shuffled(value)) == text
    assert len(digest(value)) == 64


@given(st.floats(-(2**53), 2**53) | st.integers())
def test_canonical_numbers_keep_their_value(number: float) -> None:
    assert json.loads(canonical(number)) == number


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": "é"}, '{"a":"\\u00e9","b":1}'),
        ([1.0, -0.0, 1e16, 1e-7, 0.1], "[1,0,10000000000000000,1e-07,0.1]"),
        (1e308, "1" + "0" * 308),
        ("1.0 e+", '"1.0 e+"'),
        ([True, 1, None], "[true,1,null]"),
    ],
    ids=range(5),
)
def test_canonical_form(value: Any, text: str) -> None:
    assert canonical(value) == text


def test_digest_survives_what_jsonb_does_to_numbers() -> None:
    before = {"n": [1e16, -0.0, 1e308, 2.50], "k": 1}
    after = {"k": 1, "n": [10**16, 0.0, 10**308, 2.5]}
    assert digest(before) == digest(after)
    assert digest({"n": True}) != digest({"n": 1})


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()], ids=["nan", "set", "object"])
def test_canonical_refuses_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(BoundedJSONError):
        canonical(value)


def test_path_text_quotes_odd_keys_and_stays_short() -> None:
    assert path_text(["items", 3, "name"]) == "items[3].name"
    assert path_text(["a.b", 0]) == '["a.b"][0]'
    assert path_text([]) == ""
    assert len(path_text(["key"] * 500)) < 300
