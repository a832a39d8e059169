"""What a recovery is worth: full, cut, recovered - and random cuts of the same size with the same recovery.

The last rows are the control. After training, random cuts often end close to chosen ones (Prasanna, Rogers, Rumshisky
2020, Table 3: with retraining, random heads recover almost everything on large tasks); without them nothing says that
the choice of heads mattered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headlens.data.encode import encode
from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.pruning.chance import prediction
from headlens.pruning.full_model import taken_out
from headlens.pruning.outcomes import Outcome, Yardstick
from headlens.pruning.random_cuts import Control, random_cut, trained_the_same_way, unit_of
from headlens.pruning.recovery import Recovered
from headlens.pruning.shares import share_interval

if TYPE_CHECKING:
    import pandas as pd

    from headlens.lens import Lens
    from headlens.pruning.training_data import RecoveryData

FULL, CUT, RECOVERED = "full", "cut", "cut + recovered"
FULL_TRAINED = "full + the same training"
RANDOM, RANDOM_RECOVERED = "random cut", "random cut + recovered"
FEW = 3
"""With fewer random cuts the control is called weak."""


@dataclass(frozen=True)
class Row:
    """One model of the table.

    Attributes:
        name: see above.
        seed: of a random cut, else None.
        heads: query heads that are left.
        off: HEADS that the full model has and this one lacks.
        outcome: on the reported examples.
        best_step, steps: of the training whose best evaluation this is; None where nothing was trained.
        seconds: of that training.
    """

    name: str
    seed: int | None
    heads: int
    off: str
    outcome: Outcome
    best_step: int | None = None
    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class RecoveryTable:
    """The rows, and what they say.

    Attributes:
        rows: full, cut, recovered, then each random cut before and after.
        metric: ``loss`` or ``drift``; lower is better.
        notes: what was left out and why.
    """

    rows: tuple[Row, ...]
    metric: str
    notes: tuple[str, ...] = field(default=())

    def named(self, name: str) -> list[Row]:
        """Rows of one kind."""
        return [row for row in self.rows if row.name == name]

    def values(self, name: str) -> list[float]:
        """The metric of the rows of one kind."""
        return [row.outcome.value(self.metric)[0] for row in self.named(name)]

    def sentences(self) -> list[str]:
        """What the table says, in words with its numbers."""
        (before,), (after,) = self.values(CUT), self.values(RECOVERED)
        found = []
        if full := self.values(FULL):
            lost = before - full[0]
            if lost > 0 and self.metric != "drift":
                found.append(
                    f"The cut costs {lost:.3g} of {self.metric} ({full[0]:.4g} to {before:.4g}); recovery takes back "
                    f"{100 * (before - after) / lost:.0f} % of it ({after:.4g}; {self._share_error()})."
                )
            elif self.metric == "drift":
                found.append(f"Drift from the full model: {before:.4g} cut, {after:.4g} recovered.")
            else:
                found.append(
                    f"The cut costs nothing here ({self.metric} {full[0]:.4g} full, {before:.4g} cut); recovered: "
                    f"{after:.4g}."
                )
        if trained := self.values(FULL_TRAINED):
            found.append(
                f"The full model, trained the same way, ends at {trained[0]:.4g}: against that the cut still costs "
                f"{after - trained[0]:+.3g} of {self.metric}."
            )
        return [*found, self.control()]

    def _share_error(self) -> str:
        """How far the share that comes back can be trusted, paired by example."""
        (full,), (cut,), (trained,) = (self.named(name) for name in (FULL, CUT, RECOVERED))
        back, gone = (cut.outcome.against(row.outcome, self.metric) for row in (trained, full))
        low, high = share_interval(back, gone)
        if math.isnan(low):
            return "what the cut costs cannot be told from nothing here, so that share has no error bar"
        return f"95 % interval {100 * low:.0f} to {100 * high:.0f} %"

    def control(self) -> str:
        """Whether the choice of heads mattered after recovery."""
        random, (mine,) = self.values(RANDOM_RECOVERED), self.values(RECOVERED)
        if not random:
            return "No random cut was recovered, so nothing says whether the choice of heads mattered after training."
        spread = f"{min(random):.4g} to {max(random):.4g}" if len(random) > 1 else f"{random[0]:.4g}"
        text = f"{len(random)} random cuts of as many heads, recovered the same way: {self.metric} {spread}"
        low, high = prediction(random)
        if math.isnan(low):
            return f"{text}; one alone has no spread, so take 3 or more."
        weak = "" if len(random) >= FEW else f" (with {len(random)} cuts only; take {FEW} or more)"
        told = f"{text}; one more would lie between {max(0.0, low):.4g} and {high:.4g} 95 % of the time{weak}."
        if mine < low or mine > high:
            return f"{told} The chosen cut, {mine:.4g}, is {'better' if mine < low else 'worse'} than chance."
        if mine < min(random):
            return (
                f"{told} The chosen cut, {mine:.4g}, is better than each of them, but they differ so much that "
                f"{len(random)} cannot rule out chance; take more."
            )
        return f"{told} The chosen cut, {mine:.4g}, is after recovery not told apart from chance."

    def describe(self) -> list[dict[str, Any]]:
        """The rows, JSON-ready; NaN where a number does not exist."""
        full = next((row.outcome for row in self.named(FULL)), None)
        found = []
        for row in self.rows:
            entry = {
                "name": row.name,
                "seed": row.seed,
                "heads": row.heads,
                "off": row.off,
                "best_step": row.best_step,
                "steps": row.steps,
                "seconds": row.seconds,
                **row.outcome.describe(),
            }
            if full is not None and self.metric != "drift":
                change = row.outcome.against(full, self.metric)
                entry |= {f"{self.metric}_delta": change.delta, f"{self.metric}_delta_sem": change.delta_sem}
            found.append(entry)
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row a model."""
        import pandas as pd

        return pd.DataFrame(self.describe()).astype({"seed": "Int64", "best_step": "Int64", "steps": "Int64"})


