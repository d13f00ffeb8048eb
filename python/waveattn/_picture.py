"""A heat map of small positive numbers, by matplotlib where it is installed, else as an SVG file written here."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from xml.sax.saxutils import escape


def _exponents(values: Sequence[Sequence[float]]) -> list[list[float]]:
    """Decimal logarithms; exact results count as 1e-9, what is not finite as 1."""
    return [[math.log10(min(max(x, 1e-9), 1.0)) if math.isfinite(x) else 0.0 for x in row] for row in values]


def heat_map(
    labels: Sequence[str], values: Sequence[Sequence[float]], path: str, *, title: str, columns: str, group: int
) -> str:
    """One row for each label, one column for each value, coloured by decimal logarithm; a line after each `group`.

    Returns the path of the file, whose ending becomes .svg where matplotlib is missing.
    """
    exponents = _exponents(values)
    try:
        import matplotlib
    except ImportError:
        return _svg(labels, exponents, os.path.splitext(path)[0] + ".svg", title, columns, group)
    matplotlib.use("Agg")
    from matplotlib import pyplot

    width = max(len(row) for row in exponents)
    figure, axes = pyplot.subplots(figsize=(4.5 + 0.22 * width, 1.6 + 0.32 * len(labels)), layout="constrained")
    image = axes.imshow(exponents, aspect="auto", cmap="viridis", vmin=-8, vmax=-1)
    axes.set_yticks(range(len(labels)), labels, family="monospace")
    axes.set_xlabel(columns)
    axes.set_title(title)
    for edge in range(group, width, group):
        axes.axvline(edge - 0.5, color="white", linewidth=2)
    figure.colorbar(image, ax=axes, label="log10")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _colour(exponent: float) -> str:
    """From dark blue at 1e-8 over green to yellow at 1e-1."""
    t = min(max((exponent + 8) / 7, 0.0), 1.0)
    stops = ((68, 1, 84), (33, 145, 140), (253, 231, 37))
    low, high = (stops[0], stops[1]) if t < 0.5 else (stops[1], stops[2])
    part = t * 2 if t < 0.5 else t * 2 - 1
    return "#%02x%02x%02x" % tuple(round(a + (b - a) * part) for a, b in zip(low, high))


def _svg(
    labels: Sequence[str], exponents: Sequence[Sequence[float]], path: str, title: str, columns: str, group: int
) -> str:
    cell, left, top = 18, 8 * max(len(label) for label in labels) + 20, 40
    width = left + cell * max(len(row) for row in exponents) + 20
    height = top + cell * len(labels) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" font-size="12">',
        f'<text x="{left}" y="20">{escape(title)}</text>',
        f'<text x="{left}" y="{height - 15}">{escape(columns)}</text>',
    ]
    for y, (label, row) in enumerate(zip(labels, exponents)):
        parts.append(f'<text x="5" y="{top + cell * y + 13}">{escape(label)}</text>')
        for x, exponent in enumerate(row):
            gap = 2 if (x + 1) % group == 0 else 0
            parts.append(
                f'<rect x="{left + cell * x}" y="{top + cell * y}" width="{cell - gap}" height="{cell - 1}" '
                f'fill="{_colour(exponent)}"><title>1e{exponent:.1f}</title></rect>'
            )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>\n"]))
    return path
