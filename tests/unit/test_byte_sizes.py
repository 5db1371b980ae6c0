"""Sizes as people write them."""

import pytest

from muster.byte_sizes import parse_size


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("50GB", 50 * 10**9),
        ("50 gb", 50 * 10**9),
        ("1.5TiB", 3 * 2**39),
        ("4096", 4096),
        ("1B", 1),
        ("10kB", 10_000),
        (" 7MiB ", 7 * 2**20),
    ],
)
def test_units(text, num_bytes):
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "GB", "1 Gb/s", "-1GB", "1e9", "five", "0", "99999TB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a size|must be between"):
        parse_size(text)
