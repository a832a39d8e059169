"""Claims about training with fewer or shared heads, from stored runs of the lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headlens.claims.base import (
    Claim,
    Figure,
    Finding,
    NotMeasurable,
    Published,
    Series,
    Try,
    Verdict,
)
from headlens.lab.language_results import SHARINGS, cells, difference, sharing
from headlens.lab.shipped import BITS, LANGUAGE, SHARING, made_by, shipped_runs, shipped_table
from headlens.lab.statistics import paired, rate

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.lab.results import RunResult

LAB = Try("Open the lab", "pages/lab.py")
NEAR = 0.05
"""A gap of so many nats a token is called no loss of quality."""


class ScratchWorse(Claim):
    """The lab's runs: the same small number of heads, learnt from scratch or kept of many."""

    name = "scratch-worse"
    why = "It decides whether one should have trained with few heads from the start: the heart of the question."
    rule = (
        "Stored runs of the lab's small language models, seed by seed, at the fewest heads: gap to the best possible "
        "loss from scratch, less that of pruning at 80 % of the same steps; 95 % t interval over seeds. Where only the "
        "bit task has been run: success rate of pruned models less that from scratch, from exact intervals. Holds if "
        "all of the interval is above 0, fails if all below, else mixed. It is about the lab's models, not this one."
    )
    published = Published(
        "Same structure from scratch 0.01 to 0.50 BLEU worse than pruned (single runs); for convolutional networks "
        "Liu et al. 2019 find the contrary",
        "Voita et al. 2019, Table 2; Liu et al. 2019",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only reads."""
        return 0

    def check(self, context: Context) -> Finding:  # noqa: ARG002
        """See the rule."""
        table = shipped_table(LANGUAGE)
        if table is not None and table["rows"]:
            return scratch_worse(table["rows"], made_by(table))
        runs = shipped_runs(BITS)
        if runs is not None and runs.runs:
            return scratch_worse_bits(runs.runs, f"made on {runs.made} by `{runs.command}`")
        raise NotMeasurable(
            "no runs are stored; `python benchmarks/lab_language.py` or `headlens lab --heads 4,8,16 --seeds 12` "
            "make them"
        )


def scratch_worse(rows: Sequence[dict[str, Any]], made: str) -> Finding:
    """The verdict on rows of the language-model runs."""
    found = {(cell.arm, cell.heads): cell for cell in cells(rows)}
    sizes = sorted(heads for arm, heads in found if arm == "scratch" and ("pruned-80", heads) in found)
    if not sizes:
        raise NotMeasurable("the stored runs compare no pruned model with one from scratch")
    differences = {heads: difference(found["scratch", heads], found["pruned-80", heads]) for heads in sizes}
    shown = differences[sizes[0]]
    sentence = (
        f"Lab models with {sizes[0]} heads a layer: from scratch the gap is {shown.mean:+.3g} nats a token larger than "
        f"after pruning, same steps ({shown.pairs} seeds; {made})."
    )
    series = Series(
        "from scratch less pruned",
        tuple(str(heads) for heads in sizes),
        tuple(differences[heads].mean for heads in sizes),
        tuple(differences[heads].low for heads in sizes),
        tuple(differences[heads].high for heads in sizes),
    )
    figure = Figure("bars", "heads a layer", "difference (nats a token)", (series,), 0.0)
    verdict = _above_zero(shown.low, shown.high)
    return Finding(verdict, shown.mean, shown.low, shown.high, "nats a token", sentence, figure, LAB)


def scratch_worse_bits(runs: Sequence[RunResult], made: str) -> Finding:
    """The verdict on runs of the bit task: the largest group that differs in heads and seed alone."""
    groups: dict[Any, list[RunResult]] = {}
    for run in runs:
        if run.spec.after is None:
            alike = (run.spec.task, replace(run.spec.training, seed=0), replace(run.spec.architecture, heads=1))
            groups.setdefault(alike, []).append(run)
    group = max(groups.values(), key=len, default=[])
    small = min((run.spec.prune_to for run in group if run.spec.prune_to), default=0)
    larger = min((run.spec.architecture.heads for run in group if run.spec.prune_to == small), default=0)
    scratch = [run.succeeded for run in group if run.spec.architecture.heads == small]
    pruned = [
        bool(run.pruned_succeeded)
        for run in group
        if run.spec.architecture.heads == larger and run.spec.prune_to == small
    ]
    if len(scratch) < 2 or len(pruned) < 2:
        raise NotMeasurable("the stored runs of the bit task compare no pruned model with one from scratch")
    one, other = rate(pruned), rate(scratch)
    value, low, high = one.value - other.value, one.low - other.high, one.high - other.low
    sentence = (
        f"Lab models on the bit task: {larger} heads pruned to {small} still know it in {one.words()}, {small} heads "
        "from "
        f"scratch learn it in {other.words()} ({made})."
    )
    series = Series(
        "success", ("pruned", "from scratch"), (one.value, other.value), (one.low, other.low), (one.high, other.high)
    )
    figure = Figure("bars", f"{small} heads", "share of runs that succeed", (series,))
    return Finding(_above_zero(low, high), value, low, high, "difference of success rates", sentence, figure, LAB)


def _above_zero(low: float, high: float) -> Verdict:
    return "holds" if low > 0 else "fails" if high < 0 else "mixed"


class SharingKeeps(Claim):
    """The lab's runs with shared keys and values."""

    name = "sharing-keeps"
    why = "Products save the cache by sharing keys and values, not by removing heads; this says whether that is free."
    rule = (
        "Stored runs of the lab's small language models, seed by seed: gap of grouped-query attention less that of "
        "full "
        f"multi-head attention, 95 % t interval over seeds. Holds if all of it is below {NEAR} nats a token, fails if "
        "all above, else mixed. It is about the lab's models, not this one."
    )
    published = Published(
        "GQA-8 scores 47.1 against 47.2 for full heads at 5.4 times the speed, after uptraining; trained from "
        "scratch at "
        "equal size, fewer KV heads are worse (MMLU 41.2 against 45.2)",
        "Ainslie et al. 2023; DeepSeek-V2 Table 8",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only reads."""
        return 0

    def check(self, context: Context) -> Finding:  # noqa: ARG002
        """See the rule."""
        table = shipped_table(SHARING)
        if table is None or not table["rows"]:
            raise NotMeasurable("no runs are stored; `python benchmarks/lab_language.py` makes them")
        return sharing_keeps(table["rows"], made_by(table))


def sharing_keeps(rows: Sequence[dict[str, Any]], made: str) -> Finding:
    """The verdict on rows of the runs with shared keys and values."""
    gaps = {name: {row["seed"]: float(row["gap"]) for row in rows if row["arm"] == name} for name in SHARINGS}
    seeds = sorted(set(gaps["mha"]) & set(gaps["gqa"]))
    if not seeds:
        raise NotMeasurable("the stored runs compare no grouped-query model with one of full multi-head attention")
    found = paired([gaps["gqa"][seed] for seed in seeds], [gaps["mha"][seed] for seed in seeds])
    shown = sharing(rows)
    mha = next(one for one in shown if one.sharing == "mha")
    gqa = next(one for one in shown if one.sharing == "gqa")
    verdict: Verdict = "holds" if found.high < NEAR else "fails" if found.low > NEAR else "mixed"
    sentence = (
        f"Lab models: with grouped-query attention the gap is {found.mean:+.3g} nats a token larger than with full "
        "heads "
        f"at a cache {mha.kv_bytes / gqa.kv_bytes:.0f} times smaller ({found.pairs} seeds; {made})."
    )
    series = Series("gap to the best possible loss", tuple(o.sharing for o in shown), tuple(o.gap.value for o in shown))
    figure = Figure("bars", "keys and values", "gap (nats a token)", (series,))
    return Finding(verdict, found.mean, found.low, found.high, "nats a token", sentence, figure, LAB)
