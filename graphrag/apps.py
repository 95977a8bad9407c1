"""Django application of the tool catalogue and graph."""

from django.apps import AppConfig


class GraphragConfig(AppConfig):
    """Tools, observed dependencies between them, suggested plans."""

    name = "graphrag"
    verbose_name = "Tool graph"
    default_auto_field = "django.db.models.BigAutoField"
