"""Values that patterns find in logs: the shapes that libraries print, and patterns of users."""

from __future__ import annotations

import math
import re
import time
from random import Random
from typing import Any

import pytest

from muster.log_values import BadLogPattern, LogPattern, LogScanner


def found(text: str, *patterns: LogPattern | str) -> dict[str, dict[int, float]]:
    """Name → step → value, of a log that comes in pieces of 7 bytes."""
    compiled = [LogPattern(p) if isinstance(p, str) else p for p in patterns or ("auto",)]
    scanner = LogScanner(compiled)
    data = text.encode()
    values = [v for at in range(0, len(data), 7) for v in scanner.feed(data[at : at + 7])]
    values += scanner.feed(b"", is_last=True)
    whole = LogScanner(compiled).feed(data, is_last=True)
    assert str(values) == str(whole), "the same, however it is cut"
    series: dict[str, dict[int, float]] = {}
    for v in values:
        assert v.step not in series.setdefault(v.name, {})
        series[v.name][v.step] = v.value
    return series


HUGGING_FACE = """
{'loss': 0.6931, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.5}
 50%|█████     | 8/16 [00:00<00:00, 20.1it/s]\r
{'eval_loss': '0.5', 'eval_runtime': '0.01', 'epoch': '1.0'}
{'loss': nan, 'grad_norm': inf, 'learning_rate': 0.0, 'epoch': 1.0}
{'train_runtime': 1.5, 'train_loss': 0.6, 'epoch': 1.0}
"""
KERAS = """Epoch 1/2
\x1b[1m1/3\x1b[0m \x1b[32m━━━\x1b[0m \x1b[1m0s\x1b[0m 94ms/step - loss: 9.0
\x1b[1m3/3\x1b[0m \x1b[32m━━━━━\x1b[0m \x1b[1m0s\x1b[0m 5ms/step - loss: 2.0
\x1b[1m3/3\x1b[0m \x1b[32m━━━━━\x1b[0m \x1b[1m0s\x1b[0m 9ms/step - loss: 2.0 - val_loss: 3.0
Epoch 2/2
3/3 - 0s - 5ms/step - loss: 1.5 - val_loss: 2.5
"""
SHAPES: dict[str, tuple[str, dict[str, dict[int, float]]]] = {
    "nanogpt": (
        "tokens per iteration will be: 16,384\n"
        "step 0: train loss 4.2874, val loss 4.2823\n"
        "iter 0: loss 4.2652, time 1234.56ms, mfu -100.00%\n"
        "iter 10: loss 3.1462, time 12.34ms, mfu 1.23%\n"
        "step 250: train loss 2.0876, val loss 2.1123\n",
        {
            "train_loss": {0: 4.2874, 250: 2.0876},
            "val_loss": {0: 4.2823, 250: 2.1123},
            "loss": {0: 4.2652, 10: 3.1462},
        },
    ),
    "keras": (KERAS, {"loss": {1: 2.0, 2: 1.5}, "val_loss": {1: 3.0, 2: 2.5}}),
    "xgboost": (
        "[0]\ttrain-rmse:0.5\tval-set-rmse:0.6\n[1]\ttrain-rmse:0.4\tval-set-rmse:0.55\n",
        {"train/rmse": {0: 0.5, 1: 0.4}, "val-set/rmse": {0: 0.6, 1: 0.55}},
    ),
    "xgboost's cv": (
        "[0]\ttrain-logloss:0.49+0.01\ttest-logloss:0.5+0.02\n",
        {"train/logloss": {0: 0.49}, "test/logloss": {0: 0.5}},
    ),
    "lightgbm": (
        "[LightGBM] [Info] Number of data points in the train set: 200\n"
        "[1]\tvalid_0's l2: 0.25\tvalid_0's auc: 0.8\n[2]\tvalid_0's l2: 0.2\tvalid_0's auc: 0.9\n",
        {"valid_0/l2": {1: 0.25, 2: 0.2}, "valid_0/auc": {1: 0.8, 2: 0.9}},
    ),
    "epochs": (
        "epoch 1 loss=0.9\nINFO:root:epoch 2 loss=1e-1, val_acc=0.5.\n",
        {"loss": {1: 0.9, 2: 0.1}, "val_acc": {2: 0.5}},
    ),
    "torch's tutorial": (
        "Epoch [1/2], Step [100/600], Loss: 0.52\nEpoch [1/2], Step [600/600], Loss: 0.42\n"
        "Epoch [2/2], Step [100/600], Loss: 0.32\n",
        {"Loss": {100: 0.52, 600: 0.42, 700: 0.32}},
    ),
    "torch's MNIST": (
        "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300039\n"
        "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.2\n"
        "\nTest set: Average loss: 0.0487, Accuracy: 9837/10000 (98%)\n\n",
        {
            "Loss": {0: 2.300039, 640: 1.2},
            "test_Average_loss": {640: 0.0487},
            "test_Accuracy": {640: 98.37},
        },
    ),
    "catboost": (
        "Learning rate set to 0.5\n"
        "0:\tlearn: 0.69\ttest: 0.7\tbest: 0.7 (0)\ttotal: 47ms\tremaining: 93ms\n"
        "10:\tlearn: 0.5\ttest: 0.6\tbest: 0.6 (10)\ttotal: 48ms\tremaining: 0us\n",
        {"learn": {0: 0.69, 10: 0.5}, "test": {0: 0.7, 10: 0.6}},
    ),
    "torch's ImageNet": (
        "Epoch: [0][ 1/100]\tTime  3.1 ( 3.1)\tLoss 7.0e+00 (7.0e+00)\tAcc@1   0.10 (  0.10)\n"
        "Epoch: [0][11/100]\tTime  3.1 ( 3.1)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.20 (  0.10)\n"
        "Test: [ 0/10]\tTime  1 ( 1)\tLoss 6.5e+00 (6.9e+00)\n",
        {"Loss": {1: 7.0, 11: 6.9}, "Acc@1": {1: 0.1, 11: 0.2}},
    ),
    "torch's quickstart": (
        "Epoch 1\n-------------------------------\n"
        "loss: 2.300000  [   64/60000]\nloss: 2.20  [ 6464/60000]\n"
        "Test Error: \n Accuracy: 50.1%, Avg loss: 2.1 \n\n"
        "Epoch 2\n-------------------------------\nloss: 2.1  [   64/60000]\n",
        {
            "loss": {64: 2.3, 6464: 2.2, 60064: 2.1},
            "test_Accuracy": {6464: 50.1},
            "test_Avg_loss": {6464: 2.1},
        },
    ),
    "torch's VAE": (
        "Train Epoch: 1 [0/60000 (0%)]\tLoss: 549.1\n====> Epoch: 1 Average loss: 164.1\n"
        "====> Test set loss: 127.4\n",
        {"Loss": {0: 549.1}, "Average_loss": {0: 164.1}, "Test_set_loss": {0: 127.4}},
    ),
    "torch's CIFAR-10": (
        "[1,  2000] loss: 2.173\n[1,  4000] loss: 1.8\n[2,  2000] loss: 1.5\n",
        {"loss": {2000: 2.173, 4000: 1.8, 6000: 1.5}},
    ),
    "torch's transfer learning": (
        "Epoch 0/24\n----------\ntrain Loss: 0.5 Acc: 0.7\nval Loss: 0.2 Acc: 0.9\n\n"
        "Epoch 1/24\n----------\ntrain Loss: 0.4 Acc: 0.8\nval Loss: 0.1 Acc: 0.9\n"
        "Training complete in 0m 3s\n",
        {
            "train_Loss": {0: 0.5, 1: 0.4},
            "val_Loss": {0: 0.2, 1: 0.1},
            "Acc": {0: 0.7, 1: 0.8},
            "val_Acc": {0: 0.9, 1: 0.9},
        },
    ),
    "torch's introduction": (
        "EPOCH 1:\n  batch 1000 loss: 1.7\n  batch 2000 loss: 0.9\nLOSS train 0.9 valid 0.5\n",
        {"loss": {1000: 1.7, 2000: 0.9}, "LOSS_train": {2000: 0.9}, "LOSS_valid": {2000: 0.5}},
    ),
    "torch's DCGAN": (
        "[0/25][0/782] Loss_D: 1.8 Loss_G: 5.2 D(x): 0.5 D(G(z)): 0.6 / 0.01\n"
        "[0/25][781/782] Loss_D: 1.7 Loss_G: 5.3 D(x): 0.5 D(G(z)): 0.6 / 0.01\n"
        "[1/25][0/782] Loss_D: 1.6 Loss_G: 5.4 D(x): 0.5 D(G(z)): 0.6 / 0.01\n",
        {
            "Loss_D": {0: 1.8, 781: 1.7, 782: 1.6},
            "Loss_G": {0: 5.2, 781: 5.3, 782: 5.4},
        },
    ),
    "torch's actor-critic": (
        "Episode 10\tLast reward: 12.00\tAverage reward: 11.02\n"
        "Episode 20\tLast reward: 13.00\tAverage reward: 12.02\n"
        "Solved! Running reward is now 476.1 and the last episode runs to 500 time steps!\n",
        {"Last_reward": {10: 12.0, 20: 13.0}, "Average_reward": {10: 11.02, 20: 12.02}},
    ),
    "graph networks": (
        "Epoch: 0001 loss_train: 1.9 acc_train: 0.2 loss_val: 1.8 acc_val: 0.3 time: 0.1s\n",
        {
            "loss_train": {1: 1.9},
            "acc_train": {1: 0.2},
            "loss_val": {1: 1.8},
            "acc_val": {1: 0.3},
        },
    ),
    "mmengine": (
        "2024/01/01 00:00:00 - mmengine - INFO - Epoch(train)  [1][ 50/100]  lr: 1.0e-02  "
        "eta: 0:10:00  time: 0.1  data_time: 0.01  memory: 100  loss: 1.2  loss_cls: 0.7\n",
        {"lr": {50: 0.01}, "loss": {50: 1.2}, "loss_cls": {50: 0.7}},
    ),
    "megatron": (
        " iteration       10/    1000 | consumed samples:   80 | learning rate: 1.5E-4 | "
        "lm loss: 9.1E+00 | grad norm: 1.2 | number of skipped iterations:   0 |\n",
        {"learning_rate": {10: 1.5e-4}, "lm_loss": {10: 9.1}, "grad_norm": {10: 1.2}},
    ),
    "deepspeed": (
        "[2024-01-01] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.001]\n",
        {"lr": {10: 0.001}},
    ),
    "a loss alone": (
        "loss: 0.5\nloss: 0.4\ntest loss: 0.3\nTraining loss = 0.2; val acc = 0.7\n"
        "Test accuracy: 0.93\n",
        {
            "loss": {0: 0.5, 1: 0.4},
            "test_loss": {1: 0.3},
            "Training_loss": {1: 0.2},
            "val_acc": {1: 0.7},
            "Test_accuracy": {1: 0.93},
        },
    ),
}


