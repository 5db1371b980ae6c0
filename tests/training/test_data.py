from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.document.train_config import ConfigError, resolve

pytestmark = pytest.mark.torch


def test_ranks_together_see_the_global_batch_of_one() -> None:
    from muster.training import data

    images = data.load(resolve({"trainer": {"data": "digits"}}, {}))
    order = data.SampleOrder(len(images.train_x), global_batch=64, seed=3, augment=True)
    whole_x, whole_y = order.batch(images, 25, rank=0, world_size=1)
    parts = [order.batch(images, 25, rank=r, world_size=4) for r in range(4)]
    assert torch.equal(torch.stack([p[0] for p in parts], 1).flatten(0, 1), whole_x)
    assert torch.equal(torch.stack([p[1] for p in parts], 1).flatten(0, 1), whole_y)


def test_an_epoch_sees_no_sample_twice_and_the_next_is_shuffled_anew() -> None:
    from muster.training import data

    order = data.SampleOrder(100, global_batch=8, seed=1, augment=False)
    assert order.steps_per_epoch == 12
    labels = [order.chosen(s, rank=0, world_size=1).tolist() for s in range(24)]
    first = [n for batch in labels[:12] for n in batch]
    second = [n for batch in labels[12:] for n in batch]
    assert len(set(first)) == len(set(second)) == 96
    assert first != second


def test_a_shift_moves_pixels_and_fills_with_zeros() -> None:
    from muster.training import data

    x = torch.arange(9.0).reshape(1, 1, 3, 3) + 1
    moved = data.shift(x.repeat(2, 1, 1, 1), torch.tensor([[1, 0], [0, -1]]))
    assert moved[0, 0].tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    assert moved[1, 0].tolist() == [[2, 3, 0], [5, 6, 0], [8, 9, 0]]


def test_splits_have_nothing_in_common_and_leave_nothing_out() -> None:
    from muster.training import data

    for name, num in (("digits", 1797), ("synthetic", 96 + 12 + 12)):
        found = data.load(resolve({"trainer": {"data": name, "samples": 96}}, {}))
        parts = [found.split(split) for split in ("train", "val", "test")]
        assert sum(len(x) for x, _ in parts) == num
        samples = {x.numpy().tobytes() for part, _ in parts for x in part}
        assert len(samples) == num
        assert [len(x) == len(y) for x, y in parts] == [True] * 3
        assert set(found.train_y.tolist()) == set(range(found.classes))


def test_digits_are_those_of_scikit_learn() -> None:
    """Its file is read without it."""
    from sklearn.datasets import load_digits

    from muster.training.data import images

    pixels, digits = images._read_digits()
    expected, labels = load_digits(return_X_y=True)
    assert (pixels.numpy() == expected).all()
    assert (digits.numpy() == labels).all()


@settings(max_examples=60)
@given(
    num_samples=st.integers(1, 60),
    global_batch=st.integers(1, 12),
    seed=st.integers(0, 5),
    sizes=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9)), min_size=1, max_size=6),
)
def test_a_resumed_training_repeats_and_skips_no_sample(
    num_samples: int, global_batch: int, seed: int, sizes: list[tuple[int, int]]
) -> None:
    """However often it goes on with another number of workers, each with an Order of its own: the
    samples of every step are those of the uninterrupted training, and each comes once an epoch."""
    from muster.training import data

    if global_batch > num_samples:
        return

    def order() -> data.SampleOrder:
        return data.SampleOrder(num_samples, global_batch=global_batch, seed=seed, augment=False)

    one = order()
    step = 0
    seen: list[int] = []
    for workers, num_steps in sizes:  # an attempt: so many workers, for so many steps
        ranks = [order() for _ in range(workers)]
        for _ in range(num_steps):
            shares = [
                ranks[rank].chosen(step, rank=rank, world_size=workers).tolist()
                for rank in range(workers)
            ]
            whole = one.chosen(step, rank=0, world_size=1).tolist()
            assert sorted(n for share in shares for n in share) == sorted(whole)
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
            seen += whole
            step += 1
    for start in range(0, len(seen), one.steps_per_epoch * global_batch):
        epoch = seen[start : start + one.steps_per_epoch * global_batch]
        assert len(set(epoch)) == len(epoch)


@settings(max_examples=40)
@given(
    num=st.integers(0, 5),
    start=st.integers(0, 30),
    taken=st.integers(0, 40),
    workers=st.integers(1, 3),
)
def test_batches_fetched_ahead_are_those_fetched_one_by_one(
    num: int, start: int, taken: int, workers: int
) -> None:
    """From any step, as after a resume, over several epochs and left at any point."""
    from muster.training import data

    found = data.load(resolve({"trainer": {"data": "synthetic", "samples": 40}}, {}))

    def fetcher() -> Any:
        order = data.SampleOrder(40, global_batch=6, seed=2, augment=True)
        return lambda step: order.batch(found, step, rank=workers - 1, world_size=workers)

    asked: list[int] = []
    fetch = fetcher()

    def noted(step: int) -> Any:
        asked.append(step)
        return fetch(step)

    ahead = data.fetch_ahead(noted, range(start, start + 40), num=num)
    one_by_one = fetcher()
    for step in range(start, start + taken):
        x, y = next(ahead)
        want_x, want_y = one_by_one(step)
        assert torch.equal(x, want_x)
        assert torch.equal(y, want_y)
        assert asked[-1] <= step + num  # never more than that ahead
    ahead.close()
    assert asked == list(range(start, start + len(asked)))


