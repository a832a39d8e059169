"""Does a ranking of heads replicate? The same method on other texts, and on other skills, rank against rank.

What the numbers can and cannot say:

* A correlation's interval is a bootstrap over *heads* of this one model. It says how much the figure hangs on which
  heads there are, not how it would be for another model.
* Scores from few texts are noisy, and noise alone pulls a correlation down. So each comes with the *ceiling*
  sqrt(r1 r2), where r1 and r2 are the two rankings' split-half reliabilities: about the largest correlation that two
  such noisy rankings of the same thing would reach (Spearman 1904). Well below the ceiling the rankings really differ;
  near a low ceiling more text is needed to say anything.
* Sets that share texts share noise, and agree too well; the built-in sets share none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.agreement import Agreement, Correlation, agreement
from headlens.data.builtin import index
from headlens.data.dataset import Split
from headlens.data.encode import encode
from headlens.data.select import OWN_SET, load_data
from headlens.errors import HeadlensError
from headlens.importance import Method, Request
from headlens.importance.score import score

if TYPE_CHECKING:
    import pandas as pd

    from headlens.data.encode import EncodedData
    from headlens.heads import Unit
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation

USABLE = 0.25
"""With a lower reliability a ranking is mostly noise, and no ceiling is given for it."""
HOW_TO_READ = (
    "rho: Spearman, with a 95 % bootstrap interval over heads. Ceiling: about what two rankings as noisy as these "
    "would reach if they ranked the same thing."
)


@dataclass(frozen=True)
class Replicated:
    """Two rankings of the same heads.

    Attributes:
        agreement: rank correlations with intervals, and what the tops share.
        ceiling: see the module; NaN where a reliability is unknown or below ``USABLE``.
    """

    agreement: Agreement
    ceiling: float

    @property
    def rho(self) -> Correlation:
        """Spearman's rank correlation and its interval."""
        return self.agreement.spearman

    def sentence(self) -> str:
        """What it says, with the ceiling."""
        text = self.agreement.sentence().rstrip(".")
        if math.isnan(self.ceiling):
            return f"{text}; at least one of the two is too noisy to say how high it could be."
        return f"{text}; two equally noisy rankings of the same thing would reach about {self.ceiling:.2f}."


