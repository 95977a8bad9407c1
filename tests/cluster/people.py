"""The people whose tokens the load uses."""

from __future__ import annotations

from django.contrib.auth.models import Group, User

from workflows.permissions.tokens import create_token

PEOPLE = {"starter": ("operator", ["read", "run"]), "decider": ("reviewer", ["read", "decide"])}


def make_people() -> list[str]:
    """Make the people and return their tokens."""
    return [_make(name, role, scopes) for name, (role, scopes) in PEOPLE.items()]


def _make(name: str, role: str, scopes: list[str]) -> str:
    person = User.objects.create_user(name, email=f"{name}@example.com")
    person.groups.add(Group.objects.get_or_create(name=role)[0])
    return create_token(user=person, name="cluster", scopes=scopes)[1]
