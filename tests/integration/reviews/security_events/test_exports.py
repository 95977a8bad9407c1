"""Security events: what is recorded, and how it reaches each destination."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from reviews.audit.denied_attempts import denied_attempts_recorded
from reviews.decisions.rights import NotAllowed
from reviews.models import SecurityEvent, SecurityExport
from reviews.security_events import destinations, exports
from reviews.security_events.destinations import NotDelivered
from tests.integration.reviews.conftest import MakeUser, decide, echo
from tests.support.webhook_receiver import Receiver, receiving
from workflows.common import crashpoints
from workflows.engine.reasons import Reason
from workflows.models import Grant, Workflow
from workflows.permissions.tokens import create_token, revoke

pytestmark = pytest.mark.django_db


def kinds() -> list[str]:
    return list(SecurityEvent.objects.order_by("pk").values_list("kind", flat=True))


def record(number: int = 1) -> None:
    for each in range(number):
        SecurityEvent.objects.create(kind="changed", actor="ann", details={
            "model": "auth.group", "object": str(each), "action": 2, "change": ""})  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def sequence(path: Path) -> list[int]:
    return [each["metadata"]["sequence"] for each in lines(path)]


@pytest.fixture
def file(settings: Any, tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "events.jsonl"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "siem_file": str(path)}
    return path


@pytest.fixture
def service(settings: Any) -> Iterator[Receiver]:
    with receiving(Receiver()) as receiver:
        settings.HOLDPOINT = {
            **settings.HOLDPOINT,
            "siem_url": receiver.url,
            "siem_authorization": "Splunk s3cret",
            "webhook_allow_loopback": True,
        }
        yield receiver


# --- what is recorded -----------------------------------------------------------------------------


def test_sign_ins_and_failures_are_events(make_user: MakeUser) -> None:
    make_user("ann")
    form = {"username": "ann", "password": "wrong"}
    for _ in range(2):
        Client().post("/login/", form)
    Client().post("/login/", {**form, "password": "secret"})
    found = SecurityEvent.objects.order_by("pk").values_list("kind", "actor", "address")
    failed, signed_in = ("sign_in_failed", "ann", "127.0.0.1"), ("sign_in", "ann", "127.0.0.1")
    assert list(found) == [failed, failed, signed_in]


def test_sign_outs_are_events(make_user: MakeUser) -> None:
    make_user("ann")
    browser, other = Client(), Client()
    for each in (browser, other):
        each.post("/login/", {"username": "ann", "password": "secret"})
    assert browser.post("/logout/").status_code == 302
    browser.post("/logout/")
    assert kinds() == ["sign_in", "sign_in", "sign_out"]
    assert SecurityEvent.objects.latest("pk").actor == "ann"


def test_a_reached_limit_is_an_event(make_user: MakeUser, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "sign_in_failures": 2}
    make_user("ann")
    for _ in range(3):
        Client().post("/login/", {"username": "ann", "password": "wrong"})
    assert kinds() == ["sign_in_failed", "sign_in_failed", "sign_in_locked"]


def test_tokens_are_events_without_their_text(make_user: MakeUser) -> None:
    token, text = create_token(user=make_user("ann"), name="ci", scopes=["read"])
    revoke(tokens=type(token).objects.filter(pk=token.pk))
    revoke(tokens=type(token).objects.filter(pk=token.pk))
    assert kinds() == ["token_created", "token_revoked"]
    assert text not in json.dumps([each.details for each in SecurityEvent.objects.all()])
    assert SecurityEvent.objects.latest("pk").details["owner"] == "ann"


def test_decisions_and_grants_are_events(start: Any, make_user: MakeUser) -> None:
    run = start(echo("a", phase="BEFORE_EXECUTION", on_reject="skip"))
    hold = run.holds.get()
    decide(hold, make_user("bob", "reviewer"), "REJECT")
    grant = Grant.objects.create(hold=hold, execution=run, operation="read", resource="/srv",
        scope="execution", granted_by="bob", permissions={})  # fmt: skip
    Grant.objects.filter(pk=grant.pk).update(revoked_at=timezone.now(), revoked_by="eve")
    Grant.objects.filter(pk=grant.pk).update(uses=1)
    found = SecurityEvent.objects.filter(kind__in=("decision", "granted", "grant_revoked"))
    assert [(each.kind, each.actor) for each in found.order_by("pk")] == [
        ("decision", "bob"), ("granted", "bob"), ("grant_revoked", "eve"),
    ]  # fmt: skip
    assert SecurityEvent.objects.get(kind="decision").details["decision"] == "REJECT"


def test_denials_are_events(start: Any, make_user: MakeUser) -> None:
    hold = start(echo("a", phase="BEFORE_EXECUTION")).holds.get()
    bob = make_user("bob")
    with (
        pytest.raises(NotAllowed),
        denied_attempts_recorded(hold.pk, bob, "APPROVE", "rest"),
    ):
        raise NotAllowed(Reason("no_group"), "not_in_group")
    event = SecurityEvent.objects.get(kind="denied")
    assert (event.actor, event.details["code"]) == ("bob", "not_in_group")


def test_changes_in_the_admin_are_events(staff: Any) -> None:
    staff("root").post("/admin/auth/group/add/", {"name": "legal"})
    event = SecurityEvent.objects.get(kind="changed")
    assert (event.details["model"], event.details["action"]) == ("auth.group", 1)


def test_saved_workflows_are_events() -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": []})
    workflow.versions.create(number=1, definition={}, author_name="ann")
    event = SecurityEvent.objects.get(kind="workflow_saved")
    assert (event.actor, event.details) == ("ann", {"workflow": "w", "version": 1})


# --- export ---------------------------------------------------------------------------------------


def test_every_kind_has_the_attributes_that_its_class_requires(file: Path) -> None:
    for kind in SecurityEvent.Kind.values:
        details = {"model": "auth.user", "object": "7", "action": 2} if kind == "changed" else {}
        SecurityEvent.objects.create(kind=kind, actor="ann", address="192.0.2.1", details=details)
    exports.export_due()
    found = lines(file)
    assert [each["metadata"]["event_code"] for each in found] == SecurityEvent.Kind.values
    for each in found:
        assert each["type_uid"] == each["class_uid"] * 100 + each["activity_id"]
        assert each["metadata"]["product"]["vendor_name"]
        assert {"time", "category_uid", "severity_id", "status_id"} <= each.keys()
        needed = {3001: {"user"}, 3002: {"user", "service"}, 3004: {"entity", "actor"}}
        assert needed[each["class_uid"]] <= each.keys()


def test_a_removed_second_factor_names_its_account(file: Path) -> None:
    details = {"factor": "totp", "owner": "ann"}
    SecurityEvent.objects.create(kind="factor_removed", details=details)
    exports.export_due()
    (line,) = lines(file)
    assert (line["type_uid"], line["user"]) == (300111, {"name": "ann"})


def test_secrets_in_names_are_masked(file: Path) -> None:
    key = "sk-" + "a1B2" * 12
    SecurityEvent.objects.create(kind="sign_in_failed", actor=key)
    SecurityEvent.objects.create(kind="token_created", actor="ann", details={"name": [key]})
    exports.export_due()
    assert key not in file.read_text("utf-8")


def test_events_are_sent_once_and_in_order(file: Path) -> None:
    record(exports.BATCH + 3)
    while exports.export_due():
        pass
    record(2)
    exports.export_due()
    assert sequence(file) == list(range(1, exports.BATCH + 6))


def test_https_confirms_a_batch_by_its_status(service: Receiver) -> None:
    answers = iter([500, 200])
    service.answer = lambda _: next(answers)
    record(3)
    assert exports.export_due() == 0
    state = SecurityExport.objects.get(name="https")
    assert (state.failures, state.position, state.error) == (1, 0, "HTTP 500 Internal Server Error")
    assert exports.export_due() == 0  # waits
    assert len(service.got) == 1
    SecurityExport.objects.update(retry_at=None)
    assert exports.export_due() == 3
    assert service.got[0].raw == service.got[1].raw
    assert service.got[1].headers["authorization"] == "Splunk s3cret"
    state.refresh_from_db()
    assert (state.failures, state.position, state.error) == (0, 3, "")


def test_a_failing_destination_does_not_stop_the_other(file: Path, service: Receiver) -> None:
    service.answer = lambda _: 503
    record(2)
    exports.export_due()
    assert sequence(file) == [1, 2]


def test_an_unexpected_error_does_not_stop_the_other(
    file: Path, service: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(events: Any) -> None:
        raise ValueError("s3cret")

    monkeypatch.setattr(destinations, "to_file", broken)
    record(2)
    assert exports.export_due() == 2
    state = SecurityExport.objects.get(name="file")
    assert (state.failures, state.position, state.error) == (1, 0, "unexpected ValueError")
    assert len(service.got) == 1


def test_a_crash_after_sending_sends_again(file: Path) -> None:
    def cut() -> None:
        raise RuntimeError("the power is gone")

    record(2)
    crashpoints.arm("security_events.sent", cut)
    try:
        with pytest.raises(RuntimeError):
            exports.export_due()
    finally:
        crashpoints.set_observer(None)
    record()
    assert exports.export_due() == 3
    assert sequence(file) == [1, 2, 1, 2, 3]


def test_half_a_line_of_a_crash_is_removed(file: Path) -> None:
    record(2)
    exports.export_due()
    with file.open("ab") as half:
        half.write(b'{"metadata":{"seq')
    record()
    exports.export_due()
    assert sequence(file) == [1, 2, 3]


@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_is_not_lost(file: Path) -> None:
    """It has a lower id than events that were exported before its commit."""
    url = connection.get_connection_params()
    with psycopg.connect(
        **{key: url[key] for key in ("dbname", "user", "host", "password", "port") if url.get(key)}
    ) as slow:
        slow.execute(
            "INSERT INTO reviews_securityevent (kind, actor, details)"
            """ VALUES ('sign_in', 'late', '{"path": "/"}')"""
        )
        record(2)
        exports.export_due()
        slow.commit()
    exports.export_due()
    assert sequence(file) == [1, 2, 3]
    assert lines(file)[-1]["user"] == {"name": "late"}


@pytest.mark.django_db(transaction=True)
def test_two_sweepers_do_not_send_at_the_same_time(file: Path) -> None:
    record(2)
    exports.number_new_events()
    SecurityExport.objects.create(name="file")
    entered, leave = threading.Event(), threading.Event()

    def slow(events: Any) -> None:
        entered.set()
        assert leave.wait(20)

    def first() -> None:
        exports.export("file", slow)
        connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(20)
    assert exports.export("file", pytest.fail) == 0
    leave.set()
    thread.join()
    assert SecurityExport.objects.get().position == 2


# --- syslog ---------------------------------------------------------------------------------------


def test_syslog_gets_messages_with_their_length(settings: Any) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    settings.HOLDPOINT = {**settings.HOLDPOINT, "siem_syslog": f"tcp://127.0.0.1:{port}"}
    got: list[bytes] = []

    def serve() -> None:
        peer, _ = server.accept()
        with peer:
            while part := peer.recv(65_536):
                got.append(part)

    thread = threading.Thread(target=serve)
    thread.start()
    record()
    SecurityEvent.objects.create(kind="sign_in_failed", actor="änn")
    assert exports.export_due() == 2
    thread.join()
    server.close()
    data, messages = b"".join(got), []
    while data:
        length, _, rest = data.partition(b" ")
        messages.append(rest[: int(length)].decode())
        data = rest[int(length) :]
    assert [each[:6] for each in messages] == ["<85>1 ", "<84>1 "]
    bodies = [json.loads(each[each.index("{") :]) for each in messages]
    assert bodies[1]["user"] == {"name": "änn"}


def test_a_syslog_server_that_keeps_sending_holds_no_sweeper(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "_CLOSE_SECONDS", 0.3)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    settings.HOLDPOINT = {**settings.HOLDPOINT, "siem_syslog": f"tcp://127.0.0.1:{port}"}
    exported = threading.Event()
    held: list[bool] = []

    def drip() -> None:
        peer, _ = server.accept()
        with peer, suppress(OSError):
            for _ in range(100):
                peer.sendall(b".")
                if exported.wait(0.05):
                    return
        held.append(True)

    thread = threading.Thread(target=drip)
    thread.start()
    record()
    assert exports.export_due() == 1
    exported.set()
    thread.join()
    server.close()
    assert not held


@pytest.fixture
def tls(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`tls(*serve)`: a syslog server; each function takes one connection, in their order."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    write_certificate(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(20)
    address = f"tls://localhost:{server.getsockname()[1]}"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "siem_syslog": address}
    threads = []

    def start(*serve: Any) -> ssl.SSLContext:
        def accept() -> None:
            for each in serve:
                plain, _ = server.accept()
                plain.settimeout(20)
                with suppress(OSError), context.wrap_socket(plain, server_side=True) as peer:
                    each(peer)

        threads.append(threading.Thread(target=accept))
        threads[0].start()
        return context

    yield start
    for thread in threads:
        thread.join()
    server.close()


def write_certificate(certificate: Path, key: Path) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = timezone.now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def reads_all(got: list[bytes], *, says_goodbye: bool = True) -> Any:
    def serve(peer: ssl.SSLSocket) -> None:
        while part := peer.recv(1000):
            got.append(part)
        if says_goodbye:
            peer.unwrap()

    return serve


def cuts_off(peer: ssl.SSLSocket) -> None:
    """Read a part of the first message, and reset the connection."""
    peer.recv(10)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_syslog_over_tls(tls: Any, says_goodbye: bool) -> None:
    got: list[bytes] = []
    tls(reads_all(got, says_goodbye=says_goodbye))
    record(200)
    assert exports.export_due() == 200
    assert b"".join(got).count(b" holdpoint - ") == 200


def test_a_connection_that_breaks_is_made_again_with_the_whole_batch(tls: Any) -> None:
    got: list[bytes] = []
    tls(cuts_off, reads_all(got))
    record(3)
    assert exports.export_due() == 0
    state = SecurityExport.objects.get()
    assert (state.position, state.failures) == (0, 1)
    SecurityExport.objects.update(retry_at=None)
    assert exports.export_due() == 3
    assert b"".join(got).count(b" holdpoint - ") == 3


def test_a_server_that_refuses_the_client_has_no_events(tls: Any) -> None:
    """With TLS 1.3 the client learns only after its handshake that its certificate is missing."""
    got: list[bytes] = []
    context = tls(reads_all(got))
    context.verify_mode = ssl.CERT_REQUIRED
    record()
    assert exports.export_due() == 0
    assert SecurityExport.objects.get().position == 0
    assert got == []


def test_a_server_that_reads_slowly_holds_no_sweeper(
    tls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "_SECONDS", 1.0)
    monkeypatch.setattr(destinations.ocsf, "line", lambda event: b"x" * 20_000_000)
    exported = threading.Event()
    got: list[bytes] = []

    def serve(peer: ssl.SSLSocket) -> None:
        while (part := peer.recv(16_384)) and not exported.wait(0.01):
            got.append(part)

    tls(serve)
    record()
    assert exports.export_due() == 0
    exported.set()
    assert "timed out" in SecurityExport.objects.get().error
    assert sum(map(len, got)) < 20_000_000


def test_an_unreachable_syslog_server_is_an_error(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings.HOLDPOINT = {**settings.HOLDPOINT, "siem_syslog": f"tcp://127.0.0.1:{port}"}
    record()
    assert exports.export_due() == 0
    assert "refused" in SecurityExport.objects.get(name="syslog").error


# --- retention ------------------------------------------------------------------------------------


def test_old_events_stay_until_every_destination_has_them(file: Path) -> None:
    record(2)
    SecurityEvent.objects.update(at=timezone.now() - timedelta(days=91))
    assert exports.delete_old() == 0
    exports.export_due()
    record()
    assert exports.delete_old() == 2
    exports.export_due()
    assert sequence(file) == [1, 2, 3]


def test_without_destinations_old_events_end() -> None:
    record(2)
    SecurityEvent.objects.update(at=timezone.now() - timedelta(days=91))
    assert exports.export_due() == 0
    assert exports.delete_old() == 2


def test_the_admin_shows_what_waits(staff: Any, file: Path) -> None:
    def fail(events: Any) -> None:
        raise NotDelivered("the disk is full")

    record(3)
    exports.number_new_events()
    with transaction.atomic():
        exports.export("file", fail)
    page = staff("auditor").get("/admin/reviews/securityexport/").content.decode()
    assert "the disk is full" in page
    assert "failing" in page
    waiting = SecurityEvent.objects.count()
    assert f"{waiting} events" in page
    event = SecurityEvent.objects.earliest("pk")
    shown = staff("auditor", name="other").get(f"/admin/reviews/securityevent/{event.pk}/change/")
    assert "class_uid" in shown.content.decode()


def test_operators_do_not_read_events(staff: Any) -> None:
    assert staff("operator").get("/admin/reviews/securityevent/").status_code == 403


def test_nobody_changes_an_event(staff: Any, auditor: User) -> None:
    event = SecurityEvent.objects.create(kind="sign_in", actor="ann")
    address = f"/admin/reviews/securityevent/{event.pk}/delete/"
    assert staff("root").post(address, {"post": "yes"}).status_code == 403
