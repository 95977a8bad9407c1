"""echo, wait, fail, select, parse_json, parse_xml."""

import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows.engine.protocol.ports import TaskFailed
from workflows.tools import ToolContext

from .conftest import use

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(alphabet='aé<&"\\ \n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON_VALUES)
def test_echo_gives_back_what_it_got(value: Any) -> None:
    assert use("echo", value=value) == value


def test_wait_waits() -> None:
    start = time.monotonic()
    assert use("wait", seconds=0.15)["waited_seconds"] >= 0.15
    assert time.monotonic() - start >= 0.15


def test_an_abort_ends_the_wait() -> None:
    flag = threading.Event()
    timer = threading.Timer(0.1, flag.set)
    timer.start()
    start = time.monotonic()
    with pytest.raises(TaskFailed, match="cut short") as failure:
        use("wait", ToolContext(cancelled=flag), seconds=60)
    timer.join()
    assert time.monotonic() - start < 10
    assert not failure.value.retryable


@pytest.mark.parametrize("seconds", [-1, 4000, float("nan"), float("inf"), "soon"])
def test_wait_refuses_odd_times(seconds: Any) -> None:
    with pytest.raises(TaskFailed, match="'seconds'"):
        use("wait", seconds=seconds)


@pytest.mark.parametrize("retryable", [True, False])
def test_fail_fails(retryable: bool) -> None:
    with pytest.raises(TaskFailed, match="as asked") as failure:
        use("fail", message="as asked", retryable=retryable)
    assert failure.value.retryable is retryable


def test_select() -> None:
    listing = {"files": ["a.xml", "b.txt", "c.xml"]}
    chosen = use("select", value=listing, expression="files[?ends_with(@, '.xml')]")
    assert chosen == ["a.xml", "c.xml"]
    with pytest.raises(TaskFailed, match="expression") as failure:
        use("select", value=listing, expression="files[?")
    assert not failure.value.retryable


def test_parse_json_is_strict() -> None:
    assert use("parse_json", text='{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    for bad in ('{"a": 1, "a": 2}', "NaN", "1e400", '"\\u0000"', "[" * 100_000, "", "{"):
        with pytest.raises(TaskFailed, match="refused") as failure:
            use("parse_json", text=bad)
        assert not failure.value.retryable


def test_parse_xml() -> None:
    text = '<?xml version="1.0"?><a x="1">one <b/><b y="&lt;2">tw<!-- no -->o</b> more</a>'
    assert use("parse_xml", text=text) == {
        "tag": "a",
        "attributes": {"x": "1"},
        "text": "one  more",
        "children": [
            {"tag": "b", "attributes": {}, "text": "", "children": []},
            {"tag": "b", "attributes": {"y": "<2"}, "text": "two", "children": []},
        ],
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not well-formed"),
        ("<a>", "not well-formed"),
        ("<a/><b/>", "not well-formed"),
        ("<a>&unknown;</a>", "not well-formed"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "document type"),
        ('<!DOCTYPE a [<!ENTITY x "xxxx"><!ENTITY y "&x;&x;">]><a>&y;</a>', "document type"),
        ('<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><a/>', "document type"),
        ("<a>" * 31 + "</a>" * 31, "deeper than 30"),
        ("<a>" + "<b/>" * 2000 + "</a>", "more than 2000 elements"),
        ("<a>\ud800</a>", "'text': .*unicode"),
    ],
)
def test_parse_xml_refuses(text: str, why: str) -> None:
    with pytest.raises(TaskFailed, match=why) as failure:
        use("parse_xml", text=text)
    assert not failure.value.retryable


def test_the_deepest_xml_fits_a_result() -> None:
    value = use("parse_xml", text="<a>" * 30 + "</a>" * 30)
    assert value["children"][0]["tag"] == "a"


@settings(deadline=None)
@given(st.text(alphabet='<>/a"= &;![]?-', max_size=40))
def test_parse_xml_answers_or_refuses(text: str) -> None:
    try:
        assert "tag" in use("parse_xml", text=text)
    except TaskFailed as failure:
        assert not failure.retryable  # noqa: PT017
