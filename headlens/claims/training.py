"""Claims about training with fewer or shared heads, from stored runs of the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict
from headlens.lab.language_results import SHARINGS, Shared, cells, difference, sharing
from headlens.lab.shipped import BITS, LANGUAGE, SHARING, made_by, shipped_runs, shipped_table
from headlens.lab.statistics import Difference, paired, rate
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.lab.results import RunResult

Row = dict[str, Any]
EXPERIMENT = Try("Run it in the lab", "pages/lab.py", {"lab_section": "Experiment"})
ON_LANGUAGE = Try("See the runs", "pages/lab.py", {"lab_section": "Language model"})
SHARED = Try("See the runs", "pages/lab.py", {"lab_section": "Sharing"})
NEAR = 0.05
"""A gap of so many nats a token is called no loss of quality."""


class ScratchWorse(Claim):
    """The lab's runs: the same small number of heads, learnt from scratch or kept of many."""

    name = "scratch-worse"
    of_the_lab = True
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


def scratch_worse(rows: Sequence[Row], made: str) -> Finding:
    """The verdict on rows of the language-model runs."""
    found = {(cell.arm, cell.heads): cell for cell in cells(rows)}
    sizes = sorted(heads for arm, heads in found if arm == "scratch" and ("pruned-80", heads) in found)
    if not sizes:
        raise NotMeasurable("the stored runs compare no pruned model with one from scratch")
    differences = {heads: difference(found["scratch", heads], found["pruned-80", heads]) for heads in sizes}
    shown = differences[sizes[0]]
    sentence = (
        f"Lab models with {sizes[0]} head{'s' if sizes[0] > 1 else ''} a layer: from scratch the gap is "
        f"{abs(shown.mean):.3g} nats a token {'larger' if shown.mean > 0 else 'smaller'} than after pruning, same "
        f"steps ({shown.pairs} seeds; {made})."
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
    return Finding(verdict, shown.mean, shown.low, shown.high, "nats a token", sentence, figure, ON_LANGUAGE)


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
    return Finding(
        _above_zero(low, high), value, low, high, "difference of success rates", sentence, figure, EXPERIMENT
    )


def _above_zero(low: float, high: float) -> Verdict:
    return "holds" if low > 0 else "fails" if high < 0 else "mixed"


class SharingKeeps(Claim):
    """The lab's runs with shared keys and values."""

    name = "sharing-keeps"
    of_the_lab = True
    why = "Products save the cache by sharing keys and values, not by removing heads; this says whether that is free."
    rule = (
        "Stored runs of the lab's small language models, seed by seed, 95 % t intervals over seeds. The number: gap to "
        "the best possible loss of grouped-query attention less that of full multi-head attention. Holds if all of it "
        f"is below {NEAR} nats a token and removing heads down to the same cache (pruned at 80 % of the steps, then "
        "trained on) has a gap that is larger than that of sharing, with all of its interval; fails if sharing costs "
        f"more than {NEAR} with all of its interval, or removing is better with all of its interval; else mixed. It is "
        "about the lab's models, not this one."
    )
    published = Published(
        "GQA-8 scores 47.1 against 47.2 for full heads at 5.4 times the speed, after uptraining; trained from "
        "scratch at equal size, fewer KV heads are worse (MMLU 41.2 against 45.2), and MLA is not (59.0 against 57.5)",
        "Ainslie et al. 2023; DeepSeek-V2 Tables 8 and 9",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only reads."""
        return 0

    def check(self, context: Context) -> Finding:  # noqa: ARG002
        """See the rule."""
        table, removed = shipped_table(SHARING), shipped_table(LANGUAGE)
        if table is None or not table["rows"]:
            raise NotMeasurable("no runs are stored; `python benchmarks/lab_language.py` makes them")
        return sharing_keeps(table["rows"], made_by(table), () if removed is None else removed["rows"])


def sharing_keeps(rows: Sequence[Row], made: str, removed: Sequence[Row] = ()) -> Finding:
    """The verdict on rows of the runs with shared keys and values, and on those with heads removed."""
    gaps = {name: _by_seed(rows, name) for name in SHARINGS}
    found = _paired(gaps["gqa"], gaps["mha"])
    if found is None:
        raise NotMeasurable("the stored runs compare no grouped-query model with one of full multi-head attention")
    shown = {one.sharing: one for one in sharing(rows)}
    times = shown["mha"].kv_bytes / shown["gqa"].kv_bytes
    most = max((row["heads"] for row in removed), default=0)
    fewer = _paired(_by_seed(removed, "pruned-80", round(most / times)), gaps["gqa"])
    verdict: Verdict = "mixed"
    if found.low > NEAR or (fewer is not None and fewer.high < 0):
        verdict = "fails"
    elif found.high < NEAR and fewer is not None and fewer.low > 0:
        verdict = "holds"
    sentence = (
        f"Lab models: with grouped-query attention the gap is {found.mean:+.3g} nats a token against full heads, at a "
        f"cache {times:.0f} times smaller ({found.pairs} seeds); {_others(shown)}{_removed(fewer)} ({made})."
    )
    series = Series(
        "gap to the best possible loss",
        tuple(shown),
        tuple(one.gap.value for one in shown.values()),
        tuple(one.gap.value - Z_95 * one.gap.sem for one in shown.values()),
        tuple(one.gap.value + Z_95 * one.gap.sem for one in shown.values()),
    )
    figure = Figure("bars", "keys and values", "gap (nats a token)", (series,))
    return Finding(verdict, found.mean, found.low, found.high, "nats a token", sentence, figure, SHARED)


def _by_seed(rows: Sequence[Row], arm: str, heads: int | None = None) -> dict[int, float]:
    chosen = [row for row in rows if row["arm"] == arm and heads in (None, row.get("heads"))]
    return {int(row["seed"]): float(row["gap"]) for row in chosen}


def _paired(first: Mapping[int, float], second: Mapping[int, float]) -> Difference | None:
    """First less second, seed by seed; None without a common seed."""
    seeds = sorted(set(first) & set(second))
    return paired([first[seed] for seed in seeds], [second[seed] for seed in seeds]) if seeds else None


def _others(shown: Mapping[str, Shared]) -> str:
    """The ways of sharing that the rule does not look at."""
    full = shown["mha"]
    parts = [
        f"{name.upper()} {one.gap.value - full.gap.value:+.3g} at {full.kv_bytes / one.kv_bytes:.3g} times"
        for name, one in shown.items()
        if name not in ("mha", "gqa")
    ]
    return f"{', '.join(parts)}; " if parts else ""


def _removed(fewer: Difference | None) -> str:
    if fewer is None:
        return "no stored run says what removing heads down to the same cache costs"
    return (
        f"removing heads down to the same cache is {abs(fewer.mean):.3g} {'worse' if fewer.mean > 0 else 'better'} "
        f"than sharing ({fewer.low:+.3g} to {fewer.high:+.3g})"
    )
