"""Erasing the data of old runs without the callbacks of AuthZEN and the messages of web push."""

from importlib import import_module

from django.db import migrations

BEFORE: str = import_module("reviews.migrations.0038_reasons_of_grants").ERASE
ERASE = BEFORE.replace(" authzen_callback = NULL,", "").replace(", 'reviews_pushmessage'", "")


class Migration(migrations.Migration):
    dependencies = [
        ("reviews", "0040_sums_of_standing_answers"),
    ]

    operations = [migrations.RunSQL(ERASE, BEFORE)]
