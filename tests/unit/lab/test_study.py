"""From results to tallies, sentences, records and CSV: invented losses whose verdict is known."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest

from headlens.errors import HeadlensError
from headlens.lab.export import curves_csv, runs_csv
from headlens.lab.questions import CONTROLS
from headlens.lab.specs import Architecture, RunSpec, Task, Training
from headlens.lab.study import record
from headlens.lab.verdicts import success_against_heads
from tests.unit.lab.invented import always, never, result, results, stuck_with_few, study


def test_pruning_better_than_scratch_is_said() -> None:
    s = study()
    tallies = s.tallies(results(s, stuck_with_few))
    assert tallies["scratch-4"].rate.successes == 4
    assert tallies["scratch-4"].mean.median == 1.0
    first, second = s.verdicts(tallies)
    assert first.decision == "higher"
    assert "easier to keep 4 heads of 8 than to learn with 4" in first.sentence
    assert "4 of 12 runs (33 %, 95 % interval 10 to 65 %)" in first.sentence
    assert "Which heads are kept matters" in second.sentence


def test_scratch_better_than_pruning_is_said_too() -> None:
    s = study()
    first = s.verdicts(s.tallies(results(s, always, never)))[0]
    assert first.decision == "lower"
    assert "easier to learn with 4 heads than to keep 4 of 8" in first.sentence


def test_few_seeds_do_not_decide_and_one_gives_no_interval() -> None:
    s = study(3)
    first = s.verdicts(s.tallies(results(s, never)))[0]
    assert first.decision == "undecided"
    assert "not decided with this few seeds (3)" in first.sentence
    one = study(1)
    first = one.verdicts(one.tallies(results(one, never)))[0]
    assert first.decision == "one seed"
    assert "no interval from one seed" in first.sentence


def test_what_has_not_ended_is_not_counted() -> None:
    s = study()
    found = results(s, always)
    unfinished = {spec: r for spec, r in found.items() if spec.training.seed < 2}
    assert s.tallies(unfinished)["scratch-4"].rate.runs == 2
    nothing = s.tallies({})
    assert math.isnan(nothing["pruned-8"].mean.value)
    assert "not all of these have been run" in s.verdicts(nothing)[0].sentence


def test_a_run_of_exactly_the_limit_has_not_succeeded() -> None:
    s = study(2)
    assert s.tallies(results(s, lambda spec: 0.1))["scratch-4"].rate.successes == 0
    assert s.tallies(results(s, lambda spec: 0.0999))["scratch-4"].rate.successes == 2


def test_found_is_one_and_a_half_times_even_attention() -> None:
    """Two scored positions, which see 3 and 4 tokens: even attention gives (1/3 + 1/4) / 2 = 7/24."""
    spec = RunSpec(Task((1, 2), length=4), Architecture(1), Training())
    found = replace(result(spec, 0.0), attention=((0.1, 0.43, 0.44),))
    assert spec.task.even == pytest.approx(7 / 24)
    assert found.found == (2,)


@pytest.mark.parametrize("name", list(CONTROLS))
def test_every_control_says_something_whichever_way_the_data_fall(name: str) -> None:
    s = study(controls=(CONTROLS[name],))
    for loss, pruned in ((always, always), (never, always), (always, never), (never, never)):
        tallies = s.tallies(results(s, loss, pruned))
        said = s.control_verdicts(CONTROLS[name], tallies)
        assert said
        decided = {v.decision for v in said}
        if loss is pruned:
            assert decided == {"undecided"}
        else:
            assert "undecided" not in decided


def test_the_record_has_the_contracts_fields() -> None:
    s = study(2, controls=(CONTROLS["extra-steps"],))
    found = record(s, results(s, never))
    wanted = {"heads", "seed", "steps", "loss_bits", "found", "pruned_to", "pruned_loss_bits", "seconds"}
    assert all(wanted <= set(run) for run in found["runs"])
    small = next(run for run in found["runs"] if run["heads"] == 4)
    assert (small["pruned_to"], small["pruned_loss_bits"], small["found"]) == (None, None, [1, 4, 8])
    large = next(run for run in found["runs"] if run["heads"] == 8)
    assert (large["pruned_to"], large["pruned_loss_bits"]) == (4, 0.01)
    rows = {row["arm"]: row for row in found["summary"]}
    assert rows["pruned-8"]["heads"] == 8
    assert rows["pruned-8"]["pruned_to"] == 4
    assert rows["scratch-8"]["pruned_to"] is None
    assert rows["pruned-continued"]["training_flops"] > rows["continued"]["training_flops"]


def test_csv_has_one_line_a_run_and_one_a_point() -> None:
    s = study(2)
    found = results(s, never)
    rows = list(csv.DictReader(io.StringIO(runs_csv(found.values()))))
    assert [(row["heads"], row["seed"], row["found"], row["pruned_to"]) for row in rows] == [
        ("4", "0", "1 4 8", ""),
        ("4", "1", "1 4 8", ""),
        ("8", "0", "1 4 8", "4"),
        ("8", "1", "1 4 8", "4"),
    ]
    points = list(csv.DictReader(io.StringIO(curves_csv(found.values()))))
    assert len(points) == 8
    assert points[1] == {"kind": "scratch", "from_heads": "", "heads": "4", "seed": "0", "step": "20", "bits": "1.5"}
    assert runs_csv([]) == ""


def test_success_against_heads_follows_the_data() -> None:
    s = study()

    def said(many_learn: bool) -> str:
        losses = results(s, lambda spec: 0.01 if (spec.architecture.heads > 4) == many_learn else 1.0)
        return success_against_heads([s.tallies(losses)[name] for name in ("scratch-8", "scratch-4")])

    assert "4 heads 0/12, 8 heads 12/12" in said(True)
    assert "more frequent" in said(True)
    assert "less frequent" in said(False)
    assert success_against_heads([]) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"heads": ()}, "no number of heads"),
        ({"heads": (4, 0)}, "number of heads is 0"),
        ({"heads": (4, 4)}, "named twice"),
        ({"heads": (4, 65)}, "number of heads is 65"),
        ({"seeds": ()}, "no seed"),
        ({"small": 0}, "number of heads is 0"),
        ({"heads": (2, 4), "controls": (CONTROLS["longer"],)}, "controls compare 4 heads with more"),
        ({"seeds": tuple(range(1500))}, "at most 2000"),
        ({"extra": 1}, "number of steps is 1"),
    ],
)
def test_studies_that_cannot_be_are_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(HeadlensError, match=says):
        study(**change)  # type: ignore[arg-type]


def test_what_was_learnt_is_counted_apart_from_what_was_not() -> None:
    """Every other run with eight heads has learnt it; of those, every third is lost by pruning."""
    s = study(12)
    found = results(
        s,
        lambda spec: 0.01 if spec.training.seed % 2 == 0 else 1.0,
        lambda spec: 1.0 if spec.training.seed % 6 == 0 else 0.01,
    )
    remark, lottery = s.remarks(s.tallies(found))
    assert remark.startswith(
        "Of the runs with 8 heads that had learnt the task, pruned to 4 still know it: 4 of 6 runs"
    )
    assert lottery.startswith("Success from scratch: 4 heads 6/12, 8 heads 6/12.")
    assert s.remarks(s.tallies(results(s, never))) == [
        "Success from scratch: 4 heads 0/12, 8 heads 0/12. The intervals overlap: not decided with this few seeds (12)."
    ]


def test_fewer_heads_than_distances_are_no_lottery() -> None:
    s = study(12, heads=(2, 4, 8))
    assert "2 heads" not in s.remarks(s.tallies(results(s, always)))[-1]
