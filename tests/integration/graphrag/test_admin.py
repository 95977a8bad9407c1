"""The admin of tools: planning policies can be edited, everything else is read-only."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool, ToolDependency
from tests.support.learning import learn
from workflows.planning.planner import known_tools


@pytest.fixture
def admin(client: Client, django_user_model: type[User]) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def page(name: str, *arguments: object) -> str:
    return reverse(f"admin:graphrag_{name}", args=arguments)


def tool(name: str) -> Tool:
    return Tool.objects.get(name=name)


def test_lists_and_details_open(admin: Client, files_catalogue: list[ToolRecord]) -> None:
    learn(execution_key="one", layers=[["files.list_directory"], ["files.read_file"]])
    for name in ("tool", "tooldependency", "learnedexecution"):
        assert admin.get(page(f"{name}_changelist")).status_code == 200
    listed = admin.get(page("tool_changelist"), {"q": "xml"}).content.decode()
    assert "files.parse_xml" in listed
    assert "files.write_file" not in listed
    detail = admin.get(page("tool_change", tool("files.read_file").pk)).content.decode()
    assert "hashing:3" in detail
    edge = ToolDependency.objects.get()
    assert admin.get(page("tooldependency_change", edge.pk)).status_code == 200


def test_a_change_in_the_admin_survives_a_sync(
    admin: Client, files_catalogue: list[ToolRecord]
) -> None:
    url = page("tool_change", tool("files.read_file").pk)
    assert admin.post(url, {"permission_set": "filesystem"}).status_code == 302
    ingest.upsert_tools(files_catalogue, server="files", prune=True)
    found = known_tools(["files.read_file"])["files.read_file"]
    assert (found.enabled, found.permission_set) == (False, "filesystem")
    assert tool("files.read_file").permission_set_by_hand


def mcp_tool() -> ToolRecord:
    return ToolRecord(
        name="files.read_file",
        kind="mcp",
        server="files",
        title="",
        description="Reads a file.",
        input_schema={"type": "object"},
        output_schema=None,
        permission_set="minimal",
        read_only=False,
        idempotent=False,
        destructive=True,
        open_world=None,
    )


def test_marks_set_by_hand_survive_a_sync_and_can_be_returned(admin: Client) -> None:
    ingest.upsert_tools([mcp_tool()], server="files", prune=True)
    url = page("tool_change", tool("files.read_file").pk)
    sent = {"permission_set": "minimal", "enabled": "on"}
    marks = {"set_read_only": "yes", "set_destructive": "no"}
    assert admin.post(url, {**sent, **marks}).status_code == 302
    for _ in range(2):
        found = tool("files.read_file")
        assert (found.read_only, found.destructive) == (True, False)
        ingest.upsert_tools([mcp_tool()], server="files", prune=True)
    assert admin.post(url, {**sent, "enabled": "on"}).status_code == 302
    ingest.upsert_tools([mcp_tool()], server="files", prune=True)
    found = tool("files.read_file")
    assert (found.read_only, found.destructive, found.marks_by_hand) == (False, True, {})
    both = {"set_read_only": "yes", "set_destructive": "yes"}
    assert admin.post(url, {**sent, **both}).status_code == 200
    assert tool("files.read_file").marks_by_hand == {}


def test_only_marks_of_mcp_tools_are_set(admin: Client, files_catalogue: list[ToolRecord]) -> None:
    Tool.objects.filter(name="files.read_file").update(kind="python")
    url = page("tool_change", tool("files.read_file").pk)
    sent = {"permission_set": "minimal", "enabled": "on", "set_read_only": "no"}
    assert admin.post(url, sent).status_code == 200
    assert tool("files.read_file").marks_by_hand == {}


def test_saving_without_a_change_overrides_nothing(
    admin: Client, files_catalogue: list[ToolRecord]
) -> None:
    url = page("tool_change", tool("files.read_file").pk)
    assert admin.post(url, {"permission_set": "minimal", "enabled": "on"}).status_code == 302
    assert not tool("files.read_file").permission_set_by_hand


def test_an_unknown_permission_set_is_refused(
    admin: Client, files_catalogue: list[ToolRecord]
) -> None:
    response = admin.post(
        page("tool_change", tool("files.read_file").pk), {"permission_set": "almighty"}
    )
    assert response.status_code == 200
    assert tool("files.read_file").permission_set == "minimal"


@pytest.mark.parametrize(("action", "enabled"), [("disable", False), ("enable", True)])
def test_an_action_switches_several_tools(
    admin: Client, files_catalogue: list[ToolRecord], action: str, enabled: bool
) -> None:
    keys = list(Tool.objects.values_list("pk", flat=True))
    response = admin.post(
        page("tool_changelist"), {"action": action, "_selected_action": keys}, follow=True
    )
    assert f"{len(keys)} tools {action}d." in response.content.decode()
    assert set(Tool.objects.values_list("enabled", flat=True)) == {enabled}


def test_learned_rows_are_read_only(admin: Client, files_catalogue: list[ToolRecord]) -> None:
    learn(execution_key="one", layers=[["files.list_directory"], ["files.read_file"]])
    edge = ToolDependency.objects.get()
    assert admin.get(page("tool_add")).status_code == 403
    assert admin.get(page("tooldependency_add")).status_code == 403
    assert admin.post(page("tooldependency_delete", edge.pk), {"post": "yes"}).status_code == 403
    assert admin.post(page("tool_delete", edge.from_tool_id), {"post": "yes"}).status_code == 403
    admin.post(page("tooldependency_change", edge.pk), {"observed_count": "99"})
    edge.refresh_from_db()
    assert edge.observed_count == 1


def test_the_view_permission_does_not_switch(
    client: Client, files_catalogue: list[ToolRecord]
) -> None:
    person = User.objects.create_user("auditor", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_tool"))
    client.force_login(person)
    key = tool("files.read_file").pk
    assert client.get(page("tool_change", key)).status_code == 200
    assert client.post(page("tool_change", key), {"permission_set": "trusted"}).status_code == 403
    client.post(page("tool_changelist"), {"action": "disable", "_selected_action": [key]})
    assert tool("files.read_file").enabled
