"""Measures the numbers of the presenter's story, so that nothing has to be computed on stage.

``python benchmarks/story.py`` runs this on the default model and writes ``assets/interview/story.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

import headlens
from headlens.heads import Head, HeadSet
from headlens.interview.quantities import live
from headlens.interview.shape import shape_of

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.live import LiveEvaluator
    from headlens.roles.blocks import Blocks
    from headlens.store import Store

FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
SEEDS = 5
SMALL = 0.01
"""Effects below this are counted as small, nats a token."""
COPYING = (0.01, 0.03)
"""Shares of the heads, the strongest induction heads first, that are compared with random ones (those of Crosbie and
Shutova 2024)."""


def prepare(
    lens: Lens,
    data: str,
    *,
    limit: int | None,
    seed: int = 0,
    store: Store | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Everything that the story shows, JSON-ready, with its provenance.

    Args:
        lens: a decoder with one site.
        data: name of a built-in set; heads are scored on its score half, everything else is measured on the other.
        limit: examples of each half; None takes all.
        seed: draws random cuts and random blocks.
        store: keeps the exact sweep's finished layers.
        on_progress: called with (what, done, total).
    """
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.live import LiveEvaluator

    def report(what: str) -> Callable[[int, int], None]:
        return lambda done, total: on_progress(what, done, total) if on_progress else None

    halves = {
        split: encode(lens, load_data(data, task=lens.task, split=split, limit=limit))
        for split in ("score", "held-out")
    }
    heads = list(lens.topology.heads())
    single = _single(lens, halves["score"], seed, store, report("exact scores"))
    effects, signed = single.pop("effects"), single.pop("gradient")
    held_out = LiveEvaluator(lens, halves["held-out"])
    lowest = [heads[i] for i in np.argsort(effects, kind="stable")]
    by_gradient = [heads[i] for i in np.argsort(np.abs(signed), kind="stable")]
    orders = {"exact": [lowest], "gradient": [by_gradient], "random": _random_orders(heads, seed)}
    together = {
        "fractions": list(FRACTIONS),
        "heads_off": [round(fraction * len(heads)) for fraction in FRACTIONS],
        "series": {name: _curves(held_out, each, report(f"curve: {name}")) for name, each in orders.items()},
        "sum": _sum_against_joint(lens, halves["score"], lowest, effects),
    }
    return {
        "model": {"name": lens.name, "title": lens.title, "heads": len(heads), "parameters": lens.parameters},
        "single": single,
        "together": together,
        "copying": _copying(lens, held_out, seed, report("copying")),
        "arithmetic": _arithmetic(lens),
        "provenance": _provenance(lens, halves, data, seed),
    }


