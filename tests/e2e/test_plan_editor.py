"""A workflow is made in the plan editor by keyboard alone, started, and changed with the mouse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.e2e.desk import note_errors, until
from tests.e2e.product import Product
from tests.e2e.test_review import Api, sign_in
from tests.e2e.walk import EVERYTHING, MEASURE, NARROW, SIDEWAYS, WIDE

NODES = "[data-node]"
EDGES = "[data-edge]"
ORDER_TOOL = """
from graphrag.catalogue.ingest import upsert_tools
from graphrag.catalogue.tool_record import ToolRecord
upsert_tools([ToolRecord({fields})])
"""
#: Stops of the Tab key that no page needs in a row.
MANY = 120


@pytest.fixture
def violations(page: Page) -> list[str]:
    """What the content policy refused, and parts of responses that had no place on the page."""
    found: list[str] = []

    def note(text: str) -> None:
        if "Security Policy" in text or "oobErrorNoTarget" in text:
            found.append(text)

    page.on("console", lambda message: note(message.text))
    note_errors(page, found)
    return found


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the control of this name has the focus."""
    wanted = (
        "() => (document.activeElement.getAttribute('aria-label') ?? document.activeElement"
        ".labels?.[0]?.textContent ?? document.activeElement.textContent)"
        ".replace(/\\s+/g, ' ').trim()"
    )
    for _ in range(MANY):
        page.keyboard.press("Tab")
        if re.match(name, page.evaluate(wanted)):
            return
    raise AssertionError(f"Tab never came to {name}")


def add_by_keys(page: Page, words: str, tool: str, nodes: int) -> None:
    """Search for a tool, add it, and wait until its form has the focus."""
    tab_to(page, "Search tools")
    page.keyboard.press("Control+A")
    with page.expect_response(lambda answer: words[-4:] in answer.url):
        page.keyboard.type(words)
    expect(page.locator("#tool-offers.htmx-request, .htmx-settling")).to_have_count(0)
    tab_to(page, rf"\+ {re.escape(tool)}")
    page.keyboard.press("Enter")
    expect(page.locator(NODES)).to_have_count(nodes)
    expect(page.locator("#task-title")).to_be_focused()


def fill_by_keys(page: Page, label: str, text: str) -> None:
    tab_to(page, label)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def test_a_workflow_is_made_by_keyboard_and_started(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "admin")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/")
    page.get_by_role("link", name="New workflow").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/workflows/edit/")
    fill_by_keys(page, "Name", "Three echoes")
    add_by_keys(page, "return the value unchanged", "builtin.echo", 1)
    fill_by_keys(page, "value", "one")
    page.locator("h1").evaluate("element => element.focus()")
    add_by_keys(page, "echo", "builtin.echo", 2)
    fill_by_keys(page, "value", "two")
    page.locator("h1").evaluate("element => element.focus()")
    add_by_keys(page, "echo", "builtin.echo", 3)
    fill_by_keys(page, "value", "three")

    # Escape leads back to the diagram, arrows move in it, Enter opens a task.
    page.keyboard.press("Escape")
    expect(page.locator(NODES).nth(2)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator(NODES).nth(1)).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("#task-title")).to_have_text("Task echo")
    expect(page.locator("#task-title")).to_be_focused()
    tab_to(page, "Connect to")
    tab_to(page, "Connect$")
    page.keyboard.press("Enter")
    expect(page.locator("svg.dag .edge")).to_have_count(1)
    expect(page.locator("#task-title")).to_have_text("Task echo_2")
    expect(page.locator("#task-title")).to_be_focused()
    tab_to(page, "Connect$")
    page.keyboard.press("Enter")
    expect(page.locator("svg.dag .edge")).to_have_count(2)
    expect(page.locator("#task-title")).to_have_text("Task echo_3")
    expect(page.locator("#task-title")).to_be_focused()

    # Delete, undo, redo, undo.
    page.keyboard.press("Escape")
    expect(page.locator(NODES).nth(2)).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator(NODES)).to_have_count(2)
    page.keyboard.press("Control+z")
    expect(page.locator(NODES)).to_have_count(3)
    expect(page.locator("svg.dag .edge")).to_have_count(2)
    page.keyboard.press("Control+Shift+z")
    expect(page.locator(NODES)).to_have_count(2)
    page.keyboard.press("Control+z")
    expect(page.locator(NODES)).to_have_count(3)

    page.locator("h1").evaluate("element => element.focus()")
    page.keyboard.press("Shift+Tab")
    tab_to(page, "Save the workflow")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/workflows/\d+/$"))
    expect(page.get_by_role("heading", name="Three echoes")).to_be_visible()
    tab_to(page, "Start Three echoes")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*/")
    run = page.url.rstrip("/").rpartition("/")[2]
    api = Api(product, "operator", "read,run")
    found = until(api, run, "COMPLETED")
    layers = {task["id"]: task["layer"] for task in found["tasks"]}
    assert layers == {"echo": 0, "echo_2": 1, "echo_3": 2}
    assert violations == []


