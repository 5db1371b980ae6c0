from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from muster.inference.batching import QueueFull, RequestBatcher
from muster.inference.completions import CompletionEnd, generate, read_completion
from muster.inference.protocol import (
    RequestError,
    Signature,
    infer_reply,
    metadata,
    read_infer,
)

IMAGES = Signature(shape=(2, 2), dtype="float32", classes=3)
TOKENS = Signature(shape=(8,), dtype="int64", classes=256)


def body(data: Any, shape: Any, datatype: str = "FP32", **more: Any) -> bytes:
    tensor = {"name": "input", "shape": shape, "datatype": datatype, "data": data}
    return json.dumps({"inputs": [tensor], **more}).encode()


def test_flat_and_nested_data_are_read() -> None:
    flat = read_infer(body([1, 2.5, 3, 4], [1, 2, 2], id="7"), IMAGES)
    nested = read_infer(body([[[1, 2.5], [3, 4]]], [1, 2, 2]), IMAGES)
    assert flat.data == nested.data == [1, 2.5, 3, 4]
    assert (flat.id, flat.shape) == ("7", (1, 2, 2))


@pytest.mark.parametrize(
    ("request_body", "signature", "words"),
    [
        (b"{", IMAGES, "not JSON"),
        (b"[" * 100_000, IMAGES, "not JSON"),
        (b"[]", IMAGES, "JSON object"),
        (b"{}", IMAGES, "inputs must be"),
        (body([1], [1, 2, 2]), IMAGES, "has 1 numbers"),
        (body([1] * 4, [1, 4]), IMAGES, r"must be \[n, 2, 2\]"),
        (body([1] * 4, [2**60, 2, 2]), IMAGES, "at most 1024"),
        (body([1] * 4, [True, 2, 2]), IMAGES, "whole numbers of at least 1"),
        (body([1] * 4, [0, 2, 2]), IMAGES, "whole numbers of at least 1"),
        (body(["1"] * 4, [1, 2, 2]), IMAGES, "finite numbers"),
        (body([[1, 2], 3, 4], [1, 2, 2]), IMAGES, "mixes"),
        (b'{"inputs": [{"name": "input", "shape": [1, 2, 2], "datatype": "FP32", '
         b'"data": [1, 2, 3, 1e999]}]}', IMAGES, "finite numbers"),
        (body([1] * 4, [1, 2, 2], "INT64"), IMAGES, "datatype must be FP32"),
        (body([1] * 4, [1, 2, 2], outputs=[{"name": "x"}]), IMAGES, "'output' alone"),
        (body([1] * 9, [1, 9], "INT64"), TOKENS, "at most 8 tokens"),
        (body([-1], [1, 1], "INT64"), TOKENS, "from 0 to 255"),
        (body([256], [1, 1], "INT64"), TOKENS, "from 0 to 255"),
        (body([1.0], [1, 1], "INT64"), TOKENS, "whole numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    request_body: bytes, signature: Signature, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        read_infer(request_body, signature)
    assert caught.value.status == 400


def test_an_answer_that_json_does_not_have_is_an_error() -> None:
    with pytest.raises(RequestError, match="not finite"):
        infer_reply(model="m", version="1", request_id="", shape=[1], data=[float("nan")])
    assert infer_reply(model="m", version="1", request_id="7", shape=[1], data=[1.0])["id"] == "7"


def test_metadata_name_the_shapes() -> None:
    found = metadata(model="m", version="1", signature=IMAGES)
    assert found["inputs"][0]["shape"] == [-1, 2, 2]
    assert found["outputs"][0]["shape"] == [-1, 3]


# ---------------------------------------------------------------- batching


def test_what_waits_goes_together_and_more_than_the_queue_holds_is_refused() -> None:
    batches: list[list[int]] = []

    def compute(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]

    async def run() -> None:
        batcher: RequestBatcher[int, int] = RequestBatcher(compute, max_rows=4, max_queue=6)
        several = [asyncio.create_task(batcher.submit(n, 1)) for n in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await batcher.submit(9, 1)
        several[1].cancel()
        working = asyncio.create_task(batcher.run())
        found = await asyncio.gather(*several, return_exceptions=True)
        assert isinstance(found.pop(1), asyncio.CancelledError)
        assert found == [0, 4, 6, 8, 10]
        with pytest.raises(ValueError, match="unlucky"):
            await batcher.submit(13, 1)
        assert await batcher.submit(5, 1) == 10
        working.cancel()

    asyncio.run(run())
    assert batches == [[0, 2, 3, 4], [5], [13], [5]]


# ---------------------------------------------------------------- completions


def complete(text: str, **more: Any) -> tuple[str, CompletionEnd]:
    """Complete a prompt with a model that always says `text`, and then from the beginning."""
    given = json.dumps({"prompt": "ab", "temperature": 0, **more}).encode()
    request = read_completion(given, model="m", max_tokens=64)
    data, seen = text.encode(), 0

    async def next_logits(tokens: bytes) -> list[float]:
        nonlocal seen
        assert len(tokens) <= 4
        logits = [0.0] * 256
        logits[data[seen % len(data)]] = 1.0
        seen += 1
        return logits

    async def run() -> tuple[str, CompletionEnd]:
        finish = CompletionEnd()
        pieces = [p async for p in generate(request, next_logits, context=4, finish=finish)]
        return "".join(pieces), finish

    return asyncio.run(run())


def test_a_completion_has_as_many_tokens_as_asked_for() -> None:
    assert complete("xyz", max_tokens=5) == ("xyzxy", CompletionEnd("length", 5))


def test_a_completion_ends_before_a_stop_text_that_comes_in_pieces() -> None:
    assert complete("hello END", max_tokens=30, stop=["END"]) == (
        "hello ",
        CompletionEnd("stop", 9),
    )


def test_characters_of_several_tokens_come_whole() -> None:
    assert complete("é漢", max_tokens=5)[0] == "é漢"


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"max_tokens": 65}, 400, "from 1 to 64"),
        ({"max_tokens": 0}, 400, "from 1 to 64"),
        ({"temperature": 3}, 400, "temperature"),
        ({"prompt": ""}, 400, "empty"),
        ({"prompt": [256]}, 400, "from 0 to 255"),
        ({"n": 2}, 400, "n is not supported"),
        ({"model": "other"}, 404, "no such model"),
        ({"stop": ["a"] * 5}, 400, "at most 4"),
    ],
)
def test_completions_that_cannot_be_made_are_refused(
    given: dict[str, Any], status: int, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        read_completion(json.dumps({"prompt": "a", **given}).encode(), model="m", max_tokens=64)
    assert caught.value.status == status
