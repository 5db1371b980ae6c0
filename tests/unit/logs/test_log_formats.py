"""What public scripts and libraries print, and what is found in it without a pattern.

Formats are those of the files that are named, seen in November 2026; the numbers are made up. The scripts
of `SAMPLE` were drawn at random from public repositories and are kept whatever is found in them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.log_values import LogPattern, LogScanner

Series = dict[str, dict[int, float]]


class Row(NamedTuple):
    """Lines of one program."""

    source: str
    """Repository whose program prints them, with the file where it is a script."""
    text: str
    found: Series
    """Name as it is printed → step → value."""
    share: str = "all"
    """Whether `all`, `some` or `none` of the results that the lines name are found."""


def found(text: str) -> Series:
    """Name → step → value of a log, the same however it is cut."""
    data = text.encode()
    whole = LogScanner([LogPattern("auto")]).feed(data, is_last=True)
    scanner = LogScanner([LogPattern("auto")])
    values = [v for at in range(0, len(data), 11) for v in scanner.feed(data[at : at + 11])]
    assert str([*values, *scanner.feed(b"", is_last=True)]) == str(whole)
    series: Series = {}
    for v in whole:
        assert v.step not in series.setdefault(v.name, {}), "each value has a step of its own"
        series[v.name][v.step] = v.value
    return series


def stored(series: Series) -> Series:
    return {name.replace(" ", "_"): values for name, values in series.items()}


LIBRARIES = [
    Row(
        "karpathy/llama2.c train.py",
        "step 0: train loss 10.4132, val loss 10.4121\n"
        "0 | loss 10.4171 | lr 0.000000e+00 | 1234.56ms | mfu -100.00%\n"
        "10 | loss 9.1000 | lr 5.000000e-06 | 120.00ms | mfu 1.20%\n",
        {
            "train loss": {0: 10.4132},
            "val loss": {0: 10.4121},
            "loss": {0: 10.4171, 10: 9.1},
            "lr": {0: 0.0, 10: 5e-06},
        },
    ),
    Row(
        "optuna/optuna",
        "[I 2024-10-21 09:05:21,808] A new study created in memory with name: no-name-1\n"
        "[I 2024-10-21 09:05:21,850] Trial 0 finished with value: -57.25 and parameters: "
        "{'learning_rate': 0.17, 'depth': 16}. Best is trial 0 with value: -57.25.\n"
        "[I 2024-10-21 09:05:22,001] Trial 1 pruned. \n"
        "[I 2024-10-21 09:05:22,850] Trial 2 finished with value: -60.5 and parameters: "
        "{'learning_rate': 0.1, 'depth': 4}. Best is trial 2 with value: -60.5.\n"
        "[I 2024-10-21 09:05:23,850] Trial 3 finished with values: [0.5, 1.25] and parameters: {}.\n",
        {
            "value": {0: -57.25, 2: -60.5},
            "best_value": {0: -57.25, 2: -60.5},
            "value_0": {3: 0.5},
            "value_1": {3: 1.25},
        },
    ),
    Row(
        "huggingface/pytorch-image-models train.py",
        "Train: 0 [   0/156 (  1%)]  Loss: 6.95 (6.95)  Time: 3.2s,   40.00/s  (3.2s,   40.00/s)  "
        "LR: 1.000e-05  Data: 1.500 (1.500)\n"
        "Test: [   0/78]  Time: 1.412 (1.412)  Loss:   6.801 ( 6.801)  Acc@1:   1.562 (  1.562)\n"
        "Test: [  78/78]  Time: 0.112 (0.212)  Loss:   6.701 ( 6.752)  Acc@1:   2.500 (  1.812)\n"
        "Train: 1 [  50/156 ( 33%)]  Loss: 6.90 (6.92)  Time: 0.312s,  410.12/s  (0.4s,  300.00/s)  "
        "LR: 2.000e-05  Data: 0.010 (0.030)\n",
        {
            "Loss": {0: 6.95, 206: 6.9},
            "LR": {0: 1e-05, 206: 2e-05},
            "test Loss": {0: 6.752},
            "test Acc@1": {0: 1.812},
        },
    ),
    Row(
        "pytorch/vision references/detection",
        "Epoch: [0]  [ 0/60]  eta: 0:01:21  lr: 0.000090  loss: 2.7890 (2.7890)  "
        "loss_rpn_box_reg: 0.0063 (0.0093)  time: 1.3489  data: 0.0042  max mem: 5081\n"
        "Epoch: [0]  [59/60]  eta: 0:00:00  lr: 0.005000  loss: 0.2540 (0.6082)  "
        "loss_rpn_box_reg: 0.0063 (0.0093)  time: 0.3489  data: 0.0042  max mem: 5081\n"
        "Epoch: [0] Total time: 0:00:21 (0.3570 s / it)\n"
        "Test:  [ 0/50]  eta: 0:00:19  model_time: 0.2152 (0.2152)  evaluator_time: 0.0133 (0.0133)\n"
        "Epoch: [1]  [ 0/60]  eta: 0:00:51  lr: 0.005000  loss: 0.2430 (0.2430)  "
        "loss_rpn_box_reg: 0.0073 (0.0073)  time: 0.8489  data: 0.0042  max mem: 5081\n",
        {
            "lr": {0: 9e-05, 59: 0.005, 60: 0.005},
            "loss": {0: 2.789, 59: 0.254, 60: 0.243},
            "loss_rpn_box_reg": {0: 0.0063, 59: 0.0063, 60: 0.0073},
        },
    ),
    Row(
        "pytorch/vision references/classification",
        "Epoch: [0]  [330/334]  eta: 0:00:03  lr: 0.128  img/s: 5601.840934156804  "
        "loss: 6.8106 (6.9527)  acc1: 0.4167 (0.1788)  acc5: 1.6667 (0.8283)  time: 0.7644\n"
        "Test:  [ 0/14]  eta: 0:00:03  loss: 6.9883 (6.9883)  acc1: 0.0000 (0.0000)  time: 0.2724\n"
        "Test: Total time: 0:00:04\n * Acc@1 0.112 Acc@5 1.040\n",
        {
            "lr": {330: 0.128},
            "loss": {330: 6.8106},
            "acc1": {330: 0.4167},
            "acc5": {330: 1.6667},
            "test Acc@1": {330: 0.112},
            "test Acc@5": {330: 1.04},
        },
    ),
    Row(
        "open-mmlab/mmengine",
        "02/05 21:49:37 - mmengine - INFO - Epoch(train)  [1][100/348]  base_lr: 4.0e-03 lr: 4.0e-03  "
        "eta: 2:58:00  time: 0.25  data_time: 0.057 memory: 5724  loss: 0.533  acc_pose: 0.508\n"
        "02/05 21:59:37 - mmengine - INFO - Epoch(train)  [2][100/348]  base_lr: 4.0e-03 lr: 4.0e-03  "
        "eta: 2:58:00  time: 0.25  data_time: 0.057 memory: 5724  loss: 0.433  acc_pose: 0.608\n"
        "02/05 22:00:37 - mmengine - INFO - Epoch(val)  [2][10/10]    coco/AP: 0.419052  "
        "coco/AP .5: 0.848477  PCK: 0.816667  data_time: 0.450027  time: 0.478831\n",
        {
            "base_lr": {100: 0.004, 448: 0.004},
            "lr": {100: 0.004, 448: 0.004},
            "loss": {100: 0.533, 448: 0.433},
            "acc_pose": {100: 0.508, 448: 0.608},
            "val coco/AP": {448: 0.419052},
            "val PCK": {448: 0.816667},
        },
        "some",
    ),
    Row(
        "open-mmlab/mmdetection 2.x",
        "2022-10-06 16:36:14,363 - mmdet - INFO - Epoch(val) [12][4257]\tbbox_mAP: 0.3710, "
        "bbox_mAP_50: 0.6270, bbox_mAP_copypaste: 0.371 -1.000 0.627 0.385 0.021 0.102\n",
        {"val bbox_mAP": {12: 0.371}, "val bbox_mAP_50": {12: 0.627}},
    ),
    Row(
        "DLR-RM/stable-baselines3",
        "-----------------------------------------\n"
        "| rollout/                |             |\n"
        "|    ep_len_mean          | 112         |\n"
        "|    ep_rew_mean          | -1.27e+03   |\n"
        "| time/                   |             |\n"
        "|    fps                  | 847         |\n"
        "|    iterations           | 3052        |\n"
        "|    time_elapsed         | 58969       |\n"
        "|    total_timesteps      | 50003968    |\n"
        "| train/                  |             |\n"
        "|    approx_kl            | 0.051321883 |\n"
        "|    value_loss           | 9.5         |\n"
        "-----------------------------------------\n",
        {
            "rollout/ep_len_mean": {50003968: 112.0},
            "rollout/ep_rew_mean": {50003968: -1270.0},
            "train/approx_kl": {50003968: 0.051321883},
            "train/value_loss": {50003968: 9.5},
        },
    ),
    Row(
        "ultralytics/ultralytics",
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
        "       1/20      10.1G      1.999      2.999      1.999         79        640:  50%|█████     |"
        " 149/298 [04:35<04:30,  1.73s/it]\n"
        "       1/20      10.1G      1.777      2.573      1.302         79        640: 100%|██████████|"
        " 298/298 [08:35<00:00,  1.73s/it]\n"
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
        "100%|██████████| 38/38 [00:44<00:00,  1.17s/it]\n"
        "                   all       1189       4779       0.34     0.0303     0.0157    0.00773\n"
        "                   cat        189        479       0.94     0.9303     0.9157    0.90773\n",
        {
            "box_loss": {1: 1.777},
            "cls_loss": {1: 2.573},
            "dfl_loss": {1: 1.302},
            "Box/P": {1: 0.34},
            "Box/R": {1: 0.0303},
            "Box/mAP50": {1: 0.0157},
            "Box/mAP50-95": {1: 0.00773},
        },
    ),
    Row(
        "pyg-team/pytorch_geometric examples",
        "Epoch: 001, Loss: 1.9458, Train: 0.2286, Val: 0.2580, Test: 0.2510\n"
        "Epoch: 002, Loss: 1.9432, Train: 0.3857, Val: 0.2300, Test: 0.2510\n",
        {
            "Loss": {1: 1.9458, 2: 1.9432},
            "Train": {1: 0.2286, 2: 0.3857},
            "Val": {1: 0.258, 2: 0.23},
            "Test": {1: 0.251, 2: 0.251},
        },
    ),
    Row(
        "NVIDIA/Megatron-LM",
        "[2025-09-07 23:58:47] iteration      609/  500000 | consumed samples:        19488 | elapsed "
        "time per iteration (ms): 438.3 | learning rate: 5.999998E-05 | global batch size:    32 | "
        "lm loss: 6.159759E+00 | loss scale: 131072.0 | grad norm: 1.095 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |\n",
        {
            "learning_rate": {609: 5.999998e-05},
            "lm loss": {609: 6.159759},
            "grad_norm": {609: 1.095},
        },
    ),
    Row(
        "karpathy/makemore makemore.py",
        "step 0 | loss 3.3119 | step time 61.12ms\nstep 10 | loss 3.0781 | step time 9.87ms\n"
        "step 500 train loss: 2.5123456 test loss: 2.6123456\n",
        {
            "loss": {0: 3.3119, 10: 3.0781},
            "train loss": {500: 2.5123456},
            "test loss": {500: 2.6123456},
        },
    ),
    Row(
        "fastai/fastai",
        "epoch     train_loss  valid_loss  accuracy  time    \n"
        "0         0.520000    0.410000    0.810000  00:12     \n"
        "1         0.420000    0.310000    0.910000  00:12     \n",
        {
            "train_loss": {0: 0.52, 1: 0.42},
            "valid_loss": {0: 0.41, 1: 0.31},
            "accuracy": {0: 0.81, 1: 0.91},
        },
    ),
    Row(
        "skorch-dev/skorch",
        "  epoch    train_loss    valid_acc    valid_loss     dur\n"
        "-------  ------------  -----------  ------------  ------\n"
        "      1        \x1b[36m0.6868\x1b[0m       \x1b[32m0.6000\x1b[0m        0.6740  0.0851\n",
        {"train_loss": {1: 0.6868}, "valid_acc": {1: 0.6}, "valid_loss": {1: 0.674}},
    ),
    Row(
        "scikit-learn/scikit-learn GradientBoosting",
        "      Iter       Train Loss   Remaining Time \n"
        "         1           1.2345            5.30s\n"
        "         2           1.1345            5.10s\n",
        {"Train Loss": {1: 1.2345, 2: 1.1345}},
    ),
]

KERAS = (
    "Epoch 1/3\n\x1b[1m1/9\x1b[0m ━━━ \x1b[1m1s\x1b[0m 94ms/step - accuracy: 0.5 - loss: 9.0\n"
    "\x1b[1m9/9\x1b[0m ━━━ \x1b[1m1s\x1b[0m 94ms/step - accuracy: 0.6 - loss: 2.0\n"
    "Epoch 2/3\n9/9 ━━━ 1s 94ms/step - accuracy: 0.7 - loss: 1.5\n"
)
KERAS_FOUND: Series = {"accuracy": {1: 0.6, 2: 0.7}, "loss": {1: 2.0, 2: 1.5}}
STAMP = "2024-05-01 10:00:00,123 - neural_translator - INFO - "

SAMPLE = [
    Row(
        "Vishnu000000/DeepLearning_A3 train.py",
        f"{STAMP}Epoch 1/20\n{STAMP}Train Loss: 2.1234\n{STAMP}Val Loss: 2.0123\n"
        f"{STAMP}Saved best model!\n{STAMP}Epoch 2/20\n{STAMP}Train Loss: 1.1234\n"
        f"{STAMP}Val Loss: 1.0123\n{STAMP}Final Test Loss: 1.5000\n",
        {
            "Train Loss": {1: 2.1234, 2: 1.1234},
            "Val Loss": {1: 2.0123, 2: 1.0123},
            "Final Test Loss": {2: 1.5},
        },
    ),
    Row(
        "Vishnu1837/tiny-gpt train.py",
        "iter     0  loss=4.1234  lr=1.00e-03\niter   200  loss=3.1234  lr=9.00e-04\n"
        "  [eval @ iter 200] train=2.5012  val=2.6034  (12.3s)\n",
        {
            "loss": {0: 4.1234, 200: 3.1234},
            "lr": {0: 1e-3, 200: 9e-4},
            "train": {200: 2.5012},
            "val": {200: 2.6034},
        },
    ),
    Row(
        "Vishnu2001-tech/Udacity_Image_Classifier_Project train.py",
        "Epoch 1/3.. Loss: 2.345.. Validation Loss: 1.234.. Accuracy: 0.678\n"
        "Epoch 1/3.. Loss: 2.145.. Validation Loss: 1.134.. Accuracy: 0.778\n"
        "Epoch 3/3.. Loss: 2.045.. Validation Loss: 1.034.. Accuracy: 0.788\n",
        {
            "Loss": {1: 2.345, 2: 2.145, 3: 2.045},
            "Validation Loss": {1: 1.234, 2: 1.134, 3: 1.034},
            "validation Accuracy": {1: 0.678, 2: 0.778, 3: 0.788},
        },
    ),
    Row(
        "VishnuDuttSharma/occupancy_prediction train.py",
        "\tLR: 0.1\nEpisode: 1, Iteation: 20, Validation loss: 0.0512\n"
        "Episode: 1, Iteation: 40, Validation loss: 0.0412\nEnd of Episode 1, Training loss: 0.06\n"
        "Validation loss: 0.05\nEpisode: 2, Iteation: 20, Validation loss: 0.0312\n",
        {"Validation loss": {1: 0.0512, 2: 0.05}, "Training loss": {1: 0.06}},
        "some",
    ),
    Row(
        "VishnuGopireddy/bert_classification_api train.py",
        "Train\tEpoch: 1/10\n"
        "99/99 [=====] - 12s 120ms/step - step loss: 0.6812 - step accuray: 0.5600 - epoch loss: 0.6512\n",
        {"step loss": {1: 0.6812}, "step accuray": {1: 0.56}, "epoch loss": {1: 0.6512}},
    ),
    Row(
        "VishnuPrem/rgb_lidar_segmentation train.py",
        "\n ---------------- Epoch # 0 ------------------\n\n"
        "[TRAINING] [Average loss]:0.5123 [Average IOU]:0.4123 [bg]:0.9 [Car]:0.2\n"
        "[VALIDATING] [loss]:0.6123 [avg_iou]:0.3123 [bg]:0.9 [Car]:0.2\n"
        "\n ---------------- Epoch # 1 ------------------\n\n"
        "[TRAINING] [Average loss]:0.4123 [Average IOU]:0.5123 [bg]:0.9 [Car]:0.2\n",
        {
            "Average loss": {0: 0.5123, 1: 0.4123},
            "Average IOU": {0: 0.4123, 1: 0.5123},
            "validating loss": {0: 0.6123},
            "validating avg_iou": {0: 0.3123},
        },
    ),
    Row(
        "VishnuTejaJ/Automatic-Image-Captioning train.py",
        "Epoch [1/25]\n  0%|          | 0/99 [00:00<?, ?it/s]\r"
        "Epoch [1/25]:  51%|█████     | 50/99 [00:10<00:10,  5.0it/s, loss=3.21]\r"
        "Epoch [1/25]: 100%|██████████| 99/99 [00:10<00:00,  5.0it/s, loss=3.11]\n"
        "Epoch [2/25]\n\rEpoch [2/25]: 100%|██████████| 99/99 [00:10<00:00,  5.0it/s, loss=2.11]\n",
        {"loss": {50: 3.21, 99: 3.11, 198: 2.11}},
    ),
    Row(
        "Vishnudharan24/SmartDNS train.py",
        KERAS + "Model Accuracy: 93.12%\n",
        {**KERAS_FOUND, "Model Accuracy": {2: 93.12}},
    ),
    Row(
        "Vishrudh21/emotion-recognition train.py",
        "Model parameters: 4,210,000\n\nEpoch 1/20\n" + "-" * 50 + "\n"
        "Training:  10%|█         | 10/99 [00:01<00:10,  9.8it/s, loss=1.2345, acc=50.00%]\n"
        "Train Loss: 1.2345, Train Acc: 50.00%\nVal Loss: 1.1345, Val Acc: 55.00%\n"
        "Best model saved with validation accuracy: 55.00%\nBest validation accuracy: 55.00%\n",
        {
            "Train Loss": {1: 1.2345},
            "Train Acc": {1: 50.0},
            "Val Loss": {1: 1.1345},
            "Val Acc": {1: 55.0},
            "Best validation accuracy": {1: 55.0},
        },
    ),
    Row(
        "VishuddhaChakra7/DeepGuard-AI train.py",
        "[01/30] train loss=0.6512 acc=0.6123 | val loss=0.6012 acc=0.6512 AUC=0.7012 ★\n"
        "  → Saved checkpoint (AUC=0.7012)\n"
        "[02/30] train loss=0.5512 acc=0.7123 | val loss=0.5012 acc=0.7512 AUC=0.8012\n"
        "Early stopping at epoch 2. Best AUC: 0.8012\nTraining complete. Best Val AUC: 0.8012\n",
        {
            "train loss": {1: 0.6512, 2: 0.5512},
            "acc": {1: 0.6123, 2: 0.7123},
            "val loss": {1: 0.6012, 2: 0.5012},
            "val acc": {1: 0.6512, 2: 0.7512},
            "val AUC": {1: 0.7012, 2: 0.8012},
            "Best AUC": {2: 0.8012},
        },
    ),
    Row(
        "VishvamPorwal/iSpeakShakespeare train.py",
        "0.209729 M parameters\niter     0 | train loss 4.20 | val loss 4.21\n"
        "iter   500 | train loss 2.20 | val loss 2.31\n",
        {"train loss": {0: 4.2, 500: 2.2}, "val loss": {0: 4.21, 500: 2.31}},
    ),
    Row(
        "VishwaMohan7/audio-denoiser train.py",
        "\nEpoch 1/20 | lr=0.001000\n    [train] batch 1/2 loss=0.512345\n"
        "    [train] batch 2/2 loss=0.412345\n    [val] batch 1/1 loss=0.612345\n"
        "Epoch 1 complete | train_loss=0.462345 | val_loss=0.612345\n"
        "\nEpoch 2/20 | lr=0.001000\n    [train] batch 1/2 loss=0.312345\n",
        {
            "lr": {1: 0.001, 2: 0.001},
            "loss": {1: 0.512345, 2: 0.412345, 3: 0.312345},
            "train_loss": {2: 0.462345},
            "val_loss": {2: 0.612345},
        },
    ),
    Row(
        "Vision-jarvis/SimCity train.py",
        "Epoch 1 | Train Loss: 0.5123\nEpoch 1 | Running Validation...\nEpoch 2 | Train Loss: 0.4123\n"
        "Naive mean baseline MAE: 0.4123\n",
        {"Train Loss": {1: 0.5123, 2: 0.4123}},
    ),
    Row(
        "VishwathRam/sam_peft_modified train.py",
        "###############\n### Epoch 1/10\n###############\n"
        "(train): 100%|██████████| 9/9 [00:10<00:00,  1.0s/it, bce=0.512, hard_dice=0.612]\n"
        "(valid): 100%|██████████| 9/9 [00:10<00:00,  1.0s/it, bce=0.412, valid_loss=0.412]\n"
        "New best dice score achieved from 0.0000 to 0.5123\n",
        {},
        "none",
    ),
    Row(
        "Vishnu-Tunuguntla/KIT train.py",
        "      Epoch    GPU_mem       loss  Instances       Size\n"
        "      1/100      1.2G      1.234         16        832: 100%|██████████| 9/9 [00:01<00:00]\n"
        "               classes   top1_acc   top5_acc: 100%|██████████| 2/2 [00:01<00:00,  1.5it/s]\n"
        "                   all      0.512      0.912\n",
        {"loss": {1: 1.234}, "top1_acc": {1: 0.512}, "top5_acc": {1: 0.912}},
    ),
    Row("Vishvaharan/IR-Image-denoising train.py", KERAS, KERAS_FOUND),
    Row(
        "Vishwa-Thangapandiyan/football-commentary-generator train.py",
        "train / valid : 1,024 / 128 examples (official splits, test untouched)\n"
        "epoch  1/10  train 5.1234  val 5.2345  ppl  187.64    12.3s  -> full_epoch01.pt  *best\n"
        "epoch  2/10  train 4.1234  val 4.2345  ppl   69.03    12.3s  -> full_epoch02.pt\n"
        "best val loss : 4.2345  -> checkpoints/full_best.pt\n",
        {
            "train": {1: 5.1234, 2: 4.1234},
            "val": {1: 5.2345, 2: 4.2345},
            "ppl": {1: 187.64, 2: 69.03},
            "best val loss": {2: 4.2345},
        },
    ),
    Row("Vishwas2505/Stock-Movement-Prediction train.py", KERAS, KERAS_FOUND),
    Row(
        "12121236767678/A-lightweight-volumetric-ConvNet main_train.py",
        "Loss for training: DiceCELoss\nOptimizer for training: AdamW, learning rate: 0.0001\n"
        "Training (500 / 45000 Steps) (loss=1.23456):  50%|█████     | 9/18 [00:10<00:10,  1.0s/it]\n"
        "Model Was Saved ! Current Best Avg. Dice: 0.5123 Current Avg. Dice: 0.5123\n",
        {},
        "none",
    ),
    Row(
        "24javeriaejaz/Ms-RED main_train.py",
        "current lr: 0.0001 | Train Epoch: 1 [0/1815 (0%)]\tLoss: 0.812345\n"
        "The average loss:0.7123\n"
        "The ISIC Dice score:  0.8123; The ISIC JC score:  0.7123\n"
        "current lr: 0.0001 | Train Epoch: 2 [0/1815 (0%)]\tLoss: 0.712345\n",
        {"current lr": {0: 0.0001, 1815: 0.0001}, "Loss": {0: 0.812345, 1815: 0.712345}},
        "some",
    ),
    Row(
        "798982876/ST_ResNet main_train.py",
        "32\nEpoch: 0\t\nloss: 0.512, val_loss: 0.612\nEpoch: 1\t\nloss: 0.412, val_loss: 0.512\n",
        {"loss": {0: 0.512, 1: 0.412}, "val_loss": {0: 0.612, 1: 0.512}},
    ),
    Row(
        "APTX574/TDFFM main_train.py",
        "epoch: 10, loss: 0.6931\nlabel: 0.5123\nepoch: 20, loss: 0.5931\nlabel: 0.6123\n",
        {"loss": {10: 0.6931, 20: 0.5931}},
        "some",
    ),
    Row(
        "Ab1e1/UniMethylNet main_train.py",
        "Epoch 1, cost = 0.693147, AUROC_train = 0.512, acc = 51.20%, AUROC_test = 0.520\n"
        "time cost: 00:01:23.45\n> best acc: 51.2\n",
        {
            "cost": {1: 0.693147},
            "AUROC_train": {1: 0.512},
            "acc": {1: 51.2},
            "AUROC_test": {1: 0.52},
            "best acc": {1: 51.2},
        },
    ),
    Row(
        "Aborevsky01/Mass-Spectrometry main_train.py",
        "Epoch: 1/10. Time: 1.23, loss:0.6931\nEpoch: 5/10. Time: 6.23, loss:0.5931\n",
        {"loss": {1: 0.6931, 5: 0.5931}},
    ),
    Row(
        "AkshatDhamale/Few-shot-segmentation main_train.py",
        "============== Epoch [0] ==============\n  Batch time:  0.123\n  Total Loss  : 0.51234\n"
        "  Query Loss  : 0.41234\n  Threshold Loss  : 0.01234\n"
        "============== Epoch [1] ==============\n  Batch time:  0.123\n  Total Loss  : 0.41234\n",
        {
            "Total Loss": {0: 0.51234, 1: 0.41234},
            "Query Loss": {0: 0.41234},
            "Threshold Loss": {0: 0.01234},
        },
    ),
    Row(
        "Arikas-w/DnCNN main_train.py",
        "   1    0 /  100 loss = 12.3456\n"
        "2024-05-01 10:00:00: epoch =    1 , loss = 11.3456 , time = 12.34 s\n",
        {"loss": {1: 11.3456}},
        "some",
    ),
    Row(
        "AllenXuuu/CS420-Machine-Learning main_train.py",
        "Val   | Epoch 1 | Time 2.31s | loss 0.5123 | acc 0.8123 |\n"
        "Val   | Epoch 2 | Time 2.31s | loss 0.4123 | acc 0.8223 |\n",
        {"val loss": {1: 0.5123, 2: 0.4123}, "val acc": {1: 0.8123, 2: 0.8223}},
    ),
    Row(
        "ArronHZG/segmentation-pytorch main_train.py",
        "[Epoch: 0, numImages:  1800]\nLoss: 0.512\nValidation:\n[Epoch: 0, numImages:   200]\n"
        "Acc:0.9123, mIoU:0.5123, kappa: 0.6123\nLoss: 0.612\n[Epoch: 1, numImages:  1800]\nLoss: 0.412\n",
        {
            "Loss": {0: 0.512, 1: 0.412},
            "validation Acc": {0: 0.9123},
            "validation mIoU": {0: 0.5123},
            "validation kappa": {0: 0.6123},
            "validation Loss": {0: 0.612},
        },
    ),
    Row(
        "00-Abhishek/mnist-mlp-pytorch src/train.py",
        "Epoch [1/2] | Loss: 0.3512 | Train Accuracy: 93.12% | Validation Accuracy: 92.12%\n"
        "Best model saved.\n\n"
        "Epoch [2/2] | Loss: 0.2512 | Train Accuracy: 94.12% | Validation Accuracy: 93.12%\n"
        + "=" * 60
        + "\nBest Validation Accuracy: 93.12%\n",
        {
            "Loss": {1: 0.3512, 2: 0.2512},
            "Train Accuracy": {1: 93.12, 2: 94.12},
            "Validation Accuracy": {1: 92.12, 2: 93.12},
            "Best Validation Accuracy": {2: 93.12},
        },
    ),
    Row(
        "001-s001/MLProject_viT src/train.py",
        "epoch=1 train_loss=1.5123 val_loss=1.4123 val_acc=45.12 best_acc=45.12\n"
        "epoch=2 train_loss=1.4123 val_loss=1.3123 val_acc=46.12 best_acc=46.12\n",
        {
            "train_loss": {1: 1.5123, 2: 1.4123},
            "val_loss": {1: 1.4123, 2: 1.3123},
            "val_acc": {1: 45.12, 2: 46.12},
            "best_acc": {1: 45.12, 2: 46.12},
        },
    ),
    Row(
        "01-prog/gnn-embeddings src/train.py",
        "INFO:src.train:train_model: encoder=bert model=GCN seed=0 device=cpu\n"
        "INFO:src.train:epoch 1 | val_acc=0.5123 (best) | loss=1.5123\n"
        "INFO:src.train:epoch 7 | val_acc=0.6123 (best) | loss=1.4123\n"
        "INFO:src.train:Early stop at epoch 27 (no improvement for 20 epochs)\n",
        {"val_acc": {1: 0.5123, 7: 0.6123}, "loss": {1: 1.5123, 7: 1.4123}},
    ),
    Row(
        "0214zijun/Model_Validation src/train.py",
        "[load] processed shape = (1000, 20)\n[split] train=800, oot=200\n"
        "[LR] train AUC=0.8123, OOT AUC=0.7123, OOT PR-AUC=0.5123\n"
        "[RF] train AUC=0.9123, OOT AUC=0.7323, OOT PR-AUC=0.5323\n",
        {
            "train AUC": {0: 0.8123, 1: 0.9123},
            "OOT AUC": {0: 0.7123, 1: 0.7323},
            "OOT PR-AUC": {0: 0.5123, 1: 0.5323},
        },
    ),
    Row(
        "0342al2444/custom-yolo-voc8-efficientnet src/train.py",
        "Epoch 1 | Batch 25/99 | lr 0.000100 | loss 12.3456 | main 8.1234 | aux 4.1234\n"
        "Epoch 2 | Batch 25/99 | lr 0.000200 | loss 11.3456 | main 7.1234 | aux 3.1234\n",
        {"lr": {25: 0.0001, 124: 0.0002}, "loss": {25: 12.3456, 124: 11.3456}},
        "some",
    ),
    Row(
        "0767878237/MNIST src/train.py",
        "Epoch 01 | train_loss=0.3123 train_acc=0.9123 val_loss=0.2123 val_acc=0.9323\n"
        "Best validation accuracy: 0.9323\nTest loss: 0.2023\nTest accuracy: 0.9423\n"
        "Confusion matrix:\n[[970 1]\n [3 1120]]\n",
        {
            "train_loss": {1: 0.3123},
            "train_acc": {1: 0.9123},
            "val_loss": {1: 0.2123},
            "val_acc": {1: 0.9323},
            "Best validation accuracy": {1: 0.9323},
            "Test loss": {1: 0.2023},
            "Test accuracy": {1: 0.9423},
        },
    ),
    Row(
        "07LEE/shotgunking-rl src/train.py",
        "\n--- Episode 1/50 (Epsilon: 1.000) ---\n"
        "Step 1 - Action: 3, Reward: 0.50 (Filling Memory...)\n"
        "Step 2 - Action: 1, Reward: -0.50, Loss: 0.1234\n"
        "Episode 1 Finished. Total Reward Collected: 3.50\n"
        "\n--- Episode 2/50 (Epsilon: 0.950) ---\n"
        "Step 1 - Action: 3, Reward: 0.25, Loss: 0.1034\n",
        {"Reward": {1: 0.5, 2: -0.5, 3: 0.25}, "Loss": {2: 0.1234, 3: 0.1034}},
        "some",
    ),
    Row(
        "0916hyun/wafer_defect_classifier-ensemble_3models- src/train.py",
        "Epoch 1/20:  51%|█████     | 50/99 [00:10<00:10,  5.0it/s, loss=0.7123]\r"
        "Epoch 1, Train Loss: 0.5123, Train Acc: 81.20%, Val Loss: 0.6123, Val Acc: 80.10%\n"
        "Epoch 1 Model saved with Validation Accuracy: 80.10%\n",
        {
            "loss": {50: 0.7123},
            "Train Loss": {50: 0.5123},
            "Train Acc": {50: 81.2},
            "Val Loss": {50: 0.6123},
            "Val Acc": {50: 80.1},
            "Validation Accuracy": {50: 80.1},
        },
    ),
    Row(
        "0J0P0/Headline-Generation-Project src/train.py",
        "Epoch 1:   0%|          | 0/99 [00:00<?, ?it/s]\r"
        "Epoch 1:  51%|█████     | 50/99 [00:10<00:10,  5.0it/s, loss=2.31]\r"
        "Epoch 1: 100%|██████████| 99/99 [00:20<00:00,  5.0it/s, loss=2.11]\n"
        "Epoch 2:  51%|█████     | 50/99 [00:10<00:10,  5.0it/s, loss=1.31]\n",
        {"loss": {50: 2.31, 99: 2.11, 149: 1.31}},
    ),
    Row(
        "0mikkke0/image-classification-cnn src/train.py",
        KERAS + "Test accuracy: 0.7123\n",
        {**KERAS_FOUND, "Test accuracy": {2: 0.7123}},
    ),
    Row(
        "0oshowero0/segnet_iris src/train.py",
        "0\n1\n[1,    20] loss: 0.512\n20\n[1,    40] loss: 0.412\n0\n[2,    20] loss: 0.312\n",
        {"loss": {20: 0.512, 40: 0.412, 60: 0.312}},
    ),
    Row(
        "0shimax/PyTorch-SoftTriple src/train.py",
        "[0/10][0/938] Loss: 0.5123\n[0/10][937/938] Loss: 0.4123\n[1/10][0/938] Loss: 0.3123\n",
        {"Loss": {0: 0.5123, 937: 0.4123, 938: 0.3123}},
    ),
    Row(
        "0sidewalkenforcer0/RCNN src/train.py",
        "Epoch 1/500\n100/100 [=====] - ETA: 0s - loss: 2.0000 - mean_absolute_error: 0.2000\n"
        "Epoch 1: loss improved from inf to 2.00000, saving model to ../models/rnn/test/bestTrainLoss/\n"
        "100/100 [=====] - 9s 90ms/step - loss: 2.0000 - mean_absolute_error: 0.2000 - val_loss: 3.0000\n"
        "Epoch 2/500\n"
        "Epoch 2: ReduceLROnPlateau reducing learning rate to 0.00010000000474974513.\n"
        "100/100 [=====] - 9s 90ms/step - loss: 1.0000 - mean_absolute_error: 0.1000 - val_loss: 2.0000\n",
        {
            "loss": {1: 2.0, 2: 1.0},
            "mean_absolute_error": {1: 0.2, 2: 0.1},
            "val_loss": {1: 3.0, 2: 2.0},
        },
    ),
]


@pytest.mark.parametrize("row", LIBRARIES, ids=lambda row: row.source)
def test_what_libraries_print_is_found(row: Row) -> None:
    assert found(row.text) == stored(row.found)


@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.source)
def test_what_scripts_of_a_random_sample_print(row: Row) -> None:
    assert found(row.text) == stored(row.found)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Acc@1 69.7 time 1.2ms", 0),
        ("time 1.2ms Acc@1 69.7", 0),
        ("Time: 1.2ms, Acc@1: 69.7", 0),
        ("1.2ms Acc@1 69.7", 0),
        ("Acc@1 69.7 1.2ms", 0),
        ("Acc@1 69.7 (1.2 ms)", 0),
        ("step 5 1.2ms/img Acc@1 69.7", 5),
        ("[10/100] time 1.2ms Acc@1 69.7", 10),
        ("[10/100]\ttime 1.2ms\tdata 0.3ms\tAcc@1 69.7", 10),
    ],
)
def test_a_time_beside_a_result_hides_nothing(line: str, step: int) -> None:
    assert found(f"{line}\n") == {"Acc@1": {step: 69.7}}


@pytest.mark.parametrize("line", ["took 1.2ms", "the loss 0.3 took 1.2ms", "waited 3s for loss 7"])
def test_a_time_in_a_sentence_makes_no_result(line: str) -> None:
    assert found(f"{line}\n") == {}


def test_the_guide_says_which_share_is_found() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/libraries.md").read_text()
    share = Counter(row.share for row in SAMPLE)
    said = (
        f"the lines of {len(SAMPLE)} scripts that print results, each a `train.py`, `main_train.py` or "
        "`src/train.py` of a public repository, picked at regular intervals from a list of them: of "
        f"{share['all']} it finds every result, of {share['some']} some, of {share['none']} none."
    )
    assert said in " ".join(guide.split())