@pytest.mark.parametrize(("text", "expected"), SHAPES.values(), ids=SHAPES)
def test_usual_shapes_are_found_by_themselves(
    text: str, expected: dict[str, dict[int, float]]
) -> None:
    assert found(text) == expected


def test_a_trainer_that_prints_dictionaries() -> None:
    series = found(HUGGING_FACE)
    assert series["eval_loss"] == {0: 0.5}
    assert series["loss"][0] == 0.6931
    assert math.isnan(series["loss"][1])
    assert series["grad_norm"] == {0: 1.25, 1: math.inf}
    assert series["train_loss"] == {1: 0.6}, "that of the last step, not of the first"
    assert "epoch" not in series
    values = LogScanner([LogPattern("huggingface")]).feed(HUGGING_FACE.encode())
    assert [v.epoch for v in values if v.name == "loss"] == [0.5, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "Namespace(lr=0.001, epochs=3, loss='mse')",
        "The loss of the first epoch was disappointing",
        "Epoch 3/10",
        "accumulating 4 batches; step 3: 2 errors",
        "{'lr': 0.1, 'batch_size': 32}",
        "epoch 3: accuracy 9837/10000",
        "[2024-05-01 12:00:00] started, 3 workers",
        "step 3 took 0.5 s",
        "lr: 0.001",
        "learning_rate = 6e-4 # as the paper has it",
        "loss: mse",
        "loss_weight: 0.5",
        "accuracy: 9837/10000",
        "The test loss: 0.5 is too high",
        "[1/3] building the image, loss 0.5",
        "12: learned: 3",
        "loss_scale: 65536.0",
        "step 3: loss scale: 65536.0",
        "epoch 3: accuracy threshold: 0.9",
        "Epoch: [0] Total time: 0:00:21 (0.3570 s / it)",
        "Test:  [ 3/14]  eta: 0:00:03  loss: 6.9883 (6.9883)",
        "Validation loss decreased (0.51 --> 0.49).  Saving model ...",
        "Epoch 5: val_loss improved from 0.52 to 0.51, saving model to best.h5",
        "EarlyStopping counter: 3 out of 5, loss not better",
        "time (ms) | forward-compute: 152.33 | backward-compute: 157.91",
        "test 3 passed, error 0.5",
        "Epoch 3 | Train 12.3 s | Val 4.5 s",
        "Target accuracy: 0.9",
        "    loss = 0.5 * (a - b)",
        "    loss = (1 - target) * weight",
        "    self.acc.update(5, n)",
        "    lr = 0.025   if epoch == 0",
        "accuracy[0]",
        "step 5 loss: [0.5, 0.6]",
        "step 5 loss: tensor([0.5, 0.6])",
        "step 5 loss: 0.5ms",
        "step 5 loss: 10:30",
        "step 5 loss: 1.2.3",
        "step 5 loss: 0.5,0.6",
        "-----------\n| lr | 0.001 |\n| loss | 3 |\n-----------",
        "epoch  speed\n1  0.5",
    ],
)
def test_what_is_no_metric_is_not_found_by_itself(text: str) -> None:
    assert found(text + "\n") == {}


