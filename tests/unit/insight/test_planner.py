import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.document.strategy import Mesh, StrategySection
from muster.document.strategy_rules import Shape
from muster.wire import Activations, Layer, LayerParameter, LayerTable
from muster_server.domain.insight.planner.choice import (
    advise,
    alternatives,
    candidate,
    largest_batch,
)
from muster_server.domain.insight.planner.memory import PlannedTraining, largest_share, memory
from muster_server.domain.insight.planner.remarks import remarks_on
from muster_server.domain.insight.planner.traffic import bubble_share, traffic

GB = 10**9


def kept(per_sample, *, split=0.0, once=0.0, work=0.0):
    """What is kept in fp32, and half of it in 16 bits with copies of the parameters."""
    return {
        "fp32": Activations(
            per_sample=per_sample, split_per_sample=split, once=0.0, work_per_sample=work
        ),
        "bf16": Activations(
            per_sample=per_sample / 2,
            split_per_sample=split / 2,
            once=once,
            work_per_sample=work / 2,
        ),
    }


def layer(name, *parameters, is_block=False, input_bytes=0.0, buffer_bytes=0.0, **activations):
    found = [p if isinstance(p, LayerParameter) else parameter(*p) for p in parameters]
    return Layer(
        name=name, is_block=is_block, parameters=found, buffer_bytes=buffer_bytes,
        input_bytes=input_bytes, flops=0.0, activations=kept(**activations),
    )  # fmt: skip


def parameter(*shape, split=False, trainable=True):
    return LayerParameter(shape=list(shape), bytes_per_value=4, split=split, trainable=trainable)


def table(*layers, outputs=10):
    return LayerTable(layers=list(layers), sample_bytes=1024.0, output_bytes=4.0 * outputs)


def gpt(width=64, depth=4, context=32, vocabulary=256):
    """Of blocks with four matrices of attention and two of the perceptron."""
    values = context * width
    matrices = [parameter(width, width, split=True)] * 4
    perceptron = [parameter(4 * width, width, split=True), parameter(width, 4 * width, split=True)]
    norms = [(width,)] * 4
    block = layer(
        "block", *norms, *matrices, *perceptron, is_block=True, input_bytes=4.0 * values,
        per_sample=64.0 * values, split=44.0 * values, once=24.0 * width**2, work=36.0 * values,
    )  # fmt: skip
    entry = layer("entry", (vocabulary, width), (context, width), per_sample=8.0 * context)
    head = layer(
        "exit", (width,), (width,), (vocabulary, width),
        per_sample=4.0 * context * (width + vocabulary), work=8.0 * context * vocabulary,
    )  # fmt: skip
    return table(entry, *[block] * depth, head, outputs=context * vocabulary)


def mlp(width, depth, num_in=64, classes=10):
    sizes = [num_in, *[width] * depth, classes]
    dense = [
        layer(f"{i}", (b, a), (b,), is_block=True, input_bytes=4.0 * a, per_sample=4.0 * a,
              work=4.0 * (a + b))
        for i, (a, b) in enumerate(itertools.pairwise(sizes))
    ]  # fmt: skip
    return table(*dense)


def job(kind="ddp", slots=4, *, model=None, batch_size=8, optimizer="adamw", **options):
    return PlannedTraining(
        model=model or gpt(), options=StrategySection(kind=kind, **options), slots=slots,
        batch_size=batch_size, optimizer=optimizer,
    )  # fmt: skip


def advised(of, slot_bytes):
    name = "gpt" if any(p.split for p in of.model.parameters) else "mlp"
    shape = Shape(model=name, depth=len(of.model.blocks), heads=4)
    found = [
        candidate(j, slot_bytes=slot_bytes, shape=shape, slot_type="cpu") for j in alternatives(of)
    ]
    return advise(found, of, slot_bytes=slot_bytes)


def test_a_large_model_alone_takes_16_bytes_per_parameter_and_its_activations():
    model = gpt(width=256, depth=8)
    one = memory(job("single", 1, model=model, batch_size=1))
    assert one.parameters + one.gradients + one.optimizer == pytest.approx(16 * model.num_params)
    assert one.buffers == 0
    more = memory(job("single", 1, model=model, batch_size=64))
    assert (more.parameters, more.optimizer) == (one.parameters, one.optimizer)
    assert more.total > one.total
    assert memory(job("single", 1, optimizer="sgd")).optimizer == 4 * gpt().num_params


