"""Does brief fine-tuning bring the quality back?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, against, percent
from headlens.pruning.shares import share_interval

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.pruning.recovery_table import RecoveryTable

SHARE, STEPS, CUTS, PART = 0.5, 100, 3, 0.5
MOST_PARAMETERS = 30_000_000
"""Larger models take hours on two cores; the commands for them are told instead."""


class Recovers(Claim):
    """Half of the heads are cut out and what is left is trained a little; random cuts beside it."""

    name = "recovers"
    shares = ("order",)
    costly = True
    why = "Cut, then train a little is the recipe of practice; random cuts trained alike show what the choice adds."
    rule = (
        f"Half of the heads (least important) are cut, then {STEPS} steps of training on the score half, watched on "
        "a part "
        "of it. Number: share of the lost held-out loss that comes back, with Fieller's 95 % interval of a ratio, "
        "paired by example. Holds if "
        "all of "
        f"it is at least {PART:g}, fails if all is below, else mixed. {CUTS} random cuts with the same training stand "
        "beside it in the sentence."
    )
    published = Published(
        "Retrained, BERT's survivors reach 83.0 on MNLI (84.5 with all heads) and random sets of the same size 82.8",
        "Prasanna et al. 2020, released results",
        "P",
    )

    def passes(self, context: Context) -> float:
        """Three passes a step for each trained model, each over eight examples."""
        return 3 * STEPS * (1 + CUTS) * 8 / max(1, len(context.held_out))

    def check(self, context: Context) -> Finding:
        """See the rule."""
        command = (
            "`headlens prune MODEL --method gradient --fraction 0.5 --out DIR` and `headlens recover DIR` measure it"
        )
        if context.metric.name != "loss":
            raise NotMeasurable("this model predicts nothing, so there is no loss to bring back")
        if context.lens.parameters > MOST_PARAMETERS:
            raise NotMeasurable(
                f"training {context.lens.parameters:,} parameters four times takes too long here; {command}"
            )
        return recovers(self._table(context), context.lens.topology.format(context.lowest(SHARE)))

    def _table(self, context: Context) -> RecoveryTable:
        from headlens.errors import ModelError
        from headlens.lens import Lens
        from headlens.pruning.cut import cut
        from headlens.pruning.random_cuts import Control
        from headlens.pruning.recovery import recover
        from headlens.pruning.recovery_spec import RecoverySpec
        from headlens.pruning.recovery_table import recovery_table
        from headlens.pruning.training_data import recovery_data

        try:
            lens = Lens(cut(context.lens, context.lowest(SHARE)).loaded)
        except ModelError as error:
            raise NotMeasurable(f"the heads of this model cannot be cut out: {error}") from error
        spec = RecoverySpec(STEPS, seed=context.seed)
        data = recovery_data(lens, context.source, limit=context.limit, seed=context.seed)
        watch = {"on_progress": context.on_progress, "on_phase": context.on_phase}
        sizes = {"max_tokens": context.max_tokens, "batch_size": context.batch_size or 8, "resume": context.resume}
        found = recover(lens, data, spec, full=context.lens, **sizes, **watch)
        control = Control(cuts=CUTS, store=context.store, **sizes)
        return recovery_table(found, data, context.lens, control, **watch)


def recovers(table: RecoveryTable, off: str = "none") -> Finding:
    """The verdict on a recovery and its controls."""
    from headlens.pruning.recovery_table import CUT, FULL, RECOVERED

    (full,), (before,), (after,) = (table.values(name) for name in (FULL, CUT, RECOVERED))
    lost = before - full
    if lost <= 0:
        raise NotMeasurable(
            f"the cut costs nothing here (loss {full:.4g} full, {before:.4g} cut), so nothing can come back"
        )
    (full_row,), (cut_row,), (recovered_row,) = (table.named(name) for name in (FULL, CUT, RECOVERED))
    back = cut_row.outcome.against(recovered_row.outcome, table.metric)
    gone = cut_row.outcome.against(full_row.outcome, table.metric)
    value, (low, high) = back.delta / gone.delta, share_interval(back, gone)
    verdict = against(low, high, PART)
    names = tuple(dict.fromkeys(row.name for row in table.rows))
    means = tuple(sum(table.values(name)) / len(table.values(name)) for name in names)
    sentence = (
        f"Half of the heads cut costs {lost:.3g} nats; {percent(value)} of it comes back ({full:.4g} full, "
        f"{before:.4g} "
        f"cut, {after:.4g} trained). {table.control()}"
    )
    figure = Figure("bars", "model", f"{table.metric} (nats)", (Series("held-out half", names, means),))
    again = Try("Cut and recover", "pages/prune.py", {"off": off, "cut_which": "switches"})
    return Finding(verdict, value, low, high, "share of the lost loss", sentence, figure, again)
