"""The proof of a cut: its float64 is float64, and a mistake that float32's rounding would hide is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headlens.errors import ModelError
from headlens.pruning import in_double
from headlens.pruning.cut import cut
from headlens.pruning.in_double import InDouble
from headlens.pruning.proof import prove
from headlens.switches import off_mask
from tests.unit.models.opened import lens_on, opened
from tests.unit.models.tiny import outputs, tiny
from tests.unit.pruning.cuts import KINDS, choose


@pytest.mark.parametrize("piece", [7, 2**22])
@pytest.mark.parametrize("name", ["gpt2", "bert", "opt", "bart", "vit"])
def test_it_is_the_model_in_float64(name: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a copy whose weights are float64; these families take float32 nowhere."""
    monkeypatch.setattr(in_double, "PIECE", piece)
    case = opened(name)
    before = {key: value.clone() for key, value in case.model.state_dict().items()}
    inputs: dict[str, Any] = {
        key: value.double() if value.is_floating_point() else value for key, value in case.inputs.items()
    }
    with torch.inference_mode():
        wanted = outputs(copy.deepcopy(case.plain).double(), inputs)
        with InDouble():
            found = outputs(case.model, case.inputs)
    for mine, its in zip(found.values(), wanted.values(), strict=True):
        assert mine.dtype == torch.float64
        assert (mine - its).abs().max() < 1e-13
    assert all(torch.equal(value, before[key]) for key, value in case.model.state_dict().items())


class Widest(TorchDispatchMode):
    """Remembers the largest float64 matrix that comes up."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor) and found.dtype == torch.float64:
            self.largest = max(self.largest, found.numel())
        return found


def test_no_weight_is_widened_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 and 12,000 numbers."""
    monkeypatch.setattr(in_double, "PIECE", 64)
    model = torch.nn.Sequential(torch.nn.Embedding(500, 40), torch.nn.Linear(40, 300))
    with torch.inference_mode(), Widest() as seen, InDouble():
        assert model(torch.tensor([[1, 2]])).shape == (1, 2, 300)
    assert seen.largest <= 600


@pytest.mark.parametrize("size", [1e-3, 1e-6])
def test_a_wrong_pairing_is_found_also_a_tiny_one(size: float) -> None:
    """Keys of two groups that are nearly alike, exchanged: float32 alone would let that pass."""
    layers: Any = tiny("llama")[0]  # its own, since its weights change
    lens = lens_on(layers)
    weight: Tensor = layers.model.layers[1].self_attn.k_proj.weight.data
    half = weight.shape[0] // 2
    weight[half:] = weight[:half] + size * torch.randn(weight[:half].shape, generator=torch.Generator().manual_seed(0))
    off = choose(lens, KINDS["ragged"])
    model: Any = cut(lens, off).model
    prove(lens, off_mask(lens.topology, off), model)
    wrong = model.model.layers[1].self_attn.k_proj.weight.data
    wrong.copy_(wrong.roll(len(wrong) // 2, 0))
    with pytest.raises(ModelError, match="nothing was kept"):
        prove(lens, off_mask(lens.topology, off), model)


def test_what_cannot_be_computed_in_float64_is_said_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("no float64 here")

    monkeypatch.setattr(in_double, "_wide", missing)
    case = opened("gpt2")
    proof = cut(case.lens, choose(case.lens, KINDS["ragged"])).proof
    assert proof.exact is None
    assert 0 <= proof.difference < 1e-4
