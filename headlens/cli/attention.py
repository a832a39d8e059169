"""``headlens attention``: who looks at whom, for one prompt."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_model, check_out, open_lens
from headlens.cli.options import AsJson, Device, DeviceMap, Dtype, MaxMemory, Model, Off
from headlens.cli.output import emit, table
from headlens.cli.progress import computing
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from torch import Tensor

    from headlens.attention import Patterns
    from headlens.lens import Lens

NAME = "attention"


def run(
    model: Model,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT", help="The text, or for image models a picture file.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.npz", help="Where to write the arrays.")],
    target: Annotated[
        str | None, typer.Option("--target", metavar="TEXT", help="What an encoder-decoder model is to write.")
    ] = None,
    off: Off = "none",
    device: Device = "auto",
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
    dtype: Dtype = None,
    as_json: AsJson = False,
) -> None:
    """Write the attention patterns for a prompt.

    The file has arrays pattern_SITE [layer, head, query, key], tokens_SITE_query and tokens_SITE_key.
    """
    path = check_out(out, ".npz")
    check_model(model)
    with computing() as reporter:
        from headlens.attention import patterns

        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        heads = lens.topology.parse(off)
        reporter.phase("reading the prompt")
        inputs = model_inputs(lens, prompt, target)
        reporter.phase("computing the patterns")
        found = patterns(lens, inputs, off=heads)
        arrays = to_arrays(lens, found)
        reporter.phase(f"writing {path}")
        save(path, arrays)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    result = {"out": path, "off": lens.topology.format(heads), "arrays": shapes}
    emit(result, as_json, lambda console: _show(console, path, shapes))


def model_inputs(lens: Lens, prompt: str, target: str | None) -> dict[str, Tensor]:
    """Inputs of one prompt, a text or the path of a picture.

    Raises:
        HeadlensError: a target for a model without a decoder; kinds of models without prompts.
        DataError: see :func:`headlens.attention.prompt_inputs`.
    """
    from headlens.attention import prompt_inputs

    if target is not None and lens.task != "seq2seq":
        raise HeadlensError(f"--target is for encoder-decoder models, and {lens.name} is {lens.task}; leave it out")
    if lens.task == "image-classification" or (lens.tokenizer is None and lens.accepts("pixel_values")):
        return {"pixel_values": lens.pixels(Path(prompt).expanduser(), "--prompt")[None].to(lens.device)}
    return prompt_inputs(lens, prompt, target)


def to_arrays(lens: Lens, found: Patterns) -> dict[str, np.ndarray]:
    """The arrays of the file: ``pattern_<site>`` float32 ``[layer, head, query, key]`` and token labels of both sides.

    Every layer of the model has its row; one that lost all its heads is NaN, like a head that is gone.
    """
    import numpy as np

    arrays: dict[str, np.ndarray] = {}
    for site, computed in found.pattern.items():
        layers = len(lens.topology.site(site).layers)
        whole = np.full((layers, *computed.shape[1:]), np.nan, dtype=np.float32)
        whole[list(found.pattern_layers[site])] = computed
        arrays[f"pattern_{site}"] = whole
        for side, ids, length in zip(
            ("query", "key"), (found.query_ids[site], found.key_ids[site]), computed.shape[2:], strict=True
        ):
            arrays[f"tokens_{site}_{side}"] = np.array(labels(lens, ids, length), dtype=np.str_)
    return arrays


def labels(lens: Lens, ids: Sequence[int], length: int) -> list[str]:
    """What stands at each position: readable tokens, or for pictures the row and column of each patch."""
    if not ids:
        return patch_labels(lens.model.config, length)
    from headlens.tokens import readable_tokens

    return [label.text for label in readable_tokens(lens.tokenizer, ids)]


def patch_labels(config: Any, length: int) -> list[str]:
    """``[CLS]``, then ``r0c0``, ``r0c1``, ... for the patches of a picture; extra tokens stand in front of them."""
    size, patch = (_pair(getattr(config, name, None)) for name in ("image_size", "patch_size"))
    if size is None or patch is None or 0 in patch:
        return [f"[{i}]" for i in range(length)]
    rows, columns = size[0] // patch[0], size[1] // patch[1]
    extra = length - rows * columns
    if extra < 0:
        return [f"[{i}]" for i in range(length)]
    front = ["[CLS]", *(f"[EXTRA{i}]" for i in range(1, extra))][:extra]
    return front + [f"r{row}c{column}" for row in range(rows) for column in range(columns)]


def _pair(value: Any) -> tuple[int, int] | None:
    """Height and width, which configs give as one number or as two."""
    if isinstance(value, int):
        return value, value
    return (int(value[0]), int(value[1])) if isinstance(value, (list, tuple)) and len(value) == 2 else None


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a compressed ``.npz``, whole or not at all; raises HeadlensError."""
    import numpy as np

    temporary = path.with_name(f".{path.name}.part")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    try:
        temporary.write_bytes(buffer.getbuffer())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise HeadlensError(f"cannot write {path}: {error.strerror or error}; choose another place for it") from error


def _show(console: Console, path: Path, shapes: dict[str, list[int]]) -> None:
    rows = [(name, " x ".join(map(str, shape))) for name, shape in shapes.items()]
    table(console, ("array", "shape"), rows)
    console.print(f"Written to {path}. Patterns are [layer, head, query, key]; each row sums to 1.", markup=False)
