"""Release notes from the text of a log and a diff."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from workflows.tools.gitlog import read_diff, read_log

from .conftest import use

LOG = """Commit history:
Commit: 4444444444444444444444444444444444444444
Author: Ben
Date: 2024-05-03 10:00:00+02:00
Message: feat(api)!: drop v1

BREAKING CHANGE: v1 is gone


Commit: 3333333333333333333333333333333333333333
Author: Ada
Date: 2024-05-02 10:00:00+02:00
Message: fix: do not <b>crash</b> on [x](http://evil.example)


Commit: 2222222222222222222222222222222222222222
Author: Ada
Date: 2024-05-02 09:00:00+02:00
Message: Update readme


Commit: 1111111111111111111111111111111111111111
Author: Ada
Date: 2024-05-01 09:00:00+02:00
Message: docs(guide): explain
"""

DIFF = """Diff with HEAD~4:
diff --git a/api.py b/api.py
index 1..2 100644
--- a/api.py
+++ b/api.py
@@ -1,2 +1,3 @@ def x():
 keep
--- a/looks like a head
+++ b/looks like a head too
+more
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000..e69de29
Binary files /dev/null and b/logo.png differ
"""


def test_release_notes_from_a_log_and_a_diff() -> None:
    notes = use("demo.draft_release_notes", log=LOG, diff=DIFF, title="Version 2")
    assert notes["markdown"] == (
        "# Version 2\n\n"
        "4 commits, 2024-05-01 to 2024-05-03. 2 files touched, +2 \u22121 lines.\n\n"
        "## Breaking changes\n\n- **api:** drop v1 (4444444)\n\n"
        "## Fixed\n\n"
        "- do not &lt;b>crash&lt;/b> on \\[x\\](http://evil.example) (3333333)\n\n"
        "## Documentation\n\n- **guide:** explain (1111111)\n\n"
        "## Other changes\n\n- Update readme (2222222)\n\n"
        "## Contributors\n\n- Ada (3 commits)\n- Ben (1 commit)\n\n"
        "## Files touched\n\n"
        "| File | Change | + | \u2212 |\n| --- | --- | ---: | ---: |\n"
        "| api.py | modified | 2 | 1 |\n| logo.png | added | 0 | 0 |\n"
    )
    assert notes["commits"] == 4
    assert notes["sections"] == {
        "Breaking changes": 1,
        "Fixed": 1,
        "Documentation": 1,
        "Other changes": 1,
    }
    assert notes["contributors"][0] == {"name": "Ada", "commits": 3}
    assert notes["files"][0] == {"path": "api.py", "status": "modified", "added": 2, "removed": 1}
    assert notes == use("demo.draft_release_notes", log=LOG, diff=DIFF, title="Version 2")


def test_an_empty_log_gives_no_notes() -> None:
    notes = use("demo.draft_release_notes", log="Commit history:\n", diff="Diff with HEAD:\n")
    assert notes["markdown"] == "# Release notes\n\nThere are no commits in this range.\n"
    assert notes["files"] == notes["contributors"] == []


def test_long_histories_are_cut() -> None:
    entry = "Commit: {n:040x}\nAuthor: A{n}\nDate: 2024-01-01\nMessage: fix: {n}\n\n"
    log = "\n".join(entry.format(n=number) for number in range(60))
    notes = use("demo.draft_release_notes", log=log)
    assert notes["commits"] == 60
    assert "- and 10 more commits" in notes["markdown"]
    assert "- and 10 more contributors" in notes["markdown"]


def test_other_spellings_of_the_log() -> None:
    (commit,) = read_log(
        "Commit: '1111111'\nAuthor: <git.Actor \"Ada <a@example.com>\">\n"
        "Date: 2024-01-01\nMessage: 'perf: faster\\n'\n"
    )
    assert (commit.sha, commit.author, commit.kind) == ("1111111", "Ada", "perf")


_LINES = st.sampled_from(
    [*LOG.splitlines(), *DIFF.splitlines(), "@@ -1 +1 @@", "@@@ -1 -1 +1 @@@", '+++ "b/\\', "", "+"]
)


@settings(deadline=None)
@given(st.lists(_LINES | st.text(max_size=20), max_size=40).map("\n".join))
def test_any_text_gives_notes(text: str) -> None:
    read_diff(text)
    read_log(text)
    text = text.encode("utf-8", "replace").decode()
    notes = use("demo.draft_release_notes", log=text, diff=text, title=text[:20])
    json.dumps(notes, allow_nan=False)
    assert notes["markdown"].startswith("# ")