def test_what_is_split_is_a_share():
    whole = memory(job("ddp"))
    assert memory(job("zero1")).optimizer == pytest.approx(whole.optimizer / 4, rel=0.25)
    assert memory(job("zero1")).parameters == whole.parameters
    sharded = memory(job("fsdp"))
    for part in ("parameters", "gradients", "optimizer"):
        assert getattr(sharded, part) == pytest.approx(getattr(whole, part) / 4)
    assert memory(job("diloco")).total > memory(job("local_sgd")).total


@settings(max_examples=50)
@given(
    slots=st.sampled_from([1, 2, 4]),
    kind=st.sampled_from(["ddp", "zero1", "fsdp", "tp", "pp", "local_sgd", "diloco", "ps"]),
    batch_size=st.integers(1, 64),
    precision=st.sampled_from(["fp32", "bf16"]),
)
def test_no_part_is_negative_and_a_larger_batch_takes_no_less(slots, kind, batch_size, precision):
    if kind == "ps" and slots == 1:
        return
    small = job(kind, slots, batch_size=batch_size, precision=precision)
    takes = memory(small)
    for part in ("parameters", "gradients", "optimizer", "activations", "buffers"):
        assert getattr(takes, part) >= 0
    larger = memory(job(kind, slots, batch_size=2 * batch_size, precision=precision))
    assert larger.total >= takes.total
    assert all(t.num_bytes > 0 and t.size > 1 for t in traffic(small))
    assert bool(traffic(small)) == (slots > 1)


def test_options_save_what_they_are_for():
    plain = memory(job(batch_size=64))
    assert memory(job(batch_size=64, recompute=True)).activations < 0.6 * plain.activations
    assert memory(job(batch_size=64, precision="bf16")).activations < 0.8 * plain.activations
    kept = memory(job("pp", batch_size=16, schedule="gpipe", accumulate=4)).activations
    assert memory(job("pp", batch_size=16, accumulate=4)).activations < kept


def test_bytes_on_the_network_follow_from_the_parameters():
    params = 4.0 * gpt().num_params
    (gradients,) = traffic(job("ddp"))
    assert (gradients.kind, gradients.num_bytes) == ("all_reduce", params)
    for compression in ("fp16", "bf16"):
        (halved,) = traffic(job("ddp", compression=compression))
        assert halved.num_bytes == params / 2
    (thin,) = traffic(job("ddp", compression="powersgd"))
    assert thin.num_bytes < params / 2
    gathered, reduced = traffic(job("fsdp"))
    blocks = 4.0 * sum(block.num_params for block in gpt().blocks)
    assert (reduced.kind, reduced.num_bytes) == ("reduce_scatter", params)
    assert gathered.num_bytes == pytest.approx(params + blocks)
    (rare,) = traffic(job("local_sgd", sync_every=8))
    assert rare.num_bytes == params / 8
    updated = traffic(job("zero1"))[1]  # each worker its own part, one after the other
    assert (updated.kind, updated.moved_as, updated.num_bytes) == (
        "broadcast",
        "broadcast",
        params,
    )
    axes = {t.group for t in traffic(job("mesh", 8, mesh=Mesh(pp=2, tp=2)))}
    assert axes == {"shard", "tp", "pp"}


def test_optimizer_state_is_dealt_out_by_whole_tensors():
    assert largest_share([10, 1, 1], 2) == 10
    assert largest_share([4, 3, 3, 2], 2) == 6


def test_the_simplest_that_sends_least_is_recommended_while_it_fits():
    advice = advised(job(), 4 * GB)
    assert (advice.kind, "fewest bytes" in advice.reason) == ("pp", True)
    assert advised(job(model=mlp(512, 3)), 4 * GB).kind == "ddp"


def test_what_is_too_large_for_ddp_is_sharded_and_what_is_too_large_for_all_is_said():
    model = mlp(4096, 4)
    of = job(model=model, batch_size=1)
    whole, sharded = memory(of).total, memory(job("fsdp", model=model, batch_size=1)).total
    assert sharded < 0.8 * whole
    advice = advised(of, round(0.9 * whole / 0.9))
    assert advice.kind in ("zero1", "fsdp")
    nothing = advised(of, 10**7)
    assert nothing.kind is None
    assert "Nothing fits" in nothing.reason


def test_the_largest_batch_is_a_power_of_two_that_fits():
    of = job("single", 1)
    best = largest_batch(of, 100 * 10**6)
    takes = lambda n: memory(job("single", 1, batch_size=n)).total  # noqa: E731
    assert takes(best) <= 90 * 10**6 < takes(2 * best)
    assert largest_batch(of, 1000) is None
    assert largest_batch(of, None) is None


