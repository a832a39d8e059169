"""From a trained model to its folder in ``assets/models``: weights, tokenizer, and a card with what it reaches.

Weights are stored in half precision (half the bytes, and the loss moves by less than 0.001 nats) and opened in single
precision like every model; the card's figures are those of the stored weights. Copies from during the training lie in
``checkpoints/step-N`` and are opened as ``NAME@N``.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headlens.lens import open_model
from headlens.models.catalogue import ABOUT, CHECKPOINTS
from headlens.models.folders import CONFIG
from headlens.models.quiet import quiet
from headlens.zoo.figures import Figures, measure
from headlens.zoo.recipes import SETS, Recipe, build, reader

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from headlens.zoo.training import Trained

_WORDS = {"small-english": "stories in small English", "number-words": "number words", "shapes": "pictures of shapes"}


def ship(
    recipe: Recipe,
    trained: Trained,
    folder: Path,
    *,
    seed: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Writes the model's folder, beside it first and then in its place; returns the card.

    Args:
        recipe: how it was trained.
        trained: the model, and its copies from before.
        folder: where to; a folder of that name is replaced.
        seed: which the training was given.
        on_progress: called with (done, total) models measured.
    """
    beside = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    write(recipe, trained.model, beside)
    total = 1 + len(trained.kept)
    figures = measure(open_model(str(beside), device="cpu"))
    checkpoints = []
    for number, (step, weights) in enumerate(sorted(trained.kept.items()), start=1):
        if on_progress is not None:
            on_progress(number, total)
        place = beside / CHECKPOINTS / f"step-{step:05d}"
        write(recipe, _with(recipe, weights), place)
        reached = measure(open_model(str(place), device="cpu"))
        checkpoints.append({"step": step, "folder": f"{CHECKPOINTS}/{place.name}", "figures": reached.to_json()})
    card = {
        "title": recipe.title,
        "note": _note(recipe, figures),
        "data": SETS[recipe.kind],
        "seed": seed,
        "steps": trained.curve[-1][0],
        "batch": recipe.batch,
        "rate": recipe.rate,
        "seconds": round(trained.seconds),
        "parameters": sum(value.numel() for value in trained.model.parameters()),
        "versions": _versions(),
        "figures": figures.to_json(),
        "curve": [[step, round(loss, 4)] for step, loss in trained.curve],
        "checkpoints": checkpoints,
    }
    (beside / ABOUT).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    return card


def write(recipe: Recipe, model: PreTrainedModel, folder: Path) -> None:
    """Writes a model with its tokenizer or image processor."""
    half = build(recipe, 0)
    half.load_state_dict(model.state_dict())
    with quiet():
        half.to(torch.float16).save_pretrained(folder)  # type: ignore[arg-type]  # pyright: .to of transformers
        tokenizer = reader(recipe)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        else:
            from transformers import ViTImageProcessorPil

            size = recipe.settings["image_size"]
            ViTImageProcessorPil(size={"height": size, "width": size}).save_pretrained(folder)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["dtype"] = "float32"  # what it computes in; the file is smaller than that
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def card_of(folder: Path) -> dict[str, Any]:
    """The card of a model of the zoo."""
    return json.loads((folder / ABOUT).read_text(encoding="utf-8"))


def _with(recipe: Recipe, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    model = build(recipe, 0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(weights[name])
    return model


def _note(recipe: Recipe, figures: Figures) -> str:
    """What it was trained for and what it reaches, in one sentence."""
    what = f"Trained by HeadLens on {_WORDS[SETS[recipe.kind]]}; on held-out ones"
    if figures.exact_match is not None:
        return f"{what} {figures.exact_match:.1%} exact translations, BLEU {figures.bleu:.1f}."
    if recipe.kind == "pictures":
        return f"{what} {figures.accuracy:.1%} right answers."
    return f"{what} loss {figures.loss:.3f} nats (possible: {figures.possible_loss:.3f})."


def _versions() -> dict[str, str]:
    import numpy
    import tokenizers
    import transformers

    modules = {"torch": torch, "transformers": transformers, "tokenizers": tokenizers, "numpy": numpy}
    return {"python": platform.python_version(), **{name: module.__version__ for name, module in modules.items()}}
