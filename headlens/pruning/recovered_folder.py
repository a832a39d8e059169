"""The folder of a recovered model: a MODEL like any other, that says what was cut and how it was trained since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.pruning.names import found_from
from headlens.pruning.saved import Saved, save_model

if TYPE_CHECKING:
    from pathlib import Path

    from headlens.models.loading import Loaded
    from headlens.pruning.recovery import Recovered
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.training_state import State

KIND = "recovered"
_OF_THE_CUT = ("source", "off", "choice", "parameters_before", "parameters_after", "bytes_before")
_ALSO_OF_THE_CUT = ("kv_groups_kept_for_a_part",)


def check_can_recover(loaded: Loaded) -> None:
    """Raises ModelError for a masked model: its heads are only zeroed, and training would bring them back."""
    if (loaded.sidecar or {}).get("kind") == "masked":
        raise ModelError(
            f"{loaded.name} has heads that are only set to zero (prune --masked), and training would bring them back; "
            "cut them out instead"
        )


def unfinished(state: State, command: str) -> dict[str, Any]:
    """What the folder says while the training goes on (or was killed)."""
    first = state.points[0]
    return {
        "finished": False,
        "best_step": state.best_step,
        "watched_before": first.watched,
        "watched_best": state.best,
        "note": "the training was not finished when this was written; the same command goes on",
        "command": command,
    }


def finished(result: Recovered, command: str, table: RecoveryTable | None = None) -> dict[str, Any]:
    """What the folder says in the end; with ``table`` also how it stands beside the full model and the controls."""
    facts = {"finished": True, **_finite(result.describe()), "command": command}
    if table is not None:
        facts |= {"table": _finite(table.describe()), "table_sentences": table.sentences()}
    return facts


def save_recovered(loaded: Loaded, folder: Path, recovery: Mapping[str, Any]) -> Saved:
    """Writes the model as it is now.

    Args:
        loaded: the model as it was opened from the folder of the cut (its weights have changed since).
        folder: its new name.
        recovery: from :func:`unfinished` or :func:`finished`.

    Raises:
        HeadlensError: it cannot be written; what was there before is untouched.
    """
    cut = loaded.sidecar or {}
    facts: dict[str, Any] = {name: cut[name] for name in (*_OF_THE_CUT, *_ALSO_OF_THE_CUT) if name in cut}
    facts |= {"cut_command": cut.get("cut_command", cut.get("command")), "command": recovery.get("command")}
    facts["recovered_from"] = loaded.name
    if isinstance(source := facts.get("source"), dict) and source.get("model"):  # it was seen from the cut's folder
        facts["source"] = {**source, "model": found_from(loaded.path, str(source["model"]))}
    earlier = [*cut.get("earlier_recoveries", []), *([cut["recovery"]] if "recovery" in cut else [])]
    if earlier:
        facts["earlier_recoveries"] = earlier
    return save_model(loaded, folder, {"kind": KIND, **facts, "recovery": dict(recovery)})


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value != value else value
