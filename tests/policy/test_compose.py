"""docker-compose.yml and the Dockerfiles against the code: every command, port, variable and path.

The stack itself is run for real by scripts/compose-smoke, which needs a Docker engine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster_agent.settings import AgentSettings
from muster_server.security.stack_secrets import init_stack_secrets
from muster_server.settings import Settings
from support.client import plain_app

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = [ROOT / "server/Dockerfile", ROOT / "agent/Dockerfile"]
PROXY = (ROOT / "server/haproxy.cfg").read_text()
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)


def _command_of(service: dict[str, Any]) -> list[str]:
    if "command" in service:
        return list(service["command"])
    dockerfile = (ROOT / service["build"]["dockerfile"]).read_text()
    match = re.search(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)
    assert match
    return list(yaml.safe_load(match.group(1)))


@pytest.mark.parametrize("name", OURS)
def test_every_command_and_option_exists(name: str) -> None:
    program, subcommand, *arguments = _command_of(SERVICES[name])
    module = {"muster-server": "muster_server.cli", "muster-agent": "muster_agent.cli"}[program]
    result = subprocess.run(
        [sys.executable, "-m", module, subcommand, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for argument in arguments:
        if argument.startswith("--"):
            assert argument in result.stdout


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting(name: str) -> None:
    for variable in SERVICES[name].get("environment", {}):
        if variable.startswith("MUSTER_AGENT_"):
            assert variable.removeprefix("MUSTER_AGENT_").lower() in AgentSettings.model_fields
        else:
            assert variable.removeprefix("MUSTER_").lower() in Settings.model_fields


def test_published_port_is_the_one_the_server_listens_on() -> None:
    port = Settings.model_fields["port"].default
    (published,) = SERVICES["proxy"]["ports"]
    assert published.endswith(f":{port}")
    assert published.startswith("${MUSTER_BIND:-127.0.0.1}:")
    dockerfile = (ROOT / "server/Dockerfile").read_text()
    assert f"EXPOSE {port}" in dockerfile
    assert f"MUSTER_PORT={port}" in dockerfile
    assert f"bind :{port}\n" in PROXY
    assert f" server:{port} " in PROXY
    for name in ("agent-1", "agent-2"):
        url = SERVICES[name]["environment"]["MUSTER_AGENT_SERVER_URL"]
        assert url == f"http://server:{port}"


@pytest.mark.parametrize("name", ["controller", "worker"])
def test_parts_that_answer_beside_their_work_are_asked_where_they_do(name: str) -> None:
    port = SERVICES[name]["environment"][f"MUSTER_{name.upper()}_PORT"]
    probe = SERVICES[name]["healthcheck"]["test"]
    assert probe == ["CMD", "muster-server", "health", "--port", port]
    assert port != str(Settings.model_fields["port"].default)


def test_volumes_networks_and_dependencies_exist() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            assert mount.split(":")[0] in COMPOSE["volumes"]
        for network in service.get("networks", []):
            assert network in COMPOSE["networks"]
        for dependency, how in service.get("depends_on", {}).items():
            assert dependency in SERVICES
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[dependency]
            if how["condition"] == "service_completed_successfully":
                assert SERVICES[dependency]["restart"] == "no"


def test_training_code_cannot_reach_the_database_or_redis() -> None:
    data_stores = {n for s in ("postgres", "redis") for n in SERVICES[s]["networks"]}
    for name in ("agent-1", "agent-2"):
        assert not data_stores & set(SERVICES[name]["networks"])
    for name in ("proxy", "router"):
        assert not data_stores & set(SERVICES[name]["networks"])
    assert {name for name in SERVICES if "ports" in SERVICES[name]} == {"proxy", "router"}


def test_the_router_shares_its_folder_and_its_user_with_the_controller() -> None:
    router, settings = SERVICES["router"], SERVICES["controller"]["environment"]
    folder = settings["MUSTER_ROUTER_DIR"]
    assert router["volumes"] == [f"router:{folder}"]
    assert f"router:{folder}" in SERVICES["controller"]["volumes"]
    assert set(SERVICES["server"]["volumes"]) < set(SERVICES["controller"]["volumes"])
    assert f"{folder}/haproxy.cfg" in router["command"][-1]
    dockerfile = (ROOT / "server/Dockerfile").read_text()
    assert f"useradd --uid {router['user'].split(':')[0]} " in dockerfile
    assert f" {folder} " in dockerfile, "a new volume takes over its owner"
    (published,) = router["ports"]
    port = Settings.model_fields["router_port"].default
    assert (
        published == f"${{MUSTER_BIND:-127.0.0.1}}:${{MUSTER_ROUTER_PUBLISH_PORT:-{port}}}:{port}"
    )
    assert set(router["networks"]) <= set(SERVICES["agent-1"]["networks"])
    assert SERVICES["server"]["environment"]["MUSTER_DEPLOYMENTS_LISTEN"] == "node"


@pytest.mark.parametrize("name", ["server", "controller", "worker"])
def test_what_may_be_scaled_has_nothing_there_is_only_one_of(name: str) -> None:
    """Neither a port of the host nor a name: `--scale` would fail with the second."""
    assert not {"ports", "container_name", "hostname"} & set(SERVICES[name])
    assert set(SERVICES["proxy"]["networks"]) & set(SERVICES["server"]["networks"])


def test_the_proxy_asks_the_servers_docker_knows() -> None:
    (config,) = SERVICES["proxy"]["configs"]
    assert COMPOSE["configs"][config["source"]]["file"] == "server/haproxy.cfg"
    assert re.search(r"server-template \S+ \d+ server:\d+ .*check .*resolvers docker", PROXY)
    assert "nameserver dns 127.0.0.11:53" in PROXY
    (path,) = re.findall(r"^ +http-check send .* uri (\S+)", PROXY, re.MULTILINE)
    assert any(o.path == path for o in plain_app().state.operations)


def test_everything_gets_the_same_patience_and_writes_bounded_logs() -> None:
    checks = {
        n: dict(SERVICES[n]["healthcheck"]) for n in ("server", "controller", "worker", "proxy")
    }
    patience = [{k: v for k, v in check.items() if k != "test"} for check in checks.values()]
    assert all(p == patience[0] for p in patience)
    assert patience[0]["retries"] >= 30
    for name, service in SERVICES.items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda p: p.parent.name)
def test_dependencies_are_locked_and_installed_before_the_source_is_there(dockerfile: Path) -> None:
    """Otherwise each change of the source installs them all again."""
    last = dockerfile.read_text().split("AS install\n")[-1]
    assert last.count("FROM ") == last.count("COPY --from=install") == 1, "one stage follows"
    text = dockerfile.read_text().replace("\\\n", "").partition("FROM ${PYTHON_IMAGE} AS ")[2]
    installs = [line for line in text.splitlines() if re.search("pip install", line)]
    uv = next(line for line in installs if "--target /uv" in line)
    assert "--require-hashes" in uv
    installs.remove(uv)
    for line in installs:
        locked = "--require-hashes -c requirements.lock" in line
        torch_alone = line.endswith('"$TORCH_SPEC"') and "--no-deps" in line
        cuda = line.endswith("-c requirements.lock torch")
        source = "--no-deps -b requirements.lock ." in line
        assert [locked, torch_alone, cuda, source].count(True) == 1, line
    (dependencies,) = (line for line in installs if "--require-hashes" in line)
    before = text[: text.index(dependencies)]
    copied = re.findall(r"^COPY (?!--from)(.+)$", before, re.MULTILINE)
    assert copied == ["pyproject.toml requirements.lock ./"]
    assert "COPY server/" in text[text.index(dependencies) :]


@pytest.mark.parametrize(
    ("dockerfile", "extras"),
    [("server", {"server", "mcp"}), ("agent", {"agent", "mcp", "train", "serve"})],
)
def test_images_hold_what_their_process_imports(dockerfile: str, extras: set[str]) -> None:
    """The agent's Python also runs the built-in trainer: all of its packages, not torch alone."""
    installed = set(re.findall(r"--extra (\w+)", (ROOT / dockerfile / "Dockerfile").read_text()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras <= installed <= set(project["optional-dependencies"])


def test_no_secret_is_written_down() -> None:
    text = "\n".join(p.read_text() for p in [ROOT / "docker-compose.yml", *DOCKERFILES])
    assert not re.search(r"(?i)\b\w*(password|secret|token)\s*=\s*[A-Za-z0-9]{6,}", text)
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|_URL", name) and not name.endswith(
                ("SERVER_URL", "PUBLIC_URL", "ROUTER_URL")
            ):
                assert name.endswith("_FILE")
                assert str(value).startswith("/run/")
    assert "POSTGRES_PASSWORD:" not in text


def test_secrets_are_made_once_and_name_the_services(tmp_path: Path) -> None:
    folders = [tmp_path / n for n in ("postgres", "redis", "server")]
    assert init_stack_secrets(*folders)
    password = (folders[0] / "password").read_text()
    database_url = (folders[2] / "database_url").read_text()
    assert password in database_url
    assert "@postgres:5432/" in database_url
    assert "postgres" in SERVICES
    redis_url = (folders[2] / "redis_url").read_text()
    assert "@redis:6379/" in redis_url
    assert "redis" in SERVICES
    assert redis_url.split(":")[2].split("@")[0] in (folders[1] / "redis.conf").read_text()
    assert not init_stack_secrets(*folders)
    assert (folders[0] / "password").read_text() == password


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda p: p.parent.name)
def test_dockerfile_copies_what_exists_and_drops_root(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert not any(line.lower().startswith("# syntax") for line in lines)
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users[-1:] == ["muster"]
    for line in lines:
        if line.startswith("COPY ") and "--from=" not in line:
            for source in line.split()[1:-1]:
                if "package-lock" not in source:
                    assert (ROOT / source).exists(), f"{path.name}: {source}"
    bases = {line.split("=")[1] for line in lines if re.match(r"ARG (PYTHON|NODE)_IMAGE=", line)}
    assert bases <= {"python:3.13-slim", "node:24-slim"}


def test_every_long_running_service_of_ours_restarts_and_data_stores_are_checked() -> None:
    for name in ("server", "proxy", "controller", "router", "worker", "agent-1", "agent-2"):
        assert SERVICES[name]["restart"] == "unless-stopped"
    for name in ("server", "proxy", "postgres", "redis"):
        assert "healthcheck" in SERVICES[name]
