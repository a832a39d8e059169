"""Claims about what can go: a share of all heads, all heads of a layer but one, and whether the order matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, against, percent
from headlens.claims.costs import SWEEP
from headlens.pruning.budget import cost
from headlens.pruning.chance import Chance, chance
from headlens.pruning.order import count_for
from headlens.pruning.plan import RANDOM, RANKED
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.pruning.all_but_one import AllButOne
    from headlens.pruning.points import Curve

SHARE = 0.3


class ShareRemovable(Claim):
    """How far the ranked order goes before the loss rises by more than a little."""

    name = "share-removable"
    shares = ("order", "curve")
    why = "If it did not hold there would be nothing to explain: head pruning starts from here."
    rule = (
        "Heads go in the order of the score half, a tenth at a time, until the held-out loss is more than 0.1 nats "
        "above that with all heads on (drift: 0.05). Low and high end: the same for the upper and lower 95 % bound of "
        "the loss. Holds if the low end is at least 30 % of the heads (to the nearest head), fails if the high end is "
        "less, else mixed."
    )
    published = Published(
        "20 % of a translation model's heads and 40 % of BERT's without noticeable loss", "Michel et al. 2019, §4", "N"
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only what it shares."""
        return 0

    def check(self, context: Context) -> Finding:
        """See the rule."""
        context.need_signal()
        return share_removable(context.curve(), context.small, context.unit, context.method)


def reach(curve: Curve, limit: float, z: float = 0.0) -> float:
    """Share of heads that can go in the ranked order before the cost (plus z standard errors) first exceeds a limit."""
    found = 0.0
    for point in curve.series(RANKED):
        measured = point.result.need(curve.figure)
        error = measured.delta_sem if np.isfinite(measured.delta_sem) else 0.0
        if point.heads_off and cost(measured, curve.figure) + z * error > limit:
            break
        found = point.fraction
    return found


def share_removable(curve: Curve, limit: float, unit: str, method: str = "gradient") -> Finding:
    """The verdict on a measured curve."""
    value, low, high = (reach(curve, limit, z) for z in (0.0, Z_95, -Z_95))
    heads = curve.steps.heads
    verdict = against(low, high, count_for(SHARE, heads) / heads)
    ranked = curve.series(RANKED)
    costs = [cost(point.result.need(curve.figure), curve.figure) for point in ranked]
    errors = [Z_95 * point.result.need(curve.figure).delta_sem for point in ranked]
    lines = [
        Series(
            "least important first",
            tuple(100 * p.fraction for p in ranked),
            tuple(costs),
            tuple(c - e for c, e in zip(costs, errors, strict=True)),
            tuple(c + e for c, e in zip(costs, errors, strict=True)),
        ),
        *_random_line(curve),
    ]
    off = next((p.result.off for p in ranked if p.fraction == value), None)
    state = {"method": method}
    if off is not None and len(off):
        state["off"] = curve.steps.topology.format(off)
    sentence = (
        f"{percent(value)} of the heads can go (interval {percent(low)} to {percent(high)}) before the held-out "
        f"{curve.figure} has risen by more than {limit:g} {unit}."
    )
    figure = Figure("line", "heads off (%)", f"cost ({unit})", tuple(lines), limit)
    return Finding(verdict, value, low, high, "share of heads", sentence, figure, _switch(state))


def _switch(state: dict[str, str]) -> Try:
    return Try("Switch these heads off", "pages/switchboard.py", state)


def _random_line(curve: Curve) -> list[Series]:
    orders = [curve.series(RANDOM, seed) for seed in curve.random_seeds]
    if not orders:
        return []
    values = np.array([[cost(p.result.need(curve.figure), curve.figure) for p in order] for order in orders])
    return [Series("random orders, mean", tuple(100 * p.fraction for p in orders[0]), tuple(values.mean(0).tolist()))]


