"""`manage.py settings_doc`: write docs/settings.md from the settings' classes."""

from typing import Any

from django.core.management.base import BaseCommand

from config.settings.documentation import PATH, document


class Command(BaseCommand):
    help = "Writes docs/settings.md from the settings' classes."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        PATH.write_text(document(), encoding="utf-8")
