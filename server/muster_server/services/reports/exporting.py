"""Reports as files: Markdown, HTML that loads and runs nothing, LaTeX tables and CSV."""

from __future__ import annotations

import base64
import csv
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from markdown_it import MarkdownIt

from muster.wire import encode_number
from muster_server.domain.reports import (
    ReportCell,
    ReportTable,
    latex_number,
    latex_table,
    latex_text,
    markdown_table,
    markdown_text,
    number_text,
)
from muster_server.schemas.data import Curve
from muster_server.schemas.reports import (
    BlockContentOut,
    ReportContentOut,
    ReportMediaOut,
)

from ..metrics.export import without_formula
from .drawing import COLORS, chart_svg

ReportFormat = Literal["md", "html", "latex", "csv"]
MEDIA_TYPES: Mapping[ReportFormat, str] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "latex": "application/x-tex; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that stand in an HTML file as pictures. None of them can hold a script."""
TEXT_CHARS = 5_000
"""Characters of a logged text that a file has."""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = (
    "body{font:15px/1.55 Inter,system-ui,sans-serif;color:#1a1d21;max-width:880px;margin:32px auto;"
    "padding:0 16px}h1{font-size:24px}h2,h3{font-size:16px}.dim{color:#5c6570;font-size:13px}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:12px 0}"
    "th,td{padding:4px 14px 4px 0;border-bottom:1px solid #d8dce1;text-align:left}"
    "td.num,th.num{text-align:right}a{color:#2459a6}figure{margin:16px 0;break-inside:avoid}"
    "img,svg{max-width:100%;height:auto}pre{overflow:auto;background:#f4f5f7;padding:8px}"
    "@media print{a{color:inherit;text-decoration:none}}"
)


def export(title: str, content: ReportContentOut, form: ReportFormat, base: str) -> str:
    """Return a report as the text of one file.

    base: address of the dashboard, for links to runs.
    """
    if form == "md":
        return _as_markdown(title, content, base)
    if form == "html":
        return _as_html(title, content, base)
    tables = [block for block in content.blocks if block.table is not None]
    make = _latex if form == "latex" else _csv
    return "\n".join(make(block, block.table) for block in tables if block.table is not None)


# ---------------------------------------------------------------- Markdown


def _as_markdown(title: str, content: ReportContentOut, base: str) -> str:
    lines = [f"# {markdown_text(title)}", "", f"Values of {_moment(content)}.", ""]
    for block in content.blocks:
        if block.kind == "markdown":
            lines += [block.text or "", ""]
            continue
        if block.title:
            lines += [f"## {markdown_text(block.title)}", ""]
        if block.problem:
            lines += [f"*{markdown_text(block.problem)}*", ""]
        if block.table is not None:
            lines.append(markdown_table(*_as_text(block.table, _with_difference, str)))
            links = ", ".join(
                f"[{_row_name(block.table, no)}]({runs_address(base, row.trial_ids)})"
                for no, row in enumerate(block.table.rows)
            )
            lines += [f"Runs: {links}", ""]
        if block.curves is not None:
            lines += ["| run | metric | last value |", "|:--|:--|--:|"]
            names = _run_names(block)
            lines += [
                f"| {markdown_text(names[curve.trial_id])} | {markdown_text(curve.series.name)} "
                f"| {_last(curve)} |"
                for curve in block.curves.items
            ]
            lines.append("")
        for one in block.media or ():
            lines.append(f"* {markdown_text(_media_name(block, one))}")
        if block.media is not None:
            lines.append("")
        lines += _left_out(block)
    return "\n".join(lines).rstrip() + "\n"


def _as_text(
    table: ReportTable, cell_text: Callable[[ReportCell], str], key_text: Callable[[str], str]
) -> tuple[list[str], int, list[list[str]]]:
    """Return head, number of keys and rows of a table, with the size of groups in a last column."""
    grouped = table.is_grouped
    rows = [
        [*map(key_text, row.keys), *map(cell_text, row.cells), *[str(len(row.trial_ids))] * grouped]
        for row in table.rows
    ]
    return [*table.head, *["n"] * grouped], table.num_keys, rows


def _row_name(table: ReportTable, no: int) -> str:
    row = table.rows[no]
    return markdown_text(", ".join(row.keys)) or f"trial {row.trial_ids[0]}"


# ---------------------------------------------------------------- HTML


def _as_html(title: str, content: ReportContentOut, base: str) -> str:
    reader = MarkdownIt("js-default", {"html": False, "breaks": True, "linkify": False})
    reader.disable("image")  # the file loads nothing
    parts = [
        '<!doctype html>\n<html><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>"
        f'<h1>{_text(title)}</h1><p class="dim">Values of {_moment(content)}.</p>'
    ]
    for block in content.blocks:
        if block.kind == "markdown":
            parts.append(reader.render(block.text or ""))
            continue
        parts.append("<figure>")
        if block.title:
            parts.append(f"<h3>{_text(block.title)}</h3>")
        if block.problem:
            parts.append(f'<p class="dim">{_text(block.problem)}</p>')
        if block.table is not None:
            parts.append(_html_table(block.table, base))
        if block.curves is not None:
            parts.append(_html_chart(block))
        parts += [_html_media(block, one) for one in block.media or ()]
        parts += [f'<p class="dim">{_text(line)}</p>' for line in _left_out(block) if line]
        parts.append("</figure>")
    return "".join(parts) + "</body></html>\n"


