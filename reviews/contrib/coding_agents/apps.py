"""App config of coding agents."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from workflows import extensions


class CodingAgentsConfig(AppConfig):
    """Endpoints for hooks, the script of the hooks, and the page that connects an agent."""

    name = "reviews.contrib.coding_agents"
    label = "coding_agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        extensions.add_urls("reviews.contrib.coding_agents.urls")
        entry = extensions.MenuEntry("tokens", _("Connect a coding agent"), "coding_agents:connect")
        extensions.add_menu_entry(entry)
