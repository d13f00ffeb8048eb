"""Differences between two sets of records, figure by figure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from . import Record
from .text_table import render


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Nested dictionaries as dotted names; lists are left out."""
    if not isinstance(value, dict):
        return {} if isinstance(value, list) else {prefix: value}
    flat: dict[str, object] = {}
    for key, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{key}" if prefix else key)
    return flat


def _change(old: object, new: object) -> str:
    if not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
        return ""
    return f"{new - old:+g}" + (f" ({(new - old) / old:+.1%})" if old else "")


def differences(
    old: Sequence[Record],
    new: Sequence[Record],
    key: Callable[[Record], Hashable],
    title: Callable[[Record], str],
    figures: Callable[[Record], dict[str, object]],
) -> str:
    """Records of one key are compared in the order in which they come; the text is empty if nothing differs."""

    def numbered(records: Sequence[Record]) -> dict[tuple[Hashable, int], Record]:
        found: dict[tuple[Hashable, int], Record] = {}
        for record in records:
            number = 0
            while (key(record), number) in found:
                number += 1
            found[key(record), number] = record
        return found

    before, after = numbered(old), numbered(new)
    lines = []
    for entry in dict.fromkeys([*before, *after]):
        name = title(after.get(entry) or before[entry])
        if entry not in before or entry not in after:
            lines.append(f"{name}: only in the {'new' if entry in after else 'old'} report")
            continue
        a, b = flatten(figures(before[entry])), flatten(figures(after[entry]))
        rows = [
            [figure, a.get(figure), b.get(figure), _change(a.get(figure), b.get(figure))]
            for figure in dict.fromkeys([*a, *b])
            if a.get(figure) != b.get(figure)
        ]
        if rows:
            lines += [name, render(["figure", "old", "new", "change"], rows, indent="  ")]
    return "\n".join(lines)
