"""The forecast: its arithmetic against counted forward passes, its memory against known allocations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from headlens.estimates import Trial, estimate, estimate_sets, run_trial, short
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from headlens.peak import PeakMemory
from headlens.run import current
from tests.unit.helpers import LAYERS, lens_for, random_data


def trial_of(stacks: dict[str, int], tokens: int) -> Trial:
    """A machine on which each block takes one second a token, and nothing else takes any time."""
    depth = sum(stacks.values())
    after, gone = {}, 0
    for stack, layers in stacks.items():
        for layer in range(layers):
            gone += 1
            after[stack, layer] = 1 - gone / depth
    return Trial(tokens, float(depth), 3.0 * depth, after, 100.0, 200.0, 8.0)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_an_exact_sweep_takes_the_blocks_that_it_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle counts rows x tokens of every block call of a real sweep."""
    lens, _ = lens_for(kind)
    data = random_data(kind, 3)
    length = 6
    # All examples equally long on both sides, so that padding adds nothing.
    examples = [
        replace(
            example,
            inputs={name: value[:1].repeat(length) for name, value in example.inputs.items()},
            targets=None if example.targets is None else torch.ones(length, dtype=torch.long),
        )
        for example in data.examples
    ]
    data = replace(data, examples=tuple(examples))
    work = 0

    def count(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        nonlocal work
        hidden = args[0] if args else kwargs["hidden_states"]
        work += hidden.shape[0] * hidden.shape[1]

    blocks = {id(place.block): place.block for site in lens.sites for place in site.layers}
    handles = [block.register_forward_hook(count, with_kwargs=True) for block in blocks.values()]
    request = Request(METRICS["loss"], data)
    score(lens, METHODS["ablation"], request)
    for handle in handles:
        handle.remove()
    stacks = {"t5": {"enc": LAYERS, "dec": LAYERS}}.get(kind) or {lens.sites[0].stack: LAYERS}
    found = estimate(lens, METHODS["ablation"], request, trial_of(stacks, length * len(data)))
    assert found.steps == sum(len(layer.heads) for site in lens.topology.sites for layer in site.layers)
    assert found.seconds == pytest.approx(work, rel=0.2)
    assert current(lens.owner) is None


def test_the_sentence() -> None:
    lens, _ = lens_for("gpt2")
    trial = replace(trial_of({"self": LAYERS}, 10), forward=0.12, gradient=0.9)
    line = estimate_sets(lens, trial, 50).sentence("curve")
    assert line.startswith(
        "estimate: curve: 50 sets of heads x 1.2 s = 60 s on this machine; gradient: 9.0 s; memory: "
    )
    shared = estimate_sets(lens, trial, 50).sentence("curve", workers=8)
    assert "= 60 s on this machine alone, about 7.5 s on 8 workers like it; gradient" in shared
    whole = replace(estimate_sets(lens, trial, 50), what="")  # one piece, which no cluster shares out
    assert "workers" not in whole.sentence("gradient", workers=8)
    big = replace(estimate_sets(lens, trial, 50), weights=13_500_000_000, work=70 * 10**9, free=60 * 10**9)
    text = big.sentence("ablation")
    assert "13.5 GB of weights, about 70.0 GB of work, 60.0 GB free (this does not fit" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (1.2, "1.2 s"), (119, "119 s"), (1260, "21 min"), (19_080, "5.3 h"), (0.00123, "1.2 ms")],
)
def test_spans(seconds: float, text: str) -> None:
    assert short(seconds) == text


def test_portions_shrink_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("gpt2")
    trial = replace(trial_of({"self": LAYERS}, 4096), work=1000.0)  # 1,024 tokens at once take 1.024 MB
    monkeypatch.setattr("headlens.estimates.available_bytes", lambda device="cpu": 10**9)
    assert estimate_sets(lens, trial, 5).scale == 1.0
    monkeypatch.setattr("headlens.estimates.available_bytes", lambda device="cpu": 640_000)
    assert estimate_sets(lens, trial, 5).scale == pytest.approx(0.5)


def test_the_largest_sum_that_was_alive_at_once() -> None:
    with PeakMemory() as memory:
        first = torch.ones(1000)  # 4,000 bytes
        second = first + 1  # 8,000
        del first
        third = second * 2  # 8,000 again
        third.add_(1)
        third.view(10, 100)
    assert memory.peak == 8000
    with PeakMemory() as memory, torch.inference_mode():
        del second
        kept = [torch.zeros(250, dtype=torch.float64) for _ in range(3)]
    assert memory.peak == 6000
    assert len(kept) == 3


def test_a_trial_is_about_what_the_work_takes() -> None:
    lens, _ = lens_for("llama")
    data = random_data("llama", 6)
    trial = run_trial(lens, data)
    assert trial.tokens == sum(len(example.inputs["input_ids"]) for example in data.examples)
    assert trial.forward > 0
    assert trial.gradient is not None
    assert trial.gradient_work > trial.work > 0
    stack = lens.sites[0].stack
    shares = [trial.after[stack, layer] for layer in range(LAYERS)]
    assert sorted(shares, reverse=True) == shares
    assert all(0 <= share <= 1 for share in shares)
