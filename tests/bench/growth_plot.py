"""The points of growth.csv as a plain SVG: a column per axis, time above and peak memory below, readable at 800 px."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

Row = Mapping[str, str]
Place = Callable[[float], float]
WIDTH, HEIGHT = 800, 500
LEFTS, PANEL_WIDTH = (58, 322, 586), 196
TIME_TOP, MEMORY_TOP, PANEL_HEIGHT = 76, 292, 150
FIRST, FIVE, MEMORY = "#1f6fb2", "#c8501e", "#3d7a3d"
TITLES = {
    "offers": ("Offers", "2 workloads, 3 periods"),
    "workloads": ("Workloads", "300 offers, 3 periods"),
    "periods": ("Load periods", "300 offers, 3 workloads"),
}


def drawn(rows: Sequence[Row], said: str) -> str:
    """The whole picture; `said` is how it was measured."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(12, 20, "Time and memory against the size of the problem", size=15),
        *_legend(said),
    ]
    for left, (axis, titles) in zip(LEFTS, TITLES.items(), strict=True):
        mine = [r for r in rows if r["axis"] == axis]
        if mine:
            parts += _column(left, axis, titles, mine)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(said: str) -> list[str]:
    y = 42
    return [
        _dot(18, y - 4, FIRST, True), _text(28, y, "first plan"),
        _square(118, y - 4, FIVE, True), _text(128, y, "gap of 5 %"),
        _dot(214, y - 4, FIRST, False), _square(223, y - 4, FIVE, False), _text(232, y, "not within the limit"),
        _text(WIDTH - 12, y, said, anchor="end", size=11),
    ]  # fmt: skip


def _column(left: int, axis: str, titles: tuple[str, str], rows: Sequence[Row]) -> list[str]:
    sizes = [float(r[axis]) for r in rows]
    wide = axis == "offers"
    ticks = [t for t in (100.0, 300.0, 1e3, 3e3, 1e4, 2e4) if t in sizes] if wide else _few(sizes)
    if wide:
        low, high = math.log(min(sizes)), math.log(max(sizes))
        across = _line(low - 0.2, high + 0.2, left, left + PANEL_WIDTH, math.log)
    else:
        across = _line(min(sizes) - 0.5, max(sizes) + 0.5, left, left + PANEL_WIDTH)
    limit = max(float(r["limit_s"]) for r in rows)
    up = _line(
        math.log(0.01), math.log(2.5 * limit), TIME_TOP + PANEL_HEIGHT, TIME_TOP, lambda s: math.log(max(s, 0.01))
    )
    seconds = [t for t in (0.01, 0.1, 1.0, 10.0) if t < limit]
    parts = [_text(left, TIME_TOP - 12, "Time, s (log scale)", size=12)]
    parts += _frame(left, TIME_TOP, [(up(t), f"{t:g}") for t in seconds], [(across(t), "") for t in ticks])
    parts.append(_stroke([(left, up(limit)), (left + PANEL_WIDTH, up(limit))], "#888", "4 3"))
    parts.append(_text(left + 4, up(limit) - 8, f"limit {limit:g} s", size=10, colour="#555"))
    for name, colour, mark, aside in (("first_s", FIRST, _dot, -4), ("five_percent_s", FIVE, _square, 4)):
        points = [(across(float(r[axis])), up(float(r[name]))) for r in rows if r[name]]
        parts.append(_stroke(points, colour))
        parts += [mark(x, y, colour, True) for x, y in points]
        missing = [r for r in rows if not r[name]]
        # Side by side, so that both are seen where neither was reached.
        parts += [mark(across(float(r[axis])) + aside, up(limit), colour, False) for r in missing]
    used = [(across(float(r[axis])), float(r["peak_mib"])) for r in rows if r["peak_mib"]]
    most, step = _scale(max((m for _, m in used), default=1.0))
    above = _line(0.0, most, MEMORY_TOP + PANEL_HEIGHT, MEMORY_TOP)
    levels = [(above(i * step), f"{i * step:g}") for i in range(round(most / step) + 1)]
    labels = [(across(t), f"{t / 1000:g}k" if t >= 1000 else f"{t:g}") for t in ticks]
    parts.append(_text(left, MEMORY_TOP - 12, "Peak memory, MiB", size=12))
    parts += _frame(left, MEMORY_TOP, levels, labels)
    parts.append(_stroke([(x, above(m)) for x, m in used], MEMORY))
    parts += [_dot(x, above(m), MEMORY, True) for x, m in used]
    middle = left + PANEL_WIDTH / 2
    name = titles[0] + (" (log scale)" if wide else "")
    parts.append(_text(middle, MEMORY_TOP + PANEL_HEIGHT + 34, name, anchor="middle", size=13))
    parts.append(_text(middle, MEMORY_TOP + PANEL_HEIGHT + 50, titles[1], anchor="middle", size=11, colour="#555"))
    return parts


def _frame(left: int, top: int, ups: Sequence[tuple[float, str]], acrosses: Sequence[tuple[float, str]]) -> list[str]:
    bottom, right = top + PANEL_HEIGHT, left + PANEL_WIDTH
    parts = []
    for y, label in ups:
        parts.append(_stroke([(left, y), (right, y)], "#ddd"))
        parts.append(_text(left - 6, y + 4, label, anchor="end", size=11))
    for x, label in acrosses:
        parts.append(_stroke([(x, bottom), (x, bottom + 4)], "#222"))
        if label:
            parts.append(_text(x, bottom + 17, label, anchor="middle", size=11))
    return [*parts, _stroke([(left, top), (left, bottom), (right, bottom)], "#222")]


def _few(sizes: Sequence[float]) -> list[float]:
    return sorted(set(sizes))


def _line(low: float, high: float, start: float, end: float, of: Place = lambda v: v) -> Place:
    """Map [low, high] of `of` onto [start, end]."""
    return lambda v: start + (of(v) - low) / (high - low) * (end - start)


def _scale(most: float) -> tuple[float, float]:
    """Top and step of an axis from zero with four to six round steps."""
    rough = most / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= rough)
    return math.ceil(most / step) * step, step


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(words)}</text>'


def _stroke(points: Sequence[tuple[float, float]], colour: str, dashes: str = "none") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'


def _dot(x: float, y: float, colour: str, full: bool) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour if full else "#fff"}" stroke="{colour}"/>'


def _square(x: float, y: float, colour: str, full: bool) -> str:
    fill = colour if full else "#fff"
    return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{fill}" stroke="{colour}"/>'
