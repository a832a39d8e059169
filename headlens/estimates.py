"""How long a computation will take and how much memory, before it starts: measured by a trial on one batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from headlens.importance.gates import gate_gradients
from headlens.leave_one_out import TOKENS_PER_FORWARD
from headlens.models.sizes import available_bytes
from headlens.peak import PeakMemory
from headlens.run import Run

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.importance import Method, Request
    from headlens.lens import Lens

PATIENCE = 1.0
"""Seconds; where one example takes longer the trial is that one example."""
SHARE = 0.8
"""Of what is free, this much is planned with."""
GPU_PORTION = 16.0
"""Times more tokens at once on a GPU than on a CPU, where memory allows it."""


@dataclass(frozen=True)
class Trial:
    """What one batch took. A token is a position of the longer side, padding included; a picture counts as one.

    Attributes:
        tokens: in the whole data.
        forward: seconds a token.
        gradient: seconds a token of forward and backward; None where it was not tried.
        after: share of a forward that is left when a block is done, by (stack, index).
        work: bytes a token, at the most at one time.
        gradient_work: the same with a backward pass.
        kept: bytes a token of one block's output.
    """

    tokens: int
    forward: float
    gradient: float | None
    after: Mapping[tuple[str, int], float]
    work: float
    gradient_work: float
    kept: float

    def on(self, data: EncodedData) -> Trial:
        """The same speed on other data."""
        return replace(self, tokens=_tokens(data))


SLOW = 2.0
"""Seconds; work that takes less is done without a forecast."""


def is_slow(lens: Lens, data: EncodedData) -> bool:
    """Whether one pass over the data takes long, judged by one example."""
    one = replace(data, examples=data.examples[:1])
    return _forward(lens, one).seconds * _tokens(data) / _tokens(one) > SLOW


def run_trial(lens: Lens, data: EncodedData, *, gradient: bool = True) -> Trial:
    """Times and weighs a forward pass (and a backward pass) on some of the longest examples."""
    examples = sorted(data.examples, key=lambda example: -example.length)
    one = replace(data, examples=tuple(examples[:1]))
    with PeakMemory() as forward_memory:
        first = _forward(lens, one)
    slow = first.seconds > PATIENCE
    rows = 1 if slow else max(1, min(16, TOKENS_PER_FORWARD // examples[0].length // 2))
    some = replace(data, examples=tuple(examples[:rows]))
    timed = _forward(lens, some)
    backward, backward_peak = None, 0
    if gradient:
        request = _gradient_request(one)
        with PeakMemory() as gradient_memory:
            backward = gate_gradients(lens, request).seconds / _tokens(one)
        backward_peak = gradient_memory.peak
        if not slow:
            again = replace(request, data=some, batch_size=len(some))
            backward = gate_gradients(lens, again).seconds / _tokens(some)
    size = _tokens(one)
    return Trial(
        tokens=_tokens(data),
        forward=timed.seconds / _tokens(some),
        gradient=backward,
        after={place: max(0.0, 1 - at / timed.seconds) for place, at in timed.blocks.items()},
        work=forward_memory.peak / size,
        gradient_work=backward_peak / size,
        kept=timed.kept / _tokens(some),
    )


@dataclass(frozen=True)
class _Forward:
    seconds: float
    blocks: dict[tuple[str, int], float]
    kept: int


def _forward(lens: Lens, data: EncodedData) -> _Forward:
    (batch,) = data.batches(len(data))
    blocks: dict[tuple[str, int], float] = {}
    kept = 0
    start = _now(lens)

    def done(stack: str, index: int, output: Any) -> None:
        nonlocal kept
        blocks[stack, index] = _now(lens) - start
        kept = max(kept, sum(t.nbytes for t in _tensors(output)))

    with torch.inference_mode():
        lens.forward(batch.inputs, Run(on_block=done))
    return _Forward(_now(lens) - start, blocks, kept)


def _now(lens: Lens) -> float:
    if lens.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _tensors(output: Any) -> Iterable[torch.Tensor]:
    parts = output if isinstance(output, (tuple, list)) else (output,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


def _tokens(data: EncodedData) -> int:
    return sum(example.length for example in data.examples)


def _gradient_request(data: EncodedData) -> Request:
    from headlens.importance import Request
    from headlens.metrics import METRICS

    return Request(METRICS["loss"], data=data, batch_size=len(data))


@dataclass(frozen=True)
class Estimate:
    """What a computation will take.

    Attributes:
        steps, what: how many of which things are measured, one forward pass over the data each or a part of one.
        seconds: for all of them.
        gradient: seconds of the gradient method on the same data, or None.
        weights: bytes of the model.
        work: bytes besides.
        free: bytes that are free now, with the model in memory.
        scale: of the portions (see :mod:`headlens.batching`) that fit.
    """

    steps: int
    what: str
    seconds: float
    gradient: float | None
    weights: int
    work: int
    free: int
    scale: float

    def sentence(self, name: str, times: int = 1, workers: int = 1) -> str:
        """One line for people: time (of ``times`` such computations; shared by ``workers``), then memory."""
        each = f"{self.steps:,} {self.what} x {short(self.seconds / max(1, self.steps))} = " if self.what else ""
        text = f"{name}: {each if times == 1 else ''}{short(self.seconds * times)} on this machine"
        if workers > 1 and self.what:  # what is counted in steps is cut into units
            text += f" alone, about {short(self.seconds * times / workers)} on {workers} workers like it"
        if self.gradient is not None:
            text += f"; gradient: {short(self.gradient)}"
        text += f"; memory: {_size(self.weights)} of weights, about {_size(self.work)} of work, {_size(self.free)} free"
        if self.work > self.free:
            text += " (this does not fit: use a smaller --limit, --max-tokens or --dtype)"
        return f"estimate: {text}"


def estimate(lens: Lens, method: Method, request: Request, trial: Trial) -> Estimate:
    """What scoring every head with ``method`` takes."""
    gradient = None if trial.gradient is None else trial.gradient * trial.tokens
    if method.name == "ablation":
        heads = [
            (site, layer, len(shape.columns(layer, request.unit)))
            for site, shape in ((site, lens.topology.site(site.name)) for site in lens.sites)
            for layer in range(len(site.layers))
        ]
        passes = sum(count * _suffix(lens, trial, site.stack, layer) for site, layer, count in heads)
        passes += 1 + len({site.stack for site in lens.sites})  # all on, and the prefixes
        return _with_memory(lens, trial, sum(n for _, _, n in heads), "heads", passes, gradient, trial.work, True)
    if "gradients" in method.needs and gradient is not None:
        passes = gradient / (trial.forward * trial.tokens)
        return _with_memory(lens, trial, 1, "", passes, None, trial.gradient_work, False)
    return _with_memory(lens, trial, 1, "", 1.0, gradient, trial.work, False)


def estimate_sets(lens: Lens, trial: Trial, sets: int) -> Estimate:
    """What measuring ``sets`` head sets, one forward pass over the data each, takes."""
    gradient = None if trial.gradient is None else trial.gradient * trial.tokens
    return _with_memory(lens, trial, sets, "sets of heads", float(sets), gradient, trial.work, False)


def _suffix(lens: Lens, trial: Trial, stack: str, layer: int) -> float:
    """Share of a forward that is computed when ``layer`` is changed and what lies below it is known."""
    if layer:
        return trial.after.get((stack, layer - 1), 1.0)
    if stack == "dec":
        encoder = max((len(site.layers) for site in lens.sites if site.stack == "enc"), default=0)
        return trial.after.get(("enc", encoder - 1), 1.0)
    return 1.0


def _with_memory(
    lens: Lens, trial: Trial, steps: int, what: str, passes: float, gradient: float | None, work: float, prefix: bool
) -> Estimate:
    on_gpu = lens.device.type == "cuda"
    weights = sum(p.numel() * p.element_size() for p in lens.model.parameters())
    free = available_bytes(str(lens.device) if on_gpu else "cpu")
    kept = int(trial.kept * trial.tokens) if prefix else 0
    usual = max(1.0, work * min(TOKENS_PER_FORWARD, trial.tokens))
    room = max(0.0, SHARE * free - kept)
    scale = max(2.0**-9, min(GPU_PORTION if on_gpu else 1.0, room / usual))
    seconds = passes * trial.forward * trial.tokens
    return Estimate(steps, what, seconds, gradient, weights, kept + int(usual * scale), free, scale)


def short(seconds: float) -> str:
    """A span of time with two digits: ``12 ms``, ``1.2 s``, ``21 min``, ``5.3 h``."""
    for size, name in ((3600, "h"), (60, "min"), (1, "s")):
        if seconds >= (2 * size if size > 1 else size):
            return f"{_two(seconds / size)} {name}"
    return f"{_two(seconds * 1000)} ms"


def _two(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}"


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 10**8 else f"{count / 1e6:,.1f} MB"
