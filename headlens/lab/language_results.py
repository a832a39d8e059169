"""What the language-model comparison came to: means over seeds, and sentences that follow them. No torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headlens.lab.statistics import Difference, Mean, mean, paired

ARMS = {
    "scratch": "from scratch, same steps",
    "scratch-flops": "from scratch, same FLOPs as pruning at 80 %",
    "pruned-80": "pruned at 80 % of the steps, recovered",
    "random-80": "cut to random heads at 80 %, recovered",
    "pruned-50": "pruned at 50 % of the steps, recovered",
    "random-50": "cut to random heads at 50 %, recovered",
    "pruned-only": "pruned at the end, not recovered",
}
"""Arms of the table, by name."""
COMPARED = ("pruned-80", "pruned-50", "random-80", "random-50", "scratch-flops")
SHARINGS = {
    "mha": "MHA: keys and values for each head",
    "gqa": "GQA: 2 KV heads",
    "mqa": "MQA: 1 KV head",
    "mla": "MLA: a shared latent vector",
}


@dataclass(frozen=True)
class Cell:
    """One arm at one number of heads.

    Attributes:
        arm: a key of :data:`ARMS`, or ``large``.
        heads: in each layer.
        seeds: which have ended.
        gaps: nats a token above the best possible loss, one a seed.
        mean: of the gaps.
        flops: of the whole training.
    """

    arm: str
    heads: int
    seeds: tuple[int, ...]
    gaps: tuple[float, ...]
    mean: Mean
    flops: float


def cells(rows: Sequence[dict[str, Any]]) -> list[Cell]:
    """Rows of ``language.json`` by arm and number of heads, in the order of their first appearance."""
    found = []
    for arm, heads in dict.fromkeys((row["arm"], row["heads"]) for row in rows):
        group = [row for row in rows if (row["arm"], row["heads"]) == (arm, heads)]
        gaps = tuple(float(row["gap"]) for row in group)
        seeds = tuple(int(row["seed"]) for row in group)
        found.append(Cell(arm, heads, seeds, gaps, mean(gaps), float(group[0]["flops"])))
    return found


def difference(first: Cell, second: Cell) -> Difference:
    """First minus second, seed by seed: both have read the same stories in the same order."""
    common = [seed for seed in first.seeds if seed in second.seeds]
    return paired(
        [first.gaps[first.seeds.index(seed)] for seed in common],
        [second.gaps[second.seeds.index(seed)] for seed in common],
    )


def sentences(found: Sequence[Cell]) -> list[str]:
    """One a number of heads: how each way compares with scratch, with its interval."""
    said = []
    by_name = {(cell.arm, cell.heads): cell for cell in found}
    for heads in sorted({cell.heads for cell in found if cell.arm == "scratch"}, reverse=True):
        scratch = by_name["scratch", heads]
        parts = [
            f"{ARMS[arm]} {_compared(difference(by_name[arm, heads], scratch))}"
            for arm in COMPARED
            if (arm, heads) in by_name
        ]
        plural = "s" if heads > 1 else ""
        start = f"{heads} head{plural} a layer: from scratch the gap is {_with_error(scratch.mean)} nats a token"
        said.append(f"{start}. Against that, {'; '.join(parts)}." if parts else f"{start}.")
    return said


def _with_error(found: Mean) -> str:
    return f"{found.value:.3f}" + ("" if math.isnan(found.sem) else f" ± {found.sem:.3f}")


def _compared(found: Difference) -> str:
    if math.isnan(found.low):
        return f"{found.mean:+.3f} (one seed, no interval)"
    word = "better" if found.high < 0 else "worse" if found.low > 0 else "not decided"
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f}: {word})"


@dataclass(frozen=True)
class Shared:
    """One way of sharing keys and values.

    Attributes:
        sharing: a key of :data:`SHARINGS`.
        gap, prunable: mean over seeds: gap in nats a token, share of query heads that can go within 1 % of the loss.
        kv_bytes: that a token leaves in a 16-bit cache.
        parameters: of the model.
        seeds: how many.
    """

    sharing: str
    gap: Mean
    prunable: Mean
    kv_bytes: int
    parameters: int
    seeds: int


def sharing(rows: Sequence[dict[str, Any]]) -> list[Shared]:
    """Rows of ``sharing.json`` by way of sharing."""
    found = []
    for name in dict.fromkeys(row["arm"] for row in rows):
        group = [row for row in rows if row["arm"] == name]
        found.append(
            Shared(
                name,
                mean([float(row["gap"]) for row in group]),
                mean([float(row["prunable"]) for row in group]),
                int(group[0]["kv_bytes"]),
                int(group[0]["parameters"]),
                len(group),
            )
        )
    return found


def sharing_sentences(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each way of sharing against MHA, seed by seed."""
    by_name = {s.sharing: s for s in sharing(rows)}
    gaps = {name: {row["seed"]: float(row["gap"]) for row in rows if row["arm"] == name} for name in by_name}
    if "mha" not in by_name:
        return []
    said = []
    for name, each in by_name.items():
        if name == "mha":
            continue
        common = sorted(set(gaps["mha"]) & set(gaps[name]))
        found = paired([gaps[name][s] for s in common], [gaps["mha"][s] for s in common])
        times = by_name["mha"].kv_bytes / each.kv_bytes
        said.append(
            f"{name.upper()}: a cache {times:.0f} times smaller, gap {_compared(found)} nats a token against MHA; "
            f"{each.prunable.value:.0%} of its query heads can go within 1 % of the loss "
            f"(MHA: {by_name['mha'].prunable.value:.0%})."
        )
    return said
