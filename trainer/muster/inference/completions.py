"""OpenAI's completions of a language model whose tokens are bytes. Needs no torch."""

from __future__ import annotations

import codecs
import json
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .protocol import RequestError, read_object

MAX_TOKENS_DEFAULT = 16
STOPS_MAX = 4
STOP_MAX_CHARS = 200
_KNOWN = frozenset(
    {"model", "prompt", "max_tokens", "temperature", "seed", "stop", "stream", "user"}
)
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "echo": (False,), "logprobs": (None,), "suffix": (None, ""),
    "top_p": (1, 1.0), "presence_penalty": (0, 0.0), "frequency_penalty": (0, 0.0),
    "logit_bias": (None, {}), "stream_options": (None,),
}  # fmt: skip
"""Options that change nothing at these values, and are not supported at others."""


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    prompt: bytes
    max_tokens: int
    temperature: float
    """0 always takes the likeliest token."""
    seed: int | None
    stops: tuple[str, ...]
    stream: bool


def read_completion(body: bytes, *, model: str, max_tokens: int) -> CompletionRequest:
    """Read a request. max_tokens: most tokens that it may ask for. Raises RequestError."""
    given = read_object(body)
    for name, value in given.items():
        if name not in _KNOWN and value not in _NEUTRAL.get(name, ()):
            raise RequestError(400, f"{name[:64]} is not supported here, or not with this value")
    if given.get("model") not in (None, model):
        raise RequestError(404, f"there is no such model here; this is {model}")
    wanted = given.get("max_tokens")
    wanted = MAX_TOKENS_DEFAULT if wanted is None else wanted
    if type(wanted) is not int or not 1 <= wanted <= max_tokens:
        raise RequestError(400, f"max_tokens must be a whole number from 1 to {max_tokens}")
    temperature = given.get("temperature")
    temperature = 1.0 if temperature is None else temperature
    if type(temperature) not in (int, float) or not 0 <= temperature <= 2:
        raise RequestError(400, "temperature must be a number from 0 to 2")
    seed = given.get("seed")
    if seed is not None and type(seed) is not int:
        raise RequestError(400, "seed must be a whole number")
    stream = given.get("stream") or False
    if type(stream) is not bool:
        raise RequestError(400, "stream must be true or false")
    return CompletionRequest(
        prompt=_prompt(given.get("prompt")),
        max_tokens=wanted,
        temperature=float(temperature),
        seed=seed,
        stops=_stops(given.get("stop")),
        stream=stream,
    )


def _prompt(given: Any) -> bytes:
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str | list):
        given = given[0]
    if isinstance(given, str):
        found = given.encode("utf-8", "replace")
    elif isinstance(given, list) and all(type(n) is int and 0 <= n < 256 for n in given):
        found = bytes(given)
    else:
        raise RequestError(400, "prompt must be a text, or a list of tokens from 0 to 255")
    if not found:
        raise RequestError(400, "prompt must not be empty")
    return found


def _stops(given: Any) -> tuple[str, ...]:
    stops = [] if given is None else [given] if isinstance(given, str) else given
    is_list = isinstance(stops, list) and len(stops) <= STOPS_MAX
    if not is_list or not all(isinstance(s, str) and 0 < len(s) <= STOP_MAX_CHARS for s in stops):
        raise RequestError(400, f"stop must be a text, or a list of at most {STOPS_MAX} texts")
    return tuple(stops)


def choose(logits: Sequence[float], temperature: float, draw: random.Random) -> int:
    """Return the next token."""
    if temperature == 0:
        return max(range(len(logits)), key=logits.__getitem__)
    top = max(logits)
    weights = [math.exp((value - top) / temperature) for value in logits]
    return draw.choices(range(len(weights)), weights)[0]


@dataclass
class CompletionEnd:
    """How a completion ended."""

    reason: str = "length"
    """`length`: max_tokens were generated. `stop`: one of the texts in `stop` came."""
    num_tokens: int = 0


async def generate(
    request: CompletionRequest,
    next_logits: Callable[[bytes], Awaitable[Sequence[float]]],
    *,
    context: int,
    finish: CompletionEnd,
) -> AsyncIterator[str]:
    """Yield the text as it comes. What may be the beginning of a text in `stop` is held back.

    next_logits: returns the logits of the token after at most `context` tokens.
    finish: filled in at the end.
    """
    draw = random.Random(request.seed)  # noqa: S311 - sampling, no secret
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    tokens = bytearray(request.prompt)
    held = ""
    longest = max((len(stop) for stop in request.stops), default=0)
    while finish.num_tokens < request.max_tokens:
        logits = await next_logits(bytes(tokens[-context:]))
        token = choose(logits, request.temperature, draw)
        tokens.append(token)
        finish.num_tokens += 1
        held += decoder.decode(bytes([token]))
        ends = [at for stop in request.stops if (at := held.find(stop)) >= 0]
        if ends:
            finish.reason = "stop"
            if min(ends):
                yield held[: min(ends)]
            return
        safe = len(held) - max(0, longest - 1)
        if safe > 0:
            yield held[:safe]
            held = held[safe:]
    held += decoder.decode(b"", final=True)
    if held:
        yield held


def frame(value: dict[str, Any] | str) -> bytes:
    """Return one server-sent event."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def completion(
    *, request_id: str, created: int, model: str, text: str, reason: str | None
) -> dict[str, Any]:
    """Return an answer, or one piece of it."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    return {
        "id": request_id,
        "object": "text_completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
