"""docs/howto/approvals-for-your-agent.md as written: an agent of one's own, then the requests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.architecture.files import ROOT
from tests.e2e.product import Product
from tests.e2e.test_review import sign_in

PAGE = (ROOT / "docs/howto/approvals-for-your-agent.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class Terminal:
    """A shell that runs one block after the other, in the folder and with the variables so far."""

    def __init__(self, product: Product, folder: Path) -> None:
        self._product = product
        # What the reader has: the checkout with its environment, and a folder to write in.
        folder.mkdir()
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "manage.py").write_text(
            f"import runpy, sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            f"runpy.run_path({str(ROOT / 'manage.py')!r}, run_name='__main__')\n"
        )
        self.folder, self._exports = folder, ""

    def _script(self, text: str) -> list[str]:
        text = text.replace("http://127.0.0.1:8000", self._product.address)
        return ["bash", "-euo", "pipefail", "-c", f"{self._exports}\n{text}"]

    def run(self, text: str) -> str:
        """Run a block, and give what it wrote; its folder and variables stay."""
        state = self.folder / "state"
        keep = f'\nexport -p | grep HOLDPOINT_ > {state}; echo "cd $PWD" >> {state}'
        done = subprocess.run(
            self._script(text + keep),
            cwd=self.folder,
            env=self._product.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        self._exports = state.read_text()
        return done.stdout

    def start(self, text: str) -> subprocess.Popen[str]:
        """Start a block that waits."""
        return subprocess.Popen(
            self._script(text),
            cwd=self.folder,
            env=self._product.env,
            stdout=subprocess.PIPE,
            text=True,
        )


def approve_100(page: Page, title: str) -> None:
    """Change the amount to 100 and approve, as the page says."""
    expect(page.get_by_role("heading", name=title).first).to_be_visible()
    page.get_by_label("Amount", exact=True).fill("100")
    page.get_by_role("button", name="Approve with 1 change").click()
    # Seen, not only there: the next review may hold a diff with these words, folded away.
    verdict = page.get_by_text("reviewer approved this").filter(visible=True).first
    expect(verdict).to_be_visible(timeout=60_000)


def test_as_written(product: Product, page: Page, tmp_path: Path) -> None:
    setup, start, ask, wait, report = blocks("sh")
    terminal = Terminal(product, tmp_path / "checkout")
    terminal.run(setup)
    (agent,) = blocks("python")
    (tmp_path / "my-agent" / "agent.py").write_text(agent)
    waiting = terminal.start(start)

    sign_in(page, product, "reviewer")
    row = page.locator("[data-hold]", has_text="Pay invoice 4711")
    for _ in range(30):
        page.goto(f"{product.address}/review/?tab=open")
        if row.count():
            break
        page.wait_for_timeout(1_000)
    row.locator("[data-open]").click()
    approve_100(page, "Pay invoice 4711")
    assert waiting.communicate(timeout=60)[0] == "paid 100 to ACME\n"
    assert "prints `paid 100 to ACME`" in PAGE

    asked = json.loads(terminal.run(ask))
    assert asked["status"] == "pending"
    assert "/approvals/2 " in wait
    wait = wait.replace("/approvals/2 ", f"/approvals/{asked['id']} ")
    answer = terminal.start(wait)
    page.goto(f"{product.address}{urlsplit(asked['review_url']).path}")
    approve_100(page, "Pay invoice 4712")
    decided = json.loads(answer.communicate(timeout=60)[0])
    assert (decided["status"], decided["edited"]) == ("approved", True)
    assert decided["arguments"] == {"to": "ACME", "amount": 100}

    assignment = wait.splitlines()[0]
    reported = json.loads(terminal.run(f"{assignment}\n{report}"))
    assert (reported["status"], reported["result"]["mismatch"]) == ("completed", False)
