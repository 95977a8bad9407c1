"""Names and values of headers chosen by users and plans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.http_headers import header_problem, headers_problem
from workflows.tools.mcp_client.server_spec import McpServerSpec

BAD_NAMES = (
    "",
    " ",
    "X Y",
    "X\tY",
    "Host ",
    " Host",
    "X:Y",
    "X\r\nY",
    "X\x00",
    "X\x7f",
    "Xé",
    "(X)",
)
BAD_VALUES = ("a\r\nB: c", "a\nb", "a\rb", "a\x00b", "a\x1bb", "a\tb", "é")


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_is_a_token(name: str) -> None:
    assert "is not a name that HTTP allows" in header_problem(name, "v")
    with pytest.raises(ValueError, match="not a name that HTTP allows"):
        McpServerSpec(name="s", transport="http", url="http://h/", headers={name: "v"})


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_value_is_one_line(value: str) -> None:
    assert "does not allow" in header_problem("X-Name", value)
    with pytest.raises(ValueError, match="X-Name"):
        McpServerSpec(name="s", transport="http", url="http://h/", headers={"X-Name": value})


@given(name=st.text(max_size=8), value=st.text(max_size=8))
def test_accepted_values_are_one_ascii_line(name: str, value: str) -> None:
    if not header_problem(name, value):
        line = f"{name}: {value}"
        assert line.isascii()
        assert len(line.splitlines()) == 1
        assert name == name.strip()
        assert not any(each in name for each in " \t:")


def test_ordinary_headers_pass_once_each() -> None:
    assert headers_problem({"Authorization": "Bearer x", "x-api_key.1": ""}) == ""
    assert "twice" in headers_problem({"X-Key": "a", "x-key": "b"})
