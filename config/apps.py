"""App configs of the project itself: its system checks, and Django's admin under our site class."""

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import AdminConfig, SimpleAdminConfig


class ConfigConfig(AppConfig):
    """Registers the project's system checks; starts what sends traces and errors elsewhere."""

    name = "config"
    verbose_name = "Holdpoint"

    def ready(self) -> None:
        from config import checks  # noqa: F401 - importing registers the checks
        from config.observability import telemetry

        telemetry.start()


class HoldpointAdminConfig(AdminConfig):
    """Django's admin, served by `config.admin_site.HoldpointAdminSite`."""

    default_site = "config.admin_site.HoldpointAdminSite"

    def ready(self) -> None:
        """Load the admin of all apps, which only processes with pages need."""
        if settings.HOLDPOINT_ROLE in ("worker", "sweeper"):
            SimpleAdminConfig.ready(self)
        else:
            super().ready()
