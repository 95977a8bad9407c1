"""The output of remote tasks: what is kept of it, and how it is captured."""

from __future__ import annotations

import json
import logging
import sys
import threading
from typing import Any

import pytest

from workflows.engine.protocol.ports import Failure
from workflows.remote.capture import capturing
from workflows.remote.output import MAX_LINE, MAX_LINES, MAX_TEXT, Output, clean
from workflows.remote.results import failed, result_of
from workflows.tools.context import ToolContext


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("a\x00b\x07c\x9bd", "abcd"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07text", "red text"),
        ("10 %\r20 %\r30 %\r\nnext", "30 %\nnext"),
        ("tab\tstays\r\n", "tab\tstays"),
        ("\ud800", "?"),
        ("\n\n", ""),
        ("x" * (MAX_LINE + 5), "x" * MAX_LINE),
        ("x" * 10 * MAX_TEXT, ""),
        ("\n".join(map(str, range(500))), "\n".join(map(str, range(500 - MAX_LINES - 1, 500)))),
    ],
)
def test_lines_are_cleaned_and_bounded(printed: str, kept: str) -> None:
    assert clean(printed) == kept


def test_the_newest_lines_are_kept_whole() -> None:
    secret = "password=" + "s" * 90
    text = clean("\n".join([secret] * 1000))
    assert len(text) <= MAX_TEXT
    assert set(text.split("\n")) == {secret}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("no JSON", Output()),
        (None, Output()),
        ("[1]", Output()),
        ('{"logs": 1, "progress": "high"}', Output()),
        ('{"logs": "a", "progress": true}', Output("a")),
        ('{"logs": "a", "progress": 1.5}', Output("a")),
        ('{"logs": "a", "progress": 1' + "0" * 400 + "}", Output("a")),
        ('{"logs": "a", "progress": 1}', Output("a", 1.0)),
        (json.dumps({"logs": "x" * 2_000_000}), Output()),
    ],
)
def test_the_output_of_a_cluster_is_not_trusted(sent: Any, read: Output) -> None:
    assert Output.of_json(sent) == read


def test_the_errors_of_a_cluster_can_be_stored() -> None:
    text = "a\0b\ud800" + "x" * 5000
    sent = json.dumps({"error": "x" * 5000, "retryable": False})
    for outcome in (failed(text, retryable=True), result_of(sent)):
        assert isinstance(outcome, Failure)
        assert len(outcome.message) == 2000
        assert "\0" not in outcome.message
        outcome.message.encode()


def test_each_call_has_the_lines_of_its_own_thread(capsys: Any) -> None:
    streams, published = (sys.stdout, sys.stderr), {}
    both = threading.Barrier(2, timeout=30)

    def call(name: str) -> None:
        def publish(output: Output) -> None:
            published[name] = output

        with capturing(publish) as capture:
            both.wait()
            sys.stdout.write(f"{name} prints\n")
            logging.getLogger("kit").error("%s logs", name)
            capture.report(0.5)
            both.wait()

    threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name in ("a", "b"):
        assert published[name] == Output(f"{name} prints\nERROR kit: {name} logs", 0.5)
    assert (sys.stdout, sys.stderr) == streams
    assert "a prints" in capsys.readouterr().out


def test_a_result_counts_although_its_output_is_lost() -> None:
    def publish(output: Output) -> None:
        raise ConnectionError

    with capturing(publish):
        sys.stdout.write("lost")


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_progress_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        ToolContext().report_progress(share)
