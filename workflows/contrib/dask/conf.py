"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from django.conf import settings


def scheduler() -> str:
    """Address of the Dask scheduler for tasks with `"runner": "dask"`; "" is none."""
    return str(settings.HOLDPOINT["dask_scheduler"])


def tls_files() -> tuple[str, str, str]:
    """Files of the CA, the certificate and its key for the Dask scheduler; empty without TLS."""
    ca, certificate, key = settings.HOLDPOINT["dask_tls_files"]
    return str(ca), str(certificate), str(key)
