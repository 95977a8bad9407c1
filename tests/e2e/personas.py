"""What the tests of whole jobs share: sign in at one place, and prove that it was never left."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Frame, Page

from tests.e2e.desk import note_errors
from tests.e2e.product import Product
from tests.e2e.test_review import password

#: ms until what a run does first has to be there.
LATER = 60_000
ADMIN = "/admin/"
SIGN_IN = "/login/"


class Job:
    """One person's page, and each address that it showed."""

    def __init__(self, page: Page, product: Product, user: str, start: str) -> None:
        self.page = page
        self.visited: list[str] = []
        self.violations: list[str] = []
        page.on("framenavigated", self._note)
        page.on("console", self._listen)
        note_errors(page, self.violations)
        page.goto(f"{product.address}{start}")
        page.get_by_label("Name").fill(user)
        page.get_by_label("Password").fill(password(product, user))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{product.address}{start}")

    def done_in_the_admin(self) -> None:
        """Each page was one of the admin, and none broke the policy for scripts."""
        elsewhere = [path for path in self.visited if not path.startswith((ADMIN, SIGN_IN))]
        assert elsewhere == []
        assert self.violations == []

    def done_on_the_desk(self) -> None:
        """No page was one of the admin, and none broke the policy for scripts."""
        assert [path for path in self.visited if path.startswith(ADMIN)] == []
        assert self.violations == []

    def _note(self, frame: Frame) -> None:
        if frame.parent_frame is None and frame.url.startswith("http"):
            self.visited.append(urlsplit(frame.url).path)

    def _listen(self, message: ConsoleMessage) -> None:
        if "Security Policy" in message.text:
            self.violations.append(message.text)