@dataclass(frozen=True)
class Replication:
    """Every pair of some rankings of one model.

    Attributes:
        names: what was compared.
        reliability: split-half reliability of each ranking, or None.
        no_signal: why a ranking was left out, by name.
        pairs: each pair, in the order of the names.
    """

    names: tuple[str, ...]
    reliability: Mapping[str, float | None]
    no_signal: Mapping[str, str]
    pairs: tuple[Replicated, ...]

    @property
    def weakest(self) -> Replicated:
        """The pair that agrees least."""
        return min(self.pairs, key=lambda pair: pair.rho.value if not math.isnan(pair.rho.value) else math.inf)

    def sentence(self) -> str:
        """What was found, in plain sentences."""
        values = sorted(pair.rho.value for pair in self.pairs if not math.isnan(pair.rho.value))
        if not values:
            return "Nothing to compare: the rankings give all heads the same score."
        median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        if len(self.pairs) == 1:
            return self.pairs[0].sentence()
        return (
            f"{len(self.names)} rankings of the same heads: rank correlations from {values[0]:.2f} to "
            f"{values[-1]:.2f}, median {median:.2f}. Least alike: {self.weakest.sentence()}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a pair: ``first, second, heads, rho, low, high, ceiling, top, shared, expected, p_value``."""
        import pandas as pd

        return pd.DataFrame([_row(pair) for pair in self.pairs])

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        return {
            "names": list(self.names),
            "reliability": dict(self.reliability),
            "left_out": dict(self.no_signal),
            "pairs": [_row(pair) for pair in self.pairs],
            "sentence": self.sentence(),
        }


def _row(pair: Replicated) -> dict[str, Any]:
    found = pair.agreement
    return {
        "first": found.first,
        "second": found.second,
        "heads": found.heads,
        "rho": pair.rho.value,
        "low": pair.rho.low,
        "high": pair.rho.high,
        "ceiling": pair.ceiling,
        "top": found.top,
        "shared": found.shared,
        "expected": found.expected,
        "p_value": found.p_value,
    }


def replication(scores: Mapping[str, HeadScores], *, seed: int = 0) -> Replication:
    """Compares every pair of rankings; those without a signal are left out.

    Args:
        scores: by name, of one model with the same unit: from :func:`scores_by_set`, or of several skills.
        seed: draws the bootstrap.

    Raises:
        HeadlensError: fewer than two rankings with a signal, or scores of different heads.
    """
    silent = {name: found.no_signal for name, found in scores.items() if found.no_signal}
    kept = {name: found for name, found in scores.items() if name not in silent}
    if len(kept) < 2:
        why = f" ({'; '.join(f'{name}: {reason}' for name, reason in silent.items())})" if silent else ""
        raise HeadlensError(f"at least two rankings with a signal are needed, there is {len(kept)}{why}")
    reliability = {name: found.reliability for name, found in kept.items()}
    pairs = tuple(
        Replicated(found, ceiling(reliability[found.first], reliability[found.second]))
        for found in agreement(kept, seed=seed)
    )
    return Replication(tuple(kept), reliability, silent, pairs)


def ceiling(first: float | None, second: float | None) -> float:
    """The rank correlation that two rankings of the same thing with these reliabilities would reach; see the module."""
    if first is None or second is None or min(first, second) < USABLE:
        return float("nan")
    return math.sqrt(min(1.0, first) * min(1.0, second))


def sets_for(lens: Lens, split: Split = "score", sets: Sequence[str] | None = None) -> dict[str, tuple[str, Split]]:
    """The built-in sets to compare, as ``{name: (set, half)}``.

    A model of the zoo knows one set only: its two halves are compared.

    Args:
        lens: the model.
        split: which half of each set.
        sets: names of sets; None takes all that the model's task takes.

    Raises:
        HeadlensError: there are fewer than two.
    """
    own = getattr(lens.model.config, OWN_SET, None)
    if sets is None and any(entry.name == own for entry in index()):
        halves: tuple[Split, ...] = ("score", "held-out")
        return {f"{own} ({half})": (str(own), half) for half in halves}
    zoo = _made_for_the_zoo()
    fitting = [entry.name for entry in index() if lens.task in entry.tasks and entry.name not in zoo]
    chosen = fitting if sets is None else list(dict.fromkeys(sets))
    if len(chosen) < 2:
        raise HeadlensError(f"{len(chosen)} set for {lens.task} models; at least two are needed to compare")
    return {name: (name, split) for name in chosen}


def _made_for_the_zoo() -> set[str]:
    from headlens.zoo.recipes import SETS

    return set(SETS.values())


def scores_by_set(
    lens: Lens,
    method: Method,
    data: Mapping[str, EncodedData],
    *,
    metric: Metric,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    seed: int = 0,
    store: Store | None = None,
    resume: bool = True,
    on_phase: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, HeadScores]:
    """Scores every head on each set.

    Args:
        lens, method, metric, ablation, unit, seed, store, resume: as for :func:`headlens.importance.score.score`.
        data: the encoded sets by name, from :func:`encoded_sets`.
        on_phase: called with the name of each set.
        on_progress: called with (done, total) of the set that is at work; may raise to cancel.

    Raises:
        HeadlensError: the method needs no data, so its ranking is the same for all sets.
    """
    if not method.needs:
        raise HeadlensError(f"{method.name} looks at no data, so it ranks alike on every set; choose another method")
    found = {}
    for name, encoded in data.items():
        if on_phase is not None:
            on_phase(name)
        options = {"unit": unit, "seed": seed, "store": store, "resume": resume, "on_progress": on_progress}
        found[name] = score(lens, method, Request(metric, encoded, ablation, **options))
    return found


def encoded_sets(
    lens: Lens, chosen: Mapping[str, tuple[str, Split]], *, limit: int | None = None, seed: int = 0
) -> dict[str, EncodedData]:
    """The sets of :func:`sets_for`, tokenised; ``limit`` takes the first so many examples of each."""
    return {
        name: encode(lens, load_data(spec, task=lens.task, split=split, limit=limit, seed=seed), seed=seed)
        for name, (spec, split) in chosen.items()
    }
