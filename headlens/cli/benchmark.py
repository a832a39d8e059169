"""``headlens benchmark``: latency, size and memory, full against masked and cut."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_model, open_lens
from headlens.cli.options import AsJson, Device, Dtype, Model, NoResume, Seed
from headlens.cli.output import emit, say, table
from headlens.cli.progress import Reporter, computing
from headlens.errors import HeadlensError, ModelError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.pruning.benchmark import BenchmarkSpec, Variant
    from headlens.pruning.memory_probe import Memory

NAME = "benchmark"

Second = Annotated[
    str | None, typer.Argument(metavar="[MODEL2]", help="What to compare with, for example the folder of its cut.")
]


def run(
    model: Model,
    model2: Second = None,
    off: Annotated[
        str | None,
        typer.Option("--off", metavar="HEADS", help="Heads to mask in MODEL. Default: those that MODEL2 lacks."),
    ] = None,
    batch_sizes: Annotated[str, typer.Option("--batch-sizes", metavar="LIST", help="Sequences at a time.")] = "1,4,16",
    repeats: Annotated[int, typer.Option("--repeats", min=3, metavar="N", help="Interleaved rounds.")] = 10,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=1, metavar="N", help="Tokens read.")] = 64,
    new_tokens: Annotated[int, typer.Option("--new-tokens", min=1, metavar="N", help="Tokens written.")] = 16,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Measure peak memory too, each in a process of its own.")
    ] = True,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,  # noqa: ARG001 - times are always taken afresh
    as_json: AsJson = False,
) -> None:
    """Measure speed and size: MODEL, the same with heads masked, and MODEL2.

    Rounds are interleaved and the full model runs twice in each, so that a difference can be told from noise.
    """
    check_model(model)
    if model2 is not None:
        check_model(model2)
    with computing() as reporter:
        from headlens.pruning.benchmark import BenchmarkSpec, measure, sizes, variants

        spec = BenchmarkSpec(_numbers(batch_sizes), repeats, prompt_tokens, new_tokens, seed)
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype)
        other = None if model2 is None else open_lens(model2, device, dtype)
        masked: HeadSet | None = None if off is None else lens.topology.parse(off)
        found = variants(lens, other, masked)
        names = {one.name: (model if one.lens is lens else model2 or model) for one in found}
        reporter.phase("timing")
        timings = measure(found, spec, on_progress=reporter)
        probes = _memory(found, names, spec, device, dtype, reporter) if memory else {}
        measured = {
            one.name: sizes(one, bytes_on_disk=_disk(names[one.name]), memory=probes.get(one.name))
            for one in found
            if one.name != "full again"
        }
        from headlens.pruning.benchmark_notes import describe

        result = {**_facts(lens, other, found, spec, model, model2), **describe(timings, measured)}
    emit(result, as_json, lambda console: _show(console, result))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise HeadlensError(f"--batch-sizes {text!r}: give whole numbers, for example 1,4,16") from error


def _disk(name: str) -> int | None:
    """Bytes of a model's weight files; None where they are not to be found any more."""
    from headlens.models.folders import weight_files
    from headlens.models.locating import locate

    try:
        return sum(path.stat().st_size for path in weight_files(locate(name).path))
    except (ModelError, OSError):
        return None


def _memory(
    found: list[Variant],
    names: Mapping[str, str],
    spec: BenchmarkSpec,
    device: str,
    dtype: str | None,
    reporter: Reporter,
) -> dict[str, Memory]:
    from headlens.pruning.memory_probe import MemoryAsk, peak_memory

    probed = {}
    wanted = [one for one in found if one.name != "full again"]
    for number, one in enumerate(wanted):
        reporter.phase(f"memory of the {one.name} model")
        off = one.lens.topology.format(one.off)
        ask = MemoryAsk(names[one.name], off, device, dtype, max(spec.batch_sizes), spec.prompt, spec.new)
        try:
            probed[one.name] = peak_memory(ask, lambda at=number: reporter(at, len(wanted)))
        except HeadlensError as error:  # the times are taken; they are worth showing without this
            say(f"note: {error}")
    return probed


def _facts(
    lens: Lens, other: Lens | None, found: list[Variant], spec: BenchmarkSpec, model: str, model2: str | None
) -> dict[str, Any]:
    """What was measured and where."""
    import torch

    masked = next((one.off for one in found if one.name == "masked"), None)
    return {
        "model": model,
        "model2": model2,
        "masked": None if masked is None else lens.topology.format(masked),
        "heads": len(lens.topology.heads()),
        "heads2": None if other is None else len(other.topology.heads()),
        "task": lens.task,
        "device": str(lens.device),
        "device_name": torch.cuda.get_device_name(lens.device) if lens.device.type == "cuda" else platform.machine(),
        "dtype": str(lens.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "repeats": spec.repeats,
        "prompt_tokens": spec.prompt,
        "new_tokens": spec.new,
        "seed": spec.seed,
    }


def _show(console: Console, result: Mapping[str, Any]) -> None:
    columns = ("model", "parameters", "on disk", "KV bytes a token", "peak memory")
    rows = [
        (
            one["name"],
            one["parameters"],
            _mega(one["bytes"]),
            one["kv_bytes_per_token"],
            _mega(one["gpu_peak_memory_bytes"] or one["peak_memory_bytes"]),
        )
        for one in result["variants"]
    ]
    table(console, columns, rows, numbers=columns[1:])
    columns = ("phase", "batch", "model", "median ms", "quartiles", "tokens/s", "change", "95 % interval", "")
    rows = [_row(one) for one in result["latency"]]
    table(console, columns, rows, numbers=columns[1:2] + columns[3:8])
    for note in result["notes"]:
        console.print(note, markup=False)
    console.print(
        f"{result['repeats']} rounds, {result['prompt_tokens']} tokens read, {result['new_tokens']} written, "
        f"{result['dtype']} on {result['device_name']}, {result['threads']} threads. Decode: one token of each "
        f"sequence. {result['rule'].capitalize()}.",
        markup=False,
    )


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    change, span, word = None, None, ""
    if one["change"] is not None:
        change = f"{100 * one['change']:+.1f} %"
        span = f"{100 * one['change_low']:+.1f} to {100 * one['change_high']:+.1f}"
        word = {None: "the noise", True: "within noise", False: "faster" if one["change"] < 0 else "slower"}[
            one["within_noise"]
        ]
    times = f"{1e3 * one['low_seconds']:.4g} to {1e3 * one['high_seconds']:.4g}"
    median = 1e3 * one["median_seconds"]
    return (one["phase"], one["batch"], one["variant"], median, times, one["tokens_per_second"], change, span, word)


def _mega(number: int | None) -> str | None:
    return None if number is None else f"{number / 1e6:,.1f} MB"
