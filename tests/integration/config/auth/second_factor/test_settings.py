"""Second factors beside OpenID Connect, and with their extra missing."""

from __future__ import annotations

from tests.integration.config.auth.oidc.test_settings import MISSING, OIDC, started


def test_second_factors_work_beside_oidc() -> None:
    for more in ({}, OIDC):
        made = started(HOLDPOINT_STEP_UP="high_risk", **more)
        assert made.returncode == 0, made.stderr
        assert "allauth.mfa" in made.stdout


def test_without_the_extra_the_start_names_the_package() -> None:
    made = started(MISSING, HOLDPOINT_STEP_UP="all")
    assert made.returncode != 0
    assert "--extra mfa" in made.stderr
