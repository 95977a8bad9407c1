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


def test_collections_are_rare_only_until_the_loaded_objects_are_frozen() -> None:
    usual = gc.get_threshold()
    try:
        gc_freeze.collect_rarely()
        assert gc.isenabled()
        assert gc.get_threshold()[0] > usual[0]
        gc_freeze.freeze_loaded_objects()
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def test_a_web_process_freezes_after_loading_its_views_without_the_mcp_sdk() -> None:
    script = (
        "import gc, sys; import config.asgi;"
        " print(gc.get_freeze_count(), 'reviews.queue.pages' in sys.modules, 'mcp' in sys.modules,"
        " gc.get_threshold()[0])"
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
    frozen, loaded, mcp, threshold = done.stdout.split()[-4:]
    assert int(frozen) > 100_000
    assert (loaded, mcp) == ("True", "False")
    assert int(threshold) == gc_freeze.SERVING_THRESHOLD
