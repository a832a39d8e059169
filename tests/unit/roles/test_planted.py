"""A model whose heads were made by hand: every detector finds its head and no other, every skill its head."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headlens.probes import probe
from headlens.probes.carriers import carriers
from headlens.roles import roles
from headlens.roles.blocks import repeated_blocks
from headlens.run import Edit, Run
from headlens.switches import off_mask
from tests.unit.helpers import pack, sentence
from tests.unit.roles.planted_heads import (
    FIRST,
    IDLE,
    INDUCTION,
    OWN,
    PREVIOUS,
    SIZE,
    TWIN,
    TWO_BACK,
    first_word,
    planted,
    two_back,
)

FOUND = {
    "previous-token": {PREVIOUS},
    "self": {OWN},
    "first-token": {FIRST, TWIN},
    "induction": {INDUCTION},
    "prefix-matching": {INDUCTION},
    "duplicate-token": set(),
    "separator": set(),
    "punctuation": set(),
    "rare-word": set(),
    "positional": {PREVIOUS, TWO_BACK, OWN},  # a fixed offset is a fixed offset, be it 0 or -1
    "broad": {*IDLE, INDUCTION},  # an induction head with nothing to find looks everywhere
}


def texts() -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.stack([(torch.randperm(SIZE - 2, generator=generator) + 2)[:40] for _ in range(12)])


def test_every_detector_finds_its_head_and_no_other() -> None:
    data = pack(sentence(ids) for ids in texts())
    found = roles(planted(), data)
    assert {*found.scores} == {*FOUND, "distance"}
    for role, heads in FOUND.items():
        assert {head.label for head in found.passing(role)} == heads, role
    labels = {head.label: role for head, role in found.labels().items()}
    assert labels[PREVIOUS] == "previous-token"
    assert labels[TWO_BACK] == "positional"
    assert labels[INDUCTION] == "induction"
    assert labels[FIRST] == labels[TWIN] == "first-token"


def induction_score(off: str) -> float:
    """Attention of L1H1 from each token of a repeated block to what came after its first copy, with heads off."""
    lens = planted()
    blocks = repeated_blocks(lens, 20, 2, seed=0)
    assert blocks is not None
    masks = off_mask(lens.topology, lens.topology.parse(off))
    kept: list[torch.Tensor] = []
    run = Run(edits={key: Edit(off=mask) for key, mask in masks.items()}, pattern_of=frozenset({("self", 1)}))
    run.on_pattern = lambda site, layer, pattern: kept.append(pattern[:, 1])
    lens.forward(blocks.data.batch(range(10)).inputs, run)
    return float(kept[0].diagonal(-19, -2, -1)[:, 1:].mean())


def test_the_induction_head_needs_the_previous_token_head() -> None:
    assert induction_score("none") > 0.95
    assert induction_score(PREVIOUS) < 0.1
    assert induction_score(TWO_BACK) == pytest.approx(induction_score("none"), abs=0.02)


@pytest.mark.parametrize(
    ("off", "lost"),
    [
        (INDUCTION, {"induction"}),
        (PREVIOUS, {"induction"}),
        (TWO_BACK, {"two-back"}),
        (FIRST, set()),
        (f"{FIRST},{TWIN}", {"first-word"}),
        (f"{OWN},{IDLE[0]},{IDLE[1]}", set()),
        (f"{INDUCTION},{TWO_BACK}", {"induction", "two-back"}),
    ],
)
def test_a_head_that_is_off_takes_its_own_skill_and_no_other(off: str, lost: set[str]) -> None:
    skills = ["induction", two_back(), first_word()]
    found = probe(planted(), off, skills)
    for each in found.skills:
        assert each.accuracy_before.value == 1.0
        name = each.skill.name
        if name in lost:
            assert found.verdicts[name] == "lost"
            assert each.accuracy.low <= 0.5 <= each.accuracy.high
        else:
            assert found.verdicts[name] == "no change"
            assert (each.accuracy_change.lost, each.accuracy_change.gained) == (0, 0)


@pytest.mark.parametrize("ablation", ["mean", "resample"])
def test_other_ablations_take_the_skill_too(ablation: str) -> None:
    found = probe(planted(), INDUCTION, ["induction", two_back()], ablation=ablation)  # type: ignore[arg-type]
    assert found.verdicts == {"induction": "lost", "two-back": "no change"}


def test_carriers_and_redundancy() -> None:
    lens = planted()
    found = carriers(lens, "induction")
    assert found.verdict == "carried by single heads"
    assert {effect.label for effect in found.carrying} == {INDUCTION, PREVIOUS}
    assert [effect.label for effect in carriers(lens, two_back()).carrying] == [TWO_BACK]
    twins = carriers(lens, first_word())
    assert twins.carrying == ()
    assert twins.verdict == "redundant"
    assert {effect.label for effect in twins.supporting} >= {FIRST, TWIN}
    assert max(effect.loss_high for effect in twins.effects) < twins.margin
    few = carriers(lens, first_word(), limit=8)
    assert few.verdict == "undecided"
    alone = replace(first_word(), pairs=first_word().pairs[:0])
    with pytest.raises(Exception, match="no pair of first-word"):
        carriers(lens, alone)
