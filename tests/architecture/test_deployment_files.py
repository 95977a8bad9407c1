"""The files of deploy/ name only settings, commands, ports and addresses that the product has.

`make check-deploy` reads them with the tools of their formats.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.urls import resolve

from config.devserver.embedded.layout import POSTGRES_MAJOR
from config.observability import alive
from config.settings.topic import extra_of, variable_of
from config.settings.topics import ALL
from tests.architecture.files import PACKAGES, ROOT
from tests.architecture.test_settings_doc import documented
from workflows.executions.dispatch import DEFAULT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "holdpoint"
ROLES = {"web", "worker", "sweeper", "command"}
#: Variables of other programs: Python, PostgreSQL's image, the shell.
FOREIGN = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
FOREIGN |= {"POSTGRES_USER", "POSTGRES_PASSWORD_FILE", "DJANGO_SETTINGS_MODULE"}
PARTS = {*PACKAGES, "templates", "manage.py"}
DAPHNE = re.compile(r"daphne[\s\S]*?config\.asgi:application")


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def dockerfile() -> str:
    """The Dockerfile with continued lines joined, without comments."""
    joined = text_of("Dockerfile").replace("\\\n", " ")
    return "\n".join(line for line in joined.splitlines() if not line.startswith("#"))


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text_of("compose/compose.yaml"))
    return loaded


def products_services() -> dict[str, Mapping[str, Any]]:
    services = compose()["services"].items()
    return {name: each for name, each in services if each["image"].startswith("holdpoint:")}


def templates() -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted((CHART / "templates").iterdir()))


def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return loaded


def units() -> dict[str, configparser.ConfigParser]:
    read = {}
    for path in sorted((DEPLOY / "systemd").iterdir()):
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(path.read_text("utf-8"))
        read[path.name] = parser
    return read


# ---------------------------------------------------------------- settings


def variables() -> Iterator[str]:
    """Every environment variable that a file of deploy/ sets."""
    for _, pairs in re.findall(r"^(ENV) (.*)$", dockerfile(), re.MULTILINE):
        yield from re.findall(r"(\w+)=", pairs)
    for service in compose()["services"].values():
        yield from service.get("environment", {})
    yield from re.findall(r"\{name: ([A-Z][A-Z0-9_]+),", templates())
    yield from values()["secret"]["keys"]
    yield from values()["migrations"]["secret"]["keys"]
    for unit in units().values():
        yield unit["Service"]["Environment"].partition("=")[0]
    yield from re.findall(r"\b([A-Z_]+)=", text_of("Procfile"))
    yield from re.findall(r"\b([A-Z_]+)=", text_of("install.sh").partition("# Values")[2])


def test_every_setting_is_one_of_the_product() -> None:
    named = set(variables()) - FOREIGN
    assert len(named) > 12
    assert {each.removesuffix("_FILE") for each in named} - documented() == set()


def test_secrets_are_read_from_files_that_are_mounted() -> None:
    """Only a secret may have _FILE behind its name."""
    read = {
        variable_of(name, field)
        for topic in ALL
        for name, field in topic.model_fields.items()
        if extra_of(field)["secret"]
    }
    keys = [*values()["secret"]["keys"], *values()["migrations"]["secret"]["keys"]]
    assert set(keys) <= read
    declared = set(compose()["secrets"])
    for name, service in products_services().items():
        files = {k: v for k, v in service["environment"].items() if k.endswith("_FILE")}
        assert {each.removesuffix("_FILE") for each in files} <= read, name
        mounted = {f"/run/secrets/{secret}" for secret in service["secrets"]}
        assert set(files.values()) <= mounted, name
    made = set(re.findall(r"^put (\w+)", text_of("compose/secrets.sh"), re.MULTILINE))
    assert made == declared


# ---------------------------------------------------------------- commands


def commands() -> Iterator[str]:
    yield from re.findall(r"^(?:CMD|\s+CMD) (.*)$", text_of("Dockerfile"), re.MULTILINE)
    for service in products_services().values():
        yield " ".join(service.get("command", []))
    yield from re.findall(r"(?:args|command): \[(.*)\]", templates())
    yield from (unit["Service"]["ExecStart"] for unit in units().values())
    yield from text_of("Procfile").splitlines()


def test_every_command_exists() -> None:
    lines = [line.replace(",", " ").replace('"', "") for line in commands()]
    named = {name for line in lines for name in re.findall(r"manage\.py\s+(\w+)", line)}
    assert named == {"migrate", "setup_roles", "run_workers", "run_sweeper", "send_webhooks"}
    assert named <= set(get_commands())
    modules = {name for line in lines for name in re.findall(r"-m\s+([\w.]+)", line)}
    assert modules == {"config.database.roles", "config.observability.alive"}
    assert all(ROOT.joinpath(*each.split(".")).with_suffix(".py").is_file() for each in modules)


def test_rights_are_granted_before_and_after_the_migration() -> None:
    """Before, for the triggers that write to new tables while the old version serves."""
    grant = "python -m config.database.roles"
    lines = [line for line in commands() if "migrate" in line and "run_" not in line]
    assert len(lines) == 3  # Procfile, compose, chart
    steps = f"{grant} && python manage.py migrate && {grant} && python manage.py setup_roles"
    assert all(steps in line for line in lines)


def test_compose_replaces_the_web_process_last() -> None:
    """An old process cannot read a run that a web process of the new version started."""
    services = compose()["services"]
    for name in ("workers", "sweeper"):
        assert services["web"]["depends_on"][name] == {"condition": "service_healthy"}
        waits = services[name]["depends_on"]["migrate"]
        assert waits == {"condition": "service_completed_successfully"}


def test_every_role_exists() -> None:
    roles = [
        service["environment"].get("HOLDPOINT_ROLE") for service in products_services().values()
    ]
    roles += re.findall(r'"role" "(\w+)"', templates())
    roles += [unit["Service"]["Environment"].partition("=")[2] for unit in units().values()]
    roles += re.findall(r"HOLDPOINT_ROLE=(\w+)", text_of("Procfile"))
    assert len(roles) > 12
    assert {each for each in roles if each} <= ROLES


def test_the_web_process_starts_alike_everywhere() -> None:
    """The options of daphne: the units and the image have the same."""
    unit = units()["holdpoint-web@.service"]["Service"]["ExecStart"]
    (of_image,) = re.findall(r"^CMD (\[.*\])$", text_of("Dockerfile"), re.MULTILINE)
    options = [
        re.findall(r"--[\w-]+ \d+", each) for each in (unit, " ".join(yaml.safe_load(of_image)))
    ]
    assert options[0] == options[1] != []


@pytest.mark.parametrize("name", sorted(units()))
def test_a_unit_runs_the_installed_product(name: str) -> None:
    service = units()[name]["Service"]
    assert service["ExecStart"].startswith("/opt/holdpoint/venv/bin/")
    assert service["WorkingDirectory"] == "/opt/holdpoint/app"
    assert service["User"] == "holdpoint"
    assert service["EnvironmentFile"] == "/etc/holdpoint/env"


# ---------------------------------------------------------------- ports, addresses, names


def test_the_port_is_the_same_everywhere() -> None:
    (exposed,) = re.findall(r"^EXPOSE (\d+)$", dockerfile(), re.MULTILINE)
    assert f'"-p", "{exposed}"' in dockerfile()
    assert f":{exposed}/" in alive.WEB
    assert f"web:{exposed}" in compose()["configs"]["upstream"]["content"]
    assert f"containerPort: {exposed}" in templates()
    assert f"127.0.0.1:{exposed};" in text_of("nginx/upstream.conf")


def test_health_addresses_exist() -> None:
    named = set(re.findall(r"(/\w+z)\b", templates() + alive.WEB))
    named.add(values()["web"]["readinessPath"])
    assert named == {"/livez"}
    for address in (*named, "/readyz", "/metrics"):
        assert resolve(address)


def test_the_scaled_queue_and_its_metric_exist() -> None:
    metrics = (ROOT / "config" / "observability" / "metrics.py").read_text("utf-8")
    assert '"holdpoint_queue_depth"' in metrics
    assert f'holdpoint_queue_depth{{queue="{DEFAULT}"}}' in templates()
    assert f"matchLabels: {{queue: {DEFAULT}}}" in templates()


def test_proxies_set_the_headers_that_the_product_trusts() -> None:
    nginx = text_of("nginx/holdpoint.conf")
    for line in ("Host $host", "X-Forwarded-Proto https", "X-Forwarded-For $remote_addr"):
        assert f"proxy_set_header {line};" in nginx
    assert "client_max_body_size 2m;" in nginx  # HOLDPOINT_MAX_BODY_BYTES
    annotations = values()["ingress"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "2m"


def test_versions_are_those_of_the_product() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert compose()["services"]["postgres"]["image"].endswith(f":pg{POSTGRES_MAJOR}")
    (extras,) = re.findall(r'^ARG EXTRAS="(.*)"$', dockerfile(), re.MULTILINE)
    assert set(extras.split()) <= set(project["optional-dependencies"])
    assert "embedded" not in extras.split()


# ---------------------------------------------------------------- the image


def test_the_image_has_every_part_of_the_product() -> None:
    (copied,) = re.findall(r"for part in (.*); do", text_of("install.sh"))
    assert set(copied.split()) == PARTS
    assert set(re.findall(r"^COPY (\S+) \S+$", dockerfile(), re.MULTILINE)) >= PARTS
    sent = set(re.findall(r"^!(\S+)$", text_of("Dockerfile.dockerignore"), re.MULTILINE))
    assert sent == PARTS | {
        "pyproject.toml",
        "requirements/uv.txt",
        "requirements/production.txt",
        "deploy/install.sh",
    }


def test_containers_have_no_rights_that_they_do_not_need() -> None:
    assert re.search(r"^USER 10001:10001$", dockerfile(), re.MULTILINE)
    for name, service in products_services().items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    helpers = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    for line in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]"):
        assert line in helpers


def test_no_metadata_service_is_reachable() -> None:
    policy = (CHART / "templates" / "network.yaml").read_text("utf-8")
    found = re.findall(
        r"ipBlock: {cidr: (\S+), except: {{ toJson .Values.networkPolicy.(\w+) }}}", policy
    )
    assert len(found) == policy.count("ipBlock:")
    denied = {network.strip('"'): values()["networkPolicy"][name] for network, name in found}
    assert "169.254.0.0/16" in denied["0.0.0.0/0"]
    assert "fd00:ec2::254/128" in denied["::/0"]