@pytest.mark.parametrize(
    ("lines", "series"),
    [
        ("step 1,000 loss: 0.5\nstep 2,000 loss: 0.4", {"loss": {1000: 0.5, 2000: 0.4}}),
        ("step 12_000 loss: 0.5", {"loss": {12000: 0.5}}),
        ("epoch 1 loss: 1,234.5", {"loss": {1: 1234.5}}),
        ("epoch 1 loss: 1,234,567", {"loss": {1: 1234567.0}}),
        ("Loss: 0,4512\nLoss: 0,41", {"Loss": {0: 0.4512, 1: 0.41}}),
        ("step: 1.5k loss: 0.5\nstep: 15K loss: 0.4", {"loss": {1500: 0.5, 15000: 0.4}}),
        ("step 3 reward: 1.5k", {"reward": {3: 1500.0}}),
        ("Loss: tensor(2.30, grad_fn=<NllLossBackward>)", {"Loss": {0: 2.3}}),
        ("Loss: tensor([2.30], device='cuda:0')", {"Loss": {0: 2.3}}),
        ("step 3 loss: np.float32(2.5)", {"loss": {3: 2.5}}),
        # What can be read in two ways is not taken, until the log has shown how it writes numbers.
        ("epoch 1 loss: 1,234", {}),
        ("epoch 1 loss: 0.5\nepoch 2 loss: 1,234", {"loss": {1: 0.5, 2: 1234.0}}),
        ("epoch 1 loss: 0,5\nepoch 2 loss: 1,234", {"loss": {1: 0.5, 2: 1.234}}),
        ("epoch 1 loss: 0,5\nepoch 2 loss: 1.234,5", {"loss": {1: 0.5, 2: 1234.5}}),
        ("epoch 1 loss: 1,234 acc: 0,5", {"loss": {1: 1.234}, "acc": {1: 0.5}}),
        ("epoch 1 loss: 0.5\nepoch 2 loss: 0,5", {"loss": {1: 0.5}}),
    ],
)
def test_numbers_as_locales_and_people_write_them(
    lines: str, series: dict[str, dict[int, float]]
) -> None:
    assert found(lines + "\n") == series