def test_tasks_are_connected_with_the_mouse(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "operator")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/edit/")
    for number in (1, 2):
        page.get_by_role("button", name="+ builtin.echo").click()
        expect(page.locator(NODES)).to_have_count(number)
    expect(page.get_by_text("Fix 2 errors")).to_be_visible()
    expect(page.get_by_role("button", name="Save the workflow")).to_have_count(0)
    handle = page.locator(f"{NODES} [data-handle]").first
    handle.drag_to(page.locator(NODES).nth(1), target_position={"x": 40, "y": 20})
    expect(page.locator("svg.dag .edge")).to_have_count(1)
    page.locator(NODES).first.click()
    expect(page.locator("#task-title")).to_have_text("Task echo")

    # A value is checked when it is left; what is typed next stays.
    page.get_by_label("Id", exact=True).fill("not good")
    page.get_by_label("Title", exact=True).fill("typed meanwhile")
    expect(page.get_by_text("an id starts with a letter").first).to_be_visible()
    expect(page.get_by_label("Id", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Title", exact=True)).to_have_value("typed meanwhile")
    page.get_by_label("Id", exact=True).fill("first")
    page.get_by_label("Title", exact=True).focus()
    expect(page.locator(f"{NODES} .name").first).to_have_text("first")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(f"{NODES} .name").first).to_have_text("echo")
    assert violations == []


def test_an_operation_is_not_lost_to_requests_that_come_after_it(
    page: Page, product: Product, violations: list[str]
) -> None:
    """A search, and the check of a typed value, start while the server still adds a task."""
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/workflows/edit/")
    held: list[Route] = []
    page.route("**/workflows/edit/", lambda route: held.append(route))
    with page.expect_request("**/workflows/edit/tools/*"):
        page.get_by_label("Search tools").press_sequentially("echo")
        page.get_by_role("button", name="+ builtin.echo").click()
    page.get_by_label("Name", exact=True).fill("Echoes")
    page.get_by_label("Description", exact=True).focus()
    held[0].continue_()
    expect(page.locator(NODES)).to_have_count(1)
    expect(page.locator("#task-title")).to_be_focused()
    # The text that was typed meanwhile is checked after the answer, which does not have it.
    expect(page.get_by_label("Name", exact=True)).to_have_value("Echoes")
    assert violations == []


def test_tools_that_are_added_at_once_are_all_added(
    page: Page, product: Product, violations: list[str]
) -> None:
    """The second one waits for the answer to the first, and so does what is typed meanwhile."""
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/workflows/edit/")
    with page.expect_response("**/workflows/edit/tools/*"):
        page.get_by_label("Search tools").fill("builtin")
    expect(page.locator("#tool-offers.htmx-request, .htmx-settling")).to_have_count(0)
    held: list[Route] = []
    page.route("**/workflows/edit/", lambda route: held.append(route))
    with page.expect_request("**/workflows/edit/"):
        page.get_by_role("button", name="+ builtin.echo").click()
    page.get_by_role("button", name="+ builtin.wait").click()
    name = page.get_by_label("Name", exact=True)
    name.press_sequentially("Tw")
    with page.expect_request("**/workflows/edit/"):
        held[0].continue_()
    expect(name).to_be_focused()
    page.keyboard.type("o")
    held[1].continue_()
    expect(page.locator(NODES)).to_have_count(2)
    expect(name).to_have_value("Two")
    assert violations == []


def opened_editor(page: Page, product: Product) -> tuple[Locator, Locator, Locator]:
    """The buttons that add a task, undo and redo in the editor of a new plan."""
    sign_in(page, product, "operator")
    page.goto(f"{product.address}/workflows/edit/")
    names = ("+ builtin.echo", "Undo", "Redo")
    add, undo, redo = (page.get_by_role("button", name=name) for name in names)
    return add, undo, redo


def test_undo_waits_for_the_operation_that_runs(
    page: Page, product: Product, violations: list[str]
) -> None:
    """It takes back that operation, and is forgotten with one that failed."""
    add, undo, redo = opened_editor(page, product)
    add.click()
    expect(undo).to_be_enabled()
    held: list[Route] = []
    page.route("**/workflows/edit/", lambda route: held.append(route), times=1)
    with page.expect_request("**/workflows/edit/"):
        add.click()
    undo.click()
    held[0].continue_()
    expect(redo).to_be_enabled()
    expect(page.locator(NODES)).to_have_count(1)
    redo.click()
    expect(redo).to_be_disabled()
    expect(page.locator(NODES)).to_have_count(2)

    page.route("**/workflows/edit/", lambda route: held.append(route), times=1)
    with page.expect_request("**/workflows/edit/"):
        add.click()
    undo.click()
    held[1].abort()
    expect(page.locator("#toasts")).to_contain_text("No connection")
    for number in (3, 4):
        add.click()
        expect(page.locator(NODES)).to_have_count(number)
    assert violations == []


def test_an_undo_or_redo_that_fails_is_no_step(
    page: Page, product: Product, violations: list[str]
) -> None:
    add, undo, redo = opened_editor(page, product)
    for number in (1, 2):
        add.click()
        expect(page.locator(NODES)).to_have_count(number)
    announced = page.locator("#announce")
    page.route("**/workflows/edit/", lambda route: route.abort(), times=1)
    undo.click()
    expect(page.locator("#toasts")).to_contain_text("No connection")
    expect(announced).not_to_have_text("Undone.")
    expect(redo).to_be_disabled()
    undo.click()
    expect(page.locator(NODES)).to_have_count(1)
    expect(announced).to_have_text("Undone.")
    page.route("**/workflows/edit/", lambda route: route.fulfill(status=500), times=1)
    redo.click()
    expect(page.locator("#toasts")).to_contain_text("(500)")
    redo.click()
    expect(page.locator(NODES)).to_have_count(2)
    expect(redo).to_be_disabled()
    for number in (1, 0):
        undo.click()
        expect(page.locator(NODES)).to_have_count(number)
    expect(undo).to_be_disabled()
    assert violations == []


def test_connections_are_removed_by_keyboard_and_with_the_mouse(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "operator")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/edit/")
    for number in (1, 2, 3):
        page.get_by_role("button", name="+ builtin.echo").click()
        expect(page.locator(NODES)).to_have_count(number)
    for number in (0, 1):
        page.locator(f"#select-{number}").click()
        expect(page.locator("#task-title")).to_be_focused()
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(page.locator(EDGES)).to_have_count(number + 1)
    remove = page.get_by_role("button", name="Remove connection")
    expect(remove).to_be_hidden()

    # Arrow keys move between connections; Delete removes one, and the next has the focus.
    page.locator("h1").evaluate("element => element.focus()")
    tab_to(page, "Connection from echo to echo_2")
    expect(remove).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator(EDGES).nth(1)).to_be_focused()
    page.keyboard.press("Delete")
    expect(page.locator(EDGES)).to_have_count(1)
    expect(page.locator(EDGES).first).to_be_focused()
    page.keyboard.press("Control+z")
    expect(page.locator(EDGES)).to_have_count(2)

    # The button does the same; Enter leads to it.
    page.locator("h1").evaluate("element => element.focus()")
    tab_to(page, "Connection from echo to echo_2")
    page.keyboard.press("Enter")
    expect(remove).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(EDGES)).to_have_count(1)
    box = page.locator(f"{EDGES} .edge").first.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_text("Connection from echo_2 to echo_3")).to_be_visible()
    remove.click()
    expect(page.locator(EDGES)).to_have_count(0)
    expect(page.locator(f"{NODES}[aria-current]")).to_be_focused()
    assert violations == []


