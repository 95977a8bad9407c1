"""App config of `workflows`."""

from django.apps import AppConfig
from django.core.checks import register


class WorkflowsConfig(AppConfig):
    """The executions app."""

    name = "workflows"
    verbose_name = "Executions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have `manage.py check` look at what the sandbox stands on."""
        from .sandbox.checks import check_sandbox

        register(check_sandbox, "holdpoint")
