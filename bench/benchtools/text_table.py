"""Plain text tables."""

from __future__ import annotations

from collections.abc import Sequence


def format_number(value: object, decimals: int = 1) -> str:
    """An integer without a point, anything else with `decimals`; None is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else f"{value:.{decimals}f}"
    return str(value)


def render(
    header: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1, indent: str = "", above: Sequence[str] = ()
) -> str:
    """Aligned columns: the first `left` to the left, the others to the right; `above` is a first line of the header."""
    heads = [list(above), list(header)] if above else [list(header)]
    cells = heads + [[format_number(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for number, row in enumerate(cells):
        parts = [
            text.ljust(width) if column < left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths))
        ]
        lines.append((indent + "  ".join(parts)).rstrip())
        if number == len(heads) - 1:
            lines.append(indent + "  ".join("-" * width for width in widths))
    return "\n".join(lines)
