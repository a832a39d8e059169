"""Are fewer heads smaller and faster? Only if they are really gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict, percent
from headlens.errors import HeadlensError, ModelError
from headlens.pruning.benchmark import CUT, MASKED, Timing

if TYPE_CHECKING:
    from headlens.claims.context import Context

SHARE, BATCH, ROUNDS, PROMPT, NEW = 0.5, 4, 7, 32, 1


class SmallerAndFaster(Claim):
    """Half of the heads taken out of the weights, and the same heads only masked, against the full model."""

    name = "smaller-and-faster"
    shares = ("order",)
    why = "A mask saves nothing; whoever promises speed from head pruning must take the weights out and measure."
    rule = (
        f"Half of the heads (least important) are cut, and masked; reading {PROMPT} tokens, batch {BATCH}, {ROUNDS} "
        "interleaved rounds, change against the full model with its 95 % bootstrap interval. Clear means: the interval "
        "leaves 0 out and the change exceeds what the full model shows against itself. Holds if the cut model has "
        "fewer "
        "parameters and is clearly faster, and the masked one is not clearly faster. Fails if the cut model is not "
        "smaller, or clearly slower, or the masked one clearly faster. Else mixed."
    )
    published = Published(
        "50 % of BERT's heads removed: +1.9 % examples a second at batch 1, +17.5 % at batch 16 and 64",
        "Michel et al. 2019, Table 4",
        "N",
    )

    def passes(self, context: Context) -> float:
        """Rounds of four variants, a batch of short prompts and a few tokens each."""
        tokens = sum(example.length for example in context.held_out.examples)
        return (ROUNDS + 3) * 4 * (BATCH * (PROMPT + NEW) / max(tokens, 1))

    def check(self, context: Context) -> Finding:
        """See the rule."""
        from headlens.lens import Lens
        from headlens.pruning.benchmark import BenchmarkSpec, measure, variants
        from headlens.pruning.cut import cut

        off = context.lowest(SHARE)
        context.phase("cutting half of the heads out")
        try:
            made = cut(context.lens, off)
            spec = BenchmarkSpec((BATCH,), ROUNDS, PROMPT, NEW, context.seed)
            context.phase("timing full, masked and cut")
            times = measure(variants(context.lens, Lens(made.loaded), off), spec, on_progress=context.on_progress)
        except ModelError as error:
            raise NotMeasurable(f"the heads of this model cannot be cut out: {error}") from error
        except HeadlensError as error:
            raise NotMeasurable(str(error)) from error
        return smaller_and_faster(made.parameters_before, made.parameters_after, times, made.removed)


def smaller_and_faster(before: int, after: int, times: Sequence[Timing], removed: str = "none") -> Finding:
    """The verdict on sizes and times (the first phase that is timed: reading)."""
    phase = times[0].phase
    by_name = {one.variant: one for one in times if one.phase == phase}
    cut, masked = by_name[CUT], by_name[MASKED]
    assert cut.change is not None
    assert masked.change is not None
    faster = not cut.noise and cut.change.value < 0
    slower = not cut.noise and cut.change.value > 0
    mask_helps = not masked.noise and masked.change.value < 0
    verdict: Verdict = "mixed"
    if after >= before or slower or mask_helps:
        verdict = "fails"
    elif faster:
        verdict = "holds"
    sentence = (
        f"Without half of its heads the model has {percent(1 - after / before)} fewer parameters and takes "
        f"{_time(cut.change.value)} to read{_noise(cut)}; masked, it takes {_time(masked.change.value)}"
        f"{_noise(masked)}."
    )
    shown = [one for one in (masked, cut, *_rest(by_name)) if one.change is not None]
    series = Series(
        "change of the time",
        tuple(one.variant for one in shown),
        tuple(100 * one.change.value for one in shown if one.change),
        tuple(100 * one.change.low for one in shown if one.change),
        tuple(100 * one.change.high for one in shown if one.change),
    )
    figure = Figure("bars", "against the full model", "change of the time (%)", (series,), 0.0)
    again = Try("Cut and time it", "pages/prune.py", {"off": removed, "cut_which": "switches"})
    change = cut.change
    return Finding(
        verdict, change.value, change.low, change.high, "relative change of the time", sentence, figure, again
    )


def _time(change: float) -> str:
    return f"{percent(abs(change))} {'more' if change > 0 else 'less'} time"


def _noise(one: Timing) -> str:
    return ", within noise" if one.noise else ""


def _rest(by_name: dict[str, Timing]) -> list[Timing]:
    return [one for name, one in by_name.items() if name not in (CUT, MASKED) and one.change is not None]
