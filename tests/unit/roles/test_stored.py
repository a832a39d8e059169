"""Role scores from the store, and what they say beside importance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.heads import LayerShape, SiteShape, Topology
from headlens.lens import open_model
from headlens.roles import DETECTORS, RoleScores, roles
from headlens.roles.fate import by_score, fates
from headlens.roles.standing import summary
from headlens.roles.stored import stored_roles
from headlens.scores import HeadScores
from headlens.store import Store

MODEL = "zoo-gpt2-small"


def data_for(lens: Any) -> Any:
    from headlens.data.encode import encode
    from headlens.data.select import load_data

    return encode(lens, load_data("small-english", task=lens.task, split="score", limit=3))


def same(one: RoleScores, other: RoleScores) -> None:
    assert list(one.scores) == list(other.scores)
    for role, sites in one.scores.items():
        for site, array in sites.items():
            np.testing.assert_array_equal(array, other.scores[role][site])
            np.testing.assert_array_equal(one.examples[role][site], other.examples[role][site])
    for head in one.topology.heads():
        assert one.label(head) == other.label(head)
        assert [one.detail(head, role) for role in one.scores] == [other.detail(head, role) for role in one.scores]


def test_from_the_store_as_computed_and_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lens = open_model(MODEL)
    data, store = data_for(lens), Store(tmp_path)
    expected = roles(lens, data, detectors=DETECTORS)
    assert expected.details  # words of the syntactic role
    ticks: list[tuple[int, int]] = []
    every: dict[str, Any] = {"detectors": DETECTORS}
    same(stored_roles(lens, data, **every, store=store, on_progress=lambda *at: ticks.append(at)), expected)
    assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
    assert ticks[-1][0] == ticks[-1][1]

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the model was run again")

    monkeypatch.setattr(type(lens), "forward", refuse)
    same(stored_roles(lens, data, **every, store=Store(tmp_path)), expected)
    with pytest.raises(AssertionError, match="run again"):
        stored_roles(lens, data, **every, store=Store(tmp_path), seed=1)
    with pytest.raises(AssertionError, match="run again"):
        stored_roles(lens, data, **every, store=Store(tmp_path), resume=False)


def test_chosen_detectors_only(tmp_path: Path) -> None:
    lens = open_model(MODEL)
    found = stored_roles(lens, data_for(lens), detectors=["induction", "self"], store=Store(tmp_path))
    assert [name for name in DETECTORS if name in found.scores] == list(found.scores) == ["self", "induction"]


LAYER = LayerShape((0, 1, 2, 3), 4, (0, 1, 2, 3), 4, 4, True)
TOPOLOGY = Topology((SiteShape("self", (LAYER, LAYER)),))


def test_the_summary_names_last_and_first_and_the_medians() -> None:
    values = {"self": np.arange(8, dtype=float).reshape(2, 4)}
    scores = HeadScores(TOPOLOGY, values, {"self": np.full((2, 4), np.nan)}, 0, "head", "made-up")
    mark = {"self": np.zeros((2, 4)), "induction": np.zeros((2, 4))}
    mark["induction"][1, 2:] = 1  # scores 6 and 7: the last to go
    mark["self"][0, 0] = 1  # score 0: the first
    found = RoleScores(TOPOLOGY, {role: {"self": array} for role, array in mark.items()}, {}, 0)
    said = summary(fates(found, by_score(scores)), scores, "nats")
    assert said.startswith("Heads of the role induction (2 heads, the last at 100 % off")
    assert "those of own token (1 head, at 12 % off" in said
    assert "none of the 2 roles goes at another time than in a random order" in said
    assert "median score is 6 nats for the 3 heads with a specific role and 3 nats for the 5 others" in said