def test_what_fetching_raises_is_raised_at_its_step() -> None:
    from muster.training.data import fetch_ahead

    ahead = fetch_ahead(lambda step: 6 // (3 - step), range(5), num=2)
    assert [next(ahead) for _ in range(3)] == [2, 3, 6]
    with pytest.raises(ZeroDivisionError):
        next(ahead)


def test_random_samples_have_the_shapes_of_the_real_ones() -> None:
    from muster.training import data

    for name, model in (("digits", "cnn"), ("shakespeare", "gpt")):
        trainer = {"data": name, "model": model}
        real, random = (
            data.load(resolve({"trainer": {**trainer, "synthetic": synthetic}}, {}))
            for synthetic in (False, True)
        )
        for split in ("train", "val", "test"):
            for a, b in zip(real.split(split), random.split(split), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                assert not torch.equal(a, b)
                assert int(b.max()) < real.classes


def test_windows_of_a_text_follow_each_other_and_know_the_next_token() -> None:
    from muster.training import data

    text = bytes(range(256)) * 40  # a token says where it is
    found = data.windows(text, 16)
    assert (found.inputs, found.classes, found.is_text) == ((16,), 256, True)
    # 1,024 tokens a part, of which 921, 51 and 52; a window needs one token more than it holds.
    assert [len(found.split(s)[0]) for s in ("train", "val", "test")] == [575, 31, 32]
    x, y = found.train_x.long(), found.train_y.long()
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert torch.equal(x[1:, 0], y[:-1, -1])
    within = (y[:, -1] - x[:, -1]) % 256 == 1
    assert within.sum() >= len(within) - 9  # nine seams between ten parts

    with pytest.raises(ConfigError, match="context: 600 is more than the 509 tokens"):
        data.windows(text, 600)


def test_the_plays_are_text_of_the_stated_size() -> None:
    from muster.training import data

    found = data.load(resolve({"trainer": {"model": "gpt", "data": "shakespeare"}}, {}))
    order = data.SampleOrder(len(found.train_x), global_batch=8, seed=0, augment=False)
    x, y = order.batch(found, 0, rank=0, world_size=1)
    assert (x.shape, x.dtype, y.dtype) == ((8, 64), torch.int64, torch.int64)
    assert torch.equal(x[:, 1:], y[:, :-1])
    num = sum(len(found.split(s)[0]) for s in ("train", "val", "test")) * 64
    assert 1_119_374 - 3 * 65 < num <= 1_119_374
    letters = bytes(found.train_x[:500].flatten().tolist()).decode("ascii")
    assert "To be, or not to be" not in letters  # that is later
    assert "HAMLET, PRINCE OF DENMARK" in letters


@pytest.mark.parametrize("model", ["cnn", "mlp", "resnet", "vit"])
def test_models_give_ten_logits_and_are_the_same_for_a_seed(model: str) -> None:
    from muster.training import models

    config = resolve({"trainer": {"model": model}}, {"width": 8}, seed=4)
    x = torch.rand(2, 1, 8, 8)
    one, two = (models.build(config, inputs=(1, 8, 8), classes=10) for _ in range(2))
    assert one(x).shape == (2, 10)
    assert torch.equal(one(x), two(x))


def test_a_language_model_sees_no_later_token() -> None:
    from muster.training import models

    config = resolve({"trainer": {"model": "gpt", "data": "shakespeare", "width": 16}}, {})
    model = models.build(config, inputs=(12,), classes=256)
    x = torch.randint(0, 256, (2, 12), generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[:, 8:] = 7
    before, after = model(x), model(changed)
    assert before.shape == (2, 12, 256)
    assert torch.equal(before[:, :8], after[:, :8])
    assert not torch.equal(before[:, 8:], after[:, 8:])


def test_every_matrix_of_a_block_can_be_sharded_on_its_own() -> None:
    """Half of the columns of query, key, value and up, and the same rows of out and down, give
    half of the heads; two such halves add up to the whole (tensor parallelism)."""
    from muster.training.models.transformer import Attention

    torch.manual_seed(0)
    whole = Attention(16, 4, causal=True)
    x = torch.rand(2, 5, 16)
    total = torch.zeros(2, 5, 16)
    for half in range(2):
        columns = slice(8 * half, 8 * half + 8)
        part = Attention(16, 4, causal=True)
        for name in ("query", "key", "value"):
            layer, mine = getattr(whole, name), getattr(part, name)
            mine.weight = torch.nn.Parameter(layer.weight[columns])
            mine.bias = torch.nn.Parameter(layer.bias[columns])
        part.out.weight = torch.nn.Parameter(whole.out.weight[:, columns])
        part.out.bias = torch.nn.Parameter(whole.out.bias / 2)
        total += part(x)
    assert torch.allclose(total, whole(x), atol=1e-6)


@pytest.mark.parametrize(
    ("trainer", "inputs", "message"),
    [
        ({"model": "gpt"}, (1, 8, 8), "gpt reads texts, and data: d:load holds images"),
        ({"model": "vit", "patch": 3}, (1, 8, 8), "patch: images of 8×8 cannot be cut .* of 3"),
        ({"model": "cnn"}, (64,), "cnn reads images, and data: d:load holds other samples"),
    ],
)
def test_a_model_that_cannot_take_data_of_ones_own_is_refused(
    trainer: dict[str, Any], inputs: tuple[int, ...], message: str
) -> None:
    from muster.training import models

    config = resolve({"trainer": {**trainer, "data": "d:load"}}, {})
    with pytest.raises(ConfigError, match=message):
        models.build(config, inputs=inputs, classes=10)
