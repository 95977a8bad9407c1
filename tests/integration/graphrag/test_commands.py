"""manage.py reembed."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool

NOWHERE = "openai:http://127.0.0.1:1/v1"


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, no_color=True)
    return out.getvalue()


def test_reembed_shows_its_progress_and_embeds_only_outdated_tools(
    files_catalogue: list[ToolRecord],
) -> None:
    assert "0 tools embedded by hashing:3." in run("reembed")
    Tool.objects.filter(name="files.read_file").update(embedder="older:1")
    assert "\r[##############################] 1/1\n1 tools embedded" in run("reembed")
    assert "5 tools embedded" in run("reembed", "--all")


@pytest.mark.parametrize("embedder", [NOWHERE, "magic", "sentence-transformers:no/such-model"])
def test_an_embedder_that_cannot_answer_is_named_and_nothing_is_lost(
    files_catalogue: list[ToolRecord], holdpoint: Callable[..., None], embedder: str
) -> None:
    holdpoint(embedder=embedder)
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1|magic|sentence-transformers"):
        run("reembed")
    assert ingest.Tool.objects.filter(embedder="hashing:3").count() == 5
