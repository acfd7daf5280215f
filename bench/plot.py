"""Plots as SVG, without a library: bars of ratios, and lines."""

from __future__ import annotations

from html import escape

COLOURS = ["#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#b7791f", "#0987a0"]
STYLE = "font-family:sans-serif;font-size:12px"


def text(x: float, y: float, content: str, anchor: str = "start", colour: str = "black") -> str:
    """One line of text."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f'<text {place} style="{STYLE}">{escape(content)}</text>'


def frame(width: int, height: int, title: str, parts: list[str]) -> str:
    """The whole picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
    back = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, back, text(10, 20, title), *parts, "</svg>\n"])


def bars(title: str, rows: list[tuple[str, float, float, float]]) -> str:
    """Each row a label, a value, and the least and the largest of it, beside a line at 1."""
    left, wide, high = 300, 420, 22
    most = max([1.0, *(row[3] for row in rows)]) * 1.05
    bottom = 40 + high * len(rows)
    parts = []
    for number, (label, value, low, top) in enumerate(rows):
        y = 40 + high * number
        colour = COLOURS[0] if value >= 1 else COLOURS[1]
        width = wide * value / most
        middle = y + high / 2 - 2
        parts += [
            text(left - 8, y + 13, label, "end"),
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{high - 5}" fill="{colour}"/>',
            f'<line x1="{left + wide * low / most:.1f}" x2="{left + wide * top / most:.1f}" y1="{middle}" '
            f'y2="{middle}" stroke="black"/>',
            text(left + wide + 8, y + 13, f"{value:.2f}"),
        ]
    one = left + wide / most
    parts.append(
        f'<line x1="{one:.1f}" x2="{one:.1f}" y1="32" y2="{bottom}" stroke="#888" stroke-dasharray="4"/>'
    )
    return frame(left + wide + 60, bottom + 20, title, parts)


def lines(title: str, x_name: str, y_name: str, series: dict[str, list[tuple[float, float]]]) -> str:
    """Series of points; both axes begin at 0."""
    left, top, wide, high = 70, 40, 520, 300
    points = [point for line in series.values() for point in line]
    most_x = max([p[0] for p in points], default=1.0) or 1.0
    most_y = max([p[1] for p in points], default=1.0) or 1.0
    axis = 'stroke="black" fill="none"'
    parts = [f'<path d="M{left},{top} V{top + high} H{left + wide}" {axis}/>']
    for share in (0.25, 0.5, 0.75, 1.0):
        parts.append(text(left - 6, top + high * (1 - share) + 4, f"{most_y * share:.3g}", "end"))
        parts.append(text(left + wide * share, top + high + 16, f"{most_x * share:.4g}", "middle"))
    parts += [text(left + wide / 2, top + high + 34, x_name, "middle"), text(10, top - 6, y_name)]
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [(left + wide * x / most_x, top + high * (1 - y / most_y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" stroke="{colour}" fill="none" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(text(left + wide + 12, top + 18 * number + 12, name, colour=colour))
    return frame(left + wide + 200, top + high + 50, title, parts)