class BeatsChance(Claim):
    """Whether the order is better than drawing lots, on text that it was not made on."""

    name = "beats-chance"
    shares = ("order", "curve")
    why = "Some heads can go in any order; only against random orders does one see whether the score knows anything."
    rule = (
        "Mean held-out cost over the steps between none and all, random orders minus ranked order; the interval is "
        "where "
        "one more random order would lie 95 % of the time. Holds if all of it is above 0, fails if all of it is below, "
        "else mixed (not told apart with so few orders)."
    )
    published = Published(
        "BERT's surviving heads beat random sets of the same size on all eight tasks before retraining (MNLI 78.0 "
        "against 74.1)",
        "Prasanna et al. 2020, released results",
        "P",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only what it shares."""
        return 0

    def check(self, context: Context) -> Finding:
        """See the rule."""
        context.need_signal()
        return beats_chance(context.curve(), context.unit)


def beats_chance(curve: Curve, unit: str) -> Finding:
    """The verdict on a measured curve."""
    found = chance(curve)
    sign = -1.0 if curve.higher_is_better else 1.0
    ends = sorted(sign * (end - found.ranked) for end in (found.low, found.high))
    value = sum(ends) / 2
    verdict = {"better": "holds", "worse": "fails"}.get(found.overall, "mixed")
    words = {"holds": "beats", "fails": "is worse than", "mixed": "cannot be told from"}[verdict]
    sentence = (
        f"On held-out examples the {curve.scores.method} order {words} chance: random orders cost {abs(value):.3g} "
        f"{unit} {'more' if value >= 0 else 'less'} on average (difference {ends[0]:+.3g} to {ends[1]:+.3g}, "
        f"{found.orders} orders)."
    )
    again = Try("Draw the curve", "pages/prune.py", {"method": curve.scores.method})
    return Finding(
        verdict,  # type: ignore[arg-type]
        value,
        ends[0],
        ends[1],
        unit,
        sentence,
        _band(found, curve.figure, unit),
        again,
    )


def _band(found: Chance, figure: str, unit: str) -> Figure:
    bands = [band for band in found.bands if np.isfinite(band.ranked)]
    x = tuple(100 * band.fraction for band in bands)
    low, high = ([getattr(band, end) for band in bands] for end in ("low", "high"))
    means = tuple(band.mean for band in bands)
    return Figure(
        "line",
        "heads off (%)",
        f"{figure} ({unit})",
        (
            Series("ranked order", x, tuple(band.ranked for band in bands)),
            Series("one more random order", x, means, tuple(low), tuple(high)),
        ),
    )


class SingleHeadLayers(Claim):
    """Layers that can do with their best head."""

    name = "single-head-layers"
    why = "It is the most drastic form of redundancy, and the layers that cannot do it show where heads work together."
    rule = (
        "One layer at a time keeps the one head that is best on the score half; cost on the held-out half. A layer "
        "does "
        "with one head if the upper bound of its cost is at most 0.1 nats (drift: 0.05), and does not if the lower "
        "bound "
        "is above; bounds hold for all layers together (95 %, Bonferroni). Holds if at least one layer does, fails if "
        "none can, else mixed."
    )
    published = Published(
        "Most layers lose nothing significant with their best head alone, but the last encoder-decoder layer of a "
        "translation model loses 13.56 BLEU",
        "Michel et al. 2019, Tables 2 and 3",
        "N",
    )

    def passes(self, context: Context) -> float:
        """Every head alone in its layer."""
        return SWEEP * context.heads + 2 * len({(h.site, h.layer) for h in context.lens.topology.heads()})

    def check(self, context: Context) -> Finding:
        """See the rule."""
        sites = context.lens.topology.sites
        if all(len(layer.heads) < 2 for site in sites for layer in site.layers):
            raise NotMeasurable("every layer has a single head, so none can be left alone")
        return single_head_layers(context.layers(), context.small, context.unit)


def single_head_layers(found: AllButOne, limit: float, unit: str) -> Finding:
    """The verdict on measured layers."""
    layers = found.layers
    z = float(norm.isf(0.025 / len(layers)))
    errors = [z * layer.result.delta_sem for layer in layers]
    sure = sum(layer.cost + e <= limit for layer, e in zip(layers, errors, strict=True))
    possible = sum(not layer.cost - e > limit for layer, e in zip(layers, errors, strict=True))
    within = sum(layer.cost <= limit for layer in layers)
    total = len(layers)
    verdict = "holds" if sure else "mixed" if possible else "fails"
    worst = max(layers, key=lambda layer: layer.cost)
    sentence = (
        f"{within} of {total} layers stay within {limit:g} {unit} with their best head alone ({sure} surely, at most "
        f"{possible}); hardest hit is {worst.site} layer {worst.layer}, {worst.cost:+.3g} {unit}."
    )
    names = tuple(f"{one.site} {one.layer}" for one in layers)
    figure = Figure(
        "bars",
        "layer",
        f"cost ({unit})",
        (
            Series(
                "best head alone",
                names,
                tuple(one.cost for one in layers),
                tuple(one.cost - e for one, e in zip(layers, errors, strict=True)),
                tuple(one.cost + e for one, e in zip(layers, errors, strict=True)),
            ),
        ),
        limit,
    )
    again = Try("Leave one head in a layer", "pages/prune.py")
    return Finding(verdict, within / total, sure / total, possible / total, "share of layers", sentence, figure, again)
