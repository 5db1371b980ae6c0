"""Scaling reports as text to be kept: Markdown for people, CSV for programs."""

from __future__ import annotations

import csv
import io

from muster_server.domain.insight.scaling import PARTS
from muster_server.schemas.analysis.scaling import ScalingEstimateOut, ScalingReportDetail


def as_markdown(report: ScalingReportDetail) -> str:
    """Return the whole report, with the number of runs and steps behind each figure."""
    lines = [
        f"# How {_cell(report.experiment_name)} scales",
        "",
        f"Scaling report {report.id} of experiment {report.experiment_id}: {report.mode} scaling, "
        f"{report.num_runs} runs of {report.num_steps} steps, {report.state}. {report.reason}".rstrip(),
        "",
        "Intervals are 95 %. Times are milliseconds per step.",
        "",
        "## Measured",
        "",
        "| slots | runs | steps | samples per slot | step | samples/s | speed-up | efficiency |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for size in report.sizes:
        lines.append(
            f"| {size.slots} | {size.num_runs} | {size.num_steps} | {size.samples_per_slot:g} "
            f"| {_figure(size.step_ms)} | {_figure(size.samples_per_s)} | {_figure(size.speedup)} "
            f"| {_figure(size.efficiency)} |"
        )
    lines += [
        "",
        "## Parts of a step",
        "",
        f"| slots | {' | '.join(PARTS)} | hidden communication |",
        "|" + "--:|" * (len(PARTS) + 2),
    ]
    lines += [
        f"| {size.slots} | {' | '.join(f'{size.parts_ms[p]:.2f}' for p in PARTS)} "
        f"| {size.hidden_ms:.2f} |"
        for size in report.sizes
    ]
    lines += [*_model(report), *_predictions(report), *_problems(report)]
    return "\n".join(lines) + "\n"


def as_csv(report: ScalingReportDetail) -> str:
    """Return a row per measured world size and per prediction; an empty cell is not known. A
    prediction that is not to be relied on has no figures, and says why."""
    names = ["kind", "network", "slots", "num_runs", "num_steps", "samples_per_slot"]
    for figure in ("step_ms", "samples_per_s", "speedup", "efficiency"):
        names += [figure, f"{figure}_low", f"{figure}_high"]
    names += [*(f"{part}_ms" for part in PARTS), "doubt"]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for size in report.sizes:
        row: dict[str, object] = {
            "kind": "measured", "network": "measured", "slots": size.slots,
            "num_runs": size.num_runs, "num_steps": size.num_steps,
            "samples_per_slot": size.samples_per_slot,
        }  # fmt: skip
        for figure in ("step_ms", "samples_per_s", "speedup", "efficiency"):
            row |= _cells(figure, getattr(size, figure))
        writer.writerow(row | {f"{part}_ms": size.parts_ms[part] for part in PARTS})
    for prediction in report.predictions:
        if prediction.doubt:
            writer.writerow(
                {"kind": "predicted", "network": prediction.network, "slots": prediction.slots,
                 "samples_per_slot": prediction.samples_per_slot, "doubt": prediction.doubt}
            )  # fmt: skip
            continue
        row = {
            "kind": "predicted", "network": prediction.network, "slots": prediction.slots,
            "samples_per_slot": prediction.samples_per_slot, "efficiency": prediction.efficiency,
            "compute_ms": prediction.compute_ms, "transfer_ms": prediction.exposed_ms,
            "other_ms": prediction.other_ms,
        }  # fmt: skip
        for figure in ("step_ms", "samples_per_s"):
            row |= _cells(figure, getattr(prediction, figure))
        writer.writerow(row)
    return out.getvalue()


def _model(report: ScalingReportDetail) -> list[str]:
    model = report.model
    if model is None:
        return []
    lines = ["", "## Cost model", "", "| parameter | value | n |", "|---|--:|--:|"]
    rows = [
        ("computing, whatever the batch, ms", model.compute_fixed_ms),
        ("computing per sample, ms", model.compute_per_sample_ms),
        ("contention, factor on computing", model.contention),
        ("other, ms", model.other_ms),
        ("latency per message, µs", model.latency_us),
        ("bandwidth, bytes/s", model.bandwidth_bytes_per_s),
    ]
    for name, figure in rows:
        if figure is None:
            lines.append(f"| {name} | not determined | {model.num_transfers} |")
        else:
            lines.append(f"| {name} | {_figure(figure)} | {figure.n} |")
    lines.append(f"| communication that is hidden, at most | {model.hidden_share:.0%} | |")
    if model.step_error is not None:
        lines.append(
            f"| mean error of the model on the measured steps | {model.step_error:.1%} | |"
        )
    if model.reasons:
        lines += ["", *[f"* {reason}" for reason in model.reasons]]
    return lines


def _predictions(report: ScalingReportDetail) -> list[str]:
    if not report.predictions:
        return []
    lines = [
        "",
        "## Predicted",
        "",
        "| network | slots | step | computing | communication | in the open | samples/s | efficiency |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for p in report.predictions:
        if p.doubt:
            lines.append(f"| {p.network} | {p.slots} | not determined | | | | | |")
            continue
        lines.append(
            f"| {p.network} | {p.slots} | {_figure(p.step_ms)} | {p.compute_ms:.2f} "
            f"| {p.communication_ms:.2f} | {p.exposed_ms:.2f} | {_figure(p.samples_per_s)} "
            f"| {'' if p.efficiency is None else f'{p.efficiency:.2f}'} |"
        )
    why = sorted({p.doubt for p in report.predictions if p.doubt})
    return [*lines, "", *[f"* {doubt}" for doubt in why]] if why else lines


def _problems(report: ScalingReportDetail) -> list[str]:
    problems = [p for p in report.points if p.problem]
    if not problems:
        return []
    lines = ["", "## Runs that were not measured", ""]
    return lines + [f"* {p.slots} slots, repeat {p.repeat}: {_cell(p.problem)}" for p in problems]


def _figure(figure: ScalingEstimateOut) -> str:
    """ "12.3 (11.9 to 12.7)"; without bounds "12.3 (no interval)", with bounds that are further apart
    than the figure is large "inconclusive; add repeats"."""
    if figure.low is None or figure.high is None:
        return f"{figure.value:.4g} (no interval)"
    if not figure.is_determined:
        return f"inconclusive; add repeats (n={figure.n})"
    if figure.low == figure.high:
        return f"{figure.value:.4g}"
    return f"{figure.value:.4g} ({figure.low:.4g} to {figure.high:.4g})"


def _cells(name: str, figure: ScalingEstimateOut) -> dict[str, object]:
    return {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}


def _cell(text: str) -> str:
    """Return the text of users within a line of Markdown."""
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")
