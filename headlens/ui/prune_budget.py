"""A budget on the curve, and which heads go: as many as it allows, a share, a learned set, or the switchboard's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.curve import TITLES
from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.ui import inputs, state, words

if TYPE_CHECKING:
    from headlens.pruning.budget import Within
    from headlens.pruning.points import Curve, Point
    from headlens.ui.choices import Chosen

ALLOWED = {
    "loss": ("loss may rise by, %", 5.0, "loss+{}%"),
    "perplexity": ("perplexity may rise by, points", 1.0, "perplexity+{}"),
    "accuracy": ("accuracy may fall by, points", 1.0, "accuracy-{}"),
    "drift": ("drift may reach", 0.05, "drift+{}"),
    "kl": ("KL may reach, nats", 0.05, "kl+{}"),
}
"""Figures a budget can be about: the question, what is asked first, and how ``parse_budget`` writes it."""
WHICH = {
    "most": "as many as the estimate allows",
    "sure": "only as many as are sure to be within (error bar included)",
    "share": "a share that I choose",
    "gates": "those that learned gates closed",
    "switches": "the heads that are off on the switchboard",
}


@dataclass(frozen=True)
class Choice:
    """Which heads go.

    Attributes:
        off: the heads.
        facts: how they were chosen, for ``headlens.json``; nothing where they were chosen by hand.
    """

    off: HeadSet = field(default_factory=HeadSet)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """What tells this choice from others of the same heads; empty where they were chosen by hand."""
        names = ("method", "metric", "ablation", "data_hash", "rescored", "penalty")
        return " ".join(str(self.facts[name]) for name in names if self.facts.get(name) is not None)


def section(chosen: Chosen, found: Curve | None) -> Choice:
    """Asks for a budget and which heads go; the heads."""
    switched = state.off_heads(chosen.lens.topology)
    allowed = _budget(found) if found is not None else None
    if allowed is None:
        st.caption(
            "Draw the curve to see how far a budget reaches."
            + (f" Or cut the {len(switched)} heads that are off on the switchboard." if len(switched) else "")
        )
    gates = [] if found is None else [point for point in found.series("gates") if point.heads_off]
    there = {"switches": bool(len(switched)), "gates": bool(gates)}
    options = {name: title for name, title in WHICH.items() if there.get(name, found is not None)}
    if not options:
        return Choice()
    current = inputs.choice("Heads to take out", "cut_which", options, kind="radio")
    if current == "switches" or found is None:
        return Choice(switched)
    if current == "gates":
        return _by_gates(chosen, found, gates)
    return _by_order(found, current, allowed)


def _budget(found: Curve) -> Within | None:
    """The budget's widgets, and one sentence on how far it reaches."""
    from headlens.pruning.budget import parse_budget, sentence, within

    figures = [name for name in ALLOWED if found.baseline.figure(name) is not None]
    left, right = st.columns([1, 1])
    figure = left.selectbox("Figure of the budget", figures, format_func=TITLES.__getitem__, key="_budget_figure")
    figure = figure or figures[0]
    question, first, pattern = ALLOWED[figure]
    amount = right.number_input(
        question.capitalize(), 0.0, None, first, step=first / 5, format="%.4g", key=f"_budget_{figure}"
    )
    amount = (amount or 0.0) / (100 if figure == "accuracy" else 1)
    try:
        reach = within(found, parse_budget(pattern.format(f"{amount:.10f}".rstrip("0").rstrip(".") or "0")))
    except HeadlensError as error:
        st.warning(words.plain(str(error)), icon=":material/info:")
        return None
    st.markdown(words.plain(sentence(reach)))
    return reach


def _by_order(found: Curve, which: str, allowed: Within | None) -> Choice:
    """A point of the ranked order."""
    points = [point for point in found.series("ranked") if point.heads_off]
    if which == "share":
        shares = {round(100 * point.fraction): point for point in points if point.heads_off < found.steps.heads}
        share = st.select_slider("Share of the heads, %", list(shares), key="_cut_share")
        point = shares[share]
    else:
        reach = None if allowed is None else allowed.reach["ranked"]
        point = None if reach is None else (reach.best if which == "most" else reach.sure)
    if point is None:
        return Choice()
    more = {"rescored": True} if found.provenance.get("rescored") else {}
    return Choice(point.result.off, {**found.scores.describe(), **_where(found, point), **more})


def _by_gates(chosen: Chosen, found: Curve, gates: list[Point]) -> Choice:
    """One of the sets of learned gates."""
    numbers = list(range(len(gates)))

    def title(number: int) -> str:
        point = gates[number]
        cost = point.result.need(found.figure).delta
        return f"penalty {point.penalty:g}: {point.heads_off} heads, {found.figure} {cost:+.3g}"

    number = st.selectbox("Learned set", numbers, format_func=title, key="_cut_gates")
    point = gates[number if number is not None and number < len(gates) else 0]
    facts = {
        "method": "learned gates",
        "penalty": point.penalty,
        "seed": point.seed,
        "unit": found.steps.unit,
        "data": chosen.data.name,
        "split": chosen.data.split,
        "data_hash": chosen.data.hash,
        "fingerprint": chosen.lens.fingerprint,
    }
    return Choice(point.result.off, {**facts, **_where(found, point)})


def _where(found: Curve, point: Point) -> dict[str, Any]:
    """What else decided which heads went."""
    steps = found.steps
    sites = None if steps.sites is None else list(steps.sites)
    return {"fraction": point.fraction, "count": point.heads_off, "floor": steps.floor, "sites": sites}
