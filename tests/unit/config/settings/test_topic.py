"""Typed settings of the environment: odd values stop the start and name the variable."""

import math
from pathlib import Path
from typing import Any, Literal

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from config.settings.topic import Folder, Hours, JsonObject, Topic, Words, setting


class Example(Topic):
    """An example."""

    flag: bool = setting(True, "A switch.", env="FLAG")
    number: int = setting(7, "A number.", env="N", ge=1, le=65535)
    seconds: float = setting(1.0, "A time.", env="S")
    words: Words = setting(["a"], "Words.", env="WORDS")
    floor: JsonObject = setting({"a": 1}, "An object.", env="FLOOR")
    role: Literal["web", "worker"] = setting("web", "A choice.", env="ROLE")
    folder: Folder = setting(Path("/"), "A folder.", env="FOLDER")
    hours: Hours = setting(None, "Hours.", env="HOURS")
    key: str = setting("", "A key.", env="KEY", secret=True)


class Needed(Topic):
    """A setting without a default."""

    needed: str = setting(..., "Required.", env="NEEDED")


@pytest.fixture(autouse=True)
def clean(monkeypatch) -> None:
    for name in ("FLAG", "N", "S", "WORDS", "FLOOR", "ROLE", "FOLDER", "HOURS", "KEY", "KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def value(monkeypatch, variable: str, text: str, field: str) -> Any:
    monkeypatch.setenv(variable, text)
    return getattr(Example.read(), field)


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_a_switch_is_on(monkeypatch, word: str) -> None:
    assert value(monkeypatch, "FLAG", word, "flag") is True


@pytest.mark.parametrize("word", ["0", "False", "no", "OFF"])
def test_a_switch_is_off(monkeypatch, word: str) -> None:
    assert value(monkeypatch, "FLAG", word, "flag") is False


@pytest.mark.parametrize("empty", ["", "   "])
def test_empty_counts_as_not_set(monkeypatch, empty: str) -> None:
    for variable in ("FLAG", "N", "WORDS", "KEY"):
        monkeypatch.setenv(variable, empty)
    example = Example.read()
    assert (example.flag, example.number, example.words, example.key) == (True, 7, ["a"], "")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *[("FLAG", word) for word in ("maybe", "2", "yes please", "ja")],
        *[("N", text) for text in ("8.5", "0x10", "eight", "8 8", "0", "65536")],
        *[("S", text) for text in ("nan", "inf", "-inf", "1,5", "soon")],
        *[("FLOOR", text) for text in ("[1]", "{", "null")],
        *[("HOURS", text) for text in ("22", "24-6", "5-5", "a-b")],
        ("ROLE", "boss"),
    ],
)
def test_other_values_are_refused(monkeypatch, variable: str, text: str) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ImproperlyConfigured, match=f"{variable}="):
        Example.read()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_reads_back(number: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S", repr(number))
        assert math.isclose(Example.read().seconds, number)


def test_numbers_lists_objects_and_hours(monkeypatch) -> None:
    assert value(monkeypatch, "N", " 12 ", "number") == 12
    assert value(monkeypatch, "WORDS", " a.example, ,b.example ,", "words") == [
        "a.example",
        "b.example",
    ]
    assert value(monkeypatch, "FLOOR", '{"b": 2}', "floor") == {"b": 2}
    assert value(monkeypatch, "HOURS", "22-6", "hours") == (22, 6)


def test_a_choice_names_its_options(monkeypatch) -> None:
    monkeypatch.setenv("ROLE", "boss")
    with pytest.raises(ImproperlyConfigured, match="'web' or 'worker'"):
        Example.read()


def test_a_setting_without_a_default_is_required(monkeypatch) -> None:
    monkeypatch.delenv("NEEDED", raising=False)
    with pytest.raises(ImproperlyConfigured, match="NEEDED is not set"):
        Needed.read()


def test_a_folder_is_absolute(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert value(monkeypatch, "FOLDER", "here/below", "folder") == tmp_path / "here" / "below"


def test_a_secret_comes_from_a_file(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    assert value(monkeypatch, "KEY_FILE", str(tmp_path / "key"), "key") == "s3cret"


def test_a_secret_in_both_places_is_refused(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEY", "a")
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ImproperlyConfigured, match="Both KEY and KEY_FILE"):
        Example.read()


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_unusable_secret_files_are_refused(
    monkeypatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("KEY_FILE", str(path))
    with pytest.raises(ImproperlyConfigured, match="KEY_FILE"):
        Example.read()


def test_an_error_does_not_repeat_a_secret(monkeypatch) -> None:
    from config.settings.topics import AuditLog

    monkeypatch.setenv("HOLDPOINT_AUDIT_KEY", "sh0rt")
    with pytest.raises(ImproperlyConfigured, match="HOLDPOINT_AUDIT_KEY") as refused:
        AuditLog.read()
    assert "sh0rt" not in str(refused.value)
