"""Training one model of the zoo: resumable, and the same to the bit whether it was interrupted or not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headlens.zoo.batches import draw
from headlens.zoo.recipes import Recipe, build

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WARM_UP = 0.05
"""Share of the steps in which the learning rate rises."""
COOL_DOWN = 0.4
"""Share of the steps, at the end, in which it falls. Skills come suddenly and at high rates, so most steps have one."""
SAVE_EVERY = 250
"""Steps between two states on disk: at most so many are lost when the training is stopped."""
MEAN_OF = 50
"""Steps that are averaged into one point of the training curve."""


@dataclass
class Trained:
    """A trained model and how it got there.

    Attributes:
        model: the model in eval mode.
        curve: (step, mean training loss in nats over the steps up to it).
        kept: copies of the weights after some steps, by step.
        seconds: time that the steps took, those of earlier calls included.
    """

    model: PreTrainedModel
    curve: list[tuple[int, float]] = field(default_factory=list)
    kept: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    seconds: float = 0.0


def train(
    recipe: Recipe,
    *,
    seed: int = 0,
    steps: int | None = None,
    device: str = "cpu",
    folder: Path | None = None,
    stop_after: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Trains a model from the start, or from where ``folder`` says that an earlier call got to.

    Args:
        recipe: which model, and how.
        seed: draws the first weights and all examples.
        steps: instead of the recipe's number of steps (the learning rate's fall is fitted to it).
        device: where to compute; only a CPU gives the same bits each time.
        folder: where the state is kept; None keeps none.
        stop_after: leave after this step, as if interrupted (the state is saved).
        on_progress: called with (done, total) steps; may raise to cancel.
    """
    recipe = replace(recipe, steps=steps or recipe.steps)
    model = build(recipe, seed).to(device).train()  # type: ignore[arg-type]  # pyright: .to of transformers
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    found = Trained(model)
    state = None if folder is None else _State(folder, recipe, seed)
    first = 0 if state is None else state.load(found, optimizer)
    batch_of = draw(recipe, seed)
    losses = [] if state is None else state.losses
    before, start = found.seconds, time.monotonic()
    for step in range(first + 1, recipe.steps + 1):
        inputs = {name: value.to(device) for name, value in batch_of(step).items()}
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * schedule(step - 1, recipe.steps)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if step % MEAN_OF == 0 or step == recipe.steps:
            found.curve.append((step, float(torch.stack(losses).mean())))
            losses.clear()
        if step in recipe.checkpoints:
            found.kept[step] = {name: value.detach().cpu().clone() for name, value in model.named_parameters()}
        found.seconds = before + time.monotonic() - start
        if state is not None and (step % SAVE_EVERY == 0 or step in (recipe.steps, stop_after)):
            state.save(found, optimizer, step, losses)
        if on_progress is not None:
            on_progress(step, recipe.steps)
        if step == stop_after:
            break
    model.eval().requires_grad_(False)
    return found


def schedule(step: int, steps: int) -> float:
    """Share of the highest learning rate at a step counted from 0: up, level, and in a straight line down to 0."""
    rising, falling = max(1, round(WARM_UP * steps)), max(1, round(COOL_DOWN * steps))
    return min(1.0, (step + 1) / rising, (steps - step) / falling)


def forget(folder: Path, recipe: Recipe) -> None:
    """Removes the state of a training that is done with."""
    _State(folder, recipe, 0).path.unlink(missing_ok=True)


class _State:
    """How far a training got, in one file: weights, the optimiser's averages, copies, the curve."""

    def __init__(self, folder: Path, recipe: Recipe, seed: int) -> None:
        self.path = folder / f"{recipe.name}.safetensors"
        # A state of another recipe or seed is not gone on with.
        self.made_by = repr((recipe, seed, torch.__version__))
        self.losses: list[Tensor] = []

    def save(self, found: Trained, optimizer: torch.optim.Optimizer, step: int, losses: list[Tensor]) -> None:
        """Writes beside and renames, so that there is always one whole state."""
        from safetensors.torch import save_file

        tensors: dict[str, Tensor] = {f"model|{name}": value for name, value in found.model.named_parameters()}
        for name, value in self._averages(found.model, optimizer):
            tensors[name] = value
        for kept, weights in found.kept.items():
            tensors |= {f"kept|{kept}|{name}": value for name, value in weights.items()}
        facts = {"made_by": self.made_by, "step": step, "seconds": found.seconds, "curve": found.curve}
        facts["losses"] = [float(loss) for loss in losses]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        save_file(plain, beside, metadata={"headlens": json.dumps(facts)})
        beside.replace(self.path)

    def load(self, found: Trained, optimizer: torch.optim.Optimizer) -> int:
        """Puts a saved state in place; returns the number of steps done, 0 where there is no state of this training."""
        from safetensors import safe_open

        if not self.path.is_file():
            return 0
        with safe_open(self.path, "pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {}).get("headlens", "{}"))
            if facts.get("made_by") != self.made_by:
                return 0
            with torch.no_grad():
                for name, value in found.model.named_parameters():
                    value.copy_(file.get_tensor(f"model|{name}"))
                    optimizer.state[value] = {
                        key: file.get_tensor(f"optimizer|{key}|{name}").to(value.device if key != "step" else "cpu")
                        for key in ("step", "exp_avg", "exp_avg_sq")
                    }
            for key in file.keys():  # noqa: SIM118 - no mapping
                if key.startswith("kept|"):
                    _, kept, name = key.split("|")
                    found.kept.setdefault(int(kept), {})[name] = file.get_tensor(key)
        found.curve = [(step, loss) for step, loss in facts["curve"]]
        found.seconds = float(facts["seconds"])
        self.losses = [torch.tensor(loss) for loss in facts["losses"]]
        return int(facts["step"])

    def _averages(self, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> list[tuple[str, Tensor]]:
        return [
            (f"optimizer|{key}|{name}", optimizer.state[value][key])
            for name, value in model.named_parameters()
            for key in ("step", "exp_avg", "exp_avg_sq")
            if value in optimizer.state
        ]
