"""A provider of OpenID Connect on this machine, for the code flow with PKCE, over real HTTP.

It does what the specification asks of one; `spoil` lets a test make it misbehave in one way.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "holdpoint", "a secret of the tests"
Claims = dict[str, Any]


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Issuer:
    """`person` is who signs in: claims besides the protocol's own.

    `spoil(claims)` changes the ID token's claims; `sign(claims)` replaces its signature.
    """

    url: str = ""
    person: Claims = field(default_factory=lambda: {"sub": "1", "preferred_username": "ada"})
    interactive: bool = False
    denies: bool = False
    spoil: Callable[[Claims], Claims] = lambda claims: claims
    sign: Callable[[Claims], str] | None = None
    userinfo: Claims = field(default_factory=dict)
    discovery: Claims = field(default_factory=dict)
    key: rsa.RSAPrivateKey = field(default_factory=_key)
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _access: dict[str, Claims] = field(default_factory=dict)

    def reset(self) -> None:
        """As it was made, at the same address with the same key."""
        fresh = Issuer(url=self.url, key=self.key)
        self.__dict__.update(fresh.__dict__)

    # --- the endpoints ---------------------------------------------------------------------------

    def document(self) -> Claims:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
            **self.discovery,
        }

    def keys(self) -> Claims:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to; AssertionError for a request that is wrong."""
        assert asked["client_id"] == CLIENT
        assert asked["response_type"] == "code"
        assert "openid" in asked["scope"].split()
        assert asked["code_challenge_method"] == "S256"
        assert asked["nonce"]
        back = {"state": asked["state"]}
        if self.denies:
            back |= {"error": "access_denied", "error_description": "not today"}
        else:
            back["code"] = secrets.token_urlsafe(16)
            self._codes[back["code"]] = asked
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def token(self, sent: dict[str, str]) -> Claims:
        """The answer to a code, good once; AssertionError for a request that is wrong."""
        asked = self._codes.pop(sent["code"])
        assert (sent["client_id"], sent["client_secret"]) == (CLIENT, SECRET)
        assert sent["grant_type"] == "authorization_code"
        assert sent["redirect_uri"] == asked["redirect_uri"]
        challenge = hashlib.sha256(sent["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(challenge).decode().rstrip("=") == asked["code_challenge"]
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            **self.person,
        }  # fmt: skip
        access = secrets.token_urlsafe(16)
        self._access[access] = {"sub": self.person["sub"], **self.userinfo}
        claims = self.spoil(claims)
        made = self.sign(claims) if self.sign else self.signed(claims)
        return {"access_token": access, "token_type": "Bearer", "id_token": made}

    def signed(self, claims: Claims, key: rsa.RSAPrivateKey | None = None) -> str:
        return jwt.encode(claims, key or self.key, algorithm="RS256", headers={"kid": "one"})

    def known(self, authorization: str) -> Claims:
        return self._access[authorization.removeprefix("Bearer ")]


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(where.query).items()}
        self.issuer.asked.append(where.path)
        match where.path:
            case "/.well-known/openid-configuration":
                self._json(self.issuer.document())
            case "/keys":
                self._json(self.issuer.keys())
            case "/userinfo":
                self._json(self.issuer.known(self.headers["Authorization"]))
            case "/authorize" if self.issuer.interactive:
                self._page(self.issuer.authorize(asked))
            case "/authorize":
                self._answer(302, b"", {"Location": self.issuer.authorize(asked)})
            case _:
                self._answer(404, b"")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
        sent = {name: values[0] for name, values in parse_qs(raw).items()}
        try:
            self._json(self.issuer.token(sent))
        except (AssertionError, KeyError):
            self._answer(400, b'{"error": "invalid_grant"}', {"Content-Type": "application/json"})

    def _page(self, back: str) -> None:
        text = f'<title>Issuer</title><h1>Issuer</h1><a href="{escape(back)}">Let me in</a>'
        self._answer(200, text.encode(), {"Content-Type": "text/html"})

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def issuing(issuer: Issuer) -> Iterator[Issuer]:
    """The issuer listens on a free port of the loopback; `issuer.url` is its name."""
    handler = type("Handler", (_Handler,), {"issuer": issuer})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(issuer: Issuer, **more: str) -> dict[str, str]:
    """The settings of a process that signs in with it."""
    return {
        "HOLDPOINT_OIDC_ISSUER": issuer.url,
        "HOLDPOINT_OIDC_CLIENT_ID": CLIENT,
        "HOLDPOINT_OIDC_CLIENT_SECRET": SECRET,
        "HOLDPOINT_OIDC_NAME": "Example ID",
        "HOLDPOINT_OIDC_GROUPS": "team:reviewers:reviewer,ops:operator",
        **more,
    }