def test_a_reference_is_chosen_from_a_run_and_tried_while_it_is_typed(
    page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "admin")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/edit/?run={finished_run(product)}")
    page.locator("#select-1").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#task-title")).to_be_focused()
    tab_to(page, "Browse values for ")
    page.keyboard.press("Enter")
    expect(page.locator("#values-title")).to_be_focused()
    tab_to(page, "first$")
    page.keyboard.press("Enter")
    select = page.locator("[name='t1.a0.select']")
    expect(select).to_be_focused()
    expect(select).to_have_value("first")
    expect(page.get_by_text("In run")).to_contain_text('"one"')
    # Each pause in typing tries the expression, and the field keeps the focus.
    page.keyboard.press("End")
    page.keyboard.type("[")
    expect(select).to_have_attribute("aria-invalid", "true")
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+A")
    page.keyboard.type("length(@)")
    expect(page.get_by_text("In run")).to_contain_text("2")
    expect(select).to_be_focused()
    tab_to(page, "Run this task")
    page.keyboard.press("End")
    tab_to(page, "JMESPath expression")
    page.keyboard.type("echo.second == 'three'")
    expect(page.get_by_text("false: the task is skipped")).to_be_visible()
    page.locator("h1").evaluate("element => element.focus()")
    page.keyboard.press("Control+z")
    expect(page.locator("[name='t1.when']")).to_have_value("")
    expect(page.locator("[name='t1.a0.select']")).to_have_value("length(@)")
    assert violations == []


