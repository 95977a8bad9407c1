"""File tools: results below the root, and no path out of it."""

import hashlib
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from tests.support.repetitions import often
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.root_directory import Root

from .conftest import use

SECRET = "outside\n"


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the root with a file that nobody may see or change."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text(SECRET)
    return path


def test_write_then_read_then_list(root: Path) -> None:
    text = "Grüße\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    written = use("write_file", path="notes/2024/a.md", content=text)
    assert written == {"path": "notes/2024/a.md", "bytes": 8, "sha256": digest}
    assert (root / "notes/2024/a.md").read_text() == text
    assert use("read_file", path="notes//2024/./a.md") == {**written, "content": text}
    listing = use("list_directory", path="notes", recursive=True)
    assert listing == {
        "path": "notes",
        "files": ["notes/2024/a.md"],
        "directories": ["notes/2024"],
        "truncated": False,
    }


def test_listing_by_pattern(root: Path) -> None:
    for name in ("b.xml", "a.xml", "c.txt"):
        (root / name).touch()
    assert use("list_directory", pattern="*.xml")["files"] == ["a.xml", "b.xml"]
    assert use("list_directory")["path"] == "."


def test_a_long_listing_is_cut(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.tools.files.MAX_ENTRIES", 3)
    for number in range(5):
        (root / f"{number}").touch()
    listing = use("list_directory", recursive=True)
    assert listing["files"] == ["0", "1", "2"]
    assert listing["truncated"] is True


def test_overwriting_keeps_the_mode_and_leaves_no_temporary_files(root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    use("write_file", path="run.sh", content="new")
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert names(root) == ["run.sh"]


def test_without_overwriting_only_the_same_content_passes(root: Path) -> None:
    first = use("write_file", path="a", content="one", overwrite=False)
    assert use("write_file", path="a", content="one", overwrite=False) == first
    with pytest.raises(TaskFailed, match="exists already"):
        use("write_file", path="a", content="two", overwrite=False)
    assert (root / "a").read_text() == "one"
    assert names(root) == ["a"]


def test_readers_see_the_old_or_the_new_file(root: Path) -> None:
    (root / "a").write_text("x" * 5000)
    done = threading.Event()
    seen: set[str] = set()

    def read() -> None:
        while not done.is_set():
            seen.add((root / "a").read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for letter in "yz" * 30:
        use("write_file", path="a", content=letter * 5000)
    done.set()
    reader.join()
    assert seen <= {letter * 5000 for letter in "xyz"}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        ("a\x00b", "control"),
        ("a\nb", "control"),
        ("../outside/secret", "outside"),
        ("sub/../../outside/secret", "outside"),
        ("/etc/passwd", "outside"),
        ("link/secret", "outside"),
        ("file-link", "outside"),
        ("dangling", "outside"),
        ("chain", "outside"),
        ("x" * 5000, "too long"),
        ("\ud800", "control characters|cannot be resolved|does not exist|surrogate"),
    ],
)
def test_no_path_leaves_the_root(root: Path, outside: Path, path: str, why: str) -> None:
    (root / "link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    (root / "chain").symlink_to(root / "file-link")
    before = names(outside)
    for name, extra in (
        ("read_file", {}),
        ("list_directory", {}),
        ("write_file", {"content": "!"}),
    ):
        with pytest.raises(TaskFailed, match=why) as failure:
            use(name, path=path, **extra)
        assert not failure.value.retryable
    assert (outside / "secret").read_text() == SECRET
    assert names(outside) == before


def test_a_link_inside_the_root_works(root: Path) -> None:
    (root / "real").mkdir()
    (root / "latest").symlink_to("real")
    assert use("write_file", path="latest/a", content="1")["path"] == "real/a"
    assert use("read_file", path="latest/a")["content"] == "1"
    (root / "loop").symlink_to("loop")
    with pytest.raises(TaskFailed):
        use("read_file", path="loop")


def test_a_hard_link_in_the_root_is_not_opened(root: Path, outside: Path) -> None:
    (root / "linked").hardlink_to(outside / "secret")
    with pytest.raises(TaskFailed, match="'linked' is a hard link"):
        use("read_file", path="linked")
    with pytest.raises(TaskFailed, match="'linked' is a hard link"):
        use("write_file", path="linked", content=SECRET, overwrite=False)
    use("write_file", path="linked", content="mine")
    assert (outside / "secret").read_text() == SECRET
    assert use("read_file", path="linked")["content"] == "mine"


def test_a_new_file_never_has_a_second_name(root: Path) -> None:
    """A reader at the same time would take it for a hard link, and a killed writer leave one."""
    done = threading.Event()
    seen: set[int] = set()

    def look() -> None:
        while not done.is_set():
            for entry in root.iterdir():
                with suppress(FileNotFoundError):
                    seen.add(entry.stat().st_nlink)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(often(100, 1000)):
            use("write_file", path=f"{number}", content="x", overwrite=False)
            (root / f"{number}").unlink()
    finally:
        done.set()
        looking.join()
    assert seen <= {0, 1}


def test_a_directory_swapped_for_a_link_is_refused(root: Path, outside: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/secret").write_text("inside")
    guarded = Root(root)
    parts = guarded.parts("sub/secret")
    (root / "sub").rename(root / "away")
    (root / "sub").symlink_to(outside)
    refused = pytest.raises(TaskFailed, match=r"not a directory|not for tools")
    with refused, guarded.open_file(parts):
        pass
    with pytest.raises(TaskFailed, match=r"not a directory|not for tools"):
        guarded.put(parts, b"!", overwrite=True)
    assert (outside / "secret").read_text() == SECRET


def test_unreadable_files_are_explained(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dir").mkdir()
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "nul").write_bytes(b"a\x00b")
    os.mkfifo(root / "pipe")
    monkeypatch.setattr("workflows.tools.files.MAX_FILE_BYTES", 10)
    (root / "long").write_text("x" * 11)
    for path, why in {
        "missing": "'missing' does not exist",
        "dir": "'dir' is a directory",
        ".": "is a directory",
        "binary/x": "not a directory",
        "binary": r"not UTF-8 text \(byte 0\)",
        "nul": "NUL",
        "pipe": "not a regular file",
        "long": "larger than 10 bytes",
    }.items():
        with pytest.raises(TaskFailed, match=why):
            use("read_file", path=path)


def test_unwritable_files_are_explained(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "dir").mkdir()
    (root / "file").touch()
    monkeypatch.setattr("workflows.tools.files.MAX_FILE_BYTES", 10)
    for path, content, why in (
        ("dir", "x", "not a regular file"),
        ("file/x", "x", "not a directory"),
        (".", "x", "is a directory"),
        (".git/hooks/post-commit", "x", "which runs code"),
        ("a", "\ud800", "surrogate"),
        ("a", "x" * 11, "larger than 10 bytes"),
    ):
        with pytest.raises(TaskFailed, match=why):
            use("write_file", path=path, content=content)
    assert names(root) == ["dir", "file"]


def test_without_a_root_there_are_no_files(settings: Settings, tmp_path: Path) -> None:
    for value, why in ((None, "switched off"), (tmp_path / "none", "cannot be used")):
        settings.HOLDPOINT = settings.HOLDPOINT | {"file_root": value}
        with pytest.raises(TaskFailed, match=why):
            use("list_directory")


_PIECES = st.sampled_from(
    ["..", ".", "", "a", "b", "link", "up", "deep", "secret", "root", "outside", "~", "%2e%2e", "…"]
)


@settings(
    deadline=None,
    max_examples=often(100, 2000),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pieces=st.lists(_PIECES, min_size=1, max_size=7), absolute=st.booleans())
def test_any_path_stays_below_the_root(
    root: Path, outside: Path, pieces: list[str], absolute: bool
) -> None:
    for name, target in (("link", outside), ("up", ".."), ("deep", "a/../../outside")):
        if not (root / name).is_symlink():
            (root / name).symlink_to(target)
    path = ("/" if absolute else "") + "/".join(pieces)
    for name, extra in (("write_file", {"content": "mine"}), ("read_file", {})):
        try:
            answer = use(name, path=path, **extra)
        except TaskFailed:
            continue
        real = (root / answer["path"]).resolve()
        assert real.is_relative_to(root.resolve())
        assert real.read_text() == "mine"
    assert names(outside) == ["secret"]
    assert (outside / "secret").read_text() == SECRET
    assert names(root.parent) == ["outside", "root"]
