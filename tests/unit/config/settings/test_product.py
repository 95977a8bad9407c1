"""Every number that an app reads is one that the environment can set."""

import re
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings.product import product_settings
from graphrag import conf as graph_conf
from tests.architecture.files import package_modules
from workflows import conf as workflow_conf

READ = re.compile(r"""(?:_value\(|HOLDPOINT\[|HOLDPOINT\.get\()\s*["'](\w+)["']""")


def keys_read() -> set[str]:
    modules = package_modules("workflows", "reviews", "graphrag")
    return {key for path in modules for key in READ.findall(path.read_text(encoding="utf-8"))}


def test_every_setting_that_is_read_is_defined(tmp_path: Path) -> None:
    known = set(product_settings(home=tmp_path, site_url=""))
    assert len(keys_read()) > 10
    assert keys_read() - known == set()


@pytest.mark.parametrize(
    ("variable", "value", "accessor", "expected"),
    [
        ("HOLDPOINT_LEASE_SECONDS", "45", workflow_conf.lease_seconds, 45.0),
        ("HOLDPOINT_COMMIT_WINDOW_MS", "250", workflow_conf.commit_window_seconds, 0.25),
        ("HOLDPOINT_WORKERS", "7", workflow_conf.workers, 7),
        ("HOLDPOINT_EMBEDDER", "openai:http://127.0.0.1:1", graph_conf.embedder, "openai:http://127.0.0.1:1"),
        ("HOLDPOINT_SUGGEST_THRESHOLD", "0.5", graph_conf.suggest_threshold, 0.5),
    ],
)  # fmt: skip
def test_the_environment_reaches_the_app(
    monkeypatch, settings, tmp_path: Path, variable, value, accessor, expected
) -> None:
    monkeypatch.setenv(variable, value)
    settings.HOLDPOINT = product_settings(home=tmp_path, site_url="")
    assert accessor() == expected


@pytest.mark.parametrize(
    "address", ["cluster:8786", "tcp://cluster:8786", "tls://cluster:8786", "http://127.0.0.1:1"]
)
def test_a_dask_scheduler_beyond_this_machine_needs_certificates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("HOLDPOINT_DASK_SCHEDULER", address)
    with pytest.raises(ImproperlyConfigured, match="HOLDPOINT_DASK_SCHEDULER"):
        product_settings(home=tmp_path, site_url="")


def test_a_dask_scheduler_with_certificates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDPOINT_DASK_SCHEDULER", "tls://cluster:8786")
    for name in ("CA", "CERT", "KEY"):
        monkeypatch.setenv(f"HOLDPOINT_DASK_TLS_{name}", f"/{name}.pem")
    known = product_settings(home=tmp_path, site_url="")
    assert known["dask_tls_files"] == ("/CA.pem", "/CERT.pem", "/KEY.pem")
