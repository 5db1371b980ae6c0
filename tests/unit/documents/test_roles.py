"""Documents with roles: what is filled in, and what they do not go together with."""

import pytest

from muster.document.roles import members_of
from muster_server.domain.messages import english
from muster_server.domain.scheduling.resources import request_for
from muster_server.services.documents.resolving import resolve

GANG = """
name: gang
roles:
  trainer: {entrypoint: trainer.py --fast}
  rollout: {entrypoint: bash rollout.sh, count: 2, resources: {slots: 3}, on_failure: restart}
  evaluator: {entrypoint: -m evaluation}
"""


def problems(text: str) -> dict[str, str]:
    return {p.path: english(p.message) for p in resolve(text).problems}


def test_the_first_role_decides_and_the_slots_are_summed_up():
    config = resolve(GANG).config
    assert config is not None
    assert config.resources.slots == 8
    assert {name: role.on_end for name, role in config.roles.items()} == {
        "trainer": "finish",
        "rollout": "wait",
        "evaluator": "wait",
    }
    assert config.roles["trainer"].entrypoint == ("trainer.py", "--fast")
    assert config.code is not None
    assert config.code.path == "."
    names = [member.name for member in members_of(config.roles)]
    assert names == ["trainer/0", "evaluator/0", "rollout/0", "rollout/1"]


@pytest.mark.parametrize(
    ("added", "path"),
    [
        ("entrypoint: train.py", "entrypoint"),
        ("trainer: {model: mlp, data: digits}", "trainer"),
        ("launcher: direct", "launcher"),
        ("strategy: {kind: fsdp}", "strategy"),
        ("resources: {min_slots: 1}", "resources.min_slots"),
        ("resources: {nodes: 2}", "resources.nodes"),
        ("resources: {slots: 7}", "resources.slots"),
        ("preflight: {network: true}", "preflight.network"),
        ("checkpoints: {local: true}", "checkpoints.local"),
        ("environment: {image: docker.io/a/b}", "roles.rollout.on_failure"),
    ],
)
def test_what_does_not_go_together_with_roles_is_named(added, path):
    assert path in problems(f"{GANG}{added}\n")


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("{}", "roles.a.entrypoint"),
        ("{entrypoint: python a.py}", "roles.a.entrypoint"),
        ("{entrypoint: a.py | cat}", "roles.a.entrypoint"),
        ("{entrypoint: a.py, count: 0}", "roles.a.count"),
        ("{entrypoint: a.py, on_failure: ignore}", "roles.a.on_failure"),
        ("{entrypoint: a.py, max_restarts: 5}", "roles.a.max_restarts"),
        ("{entrypoint: a.py, environment: {image: A!}}", "roles.a.environment.image"),
        ("{entrypoint: a.py, on_failure: restart, environment: {image: docker.io/a/b}}",
         "roles.a.on_failure"),
        ("{entrypoint: a.py, environment: {variables: {RANK: '1'}}}",
         "roles.a.environment.variables.RANK"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_role_is_named(role, path):
    assert path in problems(f"name: x\nroles: {{a: {role}}}\n")


def test_each_role_may_have_an_image_and_what_is_said_of_containers_holds_for_it():
    document = """
name: x
environment: {mounts: [/datasets]}
roles:
  plain: {entrypoint: a.py, on_failure: restart}
  own: {entrypoint: a.py, on_end: wait, environment: {image: docker.io/a/own}}
"""
    config = resolve(document).config
    assert config is not None
    assert request_for(config).images == ("", "docker.io/a/own")
    everywhere = document.replace("{mounts", "{image: docker.io/a/all, mounts")
    with_default = resolve(everywhere.replace("on_failure: restart", "count: 2")).config
    assert with_default is not None
    assert request_for(with_default).images == ("docker.io/a/all", "docker.io/a/own")


def test_all_roles_together_have_a_greatest_number_of_members():
    many = "{entrypoint: a.py, count: 40}"
    assert problems(f"name: x\nroles: {{a: {many}, b: {many}}}\n")["roles"].startswith("have 80")
