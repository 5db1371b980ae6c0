"""The Helm chart against the code: settings, commands, ports and rights, and what Helm makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

import muster
from muster_server.cli import _parser
from muster_server.settings import Settings
from support.batch.kubernetes_api import LEAST_RIGHTS
from support.batch.kubernetes_schema import invalid_fields, schema_problems
from support.helm import CHART, NAMESPACE, ChartRefused, has_program, render, why_missing

COMPOSE = (CHART.parents[2] / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
LEAST: dict[str, Any] = {"existingSecret": "muster-urls"}
EVERYTHING: dict[str, Any] = {
    **LEAST,
    "image": {"repository": "registry.example/muster-server", "pullSecrets": ["registry"]},
    "publicUrl": "https://muster.example",
    "settings": {
        "MUSTER_LOG_LEVEL": "debug",
        "MUSTER_LOG_RETENTION_DAYS": 30,
        "MUSTER_BLOB_MAX_BYTES": 100_000_000,
        "MUSTER_EXPORTS_MAX_BYTES": 8_589_934_592,
        "MUSTER_HEARTBEAT_S": 2.5,
        "MUSTER_NODE_LOST_S": 1_234_567.5,
        "MUSTER_SCHEDULER_PREEMPT": False,
        "MUSTER_FORWARDED_ALLOW_IPS": ["10.0.0.7"],
    },
    "router": {"enabled": True},
    "ingress": {
        "enabled": True,
        "host": "ai.example",
        "className": "nginx",
        "tlsSecret": "tls",
        "annotations": {"a": "b"},
    },
    "pilots": {"enabled": True, "namespaces": ["ml", "research"]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "kps"}, "tokenSecret": "scrape"},
    "backup": {"enabled": True, "claim": "muster-backups", "keep": 14},
    "podAnnotations": {"example.com/team": "ml"},
    "priorityClassName": "services",
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                ]
            }
        }
    },
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority", "readOnly": True}],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
}
needs_helm = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "Helm is here")
needs_program = pytest.mark.skipif(
    not has_program(), reason="no program `helm`: its makers' library rendered the chart"
)


def test_versions_are_those_of_muster() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == muster.__version__


def test_every_value_is_in_the_schema_and_every_default_fits() -> None:
    assert list(_misfits(VALUES, SCHEMA)) == []
    assert set(VALUES) == set(SCHEMA["properties"]) - {"global"}


def _misfits(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield values that are not in the schema, or are in it and have no default."""
    known = schema.get("properties", {})
    for name, value in values.items():
        part = known.get(name, {})
        if "$ref" in part:
            part = SCHEMA["definitions"][part["$ref"].split("/")[-1]]
        if not part:
            yield f"{path}.{name}"
        elif "properties" in part:
            yield from _misfits(value, part, f"{path}.{name}")
            yield from (f"{path}.{name}.{n}" for n in set(part["properties"]) - set(value))


def test_every_setting_in_the_templates_exists() -> None:
    named = {name for text in TEMPLATES.values() for name in re.findall("MUSTER_[A-Z_]+", text)}
    assert len(named) > 5
    for name in named:
        assert name.removeprefix("MUSTER_").lower() in Settings.model_fields, name


def test_every_command_in_the_templates_exists() -> None:
    commands = {
        command
        for text in TEMPLATES.values()
        for command in re.findall(r'"muster-server" "([a-z-]+)"|muster-server ([a-z-]+) --', text)
    }
    names = {a or b for a, b in commands}
    assert names == {"serve", "controller", "worker", "migrate", "setup-token", "backup"}
    for name in names - {"backup"}:
        _parser().parse_args([name])


def test_images_and_ports_are_those_of_compose() -> None:
    assert SERVICES["server"]["image"].startswith(f"{VALUES['image']['repository']}:")
    for name in ("controller", "worker"):
        variable = f"MUSTER_{name.upper()}_PORT"
        port = SERVICES[name]["environment"][variable]
        assert f'"port" {port} ' in TEMPLATES[f"{name}.yaml"]
        assert f'"{variable}" "{port}"' in TEMPLATES[f"{name}.yaml"]
    port = Settings.model_fields["port"].default
    assert f'"port" {port} ' in TEMPLATES["server.yaml"]
    assert VALUES["server"]["service"]["port"] == port


