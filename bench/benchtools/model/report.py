"""Tables of what was modelled and counted."""

from __future__ import annotations

from .. import Record
from ..compare import differences
from ..names import clip
from ..text_table import render

MODELLED_NOTE = (
    "Modelled by the emulator's timing model: one compute unit, no cache, clock frequency or power. "
    "Not measured; how far to trust it: emulator/docs/timing.md."
)
COUNTED_NOTE = "Counted by the emulator while it ran the code objects: wave instructions, and bytes of active lanes."


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _heading(record: Record, width: int) -> list[object]:
    return [record["label"], record["target"], clip(record["name"], width)]


def _baseline(record: Record, records: list[Record]) -> Record | None:
    """The record that a case names as its baseline; on the same target if there is one."""
    named = [other for other in records if other["label"] == record["baseline"]]
    return next((other for other in named if other["target"] == record["target"]), named[0] if named else None)


def _modelled_row(record: Record, records: list[Record]) -> list[object]:
    m = record["modelled"]
    loop, inside = m.get("loop", {}), m.get("in_loop", {})
    flop = m.get("flop_per_clk_cu", m["total"]["flop_per_clk_cu"])
    row: list[object] = [m["workgroups"], m["resident"], record["waves_per_simd"]]
    row += [loop.get("clocks_per_trip"), loop.get("instructions_per_trip"), record["tile"]]
    row += [m.get("clocks_per_tile"), m.get("clocks_per_tile_and_cu"), m.get("before_loop"), m.get("after_loop")]
    row += [m["clocks"], m["clocks_per_workgroup_and_cu"]]
    row += [_percent(inside.get("matrix")), _percent(m["total"]["matrix"]), _percent(inside.get("valu"))]
    row += [_percent(inside.get("lds")), _percent(inside.get("vmem")), flop]
    other = _baseline(record, records)
    ratio = None
    if other is not None and "modelled" in other:
        # Launches of which every workgroup was recorded are compared whole: workgroups may differ in their work.
        whole = m["whole"] and other["modelled"]["whole"]
        what = "clocks" if whole else "clocks_per_workgroup_and_cu"
        ratio = f"{m[what] / other['modelled'][what]:.3f}"
    return row + [ratio]


_MODELLED_HEAD = ["workgroups", "at once", "waves/SIMD", "clk/trip", "instr/trip", "tile", "clk/tile", "clk/tile/CU"]
_MODELLED_HEAD += ["before", "after", "clk in all", "clk/wg/CU", "matrix loop", "matrix run", "valu loop", "lds loop"]
_MODELLED_HEAD += ["vmem loop", "FLOP/clk/CU", "of baseline"]


def modelled_text(records: list[Record], width: int = 48) -> str:
    """Two tables: clocks and busy pipes, and what the waves wait for in the loop (without a loop: in the run)."""
    rows = [_heading(record, width) + _modelled_row(record, records) for record in records]
    header = ["case", "target", "kernel"] + _MODELLED_HEAD
    keep = [n for n in range(len(header)) if n < 3 or any(row[n] is not None for row in rows)]
    table = render(
        [header[n] for n in keep],
        [[row[n] for n in keep] for row in rows],
        left=3,
        above=["" if n < 3 else "modelled" for n in keep],
    )
    return "\n".join([MODELLED_NOTE, "", table, *_notes(records), "", _stalls(records, width)])


def _notes(records: list[Record]) -> list[str]:
    """What makes a row's figures less than they seem."""
    notes = []
    for record in records:
        m, name = record["modelled"], f"{record['label']} on {record['target']}"
        if m["workgroups"] < m["room"]:
            notes.append(
                f"note: {name}: {m['workgroups']} workgroups where {m['room']} fit, so the unit is not full"
            )
        if "loop" in m and m["loop"]["trips_per_wave"] < 6:
            trips = m["loop"]["trips_per_wave"]
            notes.append(f"note: {name}: {trips} trips; six or more make a steady state")
    return notes


def _stalls(records: list[Record], width: int) -> str:
    """Share of the waves' time by reason."""
    shares = []
    for record in records:
        m = record["modelled"]
        if "loop" in m:
            clocks = m["loop"]["clocks_per_trip"]
            shares.append({name: value / clocks for name, value in m["loop"]["reasons"].items()})
        else:
            shares.append(m["stalls_in_run"] | {"issue": 1 - sum(m["stalls_in_run"].values())})
    # Reasons below half a percent everywhere are left to the JSON file.
    reasons = [
        name
        for name in dict.fromkeys(name for share in shares for name in share)
        if any(share.get(name, 0) >= 0.005 for share in shares)
    ]
    rows = [
        _heading(record, width) + ["loop" if "loop" in record["modelled"] else "run"]
        + [f"{share.get(name, 0):.1%}" for name in reasons]
        for record, share in zip(records, shares)
    ]
    header = ["case", "target", "kernel", "where"] + reasons
    above = ["", "", "", ""] + ["modelled"] * len(reasons)
    return "What a wave's clocks go to\n\n" + render(header, rows, left=4, above=above)


# Counter, heading.
_COUNTS = [
    ("instructions", "instr"),
    ("matrix", "matrix"),
    ("trans", "exp/rcp"),
    ("valu", "valu"),
    ("salu", "salu"),
    ("smem", "smem"),
    ("lds_read", "ldsR"),
    ("lds_write", "ldsW"),
    ("lds_permute", "ldsP"),
    ("ds_bpermute", "bpermute"),
    ("lds_read_bytes", "ldsR B"),
    ("lds_write_bytes", "ldsW B"),
    ("lds_dma_bytes", "dma B"),
    ("lds_conflict_cycles", "conflict clk"),
    ("vmem_load", "gld"),
    ("vmem_store", "gst"),
    ("vmem_load_bytes", "gld B"),
    ("vmem_store_bytes", "gst B"),
    ("vmem_segments", "64B segs"),
    ("barrier", "bar"),
    ("waitcnt", "wait"),
    ("branch", "br"),
    ("scratch", "scratch"),
]


def counts_text(records: list[Record], width: int = 48) -> str:
    """Dynamic counts of each launch, for a tile where the case says how many there are."""
    rows = []
    for record in records:
        emulated = record["emulated"]
        counts = emulated.get("per_tile", emulated["launch"])
        row = _heading(record, width) + [record["tile"] if "per_tile" in emulated else "launch"]
        row += [counts[name] for name, _ in _COUNTS]
        other = _baseline(record, records)
        ratio = None
        if other is not None:
            there = other["emulated"].get("per_tile", other["emulated"]["launch"])
            ratio = f"{counts['instructions'] / there['instructions']:.3f}"
        rows.append(row + [ratio, emulated.get("bytes_over_least")])
    header = ["case", "target", "kernel", "per"] + [heading for _, heading in _COUNTS]
    header += ["instr of baseline", "bytes/least"]
    # A count that is zero everywhere gets no column.
    keep = [n for n in range(len(header)) if n < 5 or any(row[n] not in (0, None) for row in rows)]
    return COUNTED_NOTE + "\n\n" + render([header[n] for n in keep], [[row[n] for n in keep] for row in rows], left=4)


def compare(old: list[Record], new: list[Record]) -> str:
    return differences(
        old,
        new,
        key=lambda record: (record["label"], record["target"], record["name"]),
        title=lambda record: f"{record['label']} {record['target']} {record['name']}",
        figures=lambda record: {part: record.get(part, {}) for part in ("modelled", "emulated")},
    )
