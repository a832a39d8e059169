"""From a report to one HTML file: everything inline, every text escaped, nothing loaded, no script."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from headlens.report.figures import Dot, Dots, dots
from headlens.report.head_map import head_maps
from headlens.report.models import CUT, FULL, RECOVERED
from headlens.report.quality import NAMES, UNITS, with_error

if TYPE_CHECKING:
    from jinja2 import Environment

    from headlens.report.make import Report
    from headlens.report.quality import Quality
    from headlens.report.speed import Speed

KINDS = {FULL: "full", CUT: "cut", RECOVERED: "recovered"}


def render(report: Report) -> str:
    """The page.

    Texts of users (prompts, data, names) are escaped by the template engine; the page has no script and a policy that
    would let none run.
    """
    maps = head_maps(report.why.scores, report.subjects.full.lens.topology, report.subjects.off)
    shown: dict[str, Any] = {
        "report": report,
        "quality_figures": [
            (name, _quality_figure(report.quality, name))
            for name in report.quality.metrics
            if _has_figure(report, name)
        ],
        "names": NAMES,
        "units": UNITS,
        "speed_figure": None if report.speed is None else _speed_figure(report.speed),
        "maps": maps,
        "style": (files("headlens.report") / "style.css").read_text(encoding="utf-8"),
    }
    return _environment().get_template("page.html").render(shown)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("headlens.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["signed"] = signed
    made.filters["percent"] = percent
    made.filters["bytes"] = size
    return made


def number(value: Any, digits: int = 4) -> str:
    """A number in so many significant digits; a dash for what does not exist."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, int) or abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def signed(value: Any, digits: int = 3) -> str:
    """The same with its sign."""
    missing = value is None or (isinstance(value, float) and not math.isfinite(value))
    return "–" if missing else f"{value:+.{digits}g}"


def percent(value: Any) -> str:
    """A share as a signed percentage."""
    return "–" if value is None else f"{100 * value:+.1f} %"


def size(value: Any) -> str:
    """Bytes in megabytes."""
    return "–" if value is None else f"{value / 1e6:,.1f} MB"


def _has_figure(report: Report, metric: str) -> bool:
    """Whether there is anything to draw."""
    return metric != "drift" or report.subjects.changed is not None


def _quality_figure(found: Quality, metric: str) -> Dots:
    rows: Sequence[Dot] = [
        Dot(
            figure.role,
            figure.value,
            figure.value_low,
            figure.value_high,
            with_error(figure.value, figure.sem),
            KINDS[figure.role],
        )
        for figure in found.of(metric)
        if not (metric == "drift" and figure.role == FULL)  # 0 by definition
    ]
    return dots(NAMES[metric], f"{NAMES[metric].lower()} ({UNITS[metric]})", rows)


def _speed_figure(found: Speed) -> Dots | None:
    """Change of the time in percent: the cut model, and the full one against itself (the noise)."""
    rows = []
    noise = {(row["phase"], row["batch"]): row for row in found.noise}
    for row in found.changes:
        for kind, one in (("cut", row), ("control", noise.get((row["phase"], row["batch"])))):
            if one is None or one["change"] is None:
                continue
            name = f"{row['phase']}, batch {row['batch']}" if kind == "cut" else "full against itself"
            change, low, high = (100 * one[key] for key in ("change", "change_low", "change_high"))
            rows.append(Dot(name, change, low, high, f"{change:+.1f} %", kind))
    if not rows:
        return None
    return dots("Change of the time", "change of the time against the full model (%), less is faster", rows, zero=True)
