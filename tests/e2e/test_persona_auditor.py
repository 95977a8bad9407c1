"""An auditor does the whole job in one place: find a record, read the chain's verdict, export it.

The exported file is checked with the program that the history offers, as a third party would.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Download, Page, expect

from tests.architecture.files import ROOT
from tests.e2e.desk import echo, started
from tests.e2e.personas import ADMIN, Job
from tests.e2e.product import Product
from tests.e2e.test_review import Api

VERIFIER = ROOT / "reviews" / "static" / "reviews" / "verify_history.py"
VERDICT = "the executed data is the approved data"
SENTENCE = re.compile("reviewer approved echo .*with 1 change")


@pytest.fixture
def word(product: Product) -> str:
    """A word in the title and the comment of an edited approval, a plain one and a rejection."""
    word = f"checked-{secrets.token_hex(4)}"
    operator, reviewer = Api(product, "operator", "read,run"), Api(product, "reviewer", "decide")
    for decision, edits in (("APPROVE", {"value": "y"}), ("APPROVE", None), ("REJECT", None)):
        run = started(operator, echo("a", "x", "BEFORE_EXECUTION"), title=f"Run {word}")
        _, found = operator(f"executions/{run}/")
        answer = {
            "execution_id": run,
            "hold_id": f"{run}-1",
            "version": found["version"],
            "decision": decision,
            "comment": word,
        }
        status, said = reviewer("reviews/resume/", answer | ({"edits": edits} if edits else {}))
        assert status == 200, said
    return word


def check(page: Page, product: Product, download: Download, folder: Path, word: str) -> None:
    """The file holds the one record, and the program verifies its place in the chain."""
    file = folder / "history.jsonl"
    download.save_as(file)
    _, *records = [json.loads(line) for line in file.read_text().splitlines()]
    rows = [each for each in records if each.get("comment") == word]
    assert [(row["decision"], row["is_edited"]) for row in rows] == [("APPROVE", True)]
    key = folder / "audit-key.txt"
    key.write_bytes(page.request.get(f"{product.address}/history/audit-key/").body())
    command = [sys.executable, str(VERIFIER), str(file), "--key", str(key)]
    verified = subprocess.run(command, capture_output=True, text=True, check=False)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_in_the_admin_alone(page: Page, product: Product, word: str, tmp_path: Path) -> None:
    job = Job(page, product, "auditor", ADMIN)
    main = page.get_by_role("main")
    main.get_by_role("link", name="Audit records").click()
    main.get_by_role("textbox", name="Search").fill(word)
    main.get_by_role("button", name="Search").click()
    expect(main.get_by_text("3 audit records")).to_be_visible()
    edited = main.get_by_role("group").filter(has_text="By edits")
    edited.get_by_role("link", name="With edits").click()
    expect(main.get_by_text("1 audit record", exact=True)).to_be_visible()
    main.get_by_role("link", name=SENTENCE).click()
    expect(main.get_by_text(VERDICT)).to_be_visible()

    page.go_back()
    main.get_by_role("row", name=SENTENCE).get_by_role("checkbox").check()
    main.get_by_role("combobox", name="Action").select_option(label="Export as JSON Lines")
    with page.expect_download() as arrives:
        main.get_by_role("button", name="Go").click()
    check(page, product, arrives.value, tmp_path, word)
    job.done_in_the_admin()


def test_on_the_desk_alone(page: Page, product: Product, word: str, tmp_path: Path) -> None:
    job = Job(page, product, "auditor", "/history/")
    main = page.get_by_role("main")
    main.get_by_role("searchbox", name="Search").fill(word)
    main.get_by_role("button", name="Show").click()
    expect(main.get_by_role("link", name=re.compile("reviewer (approved|rejected)"))).to_have_count(
        3
    )
    main.get_by_role("combobox", name="Decision").select_option(label="approved")
    main.get_by_role("combobox", name="Edited").select_option(label="edited")
    main.get_by_role("button", name="Show").click()
    expect(main.get_by_role("link", name=re.compile("reviewer (approved|rejected)"))).to_have_count(
        1
    )
    main.get_by_role("link", name=SENTENCE).click()
    expect(main.get_by_text(VERDICT)).to_be_visible()

    page.go_back()
    with page.expect_download() as arrives:
        main.get_by_role("link", name="Export 1 as JSON Lines").click()
    check(page, product, arrives.value, tmp_path, word)
    job.done_on_the_desk()
