"""Rows that the admin shows and nobody changes there."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


class ReadOnly:
    """Nobody can add, change or delete rows."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
