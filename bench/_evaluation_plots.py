"""Plots of an evaluation as SVG: a heat map of policies and cells, and curves along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from headway.record.charts import tenant_colour
from headway.record.evaluation_stats import Evaluation

STYLE = "font-family:sans-serif;font-size:11px"
_WHITE, _DARK = (255, 255, 255), (0, 90, 160)
_DASHES = ("", "6 3", "2 3")
"""Beyond the colours that can be told apart, lines are told apart by their dashes."""


def heat_map(evaluation: Evaluation, policies: Sequence[str], cells: Sequence[str]) -> str:
    """SLA satisfaction in percent, a row for each cell and a column for each policy."""
    left, top, width, height = 8 * max(map(len, cells)) * 0.85 + 10, 90.0, 34.0, 15.0
    parts = []
    for column, policy in enumerate(policies):
        x, y = left + width * (column + 0.6), top - 6
        parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" transform="rotate(-55 {x:.0f} {y:.0f})">{escape(policy)}</text>'
        )
    for line, cell in enumerate(cells):
        y = top + height * line
        label = escape(cell.replace("_", " "))
        parts.append(f'<text x="{left - 6:.0f}" y="{y + 11:.0f}" text-anchor="end">{label}</text>')
        for column, policy in enumerate(policies):
            share = evaluation.mean("sla_satisfaction", policy, cell)
            if share is not None:
                x = left + width * column
                ink = "#fff" if share > 0.6 else "#000"
                parts.append(
                    f'<rect x="{x:.0f}" y="{y:.0f}" width="{width - 1:.0f}" height="{height - 1:.0f}"'
                    f' fill="{_blue(share)}"/><text x="{x + width / 2:.0f}" y="{y + 11:.0f}" fill="{ink}"'
                    f' text-anchor="middle">{100 * share:.0f}</text>'
                )
    return _page(left + width * len(policies) + 60, top + height * len(cells) + 6, parts)


def curves(
    evaluation: Evaluation, axis: str, panels: Sequence[tuple[str, Sequence[str]]], policies: Sequence[str]
) -> str:
    """SLA satisfaction and bound along an axis, evenly spaced, a panel for each named group of cells."""
    places = evaluation.axes[axis]
    wide, high, gap = 300.0, 200.0, 60.0
    parts = []
    for at, (title, cells) in enumerate(panels):
        left, top = 45 + at % 2 * (wide + gap), 30 + at // 2 * (high + gap)
        ticks = sorted({places[cell] for cell in cells})
        x_of = {tick: left + wide * (place + 0.5) / len(ticks) for place, tick in enumerate(ticks)}
        parts.append(f'<text x="{left:.0f}" y="{top - 10:.0f}" font-weight="bold">{escape(title)}</text>')
        for share in (0, 25, 50, 75, 100):
            y = top + high * (1 - share / 100)
            parts.append(f'<path d="M{left:.0f} {y:.1f}H{left + wide:.0f}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{share}</text>')
        for tick, x in x_of.items():
            parts.append(
                f'<text x="{x:.0f}" y="{top + high + 16:.0f}" text-anchor="middle">{escape(tick[1])}</text>'
            )

        def line(colour: str, dash: str, points: list[tuple[float, float, float]], top: float = top) -> None:
            path = " ".join(
                f"{'M' if not place else 'L'}{x:.1f} {top + high * (1 - share):.1f}"
                for place, (x, share, _) in enumerate(points)
            )
            bars = "".join(
                f"M{x:.1f} {top + high * max(0, 1 - share - half):.1f}V{top + high * (1 - share + half):.1f}"
                for x, share, half in points
                if half
            )
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>')
            if bars:
                parts.append(f'<path d="{bars}" stroke="{colour}" stroke-width="1"/>')

        of_tick = {tick: [cell for cell in cells if places[cell] == tick] for tick in ticks}
        line("#999", "1 2", [(x_of[tick], _bound(evaluation, of_tick[tick]), 0.0) for tick in ticks])
        for place, policy in enumerate(policies):
            points = []
            for tick in ticks:
                found = evaluation.over("sla_satisfaction", policy, of_tick[tick])
                if found is not None:
                    points.append((x_of[tick], found.mean, found.half or 0.0))
            line(tenant_colour(place % 8), _DASHES[place // 8 % 3], points)
    rows = (len(panels) + 1) // 2
    x = 45 + min(2, len(panels)) * (wide + gap)
    for place, name in enumerate([*policies, "bound"]):
        y = 40 + 16 * place
        bound = place == len(policies)
        colour = "#999" if bound else tenant_colour(place % 8)
        dash = "1 2" if bound else _DASHES[place // 8 % 3] or "none"
        parts.append(
            f'<path d="M{x:.0f} {y:.0f}h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        parts.append(f'<text x="{x + 28:.0f}" y="{y + 4:.0f}">{escape(name)}</text>')
    return _page(x + 130, 30 + rows * (high + gap), parts)


def _bound(evaluation: Evaluation, cells: Sequence[str]) -> float:
    bounds = [bound for cell in cells if (bound := evaluation.bound(cell)) is not None]
    return sum(bounds) / len(bounds)


def _blue(share: float) -> str:
    return "#" + "".join(
        f"{round(low + (high - low) * share):02x}" for low, high in zip(_WHITE, _DARK, strict=True)
    )


def _page(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" style="{STYLE}">'
    back = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>'
    return "\n".join((head, back, *parts, "</svg>\n"))
