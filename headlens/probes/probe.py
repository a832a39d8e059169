"""Asks a model about its skills, with all heads on and with some off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.live import record_blocks, replay_below
from headlens.metrics import readout
from headlens.probes.result import ProbeResult, SkillResult
from headlens.probes.skills import Skill, find_skills
from headlens.run import Run
from headlens.switches import edits_for, gather, off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.probes.pairs import PairData
    from headlens.run import LayerKey
    from headlens.switches import Ablation, Replacements

BATCH_SIZE = 16
Progress = Callable[[int, int], None]


def probe(
    lens: Lens,
    off: HeadSet | str,
    skills: Sequence[str | Skill] | None = None,
    *,
    ablation: Ablation = "zero",
    limit: int | None = None,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    on_progress: Progress | None = None,
) -> ProbeResult:
    """What the heads in ``off`` do to a model's skills; see :class:`Prober`, which keeps the work for another set.

    Args:
        lens: the model.
        off: heads that are off, or HEADS.
        skills: names, or skills of one's own; None takes those that suit the model.
        ablation: what replaces ``z``; ``mean`` and ``resample`` take it from the same skill's pairs with all heads on.
        limit: only so many pairs of each skill.
        seed: draws the pairs that are made, and the partners of ``resample``.
        batch_size: pairs a forward pass; it does not change the numbers beyond rounding.
        on_progress: called with (done, total) forward passes; may raise to cancel.

    Raises:
        HeadlensError: the model says no words, or an unknown skill.
        HeadError: for labels that this model does not have.
    """
    chosen = lens.topology.parse(off) if isinstance(off, str) else off
    off_mask(lens.topology, chosen)  # says now, not after the work, that a head is not there
    prober = Prober(lens, skills, limit=limit, seed=seed, batch_size=batch_size)
    total = prober.passes * (2 if len(chosen) else 1)
    steps = None if on_progress is None else _counter(on_progress, total)
    prober.prepare(steps)
    return prober.probe(chosen, ablation=ablation, on_progress=steps)


def _counter(on_progress: Progress, total: int) -> Progress:
    """Counts the forward passes of several stretches of work as one."""
    done = 0

    def step(_done: int, _total: int) -> None:
        nonlocal done
        done += 1
        on_progress(min(done, total), total)

    return step


class Prober:
    """A model's skills, asked again and again with other heads off. Safe to use from several threads.

    Args:
        lens, skills, limit, seed, batch_size: see :func:`probe`.
        keep: keep the output of every block with all heads on, so that a switch costs only the part of the model
            behind it; the memory is the pairs' tokens times blocks times width.

    Attributes:
        skills: the skills with at least one usable pair.
        skipped: the others, with the reason.
        passes: forward passes that one head set costs.
    """

    def __init__(
        self,
        lens: Lens,
        skills: Sequence[str | Skill] | None = None,
        *,
        limit: int | None = None,
        seed: int = 0,
        batch_size: int = BATCH_SIZE,
        keep: bool = False,
    ) -> None:
        self.lens, self.seed, self.keep = lens, seed, keep
        self.skipped: dict[str, str] = {}
        self._asked: list[_Asked] = []
        for skill in find_skills(lens, skills):
            data = skill.data(lens, limit=limit, seed=seed)
            if len(data):
                self._asked.append(_Asked(lens, skill, data, batch_size))
            else:
                reasons = ", ".join(sorted(data.dropped)) or "it has no pairs"
                self.skipped[skill.name] = f"no pair of {skill.name} can be used ({reasons})"
        self._lock = threading.Lock()

    @property
    def skills(self) -> tuple[Skill, ...]:
        """See the class."""
        return tuple(asked.skill for asked in self._asked)

    @property
    def passes(self) -> int:
        """See the class."""
        return sum(len(asked.batches) for asked in self._asked)

    def prepare(self, on_progress: Progress | None = None) -> None:
        """Runs every pair with all heads on; the first :meth:`probe` does it otherwise."""
        with self._lock:
            for asked in self._asked:
                asked.run_clean(self.keep, on_progress)

    def probe(
        self, off: HeadSet | str, *, ablation: Ablation = "zero", on_progress: Progress | None = None
    ) -> ProbeResult:
        """Every skill with all heads on and with ``off`` off; see :func:`probe`."""
        chosen = self.lens.topology.parse(off) if isinstance(off, str) else off
        masks = off_mask(self.lens.topology, chosen)
        self.prepare()
        found = []
        for asked in self._asked:
            after = asked.clean
            if masks:
                with self._lock:
                    replacements = asked.replacements(ablation, list(masks), self.seed)
                after = asked.answers(masks, replacements, on_progress)
            (before, loss_before), (now, loss) = asked.clean.T, after.T
            found.append(SkillResult(asked.skill, before, now, asked.data.dropped, loss_before, loss))
        label = self.lens.topology.format(chosen)
        return ProbeResult(self.lens.name, label, ablation, tuple(found), dict(self.skipped), self.seed)


class _Asked:
    """One skill's pairs on one model."""

    def __init__(self, lens: Lens, skill: Skill, data: PairData, batch_size: int) -> None:
        self.lens, self.skill, self.data = lens, skill, data
        self.batches = data.data.batches(batch_size)
        self._clean: np.ndarray | None = None
        self._blocks: list[dict[tuple[str, int], Any]] = []
        self._replacements: dict[tuple[Ablation, int], Replacements] = {}

    @property
    def clean(self) -> np.ndarray:
        """Logit difference and loss of the right answer with all heads on, ``[pairs, 2]``."""
        assert self._clean is not None
        return self._clean

    def run_clean(self, keep: bool, on_progress: Progress | None) -> None:
        """The pass with all heads on, once."""
        if self._clean is not None:
            return
        found, kept = np.empty((len(self.data), 2)), []
        for number, batch in enumerate(self.batches):
            with torch.inference_mode():
                if keep:
                    blocks, output = record_blocks(self.lens, batch.inputs)
                    kept.append(blocks)
                else:
                    output = self.lens.forward(batch.inputs, Run())
                values = readout(output, self.lens.task)
                found[list(batch.indices)] = self._answers(values, batch.indices)
            if on_progress is not None:
                on_progress(number + 1, len(self.batches))
        self._clean, self._blocks = found, kept

    def replacements(self, ablation: Ablation, layers: Sequence[LayerKey], seed: int) -> Replacements:
        """What takes the place of ``z`` in ``layers``; gathered once for all layers where anything is kept."""
        key = (ablation, seed)
        known = self._replacements.get(key)
        if ablation == "zero" or known is None or any(_missing(known, layer) for layer in layers):
            wanted = list(layers)
            if known is not None:
                wanted = list(dict.fromkeys([*known.means, *known.z, *layers]))
            self._replacements[key] = gather(self.lens, self.data.data, ablation, wanted, seed=seed)
        return self._replacements[key]

    def answers(
        self, masks: Mapping[LayerKey, Tensor], replacements: Replacements, on_progress: Progress | None
    ) -> np.ndarray:
        """Logit difference and loss of the right answer with the masked heads off, ``[pairs, 2]``."""
        found = np.empty((len(self.data), 2))
        for number, batch in enumerate(self.batches):
            edits = edits_for(masks, replacements, batch, self.lens.device)
            replay = replay_below(self.lens, self._blocks[number], masks) if self._blocks else None
            with torch.inference_mode():
                values = readout(self.lens.forward(batch.inputs, Run(edits=edits, replay=replay)), self.lens.task)
                found[list(batch.indices)] = self._answers(values, batch.indices)
            if on_progress is not None:
                on_progress(number + 1, len(self.batches))
        return found

    def _answers(self, values: Tensor, indices: Sequence[int]) -> np.ndarray:
        """Logit difference and loss of the right answer, ``[rows, 2]``."""
        data = self.data
        return torch.stack([data.differences(values, indices), data.losses(values, indices)], 1).numpy()


def _missing(known: Replacements, layer: LayerKey) -> bool:
    return layer not in known.means and layer not in known.z
