"""The contrib apps, which an installation can leave out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.core.exceptions import ImproperlyConfigured

#: The app config of each contrib app, by its name in HOLDPOINT_CONTRIB.
CONTRIB_APPS: Final = {
    "dask": "workflows.contrib.dask.apps.DaskConfig",
    "coding_agents": "reviews.contrib.coding_agents.apps.CodingAgentsConfig",
}


def contrib_apps(names: Iterable[str]) -> list[str]:
    """Return the entries of INSTALLED_APPS for the named apps; `none` stands for no app."""
    chosen = [name for name in names if name != "none"]
    unknown = sorted(set(chosen) - CONTRIB_APPS.keys())
    if unknown:
        known = ", ".join(CONTRIB_APPS)
        raise ImproperlyConfigured(
            f"HOLDPOINT_CONTRIB names {unknown[0]!r}, which is not one of: {known}, none."
        )
    return [CONTRIB_APPS[name] for name in chosen]
