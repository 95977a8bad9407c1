"""The files of deploy/ as the programs read them that they are written for.

Helm's own library renders the chart, the schemas of Kubernetes validate what it renders, and
hadolint, compose-spec and crossplane read the other files. No container runs here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compose_spec
import crossplane
import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "holdpoint"
KUBERNETES = ("1.27", "1.33")
#: Debian has it in /usr/sbin, which is not on the path of every account.
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: A severity of Helm's linter.
WARNING = 2
TEXT, COUNT = {"type": "string", "minLength": 1}, {"type": "integer", "minimum": 1}


def closed(required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these members and no other."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


#: Kinds that are not Kubernetes' own: their fields that the chart may use, by KEDA's documentation
#: of ScaledObject and of its scaler `prometheus`, in which every value is a string.
FOREIGN_KINDS = {
    "ScaledObject": closed(
        "apiVersion kind metadata spec",
        apiVersion={"const": "keda.sh/v1alpha1"},
        kind={"const": "ScaledObject"},
        metadata=closed("name", name=TEXT, labels={"type": "object"}),
        spec=closed(
            "scaleTargetRef triggers",
            scaleTargetRef=closed("name", name=TEXT),
            minReplicaCount={"type": "integer", "minimum": 0},
            maxReplicaCount=COUNT,
            triggers={
                "type": "array",
                "minItems": 1,
                "items": closed(
                    "type metadata",
                    type={"const": "prometheus"},
                    metadata=closed(
                        "serverAddress query threshold",
                        serverAddress={"type": "string", "pattern": "^https?://"},
                        query=TEXT,
                        threshold={"type": "string", "pattern": "^[0-9.]+$"},
                    ),
                ),
            },
        ),
    )
}


def rendered(**values: Any) -> list[dict[str, Any]]:
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name="hp", namespace="review")
    documents = (each for text in files.values() for each in yaml.safe_load_all(text))
    return [each for each in documents if each]


def kinds(documents: list[dict[str, Any]]) -> list[str]:
    return sorted(f"{each['kind']} {each['metadata']['name']}" for each in documents)


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "hpa": {"workers": {"autoscaling": {"kind": "hpa"}}},
    "keda": {"workers": {"autoscaling": {"kind": "keda"}}},
    "webhooks": {"webhooks": {"replicas": 2}, "settings": {"HOLDPOINT_WEBHOOK_CONCURRENCY": 8}},
    "files": {"files": {"existingClaim": "shared"}, "nodeSelector": {"disk": "ssd"}},
    "private": {"imagePullSecrets": [{"name": "registry"}], "image": {"tag": "1.2.3"}},
    "small": {
        "ingress": {"enabled": False},
        "migrations": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
    },
}


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", VARIANTS)
def test_kubernetes_accepts_what_the_chart_renders(name: str, version: str) -> None:
    documents = rendered(**VARIANTS[name])
    assert documents
    for document in documents:
        if schema := FOREIGN_KINDS.get(document["kind"]):
            jsonschema.validate(document, schema)
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_helm_lints_the_chart() -> None:
    report = helm_python.lint(CHART)
    findings = [each for each in report["messages"] if each["severity"] >= WARNING]
    assert (findings, report["errors"]) == ([], [])


def test_the_chart_has_every_process() -> None:
    assert kinds(rendered()) == [
        "Deployment hp-sweeper",
        "Deployment hp-web",
        "Deployment hp-workers",
        "Ingress hp",
        "Job hp-migrate-1",
        "NetworkPolicy hp",
        "NetworkPolicy hp-web",
        "PodDisruptionBudget hp-web",
        "PodDisruptionBudget hp-workers",
        "Service hp-web",
    ]
    assert kinds(rendered(**VARIANTS["small"])) == [
        "Deployment hp-sweeper",
        "Deployment hp-web",
        "Deployment hp-workers",
        "Service hp-web",
    ]


def pods(**values: Any) -> Iterator[dict[str, Any]]:
    for document in rendered(**values):
        if document["kind"] in ("Deployment", "Job"):
            yield document["spec"]["template"]


def test_every_pod_is_confined_and_selected_by_the_policies() -> None:
    (policy,) = [each for each in rendered() if each["metadata"]["name"] == "hp" and
                 each["kind"] == "NetworkPolicy"]  # fmt: skip
    selected = policy["spec"]["podSelector"]["matchLabels"]
    for pod in pods(webhooks={"replicas": 1}):
        assert selected.items() <= pod["metadata"]["labels"].items()
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        (container,) = spec["containers"]
        confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
        assert confined.items() <= container["securityContext"].items()
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def images(**values: Any) -> dict[str, str]:
    return {
        pod["metadata"]["labels"]["app.kubernetes.io/component"]: container["image"]
        for pod in pods(webhooks={"replicas": 1}, **values)
        for container in pod["spec"]["containers"]
    }


def test_an_upgrade_migrates_and_replaces_the_web_processes_last() -> None:
    """The first step changes no web pod; the second one changes nothing else."""
    before = images(image={"tag": "1"})
    first = images(image={"tag": "2"}, web={"tag": "1"})
    second = images(image={"tag": "2"}, web={"tag": ""})
    assert set(before) == {"migrations", "sweeper", "web", "webhooks", "workers"}
    assert set(before.values()) == {"holdpoint:1"}
    assert first == {**second, "web": "holdpoint:1"}
    assert set(second.values()) == {"holdpoint:2"}

    labels = {f"app.kubernetes.io/{each}" for each in ("name", "instance", "component")}
    (web,) = [pod for pod in pods() if pod["metadata"]["labels"].keys() == labels]
    assert web["spec"]["containers"][0]["name"] == "web"


def test_the_migration_runs_before_the_processes_are_replaced() -> None:
    (job,) = [each for each in rendered() if each["kind"] == "Job"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    grant = "python -m config.database.roles"
    steps = (grant, "python manage.py migrate", grant, "python manage.py setup_roles")
    assert container["args"] == ["sh", "-c", " && ".join(steps)]


def test_every_process_has_a_probe() -> None:
    for pod in pods(webhooks={"replicas": 1}):
        (container,) = pod["spec"]["containers"]
        assert ("livenessProbe" in container) == (container["name"] != "migrate")
        if container["name"] == "webhooks":
            command = container["livenessProbe"]["exec"]["command"]
            assert command == ["python", "-m", "config.observability.alive", "webhooks"]


def test_secrets_are_referenced_and_mounted() -> None:
    for pod in pods(files={"existingClaim": "shared"}):
        (container,) = pod["spec"]["containers"]
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        files = set()
        for volume in pod["spec"]["volumes"]:
            for item in volume.get("secret", {}).get("items", ()):
                files.add(f"{mounts[volume['name']]}/{item['path']}")
        assert set(mounts) == {each["name"] for each in pod["spec"]["volumes"]}
        named = [each for each in container["env"] if each["name"].endswith("_FILE")]
        assert {each["value"] for each in named} <= files
        names = [each["name"] for each in container["env"]]
        assert len(names) == len(set(names))


def test_only_the_migration_has_the_owner_of_the_database() -> None:
    for pod in pods():
        volumes = pod["spec"]["volumes"]
        secrets = [each["secret"]["secretName"] for each in volumes if "secret" in each]
        migrates = pod["metadata"]["labels"]["app.kubernetes.io/component"] == "migrations"
        assert secrets == (["holdpoint", "holdpoint-owner"] if migrates else ["holdpoint"])


def test_the_schema_refuses_unknown_values() -> None:
    for wrong in (
        {"wokers": {}},
        {"networkPolicy": {"ingressNamespaces": []}},
    ):
        with pytest.raises(helm_python.HelmError):
            rendered(**wrong)


def test_an_autoscaled_deployment_has_no_number_of_replicas() -> None:
    for kind in ("hpa", "keda"):
        documents = rendered(workers={"autoscaling": {"kind": kind}})
        (workers,) = [
            each
            for each in documents
            if each["kind"] == "Deployment" and each["metadata"]["name"] == "hp-workers"
        ]
        assert "replicas" not in workers["spec"]
        (scaler,) = [
            each
            for each in documents
            if each["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")
        ]
        assert scaler["spec"]["scaleTargetRef"]["name"] == "hp-workers"


def test_hadolint_accepts_the_dockerfile() -> None:
    hadolint = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run(
        [hadolint, "--failure-threshold", "style", DEPLOY / "Dockerfile"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_reads_its_file() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text("utf-8")
    # Docker resolves variables and merge keys before it validates.
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    read = compose_spec.PyCompose.from_json(json.dumps(yaml.safe_load(text)))
    assert {"web", "workers", "sweeper", "migrate"} <= set(read.services or ())


def test_nginx_files_are_read(tmp_path: Path) -> None:
    for name in ("holdpoint.conf", "upstream.conf"):
        shutil.copy(DEPLOY / "nginx" / name, tmp_path)
    main = tmp_path / "nginx.conf"
    main.write_text("events {} http { include upstream.conf; include holdpoint.conf; }")
    payload = crossplane.parse(str(main), strict=True)
    assert payload["errors"] == []
    assert payload["status"] == "ok"


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_accepts_its_files(tmp_path: Path) -> None:
    """`nginx -t` reads the certificate too, and resolves names."""
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                   "-subj", "/CN=holdpoint.example.com", "-keyout", tmp_path / "holdpoint.key",
                   "-out", tmp_path / "holdpoint.pem"]  # fmt: skip
    subprocess.run(certificate, check=True, capture_output=True)
    server = (DEPLOY / "nginx" / "holdpoint.conf").read_text("utf-8")
    for folder in ("/etc/ssl/private", "/etc/ssl"):
        server = server.replace(f"{folder}/holdpoint.", f"{tmp_path}/holdpoint.")
    (tmp_path / "holdpoint.conf").write_text(server)
    shutil.copy(DEPLOY / "nginx" / "upstream.conf", tmp_path)
    main = tmp_path / "nginx.conf"
    bodies = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
    main.write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}}"
        f" http {{ {bodies} access_log off; include upstream.conf; include holdpoint.conf; }}"
    )
    command = [str(NGINX), "-t", "-q", "-p", str(tmp_path), "-c", str(main)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