@pytest.mark.parametrize(
    ("lines", "series"),
    [
        # A line without a step belongs to the last step.
        ("step 500 loss: 0.5\nval loss 3.2", {"loss": {500: 0.5}, "val_loss": {500: 3.2}}),
        (
            "iter 10: loss 3.1\n{'eval_loss': 2.5, 'epoch': 3.0}",
            {"loss": {10: 3.1}, "eval_loss": {10: 2.5}},
        ),
        # Each value keeps a step of its own, whatever the log does not say.
        (
            "step 500 loss: 0.5\nval loss 3.2\nval loss 3.1",
            {"loss": {500: 0.5}, "val_loss": {500: 3.2, 501: 3.1}},
        ),
        # The same line twice, for the terminal and a file, is one value.
        ("epoch 1 loss: 0.5\nepoch 1 loss: 0.5\nepoch 2 loss: 0.5", {"loss": {1: 0.5, 2: 0.5}}),
        # Steps of an epoch go on counting; a first epoch of 0 or 1 is told apart.
        ("Epoch: 0 [50/100] loss: 2\nEpoch: 1 [50/100] loss: 1", {"loss": {50: 2.0, 150: 1.0}}),
        (
            "Epoch [3/5], Step [100/600], loss: 2\nEpoch [4/5], Step [100/600], loss: 1",
            {"loss": {1300: 2.0, 1900: 1.0}},
        ),
        ("epoch=1 step=1/200 loss=2\nepoch=2 step=101/200 loss=1", {"loss": {1: 2.0, 101: 1.0}}),
        # What an epoch sums up is another curve than its steps.
        (
            "Step 0 loss :2.3\nStep 10 loss :2.1\nEpoch: 0, loss: 40.5\nStep 0 loss :2.0\nEpoch: 1, loss: 38.5",
            {"loss": {0: 2.3, 10: 2.1, 11: 2.0}, "epoch_loss": {10: 40.5, 11: 38.5}},
        ),
        # A batch's size is no step.
        (
            "batch 64 loss: 2\nbatch 64 loss: 1\nbatch 64 loss: 0.5",
            {"loss": {64: 2.0, 65: 1.0, 66: 0.5}},
        ),
        ("best val acc: 0.9 at epoch 3", {"best_val_acc": {0: 0.9}}),
        ("step 9999999999999999999999 loss: 1", {"loss": {0: 1.0}}),
        ("epoch 999999999 [999999999999/999999999999] loss: 1", {}),
        (
            "fold 1 step 1 loss: 2\nfold 1 step 2 loss: 1\nfold 2 step 1 loss: 3",
            {"loss": {1: 2.0, 2: 1.0, 3: 3.0}},
        ),
        # A sentence before a result is none of its name.
        ("Training completed. Accuracy: 0.967", {"Accuracy": {0: 0.967}}),
        ("Done. Test accuracy: 93%", {"Test_accuracy": {0: 93.0}}),
        ("Epoch 2 done. Loss: 0.5, avg. acc: 0.9", {"Loss": {2: 0.5}, "avg._acc": {2: 0.9}}),
    ],
)
def test_where_values_are(lines: str, series: dict[str, dict[int, float]]) -> None:
    assert found(lines + "\n") == series


