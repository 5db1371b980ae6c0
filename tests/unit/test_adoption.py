"""Which files of a script are a checkpoint, and of which step."""

import pytest

from muster.adoption import NoCheckpointPattern, group, parse
from muster.wire import OutputFile
from muster_agent.outputs.adopt import find_complete, identity, known
from muster_agent.outputs.index import OutputIndex


@pytest.mark.parametrize(
    ("pattern", "path", "checkpoint", "step"),
    [
        ("out/ckpt-*.pt", "out/ckpt-200.pt", "out/ckpt-200.pt", 200),
        ("out/ckpt-*.pt", "out/sub/ckpt-200.pt", None, None),
        ("*.pt", "model_v2_00001000.pt", "model_v2_00001000.pt", 1000),
        ("ckpt.pt", "ckpt.pt", "ckpt.pt", None),
        ("*.h5", "weights.h5", "weights.h5", None),
        ("*.ckpt", "epoch=0-step=20.ckpt", "epoch=0-step=20.ckpt", 20),
        ("*.ckpt", "epoch=3-step=40-v1.ckpt", "epoch=3-step=40-v1.ckpt", 40),
        ("**/*.ckpt", "lightning_logs/version_0/a-step=7-loss=0.31.ckpt", "…", 7),
        ("**/*.ckpt", "last.ckpt", "last.ckpt", None),
        ("out/checkpoint-*", "out/checkpoint-500/model.safetensors", "out/checkpoint-500", 500),
        ("out/checkpoint-*/", "out/checkpoint-500/a/b.bin", "out/checkpoint-500", 500),
        ("out/checkpoint-[0-9]*", "out/checkpoint-best/x", None, None),
        ("out/checkpoint-[!0-9]*", "out/checkpoint-best/x", "out/checkpoint-best", None),
        ("runs/{step}/model.pt", "runs/30/model.pt", "runs/30/model.pt", 30),
        ("runs/{step}/model.pt", "runs/last/model.pt", None, None),
        ("e{step}-acc?.pt", "e12-acc7.pt", "e12-acc7.pt", 12),
        ("a.b/*.pt", "aXb/1.pt", None, None),
        ("*.pt", "99999999999999999999.pt", "99999999999999999999.pt", None),
    ],
)
def test_names(pattern, path, checkpoint, step):
    parsed = parse(pattern)
    found = parsed.checkpoint_of(path)
    assert found == (path if checkpoint == "…" else checkpoint)
    if found is not None:
        assert parsed.step_of(found) == step


@pytest.mark.parametrize(
    "pattern",
    ["", " ", "/tmp/*.pt", "~/x", "../x", "a/../b", "a//b", "./a", "a/**", "{step}/{step}", "[z-a]",
     "a\\b"],
)  # fmt: skip
def test_a_pattern_that_can_name_no_file_is_refused(pattern):
    with pytest.raises(NoCheckpointPattern):
        parse(pattern)


def file(path, state="kept", at_s=0):
    return OutputFile(
        path=path, state=state, size_bytes=1, sha256=path * 2, mtime_ms=at_s * 1000, parts=["p"]
    )


def complete(files, index, *, pattern="out/checkpoint-*", unsettled=(), is_final=False, now_s=1):
    found = find_complete(
        parse(pattern), files, unsettled=set(unsettled), index=index, is_final=is_final, now_s=now_s
    )
    return list(found)


def test_a_file_is_complete_when_it_is_stored():
    index = OutputIndex(store_id="", patterns=[])
    files = [file("ckpt-2.pt", at_s=2), file("ckpt-1.pt", at_s=1), file("log", "growing")]
    assert complete(files, index, pattern="*.pt") == ["ckpt-1.pt", "ckpt-2.pt"], "oldest first"
    assert complete([file("ckpt-1.pt", "growing")], index, pattern="*.pt") == []
    assert complete([file("ckpt-1.pt")], index, pattern="*.pt", unsettled=["ckpt-1.pt"]) == []


def test_a_folder_is_complete_when_it_does_not_grow_any_more():
    index = OutputIndex(store_id="", patterns=[])
    first = [file("out/checkpoint-5/a")]
    both = [*first, file("out/checkpoint-5/b")]
    assert complete(first, index) == [], "more may come"
    assert complete(both, index) == [], "more came"
    assert complete(both, index, unsettled=["out/checkpoint-5/c"]) == []
    assert complete(both, index) == []
    assert complete(both, index) == ["out/checkpoint-5"]
    assert complete(both, index, now_s=30) == ["out/checkpoint-5"], "quiet for long"
    assert complete(both, OutputIndex(store_id="", patterns=[]), is_final=True)
    partly = [*both, file("out/checkpoint-5/huge", "left_out")]
    assert complete(partly, index, is_final=True) == [], "never without all of its files"


def test_what_was_adopted_or_came_from_another_trial_is_not_adopted_again():
    files = [file("out/checkpoint-5/a"), file("out/checkpoint-6/a")]
    index = OutputIndex(store_id="", patterns=[])
    index.adopted = {"out/checkpoint-5": identity(files[:1])}
    assert complete(files, index, is_final=True) == ["out/checkpoint-6"]
    index.adopted = dict(known("out/checkpoint-*", files))
    assert complete(files, index, is_final=True) == []
    changed = [OutputFile(**{**vars(files[0]), "sha256": "new"}), files[1]]
    assert complete(changed, index, is_final=True) == ["out/checkpoint-5"]
    assert group(parse("a/*"), ["a/1", "a/2/x", "a/2/y", "b"]) == {
        "a/1": ["a/1"],
        "a/2": ["a/2/x", "a/2/y"],
    }
