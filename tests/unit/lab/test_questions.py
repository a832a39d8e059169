"""Controls: each makes equal what it says, and leaves the rest as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headlens.errors import HeadlensError
from headlens.lab.cost import flops, flops_a_step, parameters
from headlens.lab.questions import CONTROLS, Question, controls, main_arms, more_distances
from headlens.lab.specs import Architecture, RunSpec, Task, Training

QUESTION = Question(4, 8)
PLAIN = QUESTION.scratch()
LARGE = QUESTION.scratch(8)


def only(name: str) -> RunSpec:
    (arm,) = CONTROLS[name].arms(QUESTION)
    return arm.template


def test_the_main_arms_differ_in_heads_and_pruning_alone() -> None:
    arms = {arm.name: arm for arm in main_arms(QUESTION)}
    assert arms["scratch"].template == RunSpec(Task(), Architecture(4), Training())
    assert arms["large"].template == RunSpec(Task(), Architecture(8), Training(), prune_to=4)
    assert arms["pruned"].template == arms["random"].template == arms["large"].template
    assert [arm.outcome for arm in arms.values()] == ["trained", "trained", "pruned", "random"]


def test_equal_parameters() -> None:
    spec = only("equal-parameters")
    small, large = parameters(spec.architecture, spec.task), parameters(LARGE.architecture, LARGE.task)
    assert abs(small - large) <= 3 * 64 / 2  # half a unit of the MLP
    assert replace(spec, architecture=replace(spec.architecture, mlp=128)) == PLAIN


def test_equal_compute() -> None:
    spec = only("equal-compute")
    assert flops(spec) == pytest.approx(flops(LARGE), rel=1e-3)
    assert replace(spec, training=PLAIN.training) == PLAIN
    assert spec.training.steps > 600


def test_the_compute_of_a_step_by_hand() -> None:
    """Width 8, one head of 2, MLP of 4, 4 tokens of which 3 are scored, 2 classes, 1 sequence."""
    task, architecture = Task((1,), length=4), Architecture(1, d_head=2, width=8, mlp=4)
    projections = 4 * 2 * 4 * 8 * 2  # q, k, v, o: 2 x tokens x in x out
    attention = 2 * 2 * 4 * 4 * 2  # scores and mixing: 2 x tokens x tokens x d_head each
    mlp, read_out = 3 * 2 * 4 * 8 * 4, 2 * 3 * 8 * 2
    assert flops_a_step(architecture, task, 1) == 3 * (projections + attention + mlp + read_out)


def test_fewer_but_wider_heads_are_as_wide_in_all() -> None:
    spec = only("wider-heads")
    assert spec.architecture.heads * spec.architecture.d_head == 64
    assert replace(spec, architecture=PLAIN.architecture) == PLAIN
    with pytest.raises(HeadlensError, match="cannot be shared out"):
        CONTROLS["wider-heads"].arms(Question(3, 8))


def test_longer_training_and_other_rates() -> None:
    assert only("longer") == replace(PLAIN, training=replace(PLAIN.training, steps=2000))
    rates = {arm.name: arm.template.training for arm in CONTROLS["learning-rates"].arms(QUESTION)}
    assert rates["lower-rate"].learning_rate == pytest.approx(1e-3)
    assert rates["higher-rate"].learning_rate == pytest.approx(1e-2)
    assert rates["lower-rate-longer"].steps == 2000


def test_the_same_extra_steps_for_all_sides() -> None:
    afters = [arm.template.after for arm in CONTROLS["extra-steps"].arms(QUESTION)]
    assert [(a.kind, a.heads, a.steps, a.learning_rate) for a in afters if a] == [
        ("continued", 4, 300, 3e-3),
        ("pruned", 4, 300, 3e-3),
        ("random", 4, 300, 3e-3),
    ]
    ticket = only("lottery")
    assert ticket.after is not None
    assert (ticket.after.kind, ticket.after.steps) == ("ticket", 600)
    assert ticket.parent == replace(LARGE, prune_to=None)


def test_more_distances_and_more_heads_with_them() -> None:
    task = more_distances(Task())
    assert task.distances == (1, 4, 6, 8, 10, 13)
    arms = {arm.name: arm.template for arm in CONTROLS["more-distances"].arms(QUESTION)}
    assert arms["more-distances-scratch"].architecture.heads == 6
    assert arms["more-distances-pruned"].architecture.heads == 12
    assert arms["more-distances-pruned"].prune_to == 6
    with pytest.raises(HeadlensError, match="no room"):
        more_distances(Task((1, 2), length=4))


@pytest.mark.parametrize("name", list(CONTROLS))
def test_arms_have_unique_names_and_titles(name: str) -> None:
    arms = [*main_arms(QUESTION), *CONTROLS[name].arms(QUESTION)]
    assert len({arm.name for arm in arms}) == len(arms)
    assert len({arm.title for arm in arms}) == len(arms)


def test_mistakes() -> None:
    with pytest.raises(HeadlensError, match="no comparison"):
        Question(8, 8)
    with pytest.raises(HeadlensError, match="unknown control 'luck'"):
        controls(["luck"])
    assert controls(["longer", "longer"]) == [CONTROLS["longer"]]
