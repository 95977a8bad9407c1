"""Tags for the language of a page."""

from django import template
from django.urls import reverse
from django.utils.translation import get_language

from config.web.languages import words_version

register = template.Library()


@register.simple_tag
def words_url() -> str:
    """Address of the scripts' words in the language of this page."""
    return reverse("words", args=(get_language() or "en", words_version()))
