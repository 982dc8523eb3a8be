"""Goodput over load of all systems, as SVG: a panel for each SLA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tables import goodput, ideal_shares, segments_of, sla_s

# Distinguishable for colour-blind readers: Okabe and Ito's colours, and dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B", "#8A6D00")
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 220, 46, 34, 30


def plot(found: Any, file: Path) -> None:
    """Write the plot; needs at least two loads to have lines."""
    slas = found["about"]["slas"]
    loads = sorted({segment["utilisation"] for segment in found["segments"]})
    systems = [*found["labels"], *(["ideal"] if "headway" in found["labels"] else [])]
    whole = (LEFT + len(slas) * (WIDTH + GAP), TOP + HEIGHT + 40 + 18 * ((len(systems) + 3) // 4))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]} {whole[1]}"'
        ' font-family="sans-serif" font-size="11" role="img"'
        ' aria-label="Requests in time, of those offered, over load">',
        f'<rect width="{whole[0]}" height="{whole[1]}" fill="white"/>',
    ]
    for panel, sla in enumerate(slas):
        left = LEFT + panel * (WIDTH + GAP)
        parts.append(f'<text x="{left}" y="{TOP - 12}" font-weight="bold">SLA {sla:g} x alone</text>')
        for tenth in range(0, 11, 2):
            y = _y(tenth / 10)
            parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            if panel == 0:
                parts.append(
                    f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>'
                )
        for load in loads:
            x = left + load * WIDTH
            parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{load:g}</text>')
        for number, system in enumerate(systems):
            points = []
            for load in loads:
                source = "headway" if system == "ideal" else system
                segments = segments_of(found, source, load, sla)
                if not segments:
                    continue
                if system == "ideal":
                    value = ideal_shares(found, segments, sla)[1]
                else:
                    value = goodput(segments, sla_s(found, sla))
                points.append((left + load * WIDTH, _y(value)))
            parts.append(_line(points, number, system))
    for number, system in enumerate(systems):
        x, y = LEFT + 170 * (number % 4), TOP + HEIGHT + 44 + 18 * (number // 4)
        parts.append(_line([(x, y - 4), (x + 24, y - 4)], number, system))
        parts.append(f'<text x="{x + 30}" y="{y}">{system}</text>')
    parts.append(
        f'<text x="12" y="{TOP + HEIGHT / 2}" text-anchor="middle"'
        f' transform="rotate(-90 12 {TOP + HEIGHT / 2})">in time, of offered</text>'
    )
    file.write_text("\n".join((*parts, "</svg>\n")))


def _y(value: float) -> float:
    return TOP + HEIGHT * (1.0 - value)


def _line(points: list[tuple[float, float]], number: int, system: str) -> str:
    colour = "black" if system == "ideal" else COLOURS[number % len(COLOURS)]
    width = 3 if system == "headway" else 1.5
    dash = ' stroke-dasharray="2 3"' if system == "ideal" else ' stroke-dasharray="7 3"' if number % 2 else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 0.5}" fill="{colour}"/>' for x, y in points
    )
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>{dots}'
