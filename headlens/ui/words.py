"""Plain sentences for what the pages show; pure text, so that each can be tested."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlens.ui import methods

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.next_tokens import NextTokens

SMALL = {"loss": 0.01, "drift": 0.001, "accuracy": 0.005}
"""Changes below this are called small in sentences: nats, 1 - cosine or nats, share of predictions."""
_MARKUP = re.compile(r"[\\`*\[\]<~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=\S)")
"""What is markup inside a line; an underscore within a word and a colon before a space are none."""


def count_sentence(values: Mapping[str, np.ndarray], *, metric: str, method: str, total: int, unit_word: str) -> str:
    """How many heads hardly matter, in numbers.

    Args:
        values: exact or first-order scores ``[layer, head]`` by site, NaN where not computed.
        metric, method: what was measured and how.
        total: number of heads (or groups) of the model.
        unit_word: ``heads`` or ``KV groups``.
    """
    flat = _flat(values)
    if not len(flat):
        return f"Nothing is scored yet: {total} {unit_word} are waiting."
    if method not in methods.SIGNED:
        top = np.sort(flat)[::-1]
        share = top[: max(1, len(top) // 10)].sum() / top.sum() if top.sum() > 0 else float("nan")
        return f"The top tenth of the {len(flat)} {unit_word} holds {share:.0%} of the summed score."
    small = SMALL.get(metric, 0.01)
    quiet, harmful = int((np.abs(flat) < small).sum()), int((flat < -small).sum())
    known = (
        f"{len(flat)} {unit_word}"
        if len(flat) == total
        else f"{len(flat)} {unit_word} measured so far ({total} in all)"
    )
    change = "change" if method == "ablation" else "are estimated to change"
    effect = f"{change} the {metric} by less than {small} {methods.unit_of('ablation', metric, '')}"
    sentence = f"{quiet} of {known} {effect}"
    others = f"; {harmful} other{'s harm' if harmful > 1 else ' harms'}: the {metric} gets better by more without"
    return sentence + (f"{others} {'one of them' if harmful > 1 else 'it'}." if harmful else ".")


def off_sentence(found: Evaluation, off: int, total: int) -> str:
    """What the switches that are off do, in numbers."""
    if not off:
        return "Every head is on."
    main = found.main
    if found.metric == "drift":
        return (
            f"Switching off {off} of {total} heads moves the output by {main.value:.4f} (drift) "
            f"on {found.examples} examples."
        )
    error = f" ± {main.delta_sem:.4f}" if np.isfinite(main.delta_sem) else ""
    direction = "raises" if main.delta > 0 else "lowers"
    return (
        f"Switching off {off} of {total} heads {direction} the {found.metric} on {found.examples} examples "
        f"({found.tokens} predictions) from {main.baseline:.4f} to {main.value:.4f}, by {abs(main.delta):.4f}{error}."
    )


def next_sentence(found: NextTokens) -> str:
    """What the model says next, before and after, in numbers."""
    first, now = found.top_before, found.top_after
    if not found.off or found.off == "none":
        return f"Most probable: “{first.label.text}” with {first.before:.1%}."
    if found.changed:
        return (
            f"The answer changes from “{first.label.text}” ({first.before:.1%}, now {first.after:.1%}) "
            f"to “{now.label.text}” ({now.before:.1%}, now {now.after:.1%}); KL {found.drift:.3f} nats."
        )
    return (
        f"The answer stays “{first.label.text}”: {first.before:.1%}, now {first.after:.1%}; KL {found.drift:.3f} nats."
    )


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters; what is left out is shown as an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip(" ,") + "…"


def plain(text: str) -> str:
    """The text as markdown shows it literally: a user's text never becomes markup."""
    special = "\\`*_{}[]()#+-.!|<>~$:&"
    return "".join(f"\\{c}" if c in special else c for c in text).replace("\n", " ⏎ ")


def label(text: str) -> str:
    """A control's label as markdown shows it literally, with as few backslashes as that takes.

    A label is one line, so what makes headings and lists is harmless; and a screen reader reads every backslash.
    """
    return _MARKUP.sub(r"\\\g<0>", text).replace("\n", " ⏎ ")


def percentile(rank: int, total: int) -> int:
    """Share of the others that a rank (1 = highest) is above, in whole percent, rounded down."""
    return 100 * (total - rank) // total if total else 0


def looks_sentence(
    pattern: np.ndarray, queries: Sequence[str], keys: Sequence[str], *, first_counts: bool = False
) -> str:
    """Where a head looks hardest, in numbers.

    Args:
        pattern: ``[query, key]``, rows sum to 1.
        queries, keys: the tokens as people read them; empty for pictures.
        first_counts: whether the first key counts; it collects attention that has nowhere to go.
    """
    array = np.nan_to_num(np.asarray(pattern, dtype=float))
    if array.shape[1] < 2:
        return "There is only one token to look at."
    start = 0 if first_counts else 1
    query, key = np.unravel_index(int(array[:, start:].argmax()), array[:, start:].shape)
    key += start
    name = lambda names, place, what: f"“{names[place]}”" if place < len(names) else f"{what} {place}"  # noqa: E731
    strongest = f"{name(queries, query, 'patch')} at {name(keys, key, 'patch')}"
    first = f"; the first token gets {array[1:, 0].mean():.0%} on average" if len(array) > 1 else ""
    return f"Strongest: {strongest}, {array[query, key]:.2f}{first}."


def duration(seconds: float | None) -> str:
    """``about 3 min left`` for people."""
    if seconds is None:
        return "time left not known yet"
    if seconds < 60:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60)} min left"


def _flat(values: Mapping[str, np.ndarray]) -> np.ndarray:
    parts = [array[np.isfinite(array)] for array in values.values()]
    return np.concatenate(parts) if parts else np.empty(0)
