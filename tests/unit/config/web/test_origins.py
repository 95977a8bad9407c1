"""Origins that may open a socket."""

from urllib.parse import urlparse

import pytest
from channels.security.websocket import OriginValidator

from config.web.csp import policy
from config.web.origins import origins_of, websocket_origins


def test_explicit_origins_stand_alone() -> None:
    assert origins_of(["https://a/"], "https://b", ["c"], scheme="https") == ["https://a"]


def test_own_address_and_hosts_without_wildcards() -> None:
    found = origins_of(
        [], "http://127.0.0.1:8001", ["127.0.0.1", ".x.example", "*"], scheme="http", port=8001
    )
    assert found == ["http://127.0.0.1:8001"]


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("http://localhost:8001", True),
        ("http://localhost:8002", False),
        ("https://localhost:8001", False),
        ("http://evil.example:8001", False),
        ("http://localhost", False),
    ],
)
def test_scheme_and_port_count(origin: str, welcome: bool) -> None:
    allowed = origins_of([], "", ["localhost"], scheme="http", port=8001)
    validator = OriginValidator(None, allowed)
    assert bool(validator.valid_origin(urlparse(origin))) is welcome


def test_websocket_origins_follow_the_scheme() -> None:
    assert websocket_origins(["https://a", "http://b:1"]) == ["wss://a", "ws://b:1"]


def test_policy_has_no_unsafe_word() -> None:
    directives = policy(["wss://a"])["DIRECTIVES"]
    assert "unsafe" not in str(directives)
    assert directives["script-src"] == directives["style-src"] == ["'self'"]
    assert directives["connect-src"] == ["'self'", "wss://a"]
