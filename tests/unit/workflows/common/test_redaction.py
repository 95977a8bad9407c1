"""Secrets in texts and under keys: hidden, without hiding ordinary words, and masked once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.common.redaction import DOTS, is_secret_field, mask_secrets, redact_text
from workflows.engine.plans.dag import Plan
from workflows.engine.protocol.commands import load_command

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "masks.json").read_text())
MORE_SECRETS = [
    ("https://hooks.slack.com/services/T0/B0/abcdefghijkl/more", "abcdefghijkl"),
    ("https://discord.com/api/webhooks/123/aB_cd-ef", "aB_cd-ef"),
    ("https://x.webhook.office.com/webhookb2/ab-cd@ef/IncomingWebhook/gh", "ab-cd"),
    ("https://api.telegram.org/bot12345678:AAbbccddeeffgghhiijjkk/x", "AAbbccddeeffgghhiijjkk"),
    ("https://store.example/a?sig=abcdefgh1234&x=1", "abcdefgh1234"),
    ("sshpass -p 'two words' ssh x", "two words"),
    ("redis-cli -h db -a hunter get x", "hunter"),
    ("docker login -u me -p hunter r.example", "hunter"),
    ("run --db-password='two words'", "two words"),
    ("curl --user=me:hunter https://x.example", "hunter"),
    ("CREATE USER x IDENTIFIED BY 'hunter'", "hunter"),
    ("otp: 123456", "123456"),
    ("Password\uff1aZx9qTop", "Zx9qTop"),
    ("Cookie: session=hunter; x=1", "hunter"),
    ("password: TopSecret", "TopSecret"),
    (r'{"body": "{\"password\": \"hunter\"}"}', "hunter"),
    (r'"{\\\"api_key\\\":\\\"hunter\\\"}"', "hunter"),
    ("https://tok3nabcdefghijkl@git.example/x.git", "tok3nabcdefghijkl"),
    ("pass\u200bword=hunter", "hunter"),
    ("\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44=hunter", "hunter"),
    ("password=hun\u200bter", "ter"),
]
ORDINARY = [
    "the password policy", "token count: 5", "the --token option is required", "mkdir -p folder",
    "docker run -u 1000:1000 image", "page_token=abc123", "set a password for the account",
    "Secret Santa 2025: the list", "stop=5", "git push -u origin main", "--password-stdin",
    "https://example.com/services/consulting/help", "https://docs.example/webhooks/guide",
    "Authorization: pending", "password rotation: 2 days", "ssh -p 2222 host", "python -pthread",
    "ssh://git@git.example/x.git", "https://somebody.longname@git.example/", r'{\"name\": \"x\"}',
]  # fmt: skip
MORE_SECRET_KEYS = [
    "DB_PASSWORD", "dbpassword", "passwordHash", "password_2", "newPasswordConfirmation",
    "aws_secret_access_key", "SecretString", "idToken", "Set-Cookie", "Authorization", "cvv2",
    "session_id", "recovery-codes", "x-auth-token", "PGPASSWORD", "apikey",
]  # fmt: skip
MORE_PLAIN_KEYS = [
    "public_key", "primary_key", "zip_code", "status_code", "token_endpoint", "nextPageToken",
    "pinned", "shopping", "pwd_changed_at", "idempotency_key", "tokens_used", "secretariat",
]  # fmt: skip


def test_secrets_in_texts_are_hidden() -> None:
    shown = {
        text: (mask_secrets(text), redact_text(text))
        for text, secret in (*CASES["hide_in_text"], *MORE_SECRETS)
        if secret in mask_secrets(text) or secret in redact_text(text)
    }
    assert shown == {}


def test_ordinary_texts_stay() -> None:
    assert {text: mask_secrets(text) for text in ORDINARY if mask_secrets(text) != text} == {}


def test_keys_are_secret_by_their_words() -> None:
    secret = [*CASES["hide_keys"], *MORE_SECRET_KEYS]
    plain = [*CASES["show_keys"], *MORE_PLAIN_KEYS]
    assert [key for key in secret if not is_secret_field(key, "x1")] == []
    assert [key for key in plain if is_secret_field(key, "x1")] == []


_PARTS = [text for text, _ in (*CASES["hide_in_text"], *MORE_SECRETS)]
_WORDS = [
    "password=", "token: ", "Bearer ", "--token ", "-u a:", "mysql -p", "://a:b@c", "eyJabcdefgh.",
    "ghp_abcdefghijkl", '"', "'", " ", "\n", "x1", DOTS, "•", "[", "Cookie: a=", "?sig=",
]  # fmt: skip


@given(st.lists(st.sampled_from([*_PARTS, *_WORDS]) | st.text(max_size=5), max_size=8))
def test_a_masked_text_stays_as_it_is(parts: list[str]) -> None:
    masked = mask_secrets("".join(parts))
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", ["--token ", "mysql -p", "a:", "://hooks.", "password=", "-u a:"])
def test_masking_takes_linear_time(text: str) -> None:
    started = time.process_time()
    mask_secrets(text * (200_000 // len(text)))
    assert time.process_time() - started < 2


def test_plans_and_commands_hold_masked_texts() -> None:
    secret, longest = "password=Zx9qTopSecret42", "password=x " * 18
    review = {"instructions": secret}
    task = {"id": "a", "type": "tool", "tool": "x.y", "title": longest, "human_review": review}
    plan = Plan.model_validate({"tasks": [task]})
    assert "Zx9q" not in plan.model_dump_json()
    assert len(plan.tasks[0].title) <= 200
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    texts = {"abort": "reason", "skip_layer": "reason", "replan": "new_requirement"}
    for kind, field in texts.items():
        command = load_command({"kind": kind, field: secret})
        assert getattr(command, field) == f"password={DOTS}", kind
