"""`make screenshots`: pictures of every page, taken from a demo instance of their own.

Each page is shown in light and dark, 1440 and 390 px wide, signed in as
a person with the matching role. A page of the URLconf without a picture fails the command. All
pictures go below `var/`; the few that `docs/tour.md` shows are copied to `docs/screenshots`.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.architecture.files import ROOT
from tests.e2e.browser import ADVICE, find
from tests.e2e.pictures import PICTURES, Picture, addresses
from tests.e2e.product import Product, running_product
from tests.e2e.sample_repository import sample_repository
from tests.e2e.staging import Stage
from tests.e2e.test_review import sign_in
from tests.support.webhook_receiver import Receiver, receiving

FOLDER = ROOT / "var" / "screenshots"
DOCUMENTED_FOLDER = ROOT / "docs" / "screenshots"
#: The pictures that the documentation shows.
DOCUMENTED = (
    "queue-light-1440.png",
    "decision-edited-light-1440.png",
    "run-light-1440.png",
    "plan-change-light-1440.png",
    "history-light-1440.png",
    "insights-dark-1440.png",
)
SIZES = {1440: 900, 390: 844}
#: A palette is enough for our pages, and a third of the size.
COLOURS = 256
#: Where the desk's live connection is not waited for.
STILL = ("login", "answer", "answer-link")


def main(folder: Path = FOLDER, *, whole: bool = False, only: tuple[str, ...] = ()) -> int:
    """Take every picture, or those of `only`; `whole` ones show pages down to their end."""
    browser = find()
    if browser is None:
        print(ADVICE, file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [each for each in PICTURES if not only or each.name in only]
    with staged() as (product, places), sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=browser, args=arguments)
        for who in dict.fromkeys(each.who for each in wanted):
            page = chromium.new_page(reduced_motion="reduce", locale="en-GB")
            if who:
                sign_in(page, product, who)
            # Each picture begins afresh: no draft of the one before stands in its fields.
            page.add_init_script("sessionStorage.clear()")
            camera = Camera(page, product, places, folder, whole=whole)
            mine = [each for each in wanted if each.who == who]
            camera.take(mine)
            page.context.close()
        missed = [] if only else without_a_picture(chromium, product, places)
        chromium.close()
    for name in DOCUMENTED:
        if (folder / name).exists():
            shutil.copyfile(folder / name, DOCUMENTED_FOLDER / name)
    if missed:
        print(f"These pages have no picture: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


@contextmanager
def staged() -> Iterator[tuple[Product, Mapping[str, str]]]:
    """A demo in which people have worked, and what the addresses of the pictures need."""
    with (
        sample_repository() as repository,
        receiving(Receiver()) as receiver,
        running_product(HOLDPOINT_DEMO_REPOSITORY=repository) as product,
    ):
        yield product, addresses(Stage(product, receiver.url))


class Camera:
    """Takes one person's pictures in every size and colour scheme."""

    def __init__(
        self,
        page: Page,
        product: Product,
        places: Mapping[str, str],
        folder: Path,
        *,
        whole: bool,
    ) -> None:
        self.page = page
        self.product = product
        self.places = places
        self.folder = folder
        self.whole = whole

    def take(self, pictures: list[Picture]) -> None:
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            for width in SIZES:
                for picture in pictures:
                    self.shoot(picture, f"{picture.name}-{scheme}-{width}", width)

    def open(self, picture: Picture, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": SIZES[width]})
        self.page.goto(f"{self.product.address}{picture.path.format(**self.places)}")
        self.page.wait_for_load_state("load")
        if picture.name not in STILL:
            self.page.wait_for_selector("#connection[data-state=live]", state="attached")

    def shoot(self, picture: Picture, name: str, width: int) -> None:
        self.open(picture, width)
        picture.first(self.page)
        path = self.folder / f"{name}.png"
        path.write_bytes(smaller(self.page.screenshot(full_page=self.whole)))
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        print(f"{name}.png{'' if wide <= width else f'  scrolls sideways: {wide}'}", flush=True)


def smaller(picture: bytes) -> bytes:
    """The same PNG with a palette; a colour of few pixels that is far from all others is kept."""
    with Image.open(io.BytesIO(picture)) as whole:
        pixels = np.asarray(whole.convert("RGB")).astype(np.uint32)
    codes = (pixels[..., 0] << 16) | (pixels[..., 1] << 8) | pixels[..., 2]
    found, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1).astype(np.int64)
    chosen, nearest = palette(colours, counts)
    few = Image.fromarray(nearest[places].reshape(codes.shape).astype(np.uint8), "P")
    few.putpalette(colours[chosen].astype(np.uint8).tobytes())
    written = io.BytesIO()
    few.save(written, "PNG", optimize=True)
    return written.getvalue()


def palette(colours: Any, counts: Any) -> tuple[list[int], Any]:
    """The colours to keep, each time the one that would be missed most, and whose stands for each.

    `colours` are rows of red, green and blue, `counts` their pixels.
    """
    distance = np.full(len(colours), np.iinfo(np.int32).max, dtype=np.int64)
    nearest = np.zeros(len(colours), dtype=np.int64)
    chosen: list[int] = []
    while len(chosen) < COLOURS and distance.any():
        chosen.append(int(np.argmax(distance * counts)))
        away = ((colours - colours[chosen[-1]]) ** 2).sum(axis=1)
        nearest[away < distance] = len(chosen) - 1
        distance = np.minimum(distance, away)
    return chosen, nearest


def without_a_picture(chromium: Browser, product: Product, places: Mapping[str, str]) -> list[str]:
    """The pages of the URLconf that no picture shows."""
    from tests.e2e.walk import status_of, unwalked

    page = chromium.new_page()
    sign_in(page, product, "admin")
    return unwalked(routes_of(places), status_of(page, product))


def routes_of(places: Mapping[str, str]) -> set[str]:
    """The names of the routes that the pictures show."""
    from django.urls import resolve

    paths = [urlsplit(each.path.format(**places)).path for each in PICTURES]
    return {resolve(path).view_name for path in paths}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
    django.setup()
    sys.exit(main())
