"""Claims on what can go, run from end to end on models in which that is known; see :mod:`.made_models`."""

from __future__ import annotations

import pytest

from headlens.claims.removable import BeatsChance, ShareRemovable, SingleHeadLayers
from headlens.claims.together import Additive
from headlens.lens import Lens
from tests.unit.claims.made_models import context, examples, made

KINDS = range(16)


def vital() -> Lens:
    """Sixteen heads, each with a kind of its own, on which the model is wrong without it."""
    return made([6.0] * 16, base=-3.0)


def half_idle(heads: int = 16) -> Lens:
    """Heads 0, 2, ... say nothing, and the model is right without them."""
    return made([0.0, 6.0] * (heads // 2), base=[3.0, -3.0] * (heads // 2))


@pytest.mark.parametrize(("lens", "verdict", "share"), [(half_idle, "holds", 0.5), (vital, "fails", 0.0)])
def test_share_removable(lens: object, verdict: str, share: float) -> None:
    found = ShareRemovable().check(context(lens(), examples(KINDS, 10)))  # type: ignore[operator]
    assert (found.verdict, found.value) == (verdict, share)


def test_single_head_layers() -> None:
    one_does = made([6.0, *[0.0] * 7, *[6.0] * 8], base=[-3.0, *[3.0] * 7, *[-3.0] * 8])
    found = SingleHeadLayers().check(context(one_does, examples(KINDS, 10)))
    assert (found.verdict, found.value) == ("holds", 0.5)
    assert "hardest hit is self layer 1" in found.sentence
    found = SingleHeadLayers().check(context(vital(), examples(KINDS, 10)))
    assert (found.verdict, found.value) == ("fails", 0.0)


def test_beats_chance() -> None:
    found = BeatsChance().check(context(half_idle(24), examples(range(24), 10)))
    assert found.verdict == "holds"
    # Chosen where only the first eight heads matter, judged where only the others do.
    found = BeatsChance().check(context(vital(), examples(range(8)), examples(range(8, 16))))
    assert found.verdict == "fails"
    assert found.value is not None
    assert found.value < 0


def test_additive() -> None:
    apart = Additive().check(context(made([1.0] * 24), examples(range(24))))
    assert apart.verdict == "holds"
    assert apart.value == pytest.approx(0, abs=1e-9)
    # All heads say the same thing: each can be spared, many at once cannot.
    stand_ins = made([1.0] * 24, base=-16.0, serves=[0] * 24)
    found = Additive().check(context(stand_ins, examples([0])))
    assert found.verdict == "fails"
    assert found.value is not None
    assert found.value > 0
