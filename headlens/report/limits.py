"""What a reader must not conclude from a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.pruning.chosen_on import chosen_on, warning

if TYPE_CHECKING:
    from headlens.report.choice import Why
    from headlens.report.models import Subjects
    from headlens.report.quality import Quality
    from headlens.report.speed import Speed
    from headlens.report.training import Trained

FEW = 30


def limits(
    subjects: Subjects, good: Quality, fast: Speed | None, why: Why, learned: Trained | None, seed: int
) -> list[str]:
    """One sentence for each limit that applies; ``seed`` made the half of a file that is reported."""
    found = [_where(good)]
    if chosen_on(why.chosen, good.data, good.split, seed):
        said = warning(why.chosen)
        found.append(f"{said[0].upper()}{said[1:]}.")
    if good.examples < FEW:
        found.append(
            f"{good.examples} examples are few: the error bars say how few, but not whether other kinds of text are "
            "like these."
        )
    found.append(
        "Error bars are over examples: they do not contain other seeds, other trainings or other ways to choose heads."
    )
    if good.main == "loss":
        found.append(
            "An average over all predictions hides single skills: a model may lose one (copying, agreement, brackets) "
            "and its loss hardly moves."
        )
    else:
        found.append("A distance says how much the outputs moved, and not whether they became worse for your purpose.")
    found += _of_the_choice(subjects, why)
    if subjects.recovered is not None:
        found += _of_the_training(subjects, learned)
    if fast is not None:
        found.append(
            "Times are those of this machine with whatever else ran on it; other machines, batch sizes and lengths "
            "give others."
        )
    elif subjects.changed is not None:
        found.append("Speed was not measured for this report.")
    return found


def _where(good: Quality) -> str:
    part = {"held-out": "the held-out half", "score": "the score half", "all": "all"}.get(good.split, good.split)
    warned = "" if good.split == "held-out" else ", which may hold examples that the heads were chosen on"
    return f"Measured on {part} of {good.data} ({good.examples} examples){warned}; other text may give other numbers."


def _of_the_choice(subjects: Subjects, why: Why) -> list[str]:
    found = []
    reliability = why.chosen.get("reliability")
    if reliability is not None and reliability < 0.5:
        found.append(
            f"The ranking behind the choice is unstable (split-half reliability {reliability:.2f}): heads of nearly "
            "equal score changed places by chance."
        )
    if why.scores is not None and why.chosen.get("method") and not why.same_scores:
        found.append(
            "The scores on the map were made for this report and are not, number by number, those that the heads were "
            "chosen by."
        )
    told = next(
        (one.sidecar.get("source", {}).get("fingerprint") for one in subjects.all if one.sidecar.get("source")), None
    )
    if told is not None and told != subjects.full.lens.fingerprint:
        found.append("The full model here is not, bit for bit, the one that the cut was made from.")
    if subjects.cut is not None and subjects.recovered is None:
        found.append("The cut was not compared with random cuts of the same size; `headlens curve` does that.")
    return found


def _of_the_training(subjects: Subjects, learned: Trained | None) -> list[str]:
    assert subjects.recovered is not None
    recovery = subjects.recovered.sidecar.get("recovery")
    if recovery and not recovery.get("finished"):
        return ["The training was not finished: the recovered model is the best of it so far."]
    if learned is None:
        return ["The folder of the recovered model does not say how it was trained."]
    found = []
    if not learned.control:
        found.append(
            "No random cut was trained the same way, so nothing says whether the choice of heads mattered in the end "
            "(`headlens recover --control 3`)."
        )
    names = {row.get("name") for row in learned.facts.get("table") or []}
    if "full + the same training" not in names and learned.facts.get("objective") == "task":
        found.append(
            "The training saw text of the same kind as the held-out examples; part of what it brought may be that, and "
            "not the mending of the cut. The full model, trained the same way, would tell (`--train-full`)."
        )
    return found
