"""Text of a report and the comparison of two."""

from __future__ import annotations

from .. import Record
from ..compare import differences
from ..names import clip
from ..text_table import format_number, render
from .classes import CLASSES

_HEADINGS = {
    "matrix": "matrix",
    "trans": "exp/rcp",
    "valu": "valu",
    "lds_read": "ldsR",
    "lds_write": "ldsW",
    "lds_permute": "ldsP",
    "lds_dma": "dma",
    "global_load": "gld",
    "global_store": "gst",
    "scratch": "scr",
    "barrier": "bar",
    "wait": "wait",
    "scalar": "scalar",
    "branch": "br",
    "other": "other",
}


def _resources(records: list[Record]) -> str:
    header = ["kernel", "VGPR", "AGPR", "SGPR", "spillV", "spillS", "scratch", "LDS", "block"]
    header += ["waves(reg)", "waves(all)", "limited by"]
    rows = []
    for record in records:
        r, occupancy = record["resources"], record.get("occupancy", {})
        row: list[object] = [record["label"], r["vgprs"], r["agprs"], r["sgprs"], r["vgpr_spills"]]
        row += [r["sgpr_spills"], r["scratch"], r["lds"], r["max_block"]]
        row += [occupancy.get("register_waves"), occupancy.get("waves"), occupancy.get("limit")]
        rows.append(row)
    return render(header, rows)


def _counts(counts: Record, columns: list[str], divisor: float = 1) -> list[object]:
    return [counts[name] / divisor for name in columns]


def _used_columns(counts: list[Record]) -> list[str]:
    """Classes that appear at all, so that a table of RDNA kernels has no column for LDS-DMA."""
    always = ("valu", "lds_read", "lds_write", "lds_permute", "barrier")
    return [name for name in CLASSES if name in always or any(entry[name] for entry in counts)]


def _loops(records: list[Record]) -> str:
    entries = [
        (record, loop)
        for record in records
        for loop in (record["loops"] if "loops" in record else [record.get("loop")])
        if loop is not None
    ]
    if not entries:
        return "(no loop)"
    columns = _used_columns([loop["path"] for _, loop in entries])
    share = any("modelled" in loop for _, loop in entries)
    header = ["kernel", "head", "per"] + [_HEADINGS[name] for name in columns] + ["total", "fma+dot", "body"]
    header += ["matrix clk", "other clk", "share", "ceiling"] if share else []
    rows = []
    for record, loop in entries:
        tiles = loop["tiles_per_trip"]
        row: list[object] = [record["label"], loop["head"], "trip" if tiles == 1 else f"1/{format_number(tiles)}"]
        row += _counts(loop["path"], columns, tiles) + [loop["path"]["total"] / tiles]
        row += [(loop["path"]["fma"] + loop["path"]["dot"]) / tiles, loop["body"]["total"] / tiles]
        if share:
            m = loop.get("modelled")
            row += (
                [m["matrix_clocks"] / tiles, m["vector_clocks"] / tiles, f"{m['share']:.1%}", f"{m['ceiling']:.1%}"]
                if m
                else [None] * 4
            )
        rows.append(row)
    return render(header, rows, left=2)


def _static(records: list[Record]) -> str:
    counted = [record for record in records if "static" in record]
    if not counted:
        return "(not disassembled)"
    columns = _used_columns([record["static"] for record in counted])
    header = ["kernel"] + [_HEADINGS[name] for name in columns] + ["total", "LDS all", "ds_bpermute"]
    rows: list[list[object]] = []
    for record in counted:
        counts = record["static"]
        tail = [counts["total"], counts["lds_total"], counts["ds_bpermute"]]
        rows.append([record["label"], *_counts(counts, columns), *tail])
    return render(header, rows)


def _labelled(records: list[Record], width: int) -> list[Record]:
    """The records with a clipped name as label; names that would look the same are not clipped."""
    short = [clip(record["name"], width) for record in records]
    return [
        record | {"label": name if short.count(name) == 1 else record["name"]} for record, name in zip(records, short)
    ]


def text_report(records: list[Record], parts: list[str], width: int = 64, stubs: bool = False) -> str:
    """Tables for each target: `resources`, `loop` and `static` as chosen by `parts`; stubs only if asked for."""
    lines = []
    for target in sorted({record["target"] for record in records}):
        everything = [record for record in records if record["target"] == target]
        group = _labelled([record for record in everything if stubs or not record["stub"]], width)
        if (hidden := len(everything) - len(group)) and not group:
            lines += [f"== {target}: {hidden} stubs ==", ""]
            continue
        units = {record["occupancy"]["unit"] for record in group if "occupancy" in record}
        kernels = f"{len(group)} kernel{'s' if len(group) != 1 else ''}"
        lines.append(f"== {target}: {kernels}{f', {hidden} stubs not shown' if hidden else ''} ==")
        if "resources" in parts:
            unit = f" on a {'/'.join(sorted(units))}" if units else ""
            lines += [f"Resources; waves of a SIMD by registers alone, and with LDS and whole workgroups{unit}", ""]
            lines += [_resources(group), ""]
        if "loop" in parts:
            lines.append("Hot loop: instructions on its hot path (body: all its blocks); matrix share modelled from")
            lines += ["issue clocks", "", _loops(group), ""]
        if "static" in parts:
            lines += ["Whole kernel, static instruction counts", "", _static(group), ""]
    return "\n".join(lines)


def _figures(record: Record) -> Record:
    """Figures that two reports are compared by: not where the code lies."""
    figures = {part: record.get(part, {}) for part in ("resources", "occupancy", "loop", "static")}
    figures["loop"] = {name: value for name, value in figures["loop"].items() if name != "head"}
    return figures


def compare(old: list[Record], new: list[Record], width: int = 64) -> str:
    """What changed from one report to another; an empty text if nothing did."""
    return differences(
        old,
        new,
        key=lambda record: (record["target"], record["symbol"]),
        title=lambda record: f"{record['target']} {clip(record['name'], width)}",
        figures=_figures,
    )