def _single(
    lens: Lens, data: EncodedData, seed: int, store: Store | None, on_progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Exact effects of single heads on the score half, and what they say."""
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.metrics import METRICS
    from headlens.reliability import spearman

    request = Request(METRICS["loss"], data, seed=seed, store=store, on_progress=on_progress)
    exact = score(lens, METHODS["ablation"], request)
    gradient = score(lens, METHODS["gradient"], replace(request, signed=False, on_progress=None))
    magnitude = score(lens, METHODS["magnitude"], Request(METRICS["loss"], None))
    effects, sem = exact.flat(), np.array([exact.sem[s][layer, head] for s, layer, head in exact.columns()])
    labels = [lens.topology.label(*column) for column in exact.columns()]
    worst = np.argsort(-effects)[:3]
    return {
        "effects": effects,
        "gradient": gradient.flat(),
        "grid": [[round(float(x), 5) for x in row] for row in exact.array],
        "small": int((np.abs(effects) < SMALL).sum()),
        "harmful": int((effects < -SMALL).sum()),
        "threshold": SMALL,
        "worst": [{"head": labels[i], "effect": float(effects[i]), "sem": float(sem[i])} for i in worst],
        "baseline": exact.provenance["baseline"],
        "reliability": exact.reliability,
        "spearman_gradient": spearman(np.abs(effects), gradient.flat()),
        "spearman_magnitude": spearman(np.abs(effects), magnitude.flat()),
        "examples": len(data),
        "tokens": data.tokens,
    }


def _random_orders(heads: Sequence[Head], seed: int) -> list[list[Head]]:
    return [[heads[i] for i in np.random.default_rng([seed, k]).permutation(len(heads))] for k in range(SEEDS)]


def _curves(
    held_out: LiveEvaluator, orders: Sequence[Sequence[Head]], on_progress: Callable[[int, int], None]
) -> list[list[dict[str, float]]]:
    """Loss of every order at every fraction, with the standard error of its change."""
    from headlens.metrics import METRICS

    found = []
    for order in orders:
        points = []
        for fraction in FRACTIONS:
            off = HeadSet.of(order[: round(fraction * len(order))])
            loss = held_out.evaluate(off, metric=METRICS["loss"]).main
            points.append({"loss": loss.value, "change": loss.delta, "sem": loss.delta_sem if len(off) else 0.0})
            on_progress(len(found) * len(FRACTIONS) + len(points), len(orders) * len(FRACTIONS))
        found.append(points)
    return found


def _sum_against_joint(lens: Lens, data: EncodedData, lowest: Sequence[Head], effects: np.ndarray) -> dict[str, float]:
    """The lowest fifth of the heads, together and as a sum of single effects, on the data that gave these."""
    from headlens.evaluate import evaluate
    from headlens.metrics import METRICS

    count = round(0.2 * len(lowest))
    joint = evaluate(lens, data, HeadSet.of(lowest[:count]), metric=METRICS["loss"]).main
    return {"heads": count, "sum": float(np.sort(effects)[:count].sum()), "joint": joint.delta, "sem": joint.delta_sem}


def _copying(lens: Lens, held_out: LiveEvaluator, seed: int, on_progress: Callable[[int, int], None]) -> dict[str, Any]:
    """What the strongest induction heads are worth on text, and on a random block of tokens that is repeated.

    Heads are chosen on one draw of random blocks and judged on another.
    """
    from headlens.live import LiveEvaluator
    from headlens.metrics import METRICS
    from headlens.roles.blocks import repeated_blocks
    from headlens.roles.score import roles

    scores = roles(lens, None, seed=seed).scores["induction"]
    site = lens.topology.sites[0].name
    heads = list(lens.topology.heads())
    induction = np.array([scores[site][head.layer, head.head] for head in heads])
    blocks = repeated_blocks(lens, 50, 2, seed=seed + 1)
    assert blocks is not None
    copies = LiveEvaluator(lens, second_copies(blocks))
    rows, done = [], 0
    for share in COPYING:
        count = max(1, round(share * len(heads)))
        chosen = {"induction": [HeadSet.of(heads[i] for i in np.argsort(-induction)[:count])]}
        chosen["random"] = [HeadSet.of(order[:count]) for order in _random_orders(heads, seed)]
        row: dict[str, Any] = {"share": share, "heads": count, "labels": lens.topology.format(chosen["induction"][0])}
        for name, sets in chosen.items():
            figures: dict[str, list[float]] = {"text": [], "text_sem": [], "copy": [], "copy_sem": [], "accuracy": []}
            for off in sets:
                text = held_out.evaluate(off, metric=METRICS["loss"]).main
                copied = copies.evaluate(off, metric=METRICS["loss"])
                figures["text"].append(text.delta)
                figures["text_sem"].append(text.delta_sem)
                figures["copy"].append(copied.main.delta)
                figures["copy_sem"].append(copied.main.delta_sem)
                figures["accuracy"].append(copied.measured["accuracy"].value)
                done += 1
                on_progress(done, len(COPYING) * (1 + SEEDS))
            row[name] = figures
        rows.append(row)
    whole = copies.evaluate(HeadSet(), metric=METRICS["loss"])
    return {
        "loss": whole.main.baseline,
        "accuracy": whole.measured["accuracy"].baseline,
        "examples": whole.examples,
        "tokens": whole.tokens,
        "rows": rows,
    }


def second_copies(blocks: Blocks) -> EncodedData:
    """Repeated blocks as text to predict: only tokens of the second copy count, from its second token on."""
    import torch

    from headlens.data.encode import IGNORE

    repeat = blocks.repeat["encoder"]
    examples = []
    for example in blocks.data.examples:
        ids = example.inputs["input_ids"]
        targets = torch.full_like(ids, IGNORE)
        first = repeat.front + repeat.block
        targets[first:-1] = ids[first + 1 :]
        examples.append(replace(example, targets=targets))
    return replace(blocks.data, examples=tuple(examples))


def _arithmetic(lens: Lens) -> dict[str, Any]:
    shape = shape_of(lens)
    names = ("kv-bytes-per-token", "kv-bytes-if-every-head", "kv-saved-by-query-head", "kv-saved-by-groups")
    found = {name: live(name, shape) for name in names}
    found["attention-share"] = live("attention-share", shape)
    found["half-attention"] = live("attention-share", shape, {"part": 0.5})
    return {name: {"value": each.value, "unit": each.unit, "sum": each.sum} for name, each in found.items()}


def _provenance(lens: Lens, halves: dict[str, EncodedData], data: str, seed: int) -> dict[str, Any]:
    return {
        "command": f"python benchmarks/story.py --model {lens.name} --data {data}",
        "fingerprint": lens.fingerprint,
        "dtype": str(lens.dtype).removeprefix("torch."),
        "device": str(lens.device),
        "ablation": "zero",
        "data": data,
        "halves": {
            split: {"hash": each.hash, "examples": len(each), "tokens": each.tokens} for split, each in halves.items()
        },
        "seed": seed,
        "random_cuts": SEEDS,
        "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
        "versions": {"headlens": headlens.__version__, **{n: version(n) for n in ("torch", "transformers", "numpy")}},
    }
