"""A row from what was measured: the model's facts, and what the heads that can go cost besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError
from headlens.families.published import kind_of
from headlens.families.row import Cut, Row
from headlens.models import catalogue

if TYPE_CHECKING:
    from headlens.claims.base import Finding
    from headlens.claims.context import Context
    from headlens.data.dataset import DataSet
    from headlens.lens import Lens

NUMBER_WORDS = "number-words"


def make_row(name: str, context: Context, findings: Mapping[str, Finding], seconds: Mapping[str, float]) -> Row:
    """The row of a model.

    Args:
        name: what it is called.
        context: what it was measured on.
        findings, seconds: by name of the measure.
    """
    lens = context.lens
    sites = {site.name for site in lens.topology.sites}
    grouped = any(layer.kv_heads < len(layer.heads) for site in lens.topology.sites for layer in site.layers)
    entry = catalogue.find(name)
    return Row(
        model=name,
        title=lens.title,
        family=str(getattr(lens.model.config, "model_type", "")) if entry is None else entry.family,
        task=lens.task,
        kind=kind_of(lens.model.config.model_type, lens.task, cross="cross" in sites, grouped=grouped),
        heads=context.heads,
        metric=context.metric.name,
        limit=context.small,
        unit=context.unit,
        data=context.source or context.score.name,
        texts=_texts(lens),
        score_examples=len(context.score),
        held_out_examples=len(context.held_out),
        tokens=sum(example.length for example in context.held_out.examples),
        findings=findings,
        cut=_cut(context, findings["removable"]),
        seconds=seconds,
    )


def _texts(lens: Lens) -> str:
    """Whether several sets are compared, or the halves of one."""
    from headlens.replication import sets_for

    try:
        chosen = sets_for(lens)
    except HeadlensError:
        return ""
    return "sets" if len({name for name, _ in chosen.values()}) > 1 else "halves"


def _cut(context: Context, found: Finding) -> Cut | None:
    """What else the removable heads cost."""
    off = None if found.again is None else found.again.state.get("off")
    if off is None:
        return None
    heads = context.lens.topology.parse(off)
    accuracy: dict[str, Any] = {}
    figure = context.results([heads])[heads].figure("accuracy")
    if figure is not None:
        accuracy = {"accuracy_baseline": figure.baseline, "accuracy": figure.value, "accuracy_sem": figure.delta_sem}
    return Cut(off, **accuracy, **_exact(context, off))


def _exact(context: Context, off: str) -> dict[str, Any]:
    """Whole number words that are right, written greedily."""
    if context.source != NUMBER_WORDS:
        return {}
    from headlens.bleu import bleu
    from headlens.data.select import load_data

    context.phase("writing numbers")
    data: DataSet = load_data(NUMBER_WORDS, task=context.lens.task, split="held-out")
    written = bleu(context.lens, data, context.lens.topology.parse(off), on_progress=context.on_progress)
    outputs = (written.outputs_baseline, written.outputs)
    right = [sum(o == e.target for o, e in zip(texts, data.examples, strict=True)) for texts in outputs]
    return {
        "exact_baseline": right[0] / len(data.examples),
        "exact": right[1] / len(data.examples),
        "outputs": len(data.examples),
    }
