"""App config of `reviews`."""

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    """The `reviews` app."""

    name = "reviews"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model

        from .people.account_names import check_account_name
        from .sockets import broadcasts

        broadcasts.connect()
        names = get_user_model()._meta.get_field("username")
        names.validators.append(check_account_name)
