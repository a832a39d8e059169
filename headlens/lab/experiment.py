"""One run from its description to its result: trained, looked at, pruned, kept in the store."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from headlens.lab import cost
from headlens.lab.looking import attention_by_distance
from headlens.lab.model import LabModel, build, cut
from headlens.lab.pruning import Prunable, greedy, held_out_bench, prunable, random_subsets, score_bench
from headlens.lab.results import Checkpoint, RunResult, stored, versions
from headlens.lab.specs import RunSpec, Training
from headlens.lab.training import Point, Watch, train

if TYPE_CHECKING:
    from headlens.store import Store

RANDOM_CHOICES = 8


def run(spec: RunSpec, store: Store | None, *, resume: bool = True, watch: Watch | None = None) -> RunResult:
    """Does one run, or takes it from the store.

    Args:
        spec: what to run.
        store: where results and trained weights are kept; None keeps nothing.
        resume: whether stored results are taken.
        watch: who is told how the training goes.
    """
    if store is not None and resume and (known := stored(spec, store)) is not None:
        return known
    started = time.perf_counter()
    result = _after(spec, store, watch) if spec.after is not None else _scratch(spec, store, resume, watch)
    result = replace(result, seconds=time.perf_counter() - started)
    if store is not None:
        store.put(spec.key(versions()), {}, {"result": result.to_dict()})
    return result


def trained(spec: RunSpec, store: Store | None) -> LabModel:
    """The trained model of a run from scratch; stored weights are taken where they are there."""
    return _trained(spec, store, True, None, None)[0]


def seconds_a_step(spec: RunSpec) -> float:
    """Time of one step of a short training, the first steps (which are slower) left out."""
    model = build(spec.task, spec.architecture, spec.training.seed)
    train(model, replace(spec.training, steps=2))
    started = time.perf_counter()
    train(model, spec.training)
    return (time.perf_counter() - started) / spec.training.steps


def _scratch(spec: RunSpec, store: Store | None, resume: bool, watch: Watch | None) -> RunResult:
    checkpoints: list[Prunable] = []
    model, curve = _trained(spec, store, resume, watch, checkpoints if spec.checkpoints else None)
    result = _looked_at(spec, model, curve, tuple(range(spec.architecture.heads)))
    result = replace(result, checkpoints=tuple(Checkpoint(c.step, c.bits, c.by_size, c.share) for c in checkpoints))
    path, held_out = greedy(score_bench(model)), held_out_bench(model)
    result = replace(result, by_size=tuple(reversed(held_out.losses(path))))
    if spec.prune_to is None:
        return result
    kept = path[len(path) - 1 - spec.prune_to]
    pruned = held_out.loss(kept)
    chosen = random_subsets(spec.architecture.heads, spec.prune_to, RANDOM_CHOICES, spec.training.seed)
    return replace(
        result,
        kept=kept,
        pruned_loss_bits=pruned.bits,
        pruned_loss_sem=pruned.sem,
        random_bits=tuple(held_out.losses(chosen)),
    )


def _after(spec: RunSpec, store: Store | None, watch: Watch | None) -> RunResult:
    assert spec.after is not None
    parent = spec.parent
    assert parent is not None
    # Weights that this run's parent has just stored are taken even where results are to be computed afresh.
    model = trained(parent, store)
    after, heads = spec.after, spec.architecture.heads
    if after.kind == "continued":
        kept, start = tuple(range(heads)), model
    elif after.kind == "random":
        kept = random_subsets(heads, after.heads, 1, spec.training.seed)[0]
        start = cut(model, kept)
    else:
        kept = greedy(score_bench(model), down_to=after.heads)[-1]
        first = model if after.kind == "pruned" else build(spec.task, spec.architecture, spec.training.seed)
        start = cut(first, kept)
    before = held_out_bench(start).loss(range(start.architecture.heads)).bits
    training = Training(after.steps, spec.training.batch, after.learning_rate, spec.training.seed)
    # A ticket sees the sequences that the model it comes from saw; further training sees new ones.
    purpose = "training" if after.kind == "ticket" else "further training"
    curve = train(start, training, purpose=purpose, watch=watch)
    return replace(_looked_at(spec, start, curve, kept), before_bits=before)


def _trained(
    spec: RunSpec, store: Store | None, resume: bool, watch: Watch | None, checkpoints: list[Prunable] | None
) -> tuple[LabModel, list[Point]]:
    """The trained model and its learning curve; from the store where it is there and no checkpoints are wanted."""
    model, key = build(spec.task, spec.architecture, spec.training.seed), _weights_key(spec)
    if store is not None and resume and checkpoints is None:
        known, meta = store.get(key), store.meta(key)
        if known is not None and meta is not None:
            model.load_state_dict({name: torch.from_numpy(weight) for name, weight in known.items()})
            return model.eval(), [Point(step, bits) for step, bits in meta["curve"]]
    at_checkpoint = None if checkpoints is None else (lambda step: checkpoints.append(prunable(model, step)))
    curve = train(model, spec.training, watch=watch, on_checkpoint=at_checkpoint)
    if store is not None:
        weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
        store.put(key, weights, {"curve": [[point.step, point.bits] for point in curve]})
    return model, curve


def _weights_key(spec: RunSpec) -> str:
    return replace(spec, prune_to=None, checkpoints=False, after=None).key({**versions(), "kind": "weights"})


def _looked_at(spec: RunSpec, model: LabModel, curve: list[Point], labels: tuple[int, ...]) -> RunResult:
    everything, bench = range(model.architecture.heads), held_out_bench(model)
    loss = bench.loss(everything)
    attention = attention_by_distance(model, bench.tokens)
    return RunResult(
        spec=spec,
        loss_bits=loss.bits,
        loss_sem=loss.sem,
        by_distance=tuple(bench.by_distance(everything)),
        attention=tuple(tuple(round(float(weight), 5) for weight in row) for row in attention),
        heads=labels,
        before_bits=None,
        kept=None,
        pruned_loss_bits=None,
        pruned_loss_sem=None,
        by_size=(),
        random_bits=(),
        checkpoints=(),
        curve=tuple((point.step, point.bits) for point in curve),
        parameters=sum(weight.numel() for weight in model.parameters()),
        flops=cost.flops(spec),
        seconds=0.0,
    )
