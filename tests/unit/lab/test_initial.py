"""Heads of an opened model against numbers worked out with plain transformers; random weights that are random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headlens.data.select import live_set
from headlens.errors import ModelError
from headlens.lab.initial import bench_similarity, head_similarity, with_random_weights
from headlens.lab.model import build
from headlens.lab.pruning import held_out_bench
from headlens.lab.similarity import similarity
from headlens.lab.specs import Architecture, Task
from headlens.lens import Lens, open_model
from tests.small_models import save_gpt2


@pytest.fixture(scope="module")
def lens(tmp_path_factory: pytest.TempPathFactory) -> Lens:
    folder: Path = tmp_path_factory.mktemp("model") / "small-gpt2"
    return open_model(str(save_gpt2(folder)))


def test_head_outputs_are_those_of_the_projections_slices(lens: Lens) -> None:
    data = live_set(lens)
    steps: list[tuple[int, int]] = []
    found = head_similarity(lens, data, on_progress=lambda done, total: steps.append((done, total)))
    assert [layer.layer for layer in found] == [0, 1, 2]
    assert steps == [(1, 3), (2, 3), (3, 3)]
    batch = data.batch(range(len(data)))
    projection = lens.model.transformer.h[1].attn.c_proj  # type: ignore[union-attr]
    seen: list[torch.Tensor] = []
    handle = projection.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))  # type: ignore[operator]
    with torch.inference_mode():
        lens.model(**batch.inputs)
    handle.remove()
    z = seen[0][batch.inputs["attention_mask"].bool()][:384]
    weight = projection.weight  # type: ignore[union-attr]
    d_head = z.shape[1] // 4
    slices = [slice(head * d_head, (head + 1) * d_head) for head in range(4)]
    written = np.stack([(z[:, s] @ weight[s]).numpy() for s in slices])  # type: ignore[index]
    expected = similarity(written)
    assert found[1].positions == len(z)
    assert found[1].cka == pytest.approx(expected.cka, abs=1e-4)
    assert found[1].smallest == pytest.approx(expected.smallest, abs=1e-4)


def test_random_weights_are_the_seeds_and_leave_the_model_alone(lens: Lens) -> None:
    before, state = lens.fingerprint, torch.get_rng_state()
    first, again, other = (with_random_weights(lens, seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint not in (other.fingerprint, before)
    assert torch.equal(torch.get_rng_state(), state)
    del lens.__dict__["fingerprint"]
    assert lens.fingerprint == before
    assert first.topology == lens.topology


def test_models_that_are_too_large_are_refused(lens: Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlens.lab.initial.MAX_PARAMETERS", 10)
    with pytest.raises(ModelError, match="choose one of at most 10"):
        with_random_weights(lens, 0)


def test_untrained_lab_models_are_independent_but_alike() -> None:
    found = bench_similarity(held_out_bench(build(Task(), Architecture(8), 0)))
    assert found.independent
    assert found.positions == 384
    assert found.mean_cka > 0.9  # every head starts by looking everywhere alike
