"""The options that commands share: one spelling, one explanation. No torch here, since ``--help`` reads this file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from headlens.engine.choose import EngineName as EngineChoice

# The same choices as in headlens.switches, headlens.importance.score and headlens.models.loading, which import torch
# or take long; a test compares them.
AblationChoice = Literal["zero", "mean", "resample"]
NormalizeChoice = Literal["none", "layer"]
DtypeChoice = Literal["float32", "bfloat16", "float16"]
UnitChoice = Literal["head", "kv"]
SplitChoice = Literal["score", "held-out", "all"]

MAX_TOKENS = 128
"""Where examples are cut unless asked otherwise."""

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Catalogue name, local folder, GGUF file or hub id.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE|SET",
        help="A .txt, .jsonl, .csv, .tsv or .parquet file, or a set of `headlens data`. Default: the task's first set.",
    ),
]
Split = Annotated[
    SplitChoice | None,
    typer.Option("--split", help="Which part of the data. A file is taken whole unless this is given."),
]
MaxTokens = Annotated[int, typer.Option("--max-tokens", min=2, metavar="N", help="Cut each example here.")]


def _batch_size(text: str) -> int | None:
    """``auto`` as None, so that it is what leaving the option out is."""
    if text.strip().lower() == "auto":
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a whole number from 1")
    return int(text)


BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        parser=_batch_size,
        metavar="auto|N",
        help="Examples at a time; changes no number. auto (the default): as many as fit, fewer when memory runs out.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Take only the first N examples. Default: all.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, metavar="N", help="For everything random.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda|mps", help="Where to compute.")]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        "--device-map",
        metavar="MAP",
        help="For a model that one device cannot hold: auto (GPUs, then main memory, then the disk), balanced, "
        "balanced_low_0, sequential, or a .json file, module -> GPU number, cpu or disk. It replaces --device.",
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory", metavar="LIMITS", help="With --device-map: most bytes for weights, such as 0=20GB,cpu=30GB."
    ),
]
Dtype = Annotated[
    DtypeChoice | None, typer.Option("--dtype", help="Precision of the weights. Default: float32 on a CPU.")
]
Unit = Annotated[UnitChoice, typer.Option("--unit", help="Single query heads, or whole KV groups.")]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="loss, accuracy or drift (evaluate: also bleu). Default: loss; drift where there is no task head.",
    ),
]
Ablation = Annotated[AblationChoice, typer.Option("--ablation", help="What replaces the output of a head that is off.")]
NoResume = Annotated[bool, typer.Option("--no-resume", help="Compute afresh instead of using stored results.")]
Off = Annotated[
    str, typer.Option("--off", metavar="HEADS", help="Heads to switch off: L3H7,L4H0-H5, a layer L4, or none.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write.", show_default=False)]
EngineName = Annotated[
    EngineChoice,
    typer.Option("--engine", help="Where units of work are done: in this process, or by the workers of a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT|auto",
        help="With --engine ray: the cluster. Default: RAY_ADDRESS, else a Ray of its own on this machine.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=4096, metavar="N", help="With --engine ray: at most N. Default: one a core."),
]