def _html_table(table: ReportTable, base: str) -> str:
    names = [*table.head, *(["n"] if table.is_grouped else [])]
    head = "".join(
        f"<th{'' if no < table.num_keys else _NUM}>{_text(name)}</th>"
        for no, name in enumerate(names)
    )
    rows = []
    for row in table.rows:
        cells = [f"<td>{_text(key)}</td>" for key in row.keys]
        cells += [
            f"<td{_NUM}>{_linked(_with_difference(cell), cell.trial_ids, base)}</td>"
            for cell in row.cells
        ]
        if table.is_grouped:
            linked = _linked(str(len(row.trial_ids)), row.trial_ids, base)
            cells.append(f"<td{_NUM}>{linked}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


_NUM = ' class="num"'


def _linked(text: str, trial_ids: Sequence[int], base: str) -> str:
    if not trial_ids:
        return _text(text)
    return f'<a href="{_text(runs_address(base, trial_ids))}">{_text(text)}</a>'


def _with_difference(cell: ReportCell) -> str:
    if cell.difference is None:
        return cell.text
    return (
        f"{cell.text} ({'+' if cell.difference >= 0 else ''}{number_text(cell.difference, None)})"
    )


def _html_chart(block: BlockContentOut) -> str:
    assert block.curves is not None
    by_id = {run.trial_id: run for run in block.runs}
    labels: list[str] = []
    lines = []
    for curve in block.curves.items:
        run = by_id[curve.trial_id]
        label = run.group if run.group is not None else run.name
        if len({one.series.name for one in block.curves.items}) > 1:
            label = f"{label} · {curve.series.name}"
        if label not in labels:
            labels.append(label)
        points = list(zip(curve.series.step, curve.series.mean, strict=True))
        lines.append((labels.index(label), points))
    keys = "".join(
        f'<span style="color:{COLORS[no % len(COLORS)]}">■</span> {_text(label)} &nbsp; '
        for no, label in enumerate(labels)
    )
    return chart_svg(lines, log=block.log) + f'<p class="dim">{keys}</p>'


def _html_media(block: BlockContentOut, one: ReportMediaOut) -> str:
    item = one.item
    name = _text(_media_name(block, one))
    if one.data is None:
        return f'<p class="dim">{name}: a file beside the run, not in this file</p>'
    if item.mime in PICTURES:
        return f'<p>{name}</p><img alt="{name}" src="data:{item.mime};base64,{one.data}">'
    if item.kind != "text":
        return f'<p class="dim">{name}: {_text(item.kind)}, shown in the dashboard</p>'
    text = base64.b64decode(one.data).decode(errors="replace")
    return f"<p>{name}</p><pre>{_text(text[:TEXT_CHARS])}</pre>"


# ---------------------------------------------------------------- tables alone


def _latex(block: BlockContentOut, table: ReportTable) -> str:
    return latex_table(*_as_text(table, _latex_cell, latex_text), block.title or "Runs")


def _latex_cell(cell: ReportCell) -> str:
    return latex_number(cell.text) if isinstance(cell.value, float) else latex_text(cell.text)


def _csv(_: BlockContentOut, table: ReportTable) -> str:
    """Return a table with every digit: for groups the mean, the deviation, and the number of values
    of each column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = table.head[: table.num_keys]
    for name in table.head[table.num_keys :]:
        names += [name, f"{name} sd", f"{name} n"] if table.is_grouped else [name]
    writer.writerow([*map(without_formula, names), "trials"])
    for row in table.rows:
        cells: list[object] = [_key(key) for key in row.keys]
        for cell in row.cells:
            value = _key(cell.value) if isinstance(cell.value, str) else cell.value
            cells += [value, cell.deviation, cell.num] if table.is_grouped else [value]
        writer.writerow([*cells, " ".join(map(str, row.trial_ids))])
    return out.getvalue()


def _key(text: str) -> str:
    """Return text as a cell that is no formula. A negative number is none."""
    try:
        float(text)
    except ValueError:
        return without_formula(text)
    return text


# ---------------------------------------------------------------- parts


def runs_address(base: str, trial_ids: Sequence[int]) -> str:
    """Return the page of a run, or the comparison of several."""
    if len(trial_ids) == 1:
        return f"{base}/trials/{trial_ids[0]}"
    return f"{base}/compare?trials={'%2C'.join(map(str, trial_ids))}"


def _moment(content: ReportContentOut) -> str:
    return f"{content.at:%Y-%m-%d %H:%M} UTC"


def _run_names(block: BlockContentOut) -> dict[int, str]:
    return {run.trial_id: run.name for run in block.runs}


def _media_name(block: BlockContentOut, one: ReportMediaOut) -> str:
    name = _run_names(block).get(one.item.trial_id, str(one.item.trial_id))
    caption = f": {one.item.caption}" if one.item.caption else ""
    return f"{name}, {one.item.name}, step {one.item.step}{caption}"


def _last(curve: Curve) -> str:
    values = [value for value in curve.series.last if value is not None]
    if not values:
        return ""
    value = values[-1]
    return number_text(value, None) if math.isfinite(value) else str(encode_number(value))


def _left_out(block: BlockContentOut) -> list[str]:
    lines = []
    if block.num_left_out:
        what = "curves" if block.curves is not None else "media items"
        lines += [f"{block.num_left_out} more {what} are not shown.", ""]
    names = {curve.series.name for curve in block.curves.items} if block.curves else set()
    if any(one not in names for one in block.expressions):
        shown = ", ".join(block.expressions)
        lines += [f"The dashboard draws {shown}; this file has the metrics themselves.", ""]
    return lines


def _text(text: str) -> str:
    return html.escape(text)
