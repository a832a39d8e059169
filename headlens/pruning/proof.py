"""The proof of a cut: the new model against the old one with the same heads switched off.

Both are run twice on a small batch. In the precision of the model they differ by rounding alone: the same sums are
taken in another order, and a deep model with large logits can make more than 1e-4 of that (SmolLM2, whose logits are
around 33, up to about 1.3e-4 in float32). A small mistake could hide in there. So both are also run in float64 on the
very same weights, where rounding is some 1e-13: there a query head that reads another key, or a head that was not cut
cleanly, has nowhere to hide. A cut that fails either check is not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.errors import ModelError
from headlens.models.sample import sample_inputs, tensors_of
from headlens.pruning.in_double import InDouble
from headlens.run import Edit, Run

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from headlens.lens import Lens

TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 0.02, torch.bfloat16: 0.1}
"""Largest difference that is still rounding, for outputs of size 1 (or less); some norms always take float32."""
STRICT = 1e-10
"""The same where everything is computed in float64."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Proof:
    """How far the new model is from the old one with the heads switched off.

    Attributes:
        difference: largest absolute difference of an output (logits; hidden states where there are none), in the
            model's own precision.
        exact: the same, computed in float64 on the same weights; None where that cannot be had.
        largest: largest absolute value among those outputs, which both are to be seen beside.
    """

    difference: float
    exact: float | None
    largest: float

    def describe(self) -> dict[str, float | None]:
        """The numbers by their names in JSON."""
        return {
            "max_abs_logit_difference": self.difference,
            "max_abs_logit_difference_float64": self.exact,
            "largest_abs_logit": self.largest,
        }


def prove(lens: Lens, masks: Mapping[Any, Tensor], model: PreTrainedModel) -> Proof:
    """Compares ``model`` with that of ``lens`` under ``masks`` (1 = on, by layer); holds no further copy of either.

    Raises:
        ModelError: a difference is more than rounding.
    """
    edits = {key: Edit(off=mask.to(lens.device)) for key, mask in masks.items()}
    difference, largest = _compared(lens, edits, model)
    exact = None
    try:
        with InDouble():
            exact, _ = _compared(lens, edits, model)
    except (RuntimeError, TypeError) as error:  # Apple's devices have no float64, and some kernels have none either
        _logger.warning("the cut was not checked in float64: %s", " ".join(str(error).split())[:160])
    size = max(1.0, largest)
    for worst, limit in ((difference, TOLERANCE[lens.dtype] * size), (exact, STRICT * size)):
        if worst is not None and not worst <= limit:
            raise ModelError(
                f"the cut {type(model).__name__} differs from the masked one by {worst:.2g} (allowed: {limit:.2g}), so "
                "its heads are not where HeadLens expects them; nothing was kept. Switch the heads off instead"
            )
    return Proof(difference, exact, largest)


def _compared(lens: Lens, edits: Mapping[Any, Edit], model: PreTrainedModel) -> tuple[float, float]:
    """Largest difference of the outputs, and their largest value."""
    inputs = sample_inputs(lens.model, lens.tokenizer)
    extra = {"use_cache": False} if lens.accepts("use_cache") else {}
    with torch.inference_mode():
        wanted = tensors_of(lens.forward(inputs, Run(edits=dict(edits))))
        found = tensors_of(model(**inputs, **extra))
    names = ["logits"] if "logits" in wanted else list(wanted)
    # As arrays, because the largest of a number and NaN has to be NaN.
    worst = float(np.max([(found[name] - wanted[name]).abs().max().item() for name in names]))
    return worst, float(np.max([wanted[name].abs().max().item() for name in names]))
