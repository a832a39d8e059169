"""What a claim is, what a check finds, and the one rule by which most verdicts are reached. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headlens.interview.claims import CLAIMS

if TYPE_CHECKING:
    from headlens.claims.context import Context

Verdict = Literal["holds", "fails", "mixed", "not measurable"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "mixed", "not measurable")
Page = Literal[
    "app.py", "pages/attention.py", "pages/switchboard.py", "pages/prune.py", "pages/lab.py", "pages/families.py"
]


class NotMeasurable(Exception):  # noqa: N818 - an outcome, not an error
    """The claim cannot be checked here; the text says why, and how it could be measured where it could."""


@dataclass(frozen=True)
class Published:
    """What others found.

    Attributes:
        finding: in our words, with its number.
        source: paper or repository.
        grade: how it was read: P (text, code or data themselves), N (detailed notes), A (abstract or README), D
            (derived from released data or by arithmetic).
    """

    finding: str
    source: str
    grade: Literal["P", "N", "A", "D"]

    def line(self) -> str:
        """One line for tables and JSON."""
        return f"{self.finding} ({self.source}; grade {self.grade})"


@dataclass(frozen=True)
class Series:
    """One line or one set of bars: ``y`` over ``x``; ``low`` and ``high`` are ends of 95 % intervals, or empty."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A small figure as data.

    Attributes:
        kind: ``line`` or ``bars``.
        x, y: titles of the axes, with units.
        series: what is drawn.
        limit: a horizontal line that the rule speaks of, or None.
    """

    kind: Literal["line", "bars"]
    x: str
    y: str
    series: tuple[Series, ...]
    limit: float | None = None


@dataclass(frozen=True)
class Try:
    """Where to see it for oneself.

    Attributes:
        label: what the link says.
        page: path of the page.
        state: parameters of the app (``method``, ``off``, ...) as in its address, or ``lab_section``.
    """

    label: str
    page: Page
    state: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """In words, for files: ``Switch these heads off: page switchboard, method=gradient, off=L0H1``."""
        page = self.page.removeprefix("pages/").removesuffix(".py").replace("app", "heads")
        return ", ".join(
            [f"{self.label}: page {page}", *(f"{name}={value}" for name, value in sorted(self.state.items()))]
        )


@dataclass(frozen=True)
class Finding:
    """What a check found on one model.

    Attributes:
        verdict: by the claim's rule.
        value, low, high: the number the rule looks at and its 95 % interval; None where there is none.
        unit: of these.
        sentence: what was found, in plain words with the numbers.
        figure: a small figure, or None.
        again: where to try it, or None.
    """

    verdict: Verdict
    value: float | None
    low: float | None
    high: float | None
    unit: str
    sentence: str
    figure: Figure | None = None
    again: Try | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready; what is not finite becomes None."""
        return _plain(asdict(self))

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Finding:
        """The finding that :meth:`to_json` wrote."""
        figure, again = found["figure"], found["again"]
        if figure is not None:
            series = tuple(
                Series(one["name"], *(tuple(one[part]) for part in ("x", "y", "low", "high")))
                for one in figure["series"]
            )
            figure = Figure(figure["kind"], figure["x"], figure["y"], series, figure["limit"])
        again = None if again is None else Try(again["label"], again["page"], dict(again["state"]))
        parts = {name: found[name] for name in ("verdict", "value", "low", "high", "unit", "sentence")}
        return cls(**parts, figure=figure, again=again)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # numpy numbers
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Claim:
    """One claim: a class in a file of this folder, a line in the registry, a test.

    Attributes:
        name: its id.
        why: why it matters.
        rule: how the verdict follows from the number; fixed beforehand.
        published: the counterpart in the literature.
        textbook: the verdict that the textbook answer implies.
        costly: whether it is left out unless asked for.
        of_the_lab: whether it is about training and read from runs of the lab, not measured on the current model; then
            a finding is not kept in the store.
        shares: work that it has in common with other claims, see :mod:`headlens.claims.costs`.
    """

    name: ClassVar[str]
    why: ClassVar[str]
    rule: ClassVar[str]
    published: ClassVar[Published]
    textbook: ClassVar[Verdict] = "holds"
    costly: ClassVar[bool] = False
    of_the_lab: ClassVar[bool] = False
    shares: ClassVar[tuple[str, ...]] = ()

    @property
    def statement(self) -> str:
        """The sentence that is checked."""
        return CLAIMS[self.name]

    def passes(self, context: Context) -> float:
        """About how many forward passes over one set of examples it takes besides what it shares."""
        raise NotImplementedError

    def check(self, context: Context) -> Finding:
        """Measures; raises NotMeasurable where the model has no such thing, HeadlensError and Cancelled as usual."""
        raise NotImplementedError


def against(low: float, high: float, threshold: float) -> Verdict:
    """The common rule: holds if the whole interval is at or above the threshold, fails if it is below, else mixed."""
    if math.isnan(low) or math.isnan(high):
        return "mixed"
    return "holds" if low >= threshold else "fails" if high < threshold else "mixed"


def percent(value: float) -> str:
    """``30 %``."""
    return f"{100 * value:.3g} %"
