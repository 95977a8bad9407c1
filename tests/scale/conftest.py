"""A filled database for the tests of this folder, made once and taken away again.

HOLDPOINT_SCALE says how many executions it has: 20,000 unless asked, of which 2,000 wait
(`make scale`: 1,000,000, of which 10,000 wait).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scale import filling
from tests.scale.filling import Filled

MANY = 1_000_000
COUNT = int(os.environ.get("HOLDPOINT_SCALE", "20000"))
#: One execution in so many waits for somebody.
WAITS = max(10, COUNT // 10_000)


@pytest.fixture(scope="package")
def filled(django_db_setup: None, django_db_blocker: Any) -> Iterator[Filled]:
    """Executions, holds, records and events; the whole package reads them and changes nothing."""
    with django_db_blocker.unblock():
        made = filling.fill(COUNT, waits=WAITS, planned_as=MANY)
    told = ", ".join(f"{part} {seconds:.1f}" for part, seconds in made.seconds.items())
    sys.stderr.write(f"\nfilled {COUNT:,} in {sum(made.seconds.values()):.0f} s: {told}")
    yield made
    with django_db_blocker.unblock():
        filling.empty()
