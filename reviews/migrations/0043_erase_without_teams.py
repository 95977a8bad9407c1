"""Erasing the data of old runs without the cards of Teams."""

from importlib import import_module

from django.db import migrations

BEFORE: str = import_module("reviews.migrations.0041_erase_without_authzen").ERASE


class Migration(migrations.Migration):
    dependencies = [("reviews", "0042_no_web_push")]

    operations = [migrations.RunSQL(BEFORE.replace(", 'reviews_teamsmessage'", ""), BEFORE)]
