"""The table of grant limits by role in the environment."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings.product import product_settings
from workflows.engine.policy.permissions import PermissionSet
from workflows.permissions.grants import ceilings_of, may_grant

HOST = PermissionSet(hosts=("127.0.0.1:8000",))
RUN = PermissionSet(run=("git",))


def test_by_default_reviewers_grant_less_than_admins(settings, tmp_path: Path) -> None:
    settings.HOLDPOINT = product_settings(home=tmp_path, site_url="")
    assert may_grant({"reviewer"}, HOST)
    assert not may_grant({"reviewer"}, RUN)
    assert may_grant({"reviewer", "admin"}, RUN)
    assert may_grant({"legal"}, HOST)
    assert not may_grant(set(), HOST)


def test_the_environment_sets_it(monkeypatch, settings, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDPOINT_GRANT_CEILINGS", "reviewer:readonly,security:trusted")
    settings.HOLDPOINT = product_settings(home=tmp_path, site_url="")
    assert ceilings_of({"reviewer", "security"}) == ("readonly", "trusted")
    assert not may_grant({"reviewer"}, HOST)
    assert not may_grant({"legal"}, HOST)  # nobody else is named
    assert may_grant({"security"}, HOST)


@pytest.mark.parametrize("text", ["reviewer", "reviewer:everything", ":trusted"])
def test_a_bad_entry_stops_the_start(monkeypatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("HOLDPOINT_GRANT_CEILINGS", text)
    with pytest.raises(ImproperlyConfigured, match="HOLDPOINT_GRANT_CEILINGS"):
        product_settings(home=tmp_path, site_url="")
