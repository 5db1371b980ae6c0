from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_ranks_together_see_the_global_batch_of_one() -> None:
    from muster.training import data

    images = data.load("digits", samples=0)
    order = data.Order(len(images.train_x), global_batch=64, seed=3, augment=True)
    whole_x, whole_y = order.batch(images, 25, rank=0, world_size=1)
    parts = [order.batch(images, 25, rank=r, world_size=4) for r in range(4)]
    assert torch.equal(torch.stack([p[0] for p in parts], 1).flatten(0, 1), whole_x)
    assert torch.equal(torch.stack([p[1] for p in parts], 1).flatten(0, 1), whole_y)


def test_an_epoch_sees_no_sample_twice_and_the_next_is_shuffled_anew() -> None:
    from muster.training import data

    x = torch.arange(100.0).reshape(100, 1, 1, 1)
    images = data.Images(train_x=x, train_y=torch.arange(100), val_x=x, val_y=torch.arange(100))
    order = data.Order(100, global_batch=8, seed=1, augment=False)
    assert order.steps_per_epoch == 12
    labels = [order.batch(images, s, rank=0, world_size=1)[1].tolist() for s in range(24)]
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


@pytest.mark.parametrize("model", ["cnn", "mlp", "resnet"])
def test_models_give_ten_logits_and_are_the_same_for_a_seed(model: str) -> None:
    from muster.training import models
    from muster.training.config import resolve

    config = resolve({"trainer": {"model": model}}, {"width": 8}, seed=4)
    x = torch.rand(2, 1, 8, 8)
    one, two = models.build(config, side=8), models.build(config, side=8)
    assert one(x).shape == (2, 10)
    assert torch.equal(one(x), two(x))
