"""Which addresses may be named at all."""

import pytest

from workflows.webhooks.addresses import request_permissions, url_problem


@pytest.fixture
def allow(settings):
    def make(*, loopback: bool = False, hosts: tuple[str, ...] = ()) -> None:
        found = {"webhook_allow_loopback": loopback, "webhook_allow_hosts": hosts}
        settings.HOLDPOINT = {**settings.HOLDPOINT, **found}

    return make


@pytest.mark.parametrize(
    "url",
    [
        "https://10.1.2.3/", "https://127.0.0.1/", "http://localhost:8000/", "https://[::1]/",
        "https://169.254.169.254/latest/", "https://intranet/", "https://hooks.internal/",
        "https://[::ffff:10.0.0.1]/", "http://example.com/", "https://u:p@example.com/",
        "ftp://example.com/", "https://example.com/#part", "https://2130706433/", "", "example.com",
        "https://example.com/" + "x" * 3000,
    ],
)  # fmt: skip
def test_private_and_malformed_addresses_are_refused_with_a_reason(url, allow) -> None:
    allow()
    assert url_problem(url)


def test_public_https_addresses_are_accepted(allow) -> None:
    allow()
    assert url_problem("https://example.com/hook?a=1") == ""
    assert url_problem("https://example.com:8443/") == ""


def test_settings_allow_loopback_and_named_hosts(allow) -> None:
    allow(loopback=True, hosts=("hooks.internal:8080",))
    assert url_problem("http://127.0.0.1:9000/") == ""
    assert url_problem("http://hooks.internal:8080/") == ""
    assert url_problem("http://hooks.internal:8081/")
    assert url_problem("https://10.0.0.1/")
    assert request_permissions("http://127.0.0.1:9000/").allows("net", "127.0.0.1:9000")
    assert not request_permissions("http://127.0.0.1:9000/").allows("net", "127.0.0.1:9001")
    assert not request_permissions("https://example.com/").allows("net", "127.0.0.1:9000")
