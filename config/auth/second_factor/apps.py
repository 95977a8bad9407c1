"""The app of second factors; it has no tables of its own."""

from django.apps import AppConfig


class SecondFactorConfig(AppConfig):
    """Second factors; changes of them are security events."""

    name = "config.auth.second_factor"
    label = "holdpoint_second_factor"
    verbose_name = "Second factors"

    def ready(self) -> None:
        from . import factor_events

        factor_events.connect()
