"""Every event is sent in order and signed, with failing receivers and senders."""

import threading
import time

import pytest
from django.db import OperationalError

from tests.integration.workflows.webhooks.conftest import person, run, send_all
from tests.support.processes import wait_for
from tests.support.webhook_receiver import Receiver, flaky, receiving
from workflows.models import Audience, WebhookDelivery
from workflows.webhooks import services
from workflows.webhooks.leases import NOT_VISIBLE, claim_endpoints
from workflows.webhooks.sender import Sender


def test_every_event_arrives_in_order_and_signed(engine, owner, receiver, register, sender) -> None:
    endpoint, secret = register()
    execution = run(engine, owner)
    send_all(sender)
    assert receiver.order(execution.pk) == list(range(1, execution.version + 1))
    assert all(each.is_signed_with(secret) for each in receiver.got)
    first, last = receiver.got[0], receiver.got[-1]
    assert first.body["type"] == first.headers["holdpoint-event"] == "workflow_start"
    assert first.body["id"] == first.headers["webhook-id"] == f"evt_{execution.pk}_1"
    assert first.body["endpointId"] == str(endpoint.pk)
    assert last.body | {"type": "workflow_complete", "status": "COMPLETED"} == last.body
    assert "data" not in last.body


def test_a_flaky_receiver_gets_all_of_it_in_order(
    engine, owner, receiver, register, sender
) -> None:
    receiver.answer = flaky(0.4)
    register()
    executions = [run(engine, owner) for _ in range(8)]
    send_all(sender)
    for execution in executions:
        assert receiver.order(execution.pk) == list(range(1, execution.version + 1))
    assert len(receiver.got) > len(receiver.accepted)
    assert not WebhookDelivery.objects.exclude(status="DELIVERED").exists()


def test_only_subscribed_types_are_sent_with_data_on_request(
    engine, owner, receiver, register, sender
) -> None:
    register(events=["task_complete"], include_data=True)
    execution = run(engine, owner)
    send_all(sender)
    assert [each.body["nodeId"] for each in receiver.got] == ["a", "b"]
    assert {each.body["type"] for each in receiver.got} == {"task_complete"}
    data = receiver.got[0].body["data"]
    assert data["inputs"] == {"value": None}
    assert data["event"]["task_id"] == "a"
    assert execution.status == "COMPLETED"


def test_events_before_the_endpoints_creation_are_not_sent(
    engine, owner, receiver, register, sender
) -> None:
    before = run(engine, owner)
    register()
    after = run(engine, owner)
    send_all(sender)
    assert receiver.order(before.pk) == []
    assert len(receiver.order(after.pk)) == after.version


def test_nothing_is_lost_when_a_sender_dies_between_answer_and_record(
    engine, owner, receiver, register, settings
) -> None:
    register()
    execution = run(engine, owner)
    dead = Sender(threading.Event())
    dead.round()
    dead._pool.shutdown(wait=True)  # it was answered; the outcome is never written down
    assert len(receiver.got) == 1
    services.WebhookEndpoint.objects.update(lease_until=None)
    heir = Sender(threading.Event())
    send_all(heir)
    heir._end()
    assert receiver.order(execution.pk) == list(range(1, execution.version + 1))
    assert [each.id for each in receiver.got[:2]] == [f"evt_{execution.pk}_1"] * 2


def test_outcomes_of_a_round_without_the_database_are_recorded_later(
    engine, owner, receiver, register, sender, monkeypatch
) -> None:
    register()
    executions = [run(engine, owner) for _ in range(3)]
    sender.round()
    wait_for(lambda: sender._finished.qsize() == len(executions), what="each first message ended")

    def unavailable(*_: object, **__: object) -> None:
        raise OperationalError("the server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr("workflows.webhooks.sender.record_outcome", unavailable)
        with pytest.raises(OperationalError):
            sender.round()
    send_all(sender)
    for execution in executions:
        assert receiver.order(execution.pk) == list(range(1, execution.version + 1))


def test_two_senders_at_once_never_change_the_order(engine, owner, receiver, register) -> None:
    receiver.answer = flaky(0.2)
    register()
    executions = [run(engine, owner) for _ in range(6)]
    stop = threading.Event()
    senders = [threading.Thread(target=Sender(stop).run) for _ in range(2)]
    for each in senders:
        each.start()
    wanted = sum(each.version for each in executions)

    def all_delivered() -> bool:
        # Claims change hands all the time.
        services.WebhookEndpoint.objects.update(lease_until=None)
        stop.wait(0.3)
        return WebhookDelivery.objects.filter(status="DELIVERED").count() == wanted

    try:
        wait_for(all_delivered)
    finally:
        stop.set()
        for each in senders:
            each.join()
    for execution in executions:
        assert receiver.order(execution.pk) == list(range(1, execution.version + 1))


def test_a_hanging_receiver_does_not_delay_others(
    engine, owner, receiver, register, sender
) -> None:
    release = threading.Event()
    with receiving(Receiver(answer=lambda _: 200 if release.wait(20) else 500)) as slow:
        stuck, _ = register(url=slow.url, name="slow")
        register()
        executions = [run(engine, owner) for _ in range(6)]
        wanted = sum(each.version for each in executions)
        end = time.monotonic() + 60
        while len(receiver.accepted) < wanted and time.monotonic() < end:
            sender.round()
        assert len(receiver.accepted) == wanted
        assert not slow.accepted
        in_flight = [lane for lane in sender._in_flight if lane[0] == stuck.pk]
        assert len(in_flight) == 4
        release.set()
        send_all(sender)
        # Delivered at least once: on a busy machine an attempt can end before its answer.
        assert len({got.id for got in slow.accepted}) == wanted


def test_rights_are_checked_before_each_attempt(engine, receiver, register, sender) -> None:
    owner = person("integrator")
    register(owner=owner)
    mine, other = run(engine, owner), run(engine)
    receiver.answer = lambda _: 200 if len(receiver.got) == 0 else 500
    sender.round()
    while len(receiver.accepted) < 1:
        sender.round()
    type(mine).objects.filter(pk=mine.pk).update(created_by=None)
    Audience.objects.filter(execution=mine, member=f"user:{owner.pk}").delete()
    send_all(sender)
    assert receiver.order(other.pk) == []
    assert len(receiver.accepted) == 1
    withheld = WebhookDelivery.objects.filter(status="WITHHELD")
    assert withheld.count() == mine.version - 1
    assert {each.log[-1]["error"] for each in withheld} == {NOT_VISIBLE}


def test_an_owner_without_the_role_is_sent_nothing_and_loses_nothing(
    engine, owner, receiver, register, sender
) -> None:
    endpoint, _ = register()
    groups = list(owner.groups.all())
    owner.groups.clear()
    execution = run(engine, owner)
    for _ in range(3):
        sender.round()
    assert receiver.got == []
    assert "roles" in services.standing(endpoint).text
    owner.groups.set(groups)
    send_all(sender)
    assert len(receiver.order(execution.pk)) == execution.version


def test_a_claim_excludes_other_senders_until_it_expires(engine, register) -> None:
    endpoint, _ = register()
    assert [each.pk for each in claim_endpoints("one")] == [endpoint.pk]
    assert claim_endpoints("two") == []
    services.WebhookEndpoint.objects.update(lease_until=None)
    assert [each.pk for each in claim_endpoints("two")] == [endpoint.pk]