def test_an_unsaved_draft_is_offered_after_a_new_sign_in(
    browser: Browser, page: Page, product: Product, violations: list[str]
) -> None:
    sign_in(page, product, "reviewer")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto(f"{product.address}/workflows/edit/")
    expect(page.get_by_text("Unsaved draft from")).to_have_count(0)
    page.get_by_role("button", name="+ builtin.echo").click()
    expect(page.locator("#task-title")).to_be_focused()
    # An error stands at its field, and the draft is kept, after a pause in typing.
    identifier = page.get_by_label("Id", exact=True)
    identifier.fill("not good")
    expect(identifier).to_have_attribute("aria-invalid", "true")
    expect(identifier).to_be_focused()
    identifier.fill("say")
    expect(page.locator(f"{NODES} .name")).to_have_text("say")

    other = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
    sign_in(other, product, "reviewer")
    other.goto(f"{product.address}/workflows/edit/")
    expect(other.get_by_text("Unsaved draft from")).to_be_visible()
    expect(other.locator(NODES)).to_have_count(0)
    tab_to(other, "Continue")
    other.keyboard.press("Enter")
    expect(other.locator(f"{NODES} .name")).to_have_text("say")
    expect(other.get_by_text("Unsaved draft from")).to_have_count(0)
    other.reload()
    other.get_by_role("button", name="Discard").click()
    expect(other.get_by_text("Unsaved draft from")).to_have_count(0)
    other.reload()
    expect(other.get_by_text("Unsaved draft from")).to_have_count(0)
    other.close()
    assert violations == []


