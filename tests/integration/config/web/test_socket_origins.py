"""The origin check in front of the sockets."""

from typing import Any

import pytest
from channels.testing import WebsocketCommunicator

from config.asgi import application
from config.web.socket_origins import BrowserOriginValidator

HERE = "http://testserver"


async def accepting(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ([(b"origin", b"http://testserver")], True),
        ([(b"origin", b"http://testserver"), (b"authorization", b"Bearer x")], True),
        ([(b"origin", b"http://evil.example")], False),
        ([(b"origin", b"https://testserver")], False),
        ([(b"origin", b"http://testserver:81")], False),
        ([(b"origin", b"http://evil.example"), (b"authorization", b"Bearer x")], False),
        ([(b"origin", b"null")], False),
        ([], False),
        ([(b"authorization", b"Bearer x")], True),
    ],
)
async def test_only_allowed_origins_open_a_socket(
    servers: None, headers: list[tuple[bytes, bytes]], accepted: bool
) -> None:
    guarded = BrowserOriginValidator(accepting, [HERE])
    socket = WebsocketCommunicator(guarded, "/ws/reviews/", headers=headers)
    connected, _ = await socket.connect(timeout=10)
    assert connected is accepted
    await socket.disconnect(timeout=10)


async def test_other_addresses_are_refused_without_an_error(servers: None) -> None:
    socket = WebsocketCommunicator(application, "/ws/other/", headers=[(b"origin", HERE.encode())])
    connected, _ = await socket.connect(timeout=10)
    assert connected is False
