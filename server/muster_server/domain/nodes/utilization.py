"""How many slots were held over time, from when each allocation began and ended."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate


def mean_held(
    held: Iterable[tuple[float, float]], *, start_s: float, bucket_s: float, num: int, now_s: float
) -> list[float]:
    """Return the mean number of slots held in each of `num` buckets of `bucket_s` seconds.

    `held` has the (start, end) of each slot that was held, in seconds on the clock of `start_s`. The
    mean of the bucket that contains `now_s` is over the part that has passed; later buckets are 0.
    """
    whole = [0.0] * (num + 1)  # differences: slots that cover a bucket from end to end
    part = [0.0] * num  # seconds
    for start, end in held:
        first, last = max(start, start_s) - start_s, min(end, now_s) - start_s
        if last <= first or first >= num * bucket_s:
            continue
        last = min(last, num * bucket_s)
        i, j = int(first // bucket_s), min(num - 1, int(last // bucket_s))
        if i == j:
            part[i] += last - first
            continue
        part[i] += (i + 1) * bucket_s - first
        part[j] += last - j * bucket_s
        whole[i + 1] += 1
        whole[j] -= 1
    passed = (min(bucket_s, max(0.0, now_s - start_s - k * bucket_s)) for k in range(num))
    return [
        (full * bucket_s + seconds) / length if length > 0 else 0.0
        for full, seconds, length in zip(accumulate(whole[:num]), part, passed, strict=True)
    ]
