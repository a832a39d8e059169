"""Which heads went and why: what the folder says of the choice, and the scores behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headlens.report.models import Subjects

if TYPE_CHECKING:
    from headlens.scores import HeadScores


@dataclass(frozen=True)
class Why:
    """The choice.

    Attributes:
        chosen: what ``headlens.json`` says of it; nothing where heads were named by hand.
        scores: of the full model, made for the report or taken from the store; None where there are none.
        formula, source: of the method.
        off: HEADS that went.
        count, total: how many of how many.
    """

    chosen: Mapping[str, Any] = field(default_factory=dict)
    scores: HeadScores | None = None
    formula: str = ""
    source: str = ""
    off: str = "none"
    count: int = 0
    total: int = 0

    @property
    def same_scores(self) -> bool:
        """Whether the shown scores are those by which the heads were chosen."""
        mine = {} if self.scores is None else self.scores.describe()
        names = ("method", "metric", "ablation", "unit", "data_hash", "fingerprint", "seed", "signed", "normalize")
        return bool(self.chosen.get("method")) and all(self.chosen.get(name) == mine.get(name) for name in names)

    def sentence(self) -> str:
        """Which heads, chosen how, and how far that can be trusted."""
        if not self.total:
            return "No head was taken out."
        share = f"{self.count} of {self.total} heads ({100 * self.count / self.total:.0f} %) were taken out"
        if not self.count:
            share = "No head was taken out"
        if not self.chosen.get("method"):
            return f"{share}; they were named by hand, not chosen by a score." if self.count else f"{share}."
        if self.chosen.get("penalty") is not None:
            return (
                f"{share}: those that learned gates closed (Voita et al. 2019, penalty {self.chosen['penalty']:g}, on "
                f"{self.chosen.get('data')}); how stable that choice is was not measured."
            )
        return f"{share}, the least important by the method {self.chosen['method']}; {self.trust()}"

    def trust(self) -> str:
        """Reliability in words."""
        if self.chosen.get("no_signal"):
            return f"that ranking means nothing here: {self.chosen['no_signal']}."
        reliability = self.chosen.get("reliability")
        if reliability is None:
            return "no data are behind that ranking, so it has no split-half reliability."
        word = "stable" if reliability >= 0.5 else "unstable, so other examples would have chosen other heads"
        return f"split-half reliability of that ranking {reliability:.2f} ({word})."

    def removed_scores(self, subjects: Subjects) -> tuple[float, float] | None:
        """Mean score of the heads that went and of those that stay; None without scores of single heads."""
        if self.scores is None or self.scores.unit != "head" or not self.count or self.count == self.total:
            return None
        gone, stay = [], []
        for site, layer, column in self.scores.columns():
            is_off = any(h.site == site and h.layer == layer and h.head == column for h in subjects.off)
            (gone if is_off else stay).append(float(self.scores.values[site][layer, column]))
        return sum(gone) / len(gone), sum(stay) / len(stay)


def choice_of(subjects: Subjects) -> dict[str, Any]:
    """What the folders say of how the heads were chosen."""
    for one in (subjects.cut, subjects.recovered):
        if one is not None and one.sidecar.get("choice"):
            return dict(one.sidecar["choice"])
    return {}