def test_an_imported_file_is_offered_as_a_version(
    page: Page, product: Product, violations: list[str]
) -> None:
    api = Api(product, "admin", "read,run,admin")
    task = {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": "x"}}
    status, made = api("workflows/", {"name": "pears", "title": "Pears", "plan": {"tasks": [task]}})
    assert status == 201, made
    sign_in(page, product, "admin")
    file = page.request.get(f"{product.address}/workflows/{made['id']}/export.json").json()
    page.goto(f"{product.address}/workflows/edit/")
    page.get_by_text("Import JSON or YAML").click()
    page.locator("#import-text").fill(json.dumps({**file, "title": "Ripe pears"}))
    page.get_by_role("button", name="Import", exact=True).click()
    offer = page.get_by_role("heading", name="Import it as a version of “Pears”")
    expect(offer).to_be_focused()
    expect(page.get_by_role("region", name="Import it as")).to_contain_text("Ripe pears")
    page.get_by_role("button", name="Import as a new version").click()
    expect(page.locator("[name='title']")).to_have_value("Ripe pears")
    page.get_by_role("button", name="Save the workflow").click()
    page.wait_for_url(f"**/workflows/{made['id']}/")
    assert api("workflows/pears/")[1]["title"] == "Ripe pears"
    assert violations == []


def finished_run(product: Product) -> int:
    """A run of two echoes; the second reads the whole output of the first."""
    first = {"id": "echo", "type": "tool", "tool": "builtin.echo"}
    second = {**first, "id": "again", "arguments": {"value": {"$from": "echo"}}}
    first["arguments"] = {"value": {"first": "one", "second": "two"}}  # type: ignore[assignment]
    api = Api(product, "admin", "read,run")
    _, found = api("executions/", {"plan": {"tasks": [first, second]}})
    until(api, found["id"], "COMPLETED")
    return int(found["id"])


def test_the_editor_breaks_no_rule(browser: Browser, product: Product) -> None:
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    sign_in(page, product, "admin")
    page.goto(f"{product.address}/workflows/edit/?copy={release_notes(product)}")
    page.locator(NODES).nth(2).click()
    expect(page.locator("#task-title")).to_be_focused()
    page.get_by_role("button", name=re.compile("Browse values")).first.click()
    expect(page.locator("#values-title")).to_be_focused()
    page.locator(EDGES).first.focus()
    faults = faults_in_each_look(page)
    context.close()
    assert faults == []


def faults_in_each_look(page: Page) -> list[Any]:
    faults: list[Any] = []
    for width in (WIDE["width"], NARROW):
        for scheme in ("light", "dark"):
            # As tall as the page: what the sticky bar covers just now is no small target.
            page.set_viewport_size({"width": width, "height": 5_000})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            faults += page.evaluate(MEASURE, EVERYTHING)["faults"]
            if page.evaluate(SIDEWAYS) > 0:
                faults.append(f"scrolls sideways at {width}")
    return faults


@pytest.fixture
def order_tool(product: Product) -> Iterator[None]:
    """A tool that takes a list of objects, for as long as the test."""
    line = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "count": {"type": "integer"}},
    }
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": line}}}
    fields = f"name='shop.order', server='shop', kind='mcp', input_schema={schema!r}"
    product.command("shell", "--command", ORDER_TOOL.format(fields=fields))
    yield
    product.command("shell", "--command", "Tool.objects.filter(server='shop').delete()")


def test_lists_and_inputs_of_code_are_fields(
    browser: Browser, product: Product, order_tool: None
) -> None:
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.add_init_script(AXE_SCRIPT)
    page = context.new_page()
    sign_in(page, product, "admin")
    page.goto(f"{product.address}/workflows/edit/")
    with page.expect_response("**/workflows/edit/tools/*"):
        page.get_by_label("Search tools").fill("shop.order")
    expect(page.locator("#tool-offers.htmx-request, .htmx-settling")).to_have_count(0)
    page.get_by_role("button", name="+ shop.order").click()
    expect(page.locator("#task-title")).to_be_focused()
    lines = page.get_by_role("group", name="lines", exact=True).last
    for text in ("a", "b"):
        lines.get_by_role("button", name="Add", exact=False).click()
        page.keyboard.type(text)
    lines.get_by_role("button", name="Remove").first.click()
    page.get_by_role("button", name="Add Python code").click()
    name = page.get_by_label("New input", exact=True)
    name.fill("two words")
    page.get_by_role("button", name="Add input").click()
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("order")
    tab_to(page, "Add input$")
    page.keyboard.press("Enter")
    source = page.get_by_label("Source of order of code")
    expect(source).to_be_focused()
    source.select_option("order")
    expect(page.locator(EDGES)).to_have_count(1)
    draft = json.loads(page.locator("#editor-draft").input_value())
    order, code = draft["plan"]["tasks"]
    assert order["arguments"] == {"lines": [{"id": "b"}]}
    assert code["inputs"] == {"order": {"$from": "order"}}
    faults = faults_in_each_look(page)
    page.locator("#select-0").click()
    expect(page.locator("[name='v:t0.a0/0/id']")).to_have_value("b")
    faults += faults_in_each_look(page)
    context.close()
    assert faults == []


def release_notes(product: Product) -> int:
    _, found = Api(product, "operator", "read")("workflows/release-notes/")
    return int(found["id"])
