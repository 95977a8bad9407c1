"""App config of `reviews`."""

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    """The `reviews` app."""

    name = "reviews"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from .sockets import broadcasts

        broadcasts.connect()
