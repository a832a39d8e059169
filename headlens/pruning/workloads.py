"""The work whose time a benchmark takes: one forward pass, or a prompt read and tokens written after it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import HeadlensError
from headlens.run import Edit, Run, running
from headlens.switches import off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.lens import Lens

FORWARD, PREFILL, DECODE = "forward", "prefill", "decode"
_CACHE_NAMES = ("cache", "past_key_values")
"""transformers 5.24 calls the cache of keys and values "cache", earlier versions "past_key_values"."""

LEAST_SECONDS = 0.05
MOST_PASSES = 20


@dataclass(frozen=True)
class Shape:
    """How much work one measurement is.

    Attributes:
        batch: sequences (or pictures) side by side.
        prompt: tokens of each sequence.
        new: tokens written after it, where the model writes.
    """

    batch: int
    prompt: int = 64
    new: int = 16


class Workload:
    """One model under one set of switches, with inputs of one shape; no padding, random tokens drawn by a seed.

    Args:
        lens: the model.
        off: heads that are masked (switched off, but still there).
        shape: how much work.
        seed: draws the tokens.

    Raises:
        HeadlensError: a prompt that is too long for the model, or a model without a data path.
    """

    def __init__(self, lens: Lens, off: HeadSet, shape: Shape, *, seed: int = 0) -> None:
        self.lens, self.shape = lens, shape
        edits = {key: Edit(off=mask.to(lens.device)) for key, mask in off_mask(lens.topology, off).items()}
        self.run = Run(edits=edits) if edits else None
        names = [name for name in _CACHE_NAMES if lens.accepts(name)]
        self.cache_name = names[0] if names and lens.accepts("use_cache") else None
        self.writes = lens.task in ("causal-lm", "seq2seq") and self.cache_name is not None
        limit, needed = lens.max_positions, shape.prompt + (shape.new if self.writes else 0)
        if limit is not None and needed > limit and lens.task != "image-classification":
            raise HeadlensError(f"{lens.name} takes {limit} tokens and {needed} were asked for; use a shorter prompt")
        self.inner = 1
        self.generator = torch.Generator().manual_seed(seed)
        self.inputs = self._inputs()
        self.next = [self._ids(1) for _ in range(shape.new)] if self.writes else []

    @property
    def phases(self) -> tuple[str, ...]:
        """What is timed: ``prefill`` and ``decode`` where the model writes, else ``forward``."""
        return (PREFILL, DECODE) if self.writes else (FORWARD,)

    def tokens(self, phase: str) -> int:
        """Tokens (or pictures) that one timed unit handles: a decode unit is one token of each sequence."""
        single = phase == DECODE or self.lens.task == "image-classification"
        return self.shape.batch * (1 if single else self.shape.prompt)

    def measure(self) -> dict[str, float]:
        """Wall seconds of each phase: the median of a few passes if they are short; decode: of one step, the mean."""
        with torch.inference_mode():
            seconds: list[float] = []
            output: Any = None
            for _ in range(self.inner):
                start = self._now()
                output = self._forward(self.inputs)
                seconds.append(self._now() - start)
            found = {self.phases[0]: median(seconds)}
            if self.writes:
                start = self._now()
                self._write(output)
                found[DECODE] = (self._now() - start) / len(self.next)
        return found

    def warm_up(self) -> None:
        """Runs once unmeasured, and decides how many passes one measurement takes (single short ones are all noise)."""
        seconds = self.measure()[self.phases[0]]
        self.inner = max(1, min(MOST_PASSES, round(LEAST_SECONDS / max(seconds, 1e-9))))

    def cached_bytes(self) -> int:
        """Bytes of keys and values that are kept after the prompt."""
        with torch.inference_mode():
            output = self._forward(self.inputs)
        return sum(tensor.nbytes for tensor in _tensors(getattr(output, self.cache_name or "", None)))

    def _now(self) -> float:
        if self.lens.device.type == "cuda":
            torch.cuda.synchronize(self.lens.device)
        elif self.lens.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    def _forward(self, inputs: dict[str, Any]) -> Any:
        """The bare model: with no heads off not even a run is set, so it is what a user would call."""
        if self.run is None:
            return self.lens.model(**inputs)
        with running(self.lens.owner, self.run):
            return self.lens.model(**inputs)

    def _write(self, output: Any) -> None:
        """One step for each new token, with the cache; which tokens they are does not matter for the time."""
        length = self.shape.prompt
        source: dict[str, Any] = {}
        if self.lens.task == "seq2seq":
            from transformers.modeling_outputs import BaseModelOutput

            source = {"encoder_outputs": BaseModelOutput(output.encoder_last_hidden_state)}
            source["attention_mask"] = self.inputs["attention_mask"]
        for ids in self.next:
            length += 1
            inputs: dict[str, Any] = {self.cache_name or "": getattr(output, self.cache_name or ""), "use_cache": True}
            if self.lens.task == "seq2seq":
                inputs |= {**source, "decoder_input_ids": ids}
            else:
                mask = torch.ones(self.shape.batch, length, dtype=torch.long, device=ids.device)
                inputs |= {"input_ids": ids, "attention_mask": mask}
            output = self._forward(inputs)

    def _inputs(self) -> dict[str, Any]:
        lens, task = self.lens, self.lens.task
        if task == "image-classification":
            config: Any = lens.model.config
            size = config.image_size
            height, width = (size, size) if isinstance(size, int) else size
            pixels = torch.randn(self.shape.batch, config.num_channels, height, width, generator=self.generator)
            return {"pixel_values": pixels.to(lens.device, lens.dtype)}
        if not lens.vocabulary or not lens.accepts("input_ids"):
            raise HeadlensError(f"{lens.name} is a {task} model, for which there is no benchmark")
        ids = self._ids(self.shape.prompt)
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if task == "seq2seq":
            start = int(lens.shift_right(torch.zeros(1, dtype=torch.long))[0])
            inputs["decoder_input_ids"] = torch.full((self.shape.batch, 1), start, device=lens.device)
        if lens.accepts("use_cache"):
            inputs["use_cache"] = self.writes
        if self.writes and lens.accepts("logits_to_keep"):
            inputs["logits_to_keep"] = 1  # as in generation: only the last position is asked for
        return inputs

    def _ids(self, length: int) -> Tensor:
        drawn = torch.randint(0, self.lens.vocabulary, (self.shape.batch, length), generator=self.generator)
        return drawn.to(self.lens.device)


def kv_bytes_per_token(lens: Lens, *, prompt: int = 8) -> int | None:
    """Bytes that the cache of keys and values grows by for one token of one sequence; None without a cache.

    Measured on the cache itself, so that it holds for grouped heads, cut layers and latent attention alike. For
    encoder-decoder models a token of the source (the cross-attention's cache) and one that is written (the decoder's).
    """
    from headlens.heads import HeadSet

    if lens.max_positions is not None:
        prompt = max(1, min(prompt, (lens.max_positions - 1) // 2))
    short = Workload(lens, HeadSet(), Shape(1, prompt, 1))
    if not short.writes:
        return None
    long = Workload(lens, HeadSet(), Shape(1, 2 * prompt, 1))
    for work in (short, long):
        if "decoder_input_ids" in work.inputs:  # as much is written as is read
            work.inputs["decoder_input_ids"] = work.inputs["decoder_input_ids"].repeat(1, work.shape.prompt)
    return (long.cached_bytes() - short.cached_bytes()) // prompt


def _tensors(value: Any, seen: set[int] | None = None) -> list[Tensor]:
    """Every tensor that a cache holds, at any depth, each once."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    elif type(value).__module__.startswith("transformers") and hasattr(value, "__dict__"):
        parts = list(vars(value).values())
    else:
        return []
    return [tensor for part in parts for tensor in _tensors(part, seen)]
