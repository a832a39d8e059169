"""Descriptions of runs: bad ones are refused in one line, good ones survive JSON and have keys of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from headlens.errors import HeadlensError
from headlens.lab.estimate import LONG_SECONDS, probe_spec, refuse_long, total_seconds, words
from headlens.lab.specs import After, Architecture, RunSpec, Task, Training, numbers

SPEC = RunSpec(Task(), Architecture(8), Training(), prune_to=4)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Architecture(0), "number of heads is 0"),
        (lambda: Architecture(1.5), "number of heads is 1.5"),  # type: ignore[arg-type]
        (lambda: Architecture(True), "number of heads is True"),
        (lambda: Architecture(4, "gpt"), "unknown shape 'gpt'"),  # type: ignore[arg-type]
        (lambda: Architecture(4, d_head=7), "even number"),
        (lambda: Architecture(4, width=4096), "width of the model"),
        (lambda: Training(1), "number of steps is 1"),
        (lambda: Training(10**9), "number of steps"),
        (lambda: Training(learning_rate=0), "learning rate is 0"),
        (lambda: Training(learning_rate=float("nan")), "learning rate is nan"),
        (lambda: Training(seed=-1), "the seed is -1"),
        (lambda: After("lucky", 4, 10, 1e-3), "unknown kind 'lucky'"),  # type: ignore[arg-type]
        (lambda: replace(SPEC, prune_to=9), "number of heads to prune to is 9"),
        (lambda: replace(SPEC, after=After("pruned", 9, 10, 1e-3)), "9 of 8 heads cannot be kept"),
        (lambda: numbers("4,,8", "--heads"), "--heads '4,,8' is not a list"),
        (lambda: numbers("4;8", "--heads"), "write for example"),
        (lambda: numbers("-4", "--heads"), "is not a list"),
        (lambda: numbers("٤", "--heads"), "is not a list"),
        (lambda: numbers("9" * 400, "--heads"), "is not a list"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(make: Callable[[], object], says: str) -> None:
    with pytest.raises(HeadlensError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_descriptions_survive_json() -> None:
    for spec in (
        SPEC,
        replace(SPEC, prune_to=None, after=After("ticket", 4, 600, 3e-3)),
        replace(SPEC, checkpoints=True),
    ):
        assert RunSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_whatever_decides_a_result_is_in_its_key() -> None:
    changed = [
        SPEC,
        replace(SPEC, prune_to=3),
        replace(SPEC, checkpoints=True),
        replace(SPEC, task=Task((1, 4, 8))),
        replace(SPEC, architecture=Architecture(8, "qwen3")),
        replace(SPEC, training=Training(seed=1)),
        replace(SPEC, prune_to=None),
        replace(SPEC, prune_to=None, after=After("pruned", 4, 300, 3e-3)),
        replace(SPEC, prune_to=None, after=After("random", 4, 300, 3e-3)),
    ]
    keys = {spec.key({"torch": "1"}) for spec in changed} | {SPEC.key({"torch": "2"})}
    assert len(keys) == len(changed) + 1


def test_long_work_has_to_be_wished_for() -> None:
    refuse_long(False, "say --yes")(LONG_SECONDS)
    refuse_long(True, "say --yes")(10 * LONG_SECONDS)
    with pytest.raises(HeadlensError, match=r"about 2.0 hours; .* or say --yes"):
        refuse_long(False, "say --yes")(2 * LONG_SECONDS)


def test_estimates_grow_with_the_work_and_shrink_with_processes() -> None:
    one = total_seconds([SPEC], 1)
    assert total_seconds([SPEC] * 4, 1) == pytest.approx(4 * one)
    assert total_seconds([SPEC] * 4, 2) == pytest.approx(2 * one)
    assert total_seconds([SPEC] * 4, 100) == pytest.approx(one)  # a run is not divided
    assert total_seconds([SPEC], 1, slowness=3) == pytest.approx(3 * one)
    huge = replace(SPEC, training=Training(1_000_000, batch=4096))
    probe = probe_spec([SPEC, huge])
    assert (probe.training.steps, probe.training.batch) == (6, 64)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 second"), (40, "40 seconds"), (200, "3 minutes"), (9000, "2.5 hours"), (400_000, "4.6 days")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert words(seconds) == text
