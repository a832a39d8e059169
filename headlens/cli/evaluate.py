"""``headlens evaluate``: what switching heads off does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_data, check_model, load, open_lens
from headlens.cli.options import (
    MAX_TOKENS,
    Ablation,
    AsJson,
    BatchSize,
    Data,
    Device,
    DeviceMap,
    Dtype,
    Limit,
    MaxMemory,
    MaxTokens,
    Metric,
    Model,
    NoResume,
    Off,
    Seed,
    Split,
    Unit,
)
from headlens.cli.output import emit, table
from headlens.cli.progress import computing
from headlens.errors import HeadError, HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.bleu import BleuResult
    from headlens.cli.progress import Reporter
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.evaluate import Evaluation
    from headlens.heads import HeadSet
    from headlens.lens import Lens

NAME = "evaluate"
BLEU = "bleu"


def run(
    model: Model,
    off: Off = "none",
    data: Data = None,
    split: Split = None,
    live: Annotated[
        bool, typer.Option("--live", help="Measure on the small set that the app uses for toggles.")
    ] = False,
    metric: Metric = None,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
    dtype: Dtype = None,
    no_resume: NoResume = False,  # noqa: ARG001 - always computed afresh
    as_json: AsJson = False,
) -> None:
    """Measure a model with some heads off.

    Everything is measured with all heads on too, on the same examples (default: the held-out half of the data).
    """
    if live and (data or split or limit or max_tokens != MAX_TOKENS):
        raise HeadlensError("--live names the data by itself; leave out --data, --split, --limit and --max-tokens")
    check_model(model)
    check_metric(metric, ablation, live=live)
    check_data(data)
    with computing() as reporter:
        from headlens.evaluate import evaluate as measure
        from headlens.metrics import metric_for

        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        heads = parse_off(lens, off, whole_groups=unit == "kv")
        examples = None if live else load(lens, data, split, limit, seed, default_split="held-out")
        outputs = None
        if metric == BLEU and examples is not None:
            outputs = _bleu(lens, examples, heads, max_tokens, batch_size, reporter)
        encoded = _encode(lens, examples, max_tokens, seed)
        reporter.phase("measuring")
        found = measure(
            lens,
            encoded,
            heads,
            metric=metric_for(None if metric == BLEU else metric, lens.task),
            ablation=ablation,
            seed=seed,
            batch_size=batch_size or 8,
            on_progress=reporter,
        )
    result = found.to_json() if outputs is None else _with_bleu(found.to_json(), outputs)
    emit(result, as_json, lambda console: _show(console, result, found))


def _encode(lens: Lens, examples: DataSet | None, max_tokens: int, seed: int) -> EncodedData:
    """The examples as tensors; None means the live set."""
    from headlens.data.encode import encode
    from headlens.data.select import live_set

    return live_set(lens) if examples is None else encode(lens, examples, max_tokens=max_tokens, seed=seed)


def _bleu(
    lens: Lens, examples: DataSet, heads: HeadSet, max_tokens: int, batch_size: int | None, reporter: Reporter
) -> BleuResult:
    from headlens.bleu import bleu

    reporter.phase("generating")
    return bleu(lens, examples, heads, max_tokens=max_tokens, batch_size=batch_size or 16, on_progress=reporter)


def _with_bleu(result: dict[str, Any], outputs: BleuResult) -> dict[str, Any]:
    """The object of ``evaluate`` with BLEU as its metric; the other figures stay as they are."""
    main = {"metric": BLEU, "baseline": outputs.baseline, "value": outputs.value}
    return {**result, **main, "delta": outputs.value - outputs.baseline, "delta_sem": None}


def check_metric(name: str | None, ablation: str, *, live: bool) -> None:
    """What can be said of ``--metric`` before the model is known; raises HeadlensError."""
    from headlens.metrics import METRICS

    known = (*METRICS, BLEU)
    if name is not None and name not in known:
        raise HeadlensError(f"unknown metric {name!r}; choose one of {', '.join(known)}")
    if name == BLEU and ablation != "zero":
        raise HeadlensError(f"--ablation {ablation} is not supported for the metric bleu; use --ablation zero")
    if name == BLEU and live:
        raise HeadlensError("--live does not go with the metric bleu: the set is too small for it; leave out --live")


def parse_off(lens: Lens, text: str, *, whole_groups: bool = False) -> HeadSet:
    """HEADS of ``--off``; raises HeadError, with ``--unit kv`` also for a part of a KV group."""
    heads = lens.topology.parse(text)
    for (site, layer), labels in heads.by_layer().items() if whole_groups else ():
        shape = lens.topology.site(site).layers[layer]
        for group in {shape.kv_of[label] for label in labels}:
            if not set(shape.members(group)) <= set(labels):
                name = lens.topology.label(site, layer, group, "kv")
                raise HeadError(f"--unit kv: {text!r} has only a part of the KV group {name}; write {name}")
    return heads


def _show(console: Console, result: dict[str, Any], found: Evaluation) -> None:
    from headlens.metrics import METRICS

    rows: list[tuple[Any, ...]] = []
    if result["metric"] == BLEU:
        rows.append(("BLEU (greedy)", result["baseline"], result["value"], result["delta"], None, "0 to 100"))
    for name, measured in found.measured.items():
        metric = METRICS[name]
        row = (measured.baseline, measured.value, measured.delta, measured.delta_sem)
        rows.append((metric.title, *row, metric.unit))
        if name == "loss" and result["perplexity"] is not None and result["perplexity_baseline"] is not None:
            before, after = result["perplexity_baseline"], result["perplexity"]
            rows.append(("Perplexity", before, after, after - before, None, "e to the loss"))
    numbers = ("all on", "switched", "change", "std. error")
    table(console, ("", *numbers, "unit"), rows, numbers=numbers)
    console.print(
        f"Off: {found.off} ({found.ablation} ablation). Measured on {found.examples} examples, "
        f"{found.tokens:,} predictions; the standard error is over examples.",
        markup=False,
    )
