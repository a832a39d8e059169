"""The smallest set of heads whose absence changes the model's answer to one prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet
from headlens.instrument import repeat_rows
from headlens.live import record_blocks, replay_below
from headlens.next_tokens import Choice, Question, next_tokens
from headlens.run import Edit, LayerKey, Replay, Run

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

MARGIN = 1e-4
"""The new answer must lead by this much (logits): more than the rounding by which a batch differs from one row."""
CANDIDATES = 8
"""Heads that are tried at each step of growth: half by the gradient, half by their effect alone."""
TOKENS_PER_FORWARD = 1024


@dataclass(frozen=True)
class MinimalChange:
    """A set of heads without which the model gives another answer, or that none was found.

    Attributes:
        found: whether there is one.
        heads: the set (empty when none was found).
        off: the set as HEADS.
        before, after: the first answer with every head on and with the set off, both with both probabilities; ``after``
            is ``before`` when none was found.
        margin: logit lead of the answer over the next best, with every head on.
        left: the lead with the set off (negative: another answer leads); the smallest that was reached if none changed.
        singles: number of single heads that change the answer.
        forwards: forward passes of the prompt that were used; one with gradients counts 3.
        tried_all_singles: whether the budget was enough for every head alone.
        proved: whether no smaller set exists.
        irreducible: whether it was checked that no head can be left out.
    """

    found: bool
    heads: HeadSet
    off: str
    before: Choice
    after: Choice
    margin: float
    left: float
    singles: int
    forwards: int
    tried_all_singles: bool
    proved: bool
    irreducible: bool

    def sentence(self) -> str:
        """What was found and how sure it is, in plain words with the numbers."""
        if not self.found:
            tried = "no single head does it" if self.tried_all_singles else "not even every single head was tried"
            return (
                f"Nothing found within {self.forwards} forward passes ({tried}): the answer stays "
                f"{self.before.label.text!r}, whose lead of {self.margin:.2f} logits fell to {self.left:.2f} at least."
            )
        change = (
            f"Without {self.off} the answer changes from {self.before.label.text!r} "
            f"({self.before.before:.0%} to {self.before.after:.0%}) to {self.after.label.text!r} "
            f"({self.after.before:.0%} to {self.after.after:.0%})"
        )
        return f"{change}; {self._certainty()}."

    def _certainty(self) -> str:
        if len(self.heads) == 1 and self.tried_all_singles:
            more = f"{self.singles} heads do" if self.singles > 1 else "it is the only head that does"
            return f"one head is enough, and {more} it alone"
        if self.proved:
            return "no smaller set can do it" + (": no single head does" if len(self.heads) > 1 else "")
        tried = "no single head does it" if self.tried_all_singles else "not every single head was tried"
        least = "none of these heads can be left out" if self.irreducible else "the budget ended before it was cut down"
        return f"{tried}; smaller sets of 2 or more were not all tried; {least}"


def smallest_change(
    lens: Lens,
    inputs: Mapping[str, Tensor],
    *,
    budget_forwards: int = 2000,
    on_progress: Callable[[int, int], None] | None = None,
) -> MinimalChange:
    """Looks for the smallest set of heads whose zero ablation changes the model's first answer.

    All single heads are tried exactly. If none changes the answer, a set grows greedily from the one that takes most of
    the answer's lead: at each step the heads that promise most, by the gradient of the lead with respect to gates at
    the current set and by their effect alone, are tried exactly and the best stays. Last, heads are taken out again as
    long as the answer stays changed, so that none of those that remain can be left out.

    Args:
        lens: the model.
        inputs: one prompt, see :func:`headlens.next_tokens.next_tokens`.
        budget_forwards: forward passes of the prompt that may be used.
        on_progress: called with (forwards used, budget); may raise to cancel.

    Raises:
        HeadlensError: models that predict nothing, a prompt without the mask token, a budget below 1.
    """
    if budget_forwards < 1:
        raise HeadlensError(f"a budget of {budget_forwards} forward passes tries nothing; give at least 1")
    search = _Search(lens, Question(lens, inputs), budget_forwards, on_progress)
    singles = search.singles()
    working = sum(left < -MARGIN for left in singles.values())
    best = min(singles, key=singles.__getitem__, default=None)
    chosen = HeadSet() if best is None else HeadSet.of([best])
    left = search.margin if best is None else singles[best]
    if best is not None and left >= -MARGIN:
        chosen, left = search.grow(chosen, left, singles)
    found, irreducible = left < -MARGIN, len(chosen) == 1
    if found and len(chosen) > 1:
        chosen, left, irreducible = search.shrink(chosen, left)
    off = chosen if found else HeadSet()
    answers = next_tokens(lens, search.question.inputs, off, k=1)
    all_tried = len(singles) == len(lens.topology.heads())
    before, after = answers.top_before, answers.top_after
    return MinimalChange(
        found,
        off,
        lens.topology.format(off),
        before,
        after,
        search.margin,
        left,
        working,
        search.used,
        all_tried,
        found and (len(off) == 1 or (len(off) == 2 and all_tried)),
        found and irreducible,
    )


class _Search:
    """Counts forward passes and knows the lead of the answer under any head set."""

    def __init__(
        self, lens: Lens, question: Question, budget: int, on_progress: Callable[[int, int], None] | None
    ) -> None:
        self.lens, self.question, self.budget, self.on_progress = lens, question, budget, on_progress
        self.used = 1
        with torch.inference_mode():
            self.blocks, _ = record_blocks(lens, question.inputs)
        logits = question.logits(Run())[0]
        self.answer = int(logits.argmax())
        self.margin = float(self._leads(logits[None])[0])
        self.rows = max(1, TOKENS_PER_FORWARD // max(1, len(question.ids)))

    @property
    def left(self) -> int:
        """Forward passes that may still be used."""
        return self.budget - self.used

    def _count(self, forwards: int) -> None:
        self.used += forwards
        if self.on_progress is not None:
            self.on_progress(self.used, max(self.used, self.budget))

    def _leads(self, logits: Tensor) -> Tensor:
        """Lead of the answer over the next best, ``[rows, classes]`` to ``[rows]``."""
        others = logits.index_fill(1, torch.tensor([self.answer], device=logits.device), -torch.inf)
        return logits[:, self.answer] - others.amax(1)

    def leads(self, sets: Sequence[HeadSet]) -> list[float]:
        """Exact lead with each set off, as far as the budget goes (then fewer than were asked for)."""
        found: list[float] = []
        sets = sets[: max(0, self.left)]
        for start in range(0, len(sets), self.rows):
            part = sets[start : start + self.rows]
            edits = self._edits(part)
            replay = replay_below(self.lens, self.blocks, edits)
            outputs = {stack: (n, repeat_rows(output, 1, len(part))) for stack, (n, output) in replay.outputs.items()}
            logits = self.question.logits(Run(edits=edits, replay=Replay(outputs)), rows=len(part))
            found += self._leads(logits).tolist()
            self._count(len(part))
        return found

    def _edits(self, sets: Sequence[HeadSet]) -> dict[LayerKey, Edit]:
        """One row for each set."""
        masks: dict[LayerKey, Tensor] = {}
        for row, heads in enumerate(sets):
            for (site, layer), labels in heads.by_layer().items():
                present = self.lens.topology.site(site).layers[layer].heads
                mask = masks.setdefault((site, layer), torch.zeros(len(sets), len(present), dtype=torch.bool))
                mask[row] = torch.tensor([head in labels for head in present])
        return {key: Edit(off=mask.to(self.lens.device)) for key, mask in masks.items()}

    def singles(self) -> dict[Head, float]:
        """The lead without each head alone; neighbours share a batch, so that much of the model is replayed."""
        heads = list(self.lens.topology.heads())
        return dict(zip(heads, self.leads([HeadSet.of([head]) for head in heads]), strict=False))

    def grow(self, chosen: HeadSet, left: float, singles: Mapping[Head, float]) -> tuple[HeadSet, float]:
        """Adds heads until the answer changes or the budget ends."""
        alone = sorted(singles, key=singles.__getitem__)
        while left >= -MARGIN and len(chosen) < len(alone) and self.left >= 3 + CANDIDATES:
            slope = self._slopes(chosen)
            steepest = sorted((head for head in slope if head not in chosen), key=lambda head: -slope[head])
            single = [head for head in alone if head not in chosen]
            pool = list(dict.fromkeys([*steepest[: CANDIDATES // 2], *single[: CANDIDATES // 2]]))
            leads = self.leads([HeadSet.of([*chosen, head]) for head in pool])
            left, number = min(zip(leads, range(len(pool)), strict=True))
            chosen = HeadSet.of([*chosen, pool[number]])
        return chosen, left

    def _slopes(self, chosen: HeadSet) -> dict[Head, float]:
        """First-order fall of the lead when each head goes too: its derivative by a gate at 1, with ``chosen`` off."""
        off = self._edits([chosen])
        gates: dict[LayerKey, Tensor] = {}
        edits: dict[LayerKey, Edit] = {}
        for site in self.lens.topology.sites:
            for layer, shape in enumerate(site.layers):
                if shape.heads:
                    gate = torch.ones(1, len(shape.heads), device=self.lens.device, dtype=self.lens.dtype)
                    gates[site.name, layer] = gate.requires_grad_()
                    known = off.get((site.name, layer))
                    edits[site.name, layer] = Edit(off=None if known is None else known.off, gate=gate)
        with torch.enable_grad():
            lead = self._leads(self.question.logits(Run(edits=edits)))[0]
            found = torch.autograd.grad(lead, list(gates.values()), allow_unused=True)
        self._count(3)
        return {
            Head(site, layer, head): 0.0 if gradient is None else float(gradient[0, column])
            for ((site, layer), gradient) in zip(gates, found, strict=True)
            for column, head in enumerate(self.lens.topology.site(site).layers[layer].heads)
        }

    def shrink(self, chosen: HeadSet, left: float) -> tuple[HeadSet, float, bool]:
        """Takes heads out as long as the answer stays changed; the last value says whether that was done to the end."""
        while len(chosen) > 1 and self.left >= len(chosen):
            smaller = [chosen - HeadSet.of([head]) for head in chosen]
            lead, number = min(zip(self.leads(smaller), range(len(smaller)), strict=True))
            if lead >= -MARGIN:
                return chosen, left, True
            chosen, left = smaller[number], lead
        return chosen, left, len(chosen) == 1
