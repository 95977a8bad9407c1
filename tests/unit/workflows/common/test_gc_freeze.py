"""Objects loaded by a ready process are excluded from garbage collection."""

import gc
import subprocess
import sys

from tests.support.processes import ROOT
from workflows.common import gc_freeze


def test_frozen_objects_are_not_collected() -> None:
    before = gc.get_freeze_count()
    try:
        gc_freeze.freeze_loaded_objects()
        assert gc.get_freeze_count() > before
        later: list[object] = []
        later.append(later)
        del later
        assert gc.collect() > 0, "what comes later is still collected"
    finally:
        gc.unfreeze()


def test_a_web_process_freezes_after_loading_its_views_without_the_mcp_sdk() -> None:
    script = (
        "import gc, sys; import config.asgi;"
        " print(gc.get_freeze_count(), 'reviews.queue.pages' in sys.modules, 'mcp' in sys.modules)"
    )
    production = {
        "DJANGO_SETTINGS_MODULE": "config.settings.base",
        "SECRET_KEY": "not-a-secret-" * 5,
        "ALLOWED_HOSTS": "holdpoint.example",
        "HOLDPOINT_SITE_URL": "https://holdpoint.example",
        "DATABASE_URL": "postgres://nobody@localhost/nowhere",
        "REDIS_URL": "redis://localhost/0",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=ROOT, env=production, capture_output=True, text=True, check=True,
    )  # fmt: skip
    frozen, loaded, mcp = done.stdout.split()[-3:]
    assert int(frozen) > 100_000
    assert (loaded, mcp) == ("True", "False")
