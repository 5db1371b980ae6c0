"""Messages: English from a template, parts for any other language, and no way to lose either."""

from __future__ import annotations

import pytest

from muster_server.domain.messages import (
    Message,
    Rendered,
    count,
    english,
    from_columns,
    parts,
    sentences,
    shortened,
    to_columns,
)

FREE = Message("pending.free", slots=12_000, nodes=1)
GIVER = Message("pending.giver", trial_no=1, experiment=12_345)
OTHERS = Message("pending.more_givers", num=2)


def test_numbers_are_counted_and_numbers_that_are_names_are_not() -> None:
    assert FREE.english == "12,000 free on 1 node"
    assert GIVER.english == "trial 1 of experiment 12345"
    assert Message("field.too_many", limit=3).english == "must have at most 3 entries"
    assert Message("field.too_many", limit=1).english == "must have at most 1 entry"
    assert Message("scaling.model_off", pct=21.5).english.startswith("The model is 21.5% off")
    assert [count(1, "slot"), count(10_000, "slot"), count(None, "slot")] == [
        "1 slot",
        "10,000 slots",
        "0 slots",
    ]


@pytest.mark.parametrize(
    ("givers", "text"),
    [
        ([GIVER], "trial 1 of experiment 12345"),
        ([GIVER, OTHERS], "trial 1 of experiment 12345 and 2 other trials"),
        ([GIVER, GIVER, OTHERS], f"{GIVER.english}, {GIVER.english} and 2 other trials"),
    ],
)
def test_a_list_is_a_list_in_english(givers: list[Message], text: str) -> None:
    assert Message("pending.coming_free", givers=givers).english == f"waiting for slots of {text}"


def test_text_with_braces_is_no_template() -> None:
    assert Message("plan.config", message="{slots}").english.endswith("as written: {slots}.")


def test_parts_are_those_of_the_message_and_of_all_within_it() -> None:
    coming = Message("pending.coming_free", givers=[GIVER, OTHERS])
    help_ = Message("help.by_itself")
    request = [Message("wish.slots", slots=1, slot_type="cpu", pool="a")]
    whole = Message("all.needs", advice=help_, state=[coming, FREE], request=request)
    assert [part["code"] for part in whole.parts] == [
        "wish.slots",
        "pending.coming_free",
        "pending.giver",
        "pending.more_givers",
        "pending.free",
        "help.by_itself",
    ]
    assert whole.parts[2] == {
        "code": "pending.giver",
        "params": {"trial_no": 1, "experiment": 12_345},
    }


def test_a_message_in_a_string_is_an_error() -> None:
    for message in (FREE, Rendered("text")):
        with pytest.raises(TypeError, match=r"\.english"):
            str(message)
        with pytest.raises(TypeError):
            f"because {message}"
        with pytest.raises(TypeError):
            "because %s" % message  # noqa: UP031
        with pytest.raises(TypeError):
            "because " + message  # type: ignore[operator]


def test_what_is_stored_is_what_was_rendered() -> None:
    text, kept = to_columns(FREE)
    assert (text, kept) == (FREE.english, list(FREE.parts))
    found = from_columns(text, kept)
    assert found == Rendered(FREE.english, FREE.parts)
    assert to_columns(found) == (text, kept)
    assert to_columns(None) == ("", None)
    assert from_columns("", kept) is None
    # Of a row of another version, whose codes may be gone.
    old = from_columns("once upon", [{"code": "pending.gone", "params": {}}])
    advice = Message("help.budget")
    assert sentences(old, None, advice).english == f"once upon {advice.english}"


def test_plain_text_passes_for_a_message_without_parts() -> None:
    assert (english("text"), parts("text")) == ("text", ())
    assert (english(FREE), parts(FREE)) == (FREE.english, FREE.parts)
    assert sentences(None, FREE) is FREE
    with pytest.raises(ValueError, match="no sentence"):
        sentences(None)


def test_messages_are_values() -> None:
    assert Message("pending.free", nodes=1, slots=12_000) == FREE
    assert Message("pending.free", nodes=2, slots=12_000) != FREE
    with pytest.raises(AttributeError):
        FREE.code = "pending.held"  # type: ignore[misc]


def test_names_are_shortened_alike_in_every_language() -> None:
    assert shortened(["a", "b", "c"]) == "a, b, c"
    assert shortened(["a", "b", "c", "d"]) == "a, b, c (+1)"
