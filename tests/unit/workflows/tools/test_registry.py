"""How functions become tools and how they are called."""

import asyncio
import json
import threading
import time
from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from workflows.engine.policy.permissions import named
from workflows.engine.protocol.ports import PermissionEscalationNeeded, TaskFailed
from workflows.tools import PythonTool, ToolContext, ToolRegistry, all_tools, call, call_sync, get
from workflows.tools.registry import tool


class Order(BaseModel):
    item: str
    amount: int = Field(ge=1)


def declared(function: Any, **options: Any) -> PythonTool:
    registry = ToolRegistry()
    tool(registry=registry, server="shop", **options)(function)
    return registry.all()[0]


def buy(
    orders: list[Order],
    note: Annotated[str, Field(description="Shown on the bill.")] = "none",
    *,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Buy things.

    All at once.
    """
    return {"n": sum(order.amount for order in orders), "note": note, "key": ctx.idempotency_key}


async def later(text: str, ctx: ToolContext) -> str:
    """Answer in a moment."""
    await asyncio.sleep(0)
    return f"{text} {ctx.task_id} {threading.current_thread().name}"


def test_a_tool_that_changes_its_arguments_changes_a_copy() -> None:
    def clear(value: Any) -> int:
        """Empty the value."""
        value["a"].clear()
        return len(value["a"])

    arguments = {"value": {"a": [1]}}
    assert call_sync(declared(clear), arguments, ToolContext()) == 0
    assert arguments == {"value": {"a": [1]}}


def test_a_function_describes_itself() -> None:
    shop = declared(buy, title="Buy", read_only=False, permission_set="network-api")
    assert (shop.name, shop.server, shop.title) == ("shop.buy", "shop", "Buy")
    assert shop.description == "Buy things.\n\nAll at once."
    assert shop.permission_set == "network-api"
    assert not shop.is_async
    assert set(shop.input_schema["properties"]) == {"orders", "note"}
    assert shop.input_schema["required"] == ["orders"]
    note = shop.input_schema["properties"]["note"]
    assert (note["default"], note["description"]) == ("none", "Shown on the bill.")
    assert shop.output_schema is not None
    assert shop.output_schema["type"] == "object"


def test_arguments_are_converted_before_the_call() -> None:
    shop = declared(buy)
    context = ToolContext(idempotency_key="k1")
    value = call_sync(shop, {"orders": [{"item": "a", "amount": "2"}]}, context)
    assert value == {"n": 2, "note": "none", "key": "k1"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "'orders'"),
        ({"orders": [{"item": "a", "amount": 0}]}, r"'orders\[0\]\.amount'"),
        ({"orders": [], "other": 1}, "'other'"),
        ({"orders": [], "ctx": {}}, "'ctx'"),
        ({"orders": [], "note": None}, "'note'"),
    ],
)
def test_a_bad_argument_is_named_and_final(arguments: dict[str, Any], path: str) -> None:
    with pytest.raises(TaskFailed, match=path) as failure:
        call_sync(declared(buy), arguments, ToolContext())
    assert not failure.value.retryable


def test_async_tools_run_on_the_background_loop_from_anywhere() -> None:
    answer = declared(later)
    assert answer.is_async
    context = ToolContext(task_id="t1")
    expected = "hello t1 holdpoint-background"
    assert call_sync(answer, {"text": "hello"}, context) == expected
    assert asyncio.run(call(answer, {"text": "hello"}, context)) == expected


def test_a_sync_tool_does_not_block_the_loop() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def meet() -> str:
        """Wait for the other call."""
        meeting.wait()
        return "met"

    async def both() -> list[str]:
        met = declared(meet)
        return await asyncio.gather(call(met, {}, ToolContext()), call(met, {}, ToolContext()))

    assert asyncio.run(both()) == ["met", "met"]


def test_an_async_tool_ends_at_its_deadline() -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        """Never come back."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    never = declared(forever)
    with pytest.raises(TaskFailed, match="did not finish in time") as failure:
        call_sync(never, {}, ToolContext(deadline=time.monotonic() + 0.25))
    assert failure.value.retryable
    assert cancelled.wait(20)
    cancelled.clear()
    with pytest.raises(TaskFailed, match="did not finish in time"):
        asyncio.run(call(never, {}, ToolContext(deadline=time.monotonic() + 0.25)))
    assert cancelled.wait(20)


def test_errors_of_a_tool_are_classified() -> None:
    raised: list[Exception] = [
        TaskFailed("no", retryable=False),
        PermissionEscalationNeeded(
            operation="net", resource="a.example:443",
            current=named("minimal"), requested=named("network-api"),
        ),
        KeyError("gone"),
    ]  # fmt: skip

    def fail(which: int) -> None:
        """Fail."""
        raise raised[which]

    for which, kind in enumerate((TaskFailed, PermissionEscalationNeeded)):
        with pytest.raises(kind) as caught:
            call_sync(declared(fail), {"which": which}, ToolContext())
        assert caught.value is raised[which]
    with pytest.raises(TaskFailed, match="KeyError: 'gone'") as failure:
        call_sync(declared(fail), {"which": 2}, ToolContext())
    assert failure.value.retryable


@pytest.mark.parametrize("bad", [float("nan"), {"a": "\x00"}, "\ud800", object(), {1, 2}])
def test_a_result_that_is_not_bounded_json_is_refused(bad: Any) -> None:
    def give() -> Any:
        """Give."""
        return bad

    if isinstance(bad, set):
        assert sorted(call_sync(declared(give), {}, ToolContext())) == [1, 2]
        return
    with pytest.raises(TaskFailed) as failure:
        call_sync(declared(give), {}, ToolContext())
    assert not failure.value.retryable


def test_bad_declarations() -> None:
    def silent() -> None: ...

    def starred(*many: int) -> None:
        """Take many."""

    def unhinted(value) -> None:  # type: ignore[no-untyped-def]
        """Take anything."""

    def misnamed(context: ToolContext) -> None:
        """Want the context by another name."""

    with pytest.raises(ValueError, match="docstring"):
        declared(silent)
    with pytest.raises(TypeError, match="cannot be given by name"):
        declared(starred)
    with pytest.raises(TypeError, match="no type hint"):
        declared(unhinted)
    with pytest.raises(TypeError, match="called 'ctx'"):
        declared(misnamed)
    with pytest.raises(ValueError, match="not a tool name"):
        declared(buy, name="a.b")
    with pytest.raises(ValueError, match="unknown permission set"):
        declared(buy, permission_set="everything")
    with pytest.raises(ValueError, match="declare it with remote=True"):
        declared(buy, runner="dask")


def test_two_functions_cannot_share_a_name() -> None:
    registry = ToolRegistry()
    tool(registry=registry, server="shop", name="x")(buy)
    tool(registry=registry, server="shop", name="x")(buy)
    with pytest.raises(ValueError, match=r"two tools are called 'shop\.x'"):
        tool(registry=registry, server="shop", name="x")(later)


def test_the_built_in_tools_are_found() -> None:
    names = {found.name for found in all_tools()}
    words = "echo wait fail select list_directory read_file write_file parse_json parse_xml"
    assert {f"builtin.{word}" for word in [*words.split(), "http_request"]} <= names
    assert "demo.draft_release_notes" in names
    assert get("builtin.nothing") is None


def test_built_in_tools_describe_effects_and_permissions() -> None:
    needs = {found.name: found.permission_set for found in all_tools()}
    assert needs["builtin.write_file"] == "filesystem"
    assert needs["builtin.http_request"] == "network-api"
    assert needs["builtin.read_file"] == needs["builtin.list_directory"] == "readonly"
    assert needs["builtin.echo"] == needs["demo.draft_release_notes"] == "minimal"
    writers = {found.name for found in all_tools() if not found.read_only}
    assert {"builtin.write_file", "builtin.http_request"} == {
        name for name in writers if name.startswith(("builtin.", "demo."))
    }
    for found in all_tools():
        if found.server not in ("builtin", "demo"):
            continue  # another test of this process declared it
        assert len(found.description) > 40
        for schema in (found.input_schema, found.output_schema or {}):
            Draft202012Validator.check_schema(schema)
            json.dumps(schema, allow_nan=False)
