"""``headlens inspect``: what a model is and where its heads are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headlens.cli.inputs import check_model, open_lens
from headlens.cli.options import AsJson, Device, DeviceMap, Dtype, MaxMemory, Model
from headlens.cli.output import emit, table
from headlens.cli.progress import computing

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.heads import SiteShape
    from headlens.lens import Lens

NAME = "inspect"


def run(
    model: Model,
    device: Device = "auto",
    dtype: Dtype = None,
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Open a model and show its sites, layers and heads."""
    check_model(model)
    with computing() as reporter:
        reporter.phase(f"opening {model}")
        found = describe(open_lens(model, device, dtype, device_map, max_memory))
    emit(found, as_json, lambda console: _show(console, found))


def describe(lens: Lens) -> dict[str, Any]:
    """The JSON object of ``inspect``."""
    return {
        "name": lens.name,
        "title": lens.title,
        "family": str(lens.model.config.model_type),
        "task": lens.task,
        "parameters": lens.parameters,
        "dtype": str(lens.dtype).removeprefix("torch."),
        "device": str(lens.device),
        "sites": [_site(site) for site in lens.topology.sites],
        "notes": list(lens.notes),
    }


def _site(site: SiteShape) -> dict[str, Any]:
    """One site; ``heads`` and ``kv_heads`` count labels (as in the uncut model), ``heads_per_layer`` what is there."""
    return {
        "site": site.name,
        "layers": len(site.layers),
        "heads": site.width(),
        "kv_heads": site.width("kv"),
        "d_head": max((shape.d_head for shape in site.layers), default=0),
        "heads_per_layer": [len(shape.heads) for shape in site.layers],
        "kv_heads_per_layer": [shape.kv_heads for shape in site.layers],
    }


def _show(console: Console, found: dict[str, Any]) -> None:
    console.print(found["title"], style="bold", markup=False)
    what = (
        f"{found['family']}, {found['task']}, {found['parameters']:,} parameters, {found['dtype']} on {found['device']}"
    )
    console.print(what, markup=False)
    columns = ("site", "layers", "heads", "kv_heads", "d_head")
    rows = [[*(site[name] for name in columns), _counts(site["heads_per_layer"])] for site in found["sites"]]
    numbers = ("layers", "heads", "KV heads", "width of a head")
    table(console, ("site", *numbers, "heads there, by layer"), rows, numbers=numbers)
    for note in found["notes"]:
        console.print(f"Note: {note}", markup=False)


def _counts(heads: list[int]) -> str:
    return f"{heads[0]} in each" if len(set(heads)) == 1 else " ".join(map(str, heads))
