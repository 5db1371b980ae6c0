"""Which documents and trials have the same inputs."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.document.experiment import ExperimentConfig
from muster_server.domain.experiments.reuse import declared, inputs_of, key_of, obstacle
from muster_server.services.documents import resolve

DOCUMENT = "name: a\nentrypoint: train.py --epochs 3\nresources: {slots: 2}\n"
CODE = "c" * 64


def key(*overrides, code=CODE, hparams=None, seed=0, version="1"):
    config = resolve(DOCUMENT, overrides).config
    assert config is not None
    assert obstacle(config, code, declared(config)) is None
    return key_of(
        inputs_of(config, code_sha256=code, data=declared(config), version=version),
        hparams=hparams or {},
        seed=seed,
    )


@pytest.mark.parametrize(
    "override",
    [
        "name=b",
        "project=other",
        "labels.a=b",
        "notes=x",
        "budget.slot_hours=3",
        "restarts.user=2",
        "resources.priority=80",
        "resources.pool=fast",
        "checkpoints.keep.last=3",
        "outputs=null",
        "stop_grace_s=3",
        "measure.comm=false",
        "environment.warm=false",
        "reuse=true",
    ],
)
def test_what_cannot_change_the_result_is_not_in_the_key(override):
    assert key(override) == key()


@pytest.mark.parametrize(
    "override",
    [
        "entrypoint=train.py --epochs 4",
        "resources.slots=4",
        "resources.min_slots=1",
        "resources.slot_type=cuda",
        'environment.variables.A="1"',
        "environment.requirements=[einops]",
        "environment.image=docker.io/x/y:1",
        "code.workdir=src",
        "launcher=direct",
        "search.max_length={epochs: 3}",
    ],
)
def test_what_may_change_the_result_is_in_the_key(override):
    assert key(override) != key()


def test_code_hyperparameters_and_seed_are_in_the_key():
    different = {key(), key(code="d" * 64), key(hparams={"lr": 1}), key(seed=1)}
    assert len(different) == 4
    # Muster's own version counts for what is built in alone.
    assert key(version="2") == key()


def test_every_section_is_either_left_out_on_purpose_or_counts():
    """A new section must not make two trainings look alike unless somebody has said so."""
    from muster_server.domain.experiments import reuse

    names = {field.name.removesuffix("_") for field in fields(ExperimentConfig)}
    assert names >= reuse._WITHOUT_EFFECT


@given(
    st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text()),
    st.integers(0, 2**31),
)
def test_a_key_depends_on_values_and_not_on_their_order(hparams, seed):
    backwards = dict(reversed(hparams.items()))
    assert key_of("i", hparams=hparams, seed=seed) == key_of("i", hparams=backwards, seed=seed)
    assert key_of("i", hparams=hparams, seed=seed) != key_of("i", hparams=hparams, seed=seed + 1)
    assert key_of("i", hparams={**hparams, "new": 1.5}, seed=seed) != key_of(
        "i", hparams={**hparams, "new": 2.5}, seed=seed
    )


def test_trainings_that_cannot_be_told_apart_have_no_key():
    config = resolve(DOCUMENT, []).config
    assert config is not None
    for changed, code in (
        (config, None),
        (replace(config, data={"train": "/srv"}), CODE),
    ):
        assert obstacle(changed, code, declared(changed)) is not None
