"""bfloat16 weights, float32 losses: against logits that are scored by hand, and slopes in float64."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from tests.unit.helpers import TASKS, lens_for, open_lens, random_data


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_loss_is_computed_in_float32(kind: str) -> None:
    lens, plain = lens_for(kind, dtype=torch.bfloat16)
    data = random_data(kind, 5)
    nll, half, count = 0.0, 0.0, 0
    for example in data.examples:
        with torch.no_grad():
            logits = plain(input_ids=example.inputs["input_ids"][None]).logits[0]
        assert logits.dtype == torch.bfloat16
        target = example.inputs["input_ids"][1:]
        nll += torch.nn.functional.cross_entropy(logits[:-1].double(), target, reduction="sum").item()
        half += torch.nn.functional.cross_entropy(logits[:-1], target, reduction="sum").item()
        count += len(target)
    found = evaluate(lens, data, HeadSet(), metric=METRICS["loss"], batch_size=1).main.baseline
    assert found == pytest.approx(nll / count, rel=1e-6)
    assert abs(half / count - nll / count) > 1e-4, "in bfloat16 it would be another number"


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_slopes_are_those_of_the_same_weights_in_float64(kind: str) -> None:
    lens, plain = lens_for(kind, dtype=torch.bfloat16)
    data = random_data(kind, 8)
    exact = open_lens(copy.deepcopy(plain).double(), TASKS[kind])
    request = Request(METRICS["loss"], data, signed=True)
    found, wanted = (score(one, METHODS["gradient"], request).flat() for one in (lens, exact))
    assert np.linalg.norm(found - wanted) < 0.1 * np.linalg.norm(wanted)
