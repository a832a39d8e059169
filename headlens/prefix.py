"""Prefix reuse: the output of the blocks below the layer that a sweep is at, for every batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headlens.instrument import repeat_rows
from headlens.run import Replay, Run

if TYPE_CHECKING:
    from headlens.data.encode import Batch
    from headlens.lens import Lens


class Prefix:
    """For each batch the output of the blocks below the current layer, advanced as a sweep goes up one stack.

    Args:
        lens: the model.
        stack: name of the stack that the sweep goes up.
        batches: the batches that it runs.
        before_forward: called before each forward pass; an exception from it stops the work.
    """

    def __init__(self, lens: Lens, stack: str, batches: Sequence[Batch], before_forward: Callable[[], None]) -> None:
        self.lens, self.stack, self.batches, self.before_forward = lens, stack, batches, before_forward
        self.done = 0
        self._outputs: list[Any] = [None] * len(batches)
        encoders = [len(site.layers) for site in lens.sites if site.stack == "enc"]
        self._encoder_depth = encoders[0] if encoders and stack == "dec" else 0
        self._encoded: list[Any] = []  # the encoder's last output by batch, which no switch in the decoder changes

    def replay(self, number: int, copies: int = 1) -> Replay:
        """Replays what is known of one batch, for ``copies`` copies of its rows."""
        outputs: dict[str, tuple[int, Any]] = {}
        if self._encoded:
            outputs["enc"] = (self._encoder_depth, self._encoded[number])
        if self.done:
            outputs[self.stack] = (self.done, self._outputs[number])
        rows = len(self.batches[number].indices)
        return Replay({name: (n, repeat_rows(output, rows, copies)) for name, (n, output) in outputs.items()})

    def go_to(self, layer: int) -> None:
        """Computes the blocks from the last layer that was asked for up to the one below ``layer``."""
        numbers = range(len(self.batches))
        if self._encoder_depth and not self._encoded:
            self._encoded = [self._until(number, "enc", self._encoder_depth - 1, Run()) for number in numbers]
        if layer > self.done:
            # Both at once: until all batches are there, an exception must find the old state.
            self._outputs, self.done = [self.through(number, layer - 1, Run()) for number in numbers], layer

    def through(self, number: int, index: int, run: Run) -> Any:
        """Runs one batch under ``run`` up to the block ``index`` of the stack and returns that block's output."""
        return self._until(number, self.stack, index, run)

    def _until(self, number: int, stack: str, index: int, run: Run) -> Any:
        self.before_forward()
        run.replay = self.replay(number)
        run.replay.stop = (stack, index)
        return self.lens.forward_until(self.batches[number].inputs, run)