PIECES = [
    "loss", "Loss:", "acc@1 ", "epoch ", "Epoch: [3]", "step", "val ", "Test: ", "train", "best ", "| ", "- ",
    "[10/100]", "[ 3/", "100/800", "(0.5)", "tensor(", "1,234", "0,5", "1.5k", "1e999", "nan", "-inf", "9" * 30,
    "\t", "  ", " = ", ": ", "%", "\x1b[31m", "é损失", "\0", "'", "{'loss': ", "}", "----------", "\n", "\r",
    "\n| ", "|    loss   | 3 |\n", "epoch train_loss\n1 0.5\n", "Trial 3 finished with value: 0.5", "all 1 2",
]  # fmt: skip


def test_no_line_raises_or_gives_what_cannot_be_stored() -> None:
    random = Random(1)
    for _ in range(2_000):
        text = "".join(random.choices(PIECES, k=random.randrange(1, 40)))
        data = text.encode() + random.randbytes(random.randrange(8))
        for value in LogScanner([LogPattern("auto")]).feed(data, is_last=True):
            assert 0 <= value.step < 2**53
            assert 0 < len(value.name) <= 200


@pytest.mark.parametrize("piece", PIECES)
def test_no_line_takes_long(piece: str) -> None:
    """Twice the line at most twice the time, or so: a second is a hundred times what it takes."""
    ends = ("", "x", "loss: 1", "\n")
    scanner = LogScanner([LogPattern("auto")])
    data = "".join((piece * (16_000 // len(piece)))[:16_000] + f" loss {end}\n" for end in ends)
    before = time.thread_time()
    scanner.feed(data.encode(), is_last=True)
    short = "".join((piece * (3_900 // len(piece)))[:3_900] + f" loss {end}\n" for end in ends)
    scanner.feed(short.encode(), is_last=True)
    assert time.thread_time() - before < 1.0


def test_patterns_of_users() -> None:
    log = "0 | mean=0.5 | std=0.1\n10 | mean=0.25 | std=oops\n"
    both = LogPattern(r"(?P<name>\w+)=(?P<value>\S+)", line=r"^(?P<step>\d+) \|")
    assert found(log, both) == {"mean": {0: 0.5, 10: 0.25}, "std": {0: 0.1}}
    scanner = LogScanner([both])
    scanner.feed(log.encode())
    assert (scanner.num_refused, scanner.refused) == (1, "'std': 'oops' is not a number")
    # The first group without a name is the value, and a name of its own is used.
    one = LogPattern(r"mean=([\d.]+)", name="train/mean")
    assert found(log, one) == {"train/mean": {0: 0.5, 1: 0.25}}
    # A pattern without a value says where the following ones are.
    place = LogPattern(r"^(?P<step>\d+) \|")
    assert found(log, place, one) == {"train/mean": {0: 0.5, 10: 0.25}}
    # `^` and `$` are those of the line, wherever it is.
    assert found(log, LogPattern(r"\A(?P<value>\d+)", name="n")) == {"n": {0: 0, 1: 10}}
    # What Muster measures keeps its names.
    assert found("a=1\n", LogPattern("a=(.)", name="time/a")) == {"log/time/a": {0: 1.0}}


def test_a_progress_bar_without_line_ends_is_read_too() -> None:
    bar = LogPattern(r"loss=(?P<value>[\d.]+)", name="loss", line=r" (?P<step>\d+)/\d+ \[")
    text = "".join(f"\r {n * 10}% {n}/10 [00:0{n}, loss=0.{n}]" for n in range(1, 6))
    assert found(text, bar)["loss"] == {n: n / 10 for n in range(1, 6)}


def test_names_are_bounded() -> None:
    pattern = LogPattern(r"(?P<name>\w+)=(?P<value>\S+)")
    scanner = LogScanner([pattern])
    values = scanner.feed("".join(f"x{n}=1\n" for n in range(600)).encode())
    assert (len(values), scanner.num_refused) == (500, 100)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"pattern": "loss (?=x)"}, "pattern", "not a pattern of RE2: invalid perl operator: (?="),
        ({"pattern": "loss (?P<vlaue>.)"}, "pattern", "names a group 'vlaue'"),
        ({"pattern": "loss"}, "pattern", "has no group for the value"),
        ({"pattern": "loss (.)"}, "pattern", "without a name"),
        ({"pattern": "(.)", "name": "x", "line": "("}, "line", "not a pattern of RE2"),
        ({"pattern": "(.)", "name": "x", "line": "(?P<value>.)"}, "line", "belongs into `pattern`"),
        ({"pattern": "keras", "name": "loss"}, "name", "no effect beside the preset 'keras'"),
        ({"pattern": "(?P<done>.)(?P<value>.)", "name": "x"}, "pattern", "names a group 'done'"),
    ],
)
def test_patterns_that_cannot_work_say_why(given: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(BadLogPattern, match=re.escape(words)) as raised:
        LogPattern(**given)
    assert raised.value.field == field
    assert raised.value.hint