def recovery_table(
    recovered: Recovered,
    data: RecoveryData,
    full: Lens | None,
    control: Control | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> RecoveryTable:
    """Puts a recovery beside the full model and beside random cuts with the same recovery.

    Args:
        recovered: from :func:`headlens.pruning.recovery.recover`.
        data: what it was made with.
        full: the model that was cut; None leaves out its row and the control.
        control: the random cuts; None or 0 of them: no control.
        on_progress: called with (done, total) of the current phase; may raise Cancelled, and finished random cuts
            are kept.
        on_phase: called with the title of each phase.
        on_row: called with each row when it is measured.

    Raises:
        HeadlensError: a control without the full model, or of a model that is no cut of it.
    """
    control = control or Control()
    phase, told = on_phase or (lambda _: None), on_row or (lambda _: None)
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        told(row)

    heads = len(recovered.lens.topology.heads())
    off = HeadSet() if full is None else taken_out(full, recovered.lens)
    text = "" if full is None else full.topology.format(off)
    if full is not None:
        phase("measuring the full model")
        report = encode(full, data.report, max_tokens=control.max_tokens, seed=recovered.spec.seed)
        yardstick = Yardstick(report, full, batch_size=control.batch_size)
        add(Row(FULL, None, len(full.topology.heads()), "none", yardstick.measure(full, on_progress)))
    add(Row(CUT, None, heads, text, recovered.before))
    state = recovered.state
    add(Row(RECOVERED, None, heads, text, recovered.after, state.best_step, state.step, state.seconds))
    notes = []
    if full is None and (control.cuts or control.full_too):
        raise HeadlensError("the controls are made from the full model; name it with --teacher MODEL")
    if full is not None and control.full_too:
        if recovered.spec.objective == "distill":
            notes.append("the full model is its own teacher, so it cannot be trained the same way")
        else:
            phase("training the full model the same way")
            one = trained_the_same_way(recovered, data, full, HeadSet(), control, on_progress)
            heads_of_full = len(full.topology.heads())
            add(Row(FULL_TRAINED, None, heads_of_full, "none", one.after, one.best_step, one.steps, one.seconds))
    if control.cuts and full is not None and not len(off):
        notes.append("no head was taken out, so there are no random cuts to compare with")
    elif control.cuts and full is not None and _shares(full):
        notes.append("layers share their weights, so heads cannot be drawn for each of them: there are no random cuts")
    elif full is not None:
        unit = control.unit or unit_of(full.topology, off)
        for seed in range(control.cuts):
            phase(f"random cut {seed + 1} of {control.cuts}")
            drawn = random_cut(full.topology, off, seed, unit=unit, floor=control.floor)
            one = trained_the_same_way(recovered, data, full, drawn, control, on_progress)
            left, gone = len(full.topology.heads()) - len(drawn), full.topology.format(drawn)
            add(Row(RANDOM, seed, left, gone, one.before))
            add(Row(RANDOM_RECOVERED, seed, left, gone, one.after, one.best_step, one.steps, one.seconds))
    return RecoveryTable(tuple(rows), recovered.metric, tuple(notes))


def _shares(lens: Lens) -> bool:
    """Whether one attention module is called as several layers."""
    return any(len({id(place.out_proj) for place in site.layers}) < len(site.layers) for site in lens.sites)
