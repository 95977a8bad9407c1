"""Retention: policies, legal holds, and erasing the data of old runs."""
