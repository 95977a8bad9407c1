"""Formats of dates and times per language, for `date` without a format and the admin."""
