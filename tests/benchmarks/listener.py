"""`python -m tests.benchmarks.listener`: hears all news, as a web process would."""

from __future__ import annotations

import asyncio
import time

import django


async def listen() -> None:
    from channels.layers import get_channel_layer

    from reviews.sockets.group_messages import REVIEWS
    from tests.benchmarks.kit import report

    layer = get_channel_layer()
    if layer is None:
        raise RuntimeError("there is no channel layer")
    mine = await layer.new_channel()
    await layer.group_add(REVIEWS, mine)
    report(name="listening")
    while True:
        news = await layer.receive(mine)
        at = time.time()
        report(name="heard", execution=news["execution_id"], last=news["last"], at=at)


if __name__ == "__main__":
    django.setup()
    asyncio.run(listen())
