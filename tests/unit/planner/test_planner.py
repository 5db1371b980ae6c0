import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.training.strategies.rules import Mesh, Options, Shape
from muster_server.domain.planner.choice import advise, alternatives, candidate, largest_batch
from muster_server.domain.planner.memory import Job, largest_share, memory
from muster_server.domain.planner.models import Unknown, describe
from muster_server.domain.planner.traffic import bubble_share, traffic

GB = 10**9


def gpt(width=64, depth=4, heads=4):
    return describe(
        "gpt", "shakespeare", width=width, depth=depth, heads=heads, context=32, patch=2
    )


def job(kind="ddp", slots=4, *, model=None, batch_size=8, optimizer="adamw", **options):
    return Job(
        model=model or gpt(), options=Options(kind=kind, **options), slots=slots,
        batch_size=batch_size, optimizer=optimizer,
    )  # fmt: skip


def advised(of, slot_bytes):
    shape = Shape(model=of.model.name, depth=len(of.model.blocks), heads=4)
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


@settings(deadline=None, max_examples=50)
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
    blocks = 4.0 * sum(gpt().layers[i].num_params for i in gpt().blocks)
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
    mlp = describe("mlp", "digits", width=512, depth=3, heads=4, context=64, patch=2)
    assert advised(job(model=mlp), 4 * GB).kind == "ddp"


def test_what_is_too_large_for_ddp_is_sharded_and_what_is_too_large_for_all_is_said():
    mlp = describe("mlp", "digits", width=4096, depth=4, heads=4, context=64, patch=2)
    of = job(model=mlp, batch_size=1)
    whole, sharded = memory(of).total, memory(job("fsdp", model=mlp, batch_size=1)).total
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


def test_a_model_of_ones_own_is_not_guessed():
    with pytest.raises(Unknown, match="known when it runs"):
        describe("mine:build", "digits", width=1, depth=1, heads=1, context=1, patch=1)


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
