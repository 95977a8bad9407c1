"""The one way in for JSON bodies, without a request around it."""

import io
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workflows.api.parsers import BoundedJSONParser, DecisionJSONParser, object_body
from workflows.api.problems import BodyTooLarge
from workflows.engine.values.bounded_json import DEFAULT, BoundedJSONError

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=10,
)


class Counting(io.BytesIO):
    """Knows how much of it was asked for."""

    asked = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked += size if size is not None else -1
        return super().read(size)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_valid_json_is_parsed(value: Any) -> None:
    assert BoundedJSONParser().parse(io.BytesIO(json.dumps(value).encode())) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    with suppress(BoundedJSONError):
        BoundedJSONParser().parse(io.BytesIO(data))


@pytest.mark.parametrize("data", [b"", b"  \n"])
def test_an_empty_body_is_an_empty_object(data: bytes) -> None:
    assert BoundedJSONParser().parse(io.BytesIO(data)) == {}


@pytest.mark.parametrize("parser", [BoundedJSONParser(), DecisionJSONParser()])
def test_reading_stops_at_the_limit(parser: BoundedJSONParser) -> None:
    most = parser.limits.max_bytes
    stream = Counting(b" " * (most + 10_000))
    with pytest.raises(BodyTooLarge):
        parser.parse(stream)
    assert stream.asked == most + 1
    assert stream.tell() == most + 1


def test_a_decision_body_has_a_lower_limit() -> None:
    assert DecisionJSONParser.limits.max_bytes * 4 == DEFAULT.max_bytes


@pytest.mark.parametrize("body", [[], "text", 1, 1.5, None, True])
def test_a_body_has_to_be_an_object(body: Any) -> None:
    with pytest.raises(BoundedJSONError, match="must be an object, not"):
        object_body(body)
    assert object_body({"a": body}) == {"a": body}
