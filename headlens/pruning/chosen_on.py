"""Whether what is reported may hold examples that the heads were chosen on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headlens.data.builtin import index


def chosen_on(choice: Mapping[str, Any], data: str, split: str, seed: int) -> bool:
    """Whether heads were chosen on (some of) the examples that are reported.

    Halves of a built-in set are fixed; those of a user's file depend on the seed, so two of different seeds overlap.

    Args:
        choice: how the heads were chosen, from ``headlens.json``.
        data: name of the reported examples (several joined sets with commas).
        split: which part of them is reported.
        seed: by which that part was made.
    """
    name, part = choice.get("data"), choice.get("split")
    if not choice.get("method") or not name or name not in (data, *data.split(",")):
        return False
    if "all" in (part, split) or part == split:
        return True
    built_in = any(entry.name == name for entry in index())
    return not built_in and choice.get("seed", seed) != seed


def warning(choice: Mapping[str, Any]) -> str:
    """What to say then, without a full stop."""
    return (
        f"the heads were chosen on the {choice.get('split')} part of {choice.get('data')} (seed {choice.get('seed')}), "
        "which may hold examples that are reported here: that flatters; prune --split score with the same --seed "
        "keeps them apart"
    )
