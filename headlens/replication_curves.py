"""Do pruning curves replicate? Heads chosen on one set of texts, switched off on every other.

Each set gives an order of the heads. Every order, and some random ones, is then measured on every set, at the same
fractions. Two questions follow:

* *Transfer*: how much worse is an order from elsewhere than the set's own? (paired, on the same examples)
* *Rank correlation*: do two sets agree on which head sets are harmless? Head sets of one size are ranked by their cost
  on either set, and only sizes are compared with themselves: larger sets cost more everywhere, so over all sizes
  any two sets agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from headlens.agreement import Correlation
from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS, ratio
from headlens.pruning.measure import SetMeasure
from headlens.pruning.order import count_for, lowest

if TYPE_CHECKING:
    import pandas as pd

    from headlens.data.encode import EncodedData
    from headlens.evaluate import Measured
    from headlens.lens import Lens
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
RANDOM_ORDERS = 8
RESAMPLES = 1000


@dataclass(frozen=True)
class Transfer:
    """Heads chosen on one set, measured on another, at one fraction.

    Attributes:
        chosen_on, measured_on: names of the sets.
        fraction: share of the heads that are off.
        cost: change of the metric against all on, the sign turned where higher is better: positive is worse.
        sem: its standard error over examples.
        extra: cost more than that of the heads chosen on the measured set itself; 0 for those.
        extra_sem: standard error of that paired difference over examples.
        random: mean cost of as many heads in random orders; ``random_low`` and ``random_high`` their range.
    """

    chosen_on: str
    measured_on: str
    fraction: float
    cost: float
    sem: float
    extra: float
    extra_sem: float
    random: float
    random_low: float
    random_high: float


@dataclass(frozen=True)
class CurveReplication:
    """Pruning curves of one model on several sets.

    Attributes:
        metric: what the costs are in.
        transfers: every pair of sets at every fraction.
        correlations: by pair of sets, over head sets of the same size; see :func:`within_sizes`.
    """

    metric: str
    transfers: tuple[Transfer, ...]
    correlations: Mapping[tuple[str, str], Correlation]

    def to_frame(self) -> pd.DataFrame:
        """One row a transfer."""
        import pandas as pd

        return pd.DataFrame([vars(transfer) for transfer in self.transfers])

    def sentence(self) -> str:
        """What was found, in plain sentences."""
        fraction = max(transfer.fraction for transfer in self.transfers)
        last = [transfer for transfer in self.transfers if transfer.fraction == fraction]
        own = np.mean([each.cost for each in last if each.chosen_on == each.measured_on])
        other = np.mean([each.cost for each in last if each.chosen_on != each.measured_on])
        chance = np.mean([each.random for each in last])
        values = sorted(found.value for found in self.correlations.values())
        unit = METRICS[self.metric].unit
        agreed = f"{values[0]:.2f}" if len(values) == 1 else f"{values[0]:.2f} to {values[-1]:.2f}"
        return (
            f"With {100 * fraction:.0f} % of the heads off, heads chosen on the same texts cost {own:.3f}, heads "
            f"chosen on other texts {other:.3f}, random ones {chance:.3f} ({unit}, means over sets). Rank correlation "
            f"of the costs of head sets of a size between two sets: {agreed}."
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        pairs = [{"first": one, "second": two, **vars(found)} for (one, two), found in self.correlations.items()]
        transfers = [vars(transfer) for transfer in self.transfers]
        return {"metric": self.metric, "transfers": transfers, "pairs": pairs, "sentence": self.sentence()}


def curve_replication(
    lens: Lens,
    scores: Mapping[str, HeadScores],
    data: Mapping[str, EncodedData],
    *,
    metric: str,
    fractions: Sequence[float] = FRACTIONS,
    random_orders: int = RANDOM_ORDERS,
    ablation: Ablation = "zero",
    seed: int = 0,
    store: Store | None = None,
    resume: bool = True,
    on_phase: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> CurveReplication:
    """Measures every set's order on every set.

    Args:
        lens: the model.
        scores: by name of the set: the scores that choose the heads.
        data: by the same names: what is measured on. Held-out halves, if the scores come from the others.
        metric: ``loss``, ``accuracy`` or ``drift``.
        fractions: shares of the heads that are off.
        random_orders: how many random orders stand beside them; at least 2.
        ablation, seed: how heads are switched off.
        store, resume: where finished head sets are kept, and whether to take them from there.
        on_phase: called with the name of each measured set.
        on_progress: called with (done, total) of that set; may raise to cancel.

    Raises:
        HeadlensError: fewer than two sets, different names, a bad fraction, or too few random orders.
    """
    if len(scores) < 2 or {*scores} != {*data}:
        raise HeadlensError("curves are compared between at least two sets, with scores and data for each")
    if random_orders < 2:
        raise HeadlensError(f"{random_orders} random orders are no control; give at least 2")
    unit = next(iter(scores.values())).unit
    orders = dict(scores)
    for number in range(random_orders):
        chance = score(lens, METHODS["random"], Request(METRICS["loss"], unit=unit, seed=number))
        orders[_random(number)] = chance
    sets = {(name, f): _chosen(order, f) for name, order in orders.items() for f in fractions}
    changes: dict[str, dict[tuple[str, float], Measured]] = {}
    for name, encoded in data.items():
        if on_phase is not None:
            on_phase(name)
        measure = SetMeasure(
            lens,
            encoded,
            metric=metric,
            ablation=ablation,
            seed=seed,
            store=store,
            resume=resume,
            on_progress=on_progress,
        )
        found = measure.measure(sets.values())
        changes[name] = {key: found[off].need(metric) for key, off in sets.items()}
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    transfers = tuple(
        _transfer(changes[measured], chosen, measured, fraction, random_orders, sign)
        for measured in data
        for chosen in scores
        for fraction in fractions
    )
    costs = {name: np.array([[sign * c[o, f].delta for f in fractions] for o in orders]) for name, c in changes.items()}
    pairs = {(a, b): within_sizes(costs[a], costs[b], seed=seed) for a, b in combinations(data, 2)}
    return CurveReplication(metric, transfers, pairs)


def _random(number: int) -> str:
    return f"random order {number}"


def _chosen(scores: HeadScores, fraction: float) -> HeadSet:
    return lowest(scores, count_for(fraction, len(scores.columns())))


def _transfer(
    found: Mapping[tuple[str, float], Measured], chosen: str, measured: str, fraction: float, orders: int, sign: float
) -> Transfer:
    one, own = found[chosen, fraction], found[measured, fraction]
    assert one.changes is not None
    assert own.changes is not None
    assert one.weights is not None
    extra, sem = ratio((one.changes - own.changes)[:, None], one.weights)
    random = [sign * found[_random(number), fraction].delta for number in range(orders)]
    cost = sign * one.delta
    more = (float(sign * extra[0]), float(sem[0])) if chosen != measured else (0.0, 0.0)
    mean, low, high = float(np.mean(random)), min(random), max(random)
    return Transfer(chosen, measured, fraction, cost, one.delta_sem, *more, mean, low, high)


def within_sizes(one: np.ndarray, other: np.ndarray, *, seed: int = 0) -> Correlation:
    """Rank correlation of costs ``[orders, sizes]`` on two sets, over orders, within each size; mean over sizes.

    The interval is a percentile bootstrap over orders, each with all its sizes. NaN where all orders cost the same.
    """
    orders = len(one)
    drawn = np.random.default_rng(seed).integers(0, orders, size=(RESAMPLES, orders))
    each = np.array([_mean_rho(one[rows], other[rows]) for rows in drawn])
    known = each[np.isfinite(each)]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (np.nan, np.nan)
    return Correlation(_mean_rho(one, other), float(low), float(high))


def _mean_rho(one: np.ndarray, other: np.ndarray) -> float:
    a, b = (rankdata(values, axis=0) for values in (one, other))
    a, b = a - a.mean(0), b - b.mean(0)
    scale = np.sqrt((a**2).sum(0) * (b**2).sum(0))
    rho = np.divide((a * b).sum(0), scale, out=np.full(len(scale), np.nan), where=scale > 0)
    return float(np.nanmean(rho)) if np.isfinite(rho).any() else float("nan")
