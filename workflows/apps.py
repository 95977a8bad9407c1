"""App config of `workflows`."""

from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    """The executions app."""

    name = "workflows"
    verbose_name = "Executions"
    default_auto_field = "django.db.models.BigAutoField"