def test_the_controller_gets_the_rights_that_its_tests_have_and_no_more() -> None:
    rules = TEMPLATES["accounts.yaml"].split("\nrules:\n")[1].split("\n---")[0]
    assert yaml.safe_load(rules) == LEAST_RIGHTS
    guide = (CHART.parents[2] / "docs/guides/kubernetes.md").read_text()
    (told,) = re.findall(r"```text\n(- {apiGroups.*?)```", guide, re.DOTALL)
    assert yaml.safe_load(told) == LEAST_RIGHTS
    assert "ClusterRole" not in "".join(TEMPLATES.values())


@cache
def _rendered(values: str) -> list[dict[str, Any]]:
    return render(json.loads(values))


def _objects(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for thing in _rendered(json.dumps(values)):
        meta = thing["metadata"]
        found[f"{thing['kind']} {meta['namespace']}/{meta['name']}"] = thing
    return found


@needs_helm
@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_helm_renders_valid_objects(values: dict[str, Any]) -> None:
    objects = _objects(values)
    for name, thing in objects.items():
        if thing["kind"] != "ServiceMonitor":  # of an operator, not of Kubernetes
            assert schema_problems(thing) == [], name
        assert list(invalid_fields(thing)) == [], name
    assert {f"Deployment {NAMESPACE}/demo-{p}" for p in ("server", "controller", "worker")} <= set(
        objects
    )
    assert len(objects) == len(_rendered(json.dumps(values))), "no name twice"


@needs_helm
def test_pods_run_without_rights_and_show_no_secret() -> None:
    for name, thing in _objects(EVERYTHING).items():
        if thing["kind"] != "Deployment":
            continue
        pod = thing["spec"]["template"]["spec"]
        routers = [one for one in pod["containers"] if one["name"] == "router"]
        assert len(routers) == name.endswith("controller"), name
        for container in routers:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["image"].startswith("haproxy:")
            assert "env" not in container
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["automountServiceAccountToken"] is name.endswith("controller"), name
        own = [one for one in pod["containers"] if one not in routers]
        for container in [*pod["initContainers"], *own]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["image"] == f"registry.example/muster-server:{muster.__version__}"
            variables = {v["name"]: v.get("value", "") for v in container["env"]}
            assert "://" not in variables["MUSTER_DATABASE_URL_FILE"]
            assert variables["MUSTER_SECRETS_KEY"] == "", "it comes from the Secret"
            assert "demo.prod.svc" in json.loads(variables["MUSTER_ALLOWED_HOSTS"])
        assert (
            thing["spec"]["selector"]["matchLabels"]
            == thing["spec"]["template"]["metadata"]["labels"]
        )


@needs_program
@pytest.mark.parametrize("values", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_the_program_makes_the_same_of_a_file_of_values(values: dict[str, Any]) -> None:
    assert render(values, with_program=True) == _rendered(json.dumps(values))


def _environments(values: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the variables of every container of Muster's own."""
    for thing in _objects(values).values():
        if thing["kind"] == "Deployment":
            pod = thing["spec"]["template"]["spec"]
            for container in [*pod["initContainers"], *pod["containers"]]:
                if "env" in container:
                    yield {v["name"]: v.get("value", "") for v in container["env"]}


@needs_helm
def test_settings_arrive_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(_environments(EVERYTHING))
    assert len(found) == 6
    for variables in found:
        assert variables["MUSTER_BLOB_MAX_BYTES"] == "100000000"
        assert variables["MUSTER_EXPORTS_MAX_BYTES"] == "8589934592"
        assert variables["MUSTER_LOG_RETENTION_DAYS"] == "30"
        assert variables["MUSTER_NODE_LOST_S"] == "1234567.5"
        for name in ("DATABASE_URL_FILE", "REDIS_URL_FILE"):  # of the Secret
            del variables[f"MUSTER_{name}"]
        monkeypatch.setattr("os.environ", variables)
        settings = Settings()
        assert settings.blob_max_bytes == 100_000_000
        assert settings.heartbeat_s == 2.5
        assert settings.scheduler_preempt is False
        assert settings.forwarded_allow_ips == ["10.0.0.7"]


@needs_helm
def test_the_host_of_the_ingress_is_answered() -> None:
    ingress = _objects(EVERYTHING)[f"Ingress {NAMESPACE}/demo"]
    (host,) = {rule["host"] for rule in ingress["spec"]["rules"]}
    without_url = {**EVERYTHING, "publicUrl": ""}
    for values, url in ((EVERYTHING, "https://muster.example"), (without_url, f"https://{host}")):
        for variables in _environments(values):
            assert host in json.loads(variables["MUSTER_ALLOWED_HOSTS"])
            assert variables["MUSTER_PUBLIC_URL"] == url
    for variables in _environments(LEAST):
        assert "muster.example" not in variables["MUSTER_ALLOWED_HOSTS"]
        assert "MUSTER_PUBLIC_URL" not in variables


@needs_helm
@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://ai.example", "/"),
        ("https://ai.example/muster", "/muster"),
        ("https://ai.example/lab/muster/", "/lab/muster"),
    ],
)
def test_the_ingress_has_the_path_of_the_public_url(url: str, path: str) -> None:
    for values in (
        {**EVERYTHING, "publicUrl": url},
        {**EVERYTHING, "settings": {"MUSTER_PUBLIC_URL": url}},
    ):
        (rule,) = _objects(values)[f"Ingress {NAMESPACE}/demo"]["spec"]["rules"]
        assert [one["path"] for one in rule["http"]["paths"]] == [path]


@needs_helm
@pytest.mark.parametrize("name", ["MUSTER_ALLOWED_HOSTS", "MUSTER_PUBLIC_URL"])
def test_a_setting_that_the_chart_has_as_well_is_there_once(name: str) -> None:
    own = {"MUSTER_ALLOWED_HOSTS": '["ai.example"]', "MUSTER_PUBLIC_URL": "https://own.example"}[
        name
    ]
    objects = render({**EVERYTHING, "settings": {name: own}})
    pods = [
        o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("Deployment", "StatefulSet")
    ]
    assert pods
    for container in (c for pod in pods for c in pod["containers"]):
        found = [v["value"] for v in container.get("env", []) if v["name"] == name]
        assert found in ([], [own]), container["name"]


@needs_helm
def test_a_host_of_the_ingress_that_would_not_be_answered_is_refused() -> None:
    hosts: Any
    for hosts in (["own.example"], '["own.example"]', []):
        with pytest.raises(ChartRefused, match=r"ai\.example is not among settings"):
            render({**EVERYTHING, "settings": {"MUSTER_ALLOWED_HOSTS": hosts}})
    for hosts in (["own.example", "AI.example"], '["ai.example"]'):
        assert render({**EVERYTHING, "settings": {"MUSTER_ALLOWED_HOSTS": hosts}})
    # The server adds the name in its public URL by itself.
    settings = {"MUSTER_ALLOWED_HOSTS": [], "MUSTER_PUBLIC_URL": "https://ai.example:8443"}
    assert render({**EVERYTHING, "settings": settings})


@needs_helm
def test_every_pod_has_what_is_set_for_all_of_them() -> None:
    pods = {}
    for name, thing in _objects(EVERYTHING).items():
        spec = thing.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            pods[name.split("/")[1]] = template
    assert set(pods) == {f"demo-{part}" for part in ("server", "controller", "worker", "backup")}
    for name, template in pods.items():
        assert template["metadata"]["annotations"] == EVERYTHING["podAnnotations"], name
        pod = template["spec"]
        for field in ("priorityClassName", "affinity", "nodeSelector", "tolerations"):
            assert pod[field] == EVERYTHING[field], (name, field)
        assert EVERYTHING["extraVolumes"][0] in pod["volumes"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            is_ours = container["name"] != "router"
            assert (EVERYTHING["extraVolumeMounts"][0] in container["volumeMounts"]) is is_ours
    for thing in _objects(LEAST).values():
        if thing["kind"] == "Deployment":
            template = thing["spec"]["template"]
            assert "annotations" not in template["metadata"]
            assert not {"affinity", "priorityClassName"} & set(template["spec"])


@needs_helm
def test_the_backup_job_runs_the_command_on_its_claim() -> None:
    job = _objects(EVERYTHING)[f"CronJob {NAMESPACE}/demo-backup"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    arguments = _parser().parse_args(container["command"][1:])
    assert arguments.keep == 14
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    (volume,) = [v for v in pod["volumes"] if v["name"] == mounts[str(arguments.file)]]
    assert volume["persistentVolumeClaim"] == {"claimName": "muster-backups"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["automountServiceAccountToken"] is False
    assert f"CronJob {NAMESPACE}/demo-backup" not in _objects(LEAST)


@needs_helm
def test_prometheus_finds_the_servers_and_has_a_token() -> None:
    objects = _objects(EVERYTHING)
    monitor = objects[f"ServiceMonitor {NAMESPACE}/demo"]
    assert monitor["metadata"]["labels"]["release"] == "kps"
    service = objects[f"Service {NAMESPACE}/demo"]
    chosen = monitor["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {"name": "scrape", "key": "token"}
    others = [
        thing for thing in objects.values() if thing["kind"] == "Service" and thing is not service
    ]
    assert all(not chosen.items() <= thing["metadata"]["labels"].items() for thing in others)


@needs_helm
def test_the_router_is_beside_the_one_controller_and_reached_by_clients() -> None:
    objects = _objects(EVERYTHING)
    controller = objects[f"Deployment {NAMESPACE}/demo-controller"]["spec"]
    assert (controller["replicas"], controller["strategy"]) == (1, {"type": "Recreate"})
    pod = controller["template"]["spec"]
    router, own = (
        next(one for one in pod["containers"] if one["name"] == name)
        for name in ("router", "controller")
    )
    command = SERVICES["router"]["command"]
    assert router["command"] == command, "that of compose"
    folders = [
        next(m["mountPath"] for m in one["volumeMounts"] if m["name"] == "router")
        for one in (router, own)
    ]
    variables = next(
        v for v in _environments(EVERYTHING) if v.get("MUSTER_CONTROLLER_PORT") is not None
    )
    assert folders == [variables["MUSTER_ROUTER_DIR"]] * 2
    ports = {p["name"]: p["containerPort"] for one in (router, own) for p in one["ports"]}
    assert str(ports["router"]) == variables["MUSTER_ROUTER_PORT"]
    assert ports["router"] != ports["http"], "containers of a pod share an address"
    service = objects[f"Service {NAMESPACE}/demo-router"]["spec"]
    assert service["ports"][0]["targetPort"] == "router"
    assert service["selector"] == controller["selector"]["matchLabels"]
    assert variables["MUSTER_ROUTER_URL"] == "http://demo-router.prod.svc:8471"
    assert variables["MUSTER_DEPLOYMENTS_LISTEN"] == "node"
    policy = objects[f"NetworkPolicy {NAMESPACE}/demo-router"]["spec"]
    assert policy["ingress"] == [{"ports": [{"port": "router"}]}]
    pilots = objects["NetworkPolicy ml/demo-pilots"]["spec"]["ingress"][0]["from"]
    assert pilots[1]["podSelector"]["matchLabels"] == controller["selector"]["matchLabels"]
    assert f"Deployment {NAMESPACE}/demo-controller" in _objects(LEAST)
    assert f"Service {NAMESPACE}/demo-router" not in _objects(LEAST)
    assert _objects(LEAST)[f"Deployment {NAMESPACE}/demo-controller"]["spec"]["replicas"] == 2


@needs_helm
def test_pilots_are_run_in_their_namespaces_alone_and_only_if_asked_for() -> None:
    objects = _objects(EVERYTHING)
    for namespace in ("ml", "research"):
        binding = objects[f"RoleBinding {namespace}/demo-pilots"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "demo-controller", "namespace": NAMESPACE}
        ]
        policy = objects[f"NetworkPolicy {namespace}/demo-pilots"]
        assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert objects[f"Ingress {NAMESPACE}/demo"]["spec"]["tls"][0]["secretName"] == "tls"
    kinds = {name.split()[0] for name in _objects(LEAST)}
    assert not kinds & {"Role", "RoleBinding", "Ingress", "Secret"}
    deployment = _objects(LEAST)[f"Deployment {NAMESPACE}/demo-controller"]
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


@needs_helm
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "existingSecret is required"),
        ({**LEAST, "server": {"replicas": 0}}, "/server/replicas"),
        ({**LEAST, "postgres": {}}, "postgres"),
        ({**LEAST, "settings": {"LOG_LEVEL": "debug"}}, "LOG_LEVEL"),
        ({**LEAST, "publicUrl": "muster.example"}, "/publicUrl"),
        ({**LEAST, "backup": {"enabled": True}}, "backup.claim is required"),
        ({**LEAST, "backup": {"keep": 0}}, "/backup/keep"),
        ({**LEAST, "serviceMonitor": {"enabled": True}}, "serviceMonitor.tokenSecret is required"),
    ],
)
def test_bad_values_are_told(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ChartRefused, match=words):
        render(values)
