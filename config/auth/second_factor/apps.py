"""The app of second factors; it has no tables of its own."""

from django.apps import AppConfig


class SecondFactorConfig(AppConfig):
    """Second factors; its migration records changes of them as security events."""

    name = "config.auth.second_factor"
    label = "holdpoint_second_factor"
    verbose_name = "Second factors"
