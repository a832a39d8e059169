"""Marks of roles on the map: letters, counts, groups, and that names and scores stay."""

from __future__ import annotations

from collections import Counter

import numpy as np

from headlens.heads import LayerShape, SiteShape, Topology
from headlens.roles import DETECTORS, RoleScores
from headlens.ui.components.head_grid import GridData, robust_scale
from headlens.ui.components.head_grid.payload import build_payload
from headlens.ui.role_marks import LETTERS, marks, marks_sentence

LAYER = LayerShape((0, 1, 2, 3), 4, (0, 0, 1, 1), 4, 2, True)
TOPOLOGY = Topology((SiteShape("self", (LAYER, LAYER)),))


def found(**heads: tuple[int, ...]) -> RoleScores:
    scores = {}
    for role, chosen in heads.items():
        flat = np.zeros(8)
        flat[list(chosen)] = 1
        scores[role.replace("_", "-")] = {"self": flat.reshape(2, 4)}
    return RoleScores(TOPOLOGY, scores, {}, 0)


def test_every_role_that_can_be_a_label_has_a_letter_of_its_own() -> None:
    named = {name for name, each in DETECTORS.items() if each.threshold is not None}
    assert set(LETTERS) == named
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_the_payload_has_a_mark_for_every_head_and_the_counts() -> None:
    scores = np.arange(8, dtype=float).reshape(2, 4)
    chosen = marks(found(induction=(0, 1, 2), previous_token=(5,)), TOPOLOGY, "head")
    payload = build_payload([GridData(scores)], off=[], ack=0, scale=robust_scale([scores], "sequential"), marks=chosen)
    sent = payload["marks"]
    letters = {label: sent["legend"][place]["letter"] for label, place in sent["of"].items()}
    assert letters == {
        "L0H0": "I", "L0H1": "I", "L0H2": "I", "L0H3": "·", "L1H0": "·", "L1H1": "P", "L1H2": "·", "L1H3": "·"
    }  # fmt: skip
    assert [(each["title"], each["count"]) for each in sent["legend"]] == [
        ("induction", 3), ("previous token", 1), ("no role", 4)
    ]  # fmt: skip
    assert Counter(letters.values()) == {"I": 3, "P": 1, "·": 4}
    assert payload["grids"][0]["text"][1][3] == "7.0000"  # the score is still told
    plain = build_payload([GridData(scores)], off=[], ack=0, scale=robust_scale([scores], "sequential"))
    assert plain["marks"] is None


def test_a_group_has_the_role_that_its_heads_share() -> None:
    chosen = marks(found(induction=(0, 1, 2), previous_token=(3,)), TOPOLOGY, "kv").by_label
    assert {label: mark.letter for label, mark in chosen.items()} == {
        "L0G0": "I", "L0G1": "+", "L1G0": "·", "L1G1": "·"
    }  # fmt: skip


def test_the_sentence_counts() -> None:
    said = marks_sentence(found(induction=(0, 1, 2), previous_token=(5,)))
    assert said.startswith("4 of 8 heads have a role")
    assert "3 induction, 1 previous token; 4 pass no threshold." in said
    assert marks_sentence(found(induction=())) == "None of the 8 heads passes the threshold of a role."
