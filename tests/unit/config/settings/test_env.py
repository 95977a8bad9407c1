"""Typed environment reads: odd values stop the start and name the variable."""

import math
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import strategies as st

from config.settings import env


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_bool_reads_yes(monkeypatch, word: str) -> None:
    monkeypatch.setenv("FLAG", word)
    assert env.env_bool("FLAG", default=False) is True


@pytest.mark.parametrize("word", ["0", "False", "no", "OFF"])
def test_bool_reads_no(monkeypatch, word: str) -> None:
    monkeypatch.setenv("FLAG", word)
    assert env.env_bool("FLAG", default=True) is False


@pytest.mark.parametrize("empty", ["", "   "])
def test_empty_counts_as_not_set(monkeypatch, empty: str) -> None:
    monkeypatch.setenv("FLAG", empty)
    assert env.env_bool("FLAG", default=True) is True
    assert env.env_int("FLAG", 7) == 7
    assert env.env_list("FLAG", ("a",)) == ["a"]


@pytest.mark.parametrize("word", ["maybe", "2", "yes please", "ja"])
def test_bool_refuses_the_rest(monkeypatch, word: str) -> None:
    monkeypatch.setenv("FLAG", word)
    with pytest.raises(ImproperlyConfigured, match="FLAG"):
        env.env_bool("FLAG", default=False)


@pytest.mark.parametrize(("text", "number"), [("8", 8), ("-3", -3), (" 12 ", 12)])
def test_int(monkeypatch, text: str, number: int) -> None:
    monkeypatch.setenv("N", text)
    assert env.env_int("N", 0) == number


@pytest.mark.parametrize("text", ["8.0", "1e3", "0x10", "eight", "8 8"])
def test_int_refuses_other_text(monkeypatch, text: str) -> None:
    monkeypatch.setenv("N", text)
    with pytest.raises(ImproperlyConfigured, match="N="):
        env.env_int("N", 0)


@pytest.mark.parametrize("text", ["0", "65536"])
def test_int_checks_its_range(monkeypatch, text: str) -> None:
    monkeypatch.setenv("PORT", text)
    with pytest.raises(ImproperlyConfigured, match="PORT"):
        env.env_int("PORT", 8000, minimum=1, maximum=65535)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1,5", "soon"])
def test_float_refuses_non_finite_numbers(monkeypatch, text: str) -> None:
    monkeypatch.setenv("S", text)
    with pytest.raises(ImproperlyConfigured, match="S="):
        env.env_float("S", 1.0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_reads_back(number: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("S", repr(number))
        assert math.isclose(env.env_float("S", 0.0), number)


def test_list_trims_and_drops_empty_words(monkeypatch) -> None:
    monkeypatch.setenv("HOSTS", " a.example, ,b.example ,")
    assert env.env_list("HOSTS") == ["a.example", "b.example"]


def test_json_refuses_other_than_an_object(monkeypatch) -> None:
    assert env.env_json("FLOOR", {"a": 1}) == {"a": 1}
    monkeypatch.setenv("FLOOR", '{"b": 2}')
    assert env.env_json("FLOOR", {"a": 1}) == {"b": 2}
    for text in ("[1]", "{", "null"):
        monkeypatch.setenv("FLOOR", text)
        with pytest.raises(ImproperlyConfigured, match="FLOOR is not"):
            env.env_json("FLOOR", {})


def test_choice_names_its_options(monkeypatch) -> None:
    monkeypatch.setenv("ROLE", "boss")
    with pytest.raises(ImproperlyConfigured, match="web, worker"):
        env.env_choice("ROLE", "web", ("web", "worker"))


def test_str_without_default_is_required(monkeypatch) -> None:
    monkeypatch.delenv("NEEDED", raising=False)
    with pytest.raises(ImproperlyConfigured, match="NEEDED is not set"):
        env.env_str("NEEDED")


def test_path_is_absolute(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOLDER", "here/below")
    assert env.env_path("FOLDER", Path("/")) == tmp_path / "here" / "below"


def test_secret_comes_from_a_file(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.delenv("KEY", raising=False)
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "key"))
    assert env.env_secret("KEY") == "s3cret"


def test_secret_in_both_places_is_refused(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEY", "a")
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ImproperlyConfigured, match="Both KEY and KEY_FILE"):
        env.env_secret("KEY")


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_unusable_secret_files_are_refused(
    monkeypatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.delenv("KEY", raising=False)
    monkeypatch.setenv("KEY_FILE", str(path))
    with pytest.raises(ImproperlyConfigured, match="KEY_FILE"):
        env.env_secret("KEY")