def test_only_what_is_trained_has_gradients_and_an_optimizer():
    frozen = layer("frozen", parameter(100, 100, trainable=False), per_sample=0.0)
    model = table(frozen, layer("head", (100, 10), per_sample=400.0))
    takes = memory(job(model=model))
    assert (takes.parameters, takes.gradients, takes.optimizer) == (44_000, 4_000, 8_000)
    assert [t.num_bytes for t in traffic(job(model=model))] == [4_000]


def test_a_parameter_counts_with_its_own_type():
    half = LayerParameter(shape=[100, 10], bytes_per_value=2)
    model = table(layer("head", half, per_sample=400.0))
    assert memory(job(model=model)).parameters == 2_000
    assert [t.num_bytes for t in traffic(job(model=model))] == [2_000]


def test_running_statistics_are_held_and_sent_to_all():
    model = table(layer("norm", (10,), buffer_bytes=84.0, per_sample=400.0))
    assert memory(job(model=model)).buffers == 84 + 40
    sent = {(t.kind, t.num_bytes) for t in traffic(job(model=model))}
    assert sent == {("all_reduce", 40), ("broadcast", 84)}


@pytest.mark.parametrize(
    ("of", "rows", "ratio", "code"),
    [
        (job("local_sgd", sync_every=8), 10, 0.19, "plan.rare_exchange"),
        (job("local_sgd", sync_every=8), 100, 0.19, "plan.unexplained"),
        (job(compression="powersgd"), 5, 0.2, "plan.powersgd_start"),
        (job("ps", staleness=2), 100, 0.5, "plan.stale_pulls"),
        (job(), 100, 0.194, "plan.unexplained"),
        (job(), 100, 1.5, "plan.unexplained"),
    ],
)
def test_bytes_far_from_the_expected_are_explained_or_said_to_be_wrong(of, rows, ratio, code):
    (remark,) = remarks_on({"bytes": (ratio * 1e6, 1e6)}, of, rows)
    assert (remark.about, remark.ratio) == ("bytes", pytest.approx(ratio))
    assert [part["code"] for part in remark.text.parts] == [code]
    assert remark.text.english[0].isupper()
    assert remark.text.english.endswith(".")


def test_what_is_near_or_was_not_measured_needs_no_words():
    near = {"memory": (0.71, 1.0), "bytes": (1.0, 1.0), "step": (1.39, 1.0)}
    assert remarks_on(near, job(), 100) == ()
    assert remarks_on({"bytes": (1.0, 0.0)}, job(), 100) == ()


@pytest.mark.parametrize(
    ("pair", "rows", "code"),
    [
        ({"memory": (0.5, 1.0)}, 100, "plan.memory_more"),
        ({"memory": (2.0, 1.0)}, 100, "plan.unexplained"),
        ({"step": (0.5, 1.0)}, 5, "plan.few_steps"),
        ({"step": (0.5, 1.0)}, 100, "plan.step_differs"),
    ],
)
def test_memory_and_time_far_from_the_expected_are_told_of_too(pair, rows, code):
    (remark,) = remarks_on(pair, job(), rows)
    assert [part["code"] for part in remark.text.parts] == [code]


def test_gloo_makes_a_reduce_scatter_an_all_reduce():
    def sent(slot_type):
        shape = Shape(model="gpt", depth=4, heads=4)
        return candidate(job("fsdp"), slot_bytes=None, shape=shape, slot_type=slot_type).link_bytes

    params = 4.0 * gpt().num_params
    share = (job("fsdp").slots - 1) / job("fsdp").slots
    assert sent("cpu") - sent("cuda") == pytest.approx(share * params)


def test_on_processors_only_gradients_of_data_parallel_are_hidden():
    def hidden(kind, backend):
        return {(t.group, t.kind) for t in traffic(job(kind), backend=backend) if t.is_hidden}

    assert hidden("fsdp", "gloo") == set()
    assert hidden("fsdp", "nccl") == {("shard", "all_gather"), ("shard", "reduce_scatter")}
    assert hidden("zero1", "gloo") == {("world", "all_reduce")}
    assert hidden("tp", "nccl") == set()


@pytest.mark.parametrize(
    ("schedule", "share"),
    [("naive", 3), ("gpipe", 3 / 8), ("1f1b", 3 / 8), ("interleaved", 3 / 16), ("zbv", 1 / 16)],
)
def test_a_pipeline_waits_while_it_fills_and_runs_empty(schedule, share):
    assert bubble_share(job("pp", schedule=schedule, accumulate=2)) == pytest.approx(share)
    assert bubble_share(job("ddp")) == 0.0
