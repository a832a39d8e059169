"""The smallest set that changes an answer, against trying every set of a tiny model by brute force."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from headlens.errors import Cancelled, HeadlensError
from headlens.heads import Head, HeadSet
from headlens.lens import Lens
from headlens.minimal import _Search, smallest_change
from headlens.next_tokens import Question
from headlens.run import current
from tests.unit.helpers import TASKS, Oracle, build, open_lens
from tests.unit.tiny_tokenizer import tiny_tokenizer


class Planted:
    """A model with a prompt, and its answer without any set of heads, from a plain copy."""

    def __init__(self, kind: str, seed: int, ids: list[int]) -> None:
        self.lens: Lens = open_lens(build(kind, seed=seed), TASKS[kind], tokenizer=tiny_tokenizer())
        self.oracle = Oracle(kind, build(kind, seed=seed))
        self.inputs = {"input_ids": torch.tensor([ids])}
        if kind == "t5":
            self.inputs["decoder_input_ids"] = torch.tensor([[0, *ids[:2]]])

    def answer(self, heads: HeadSet) -> int:
        model = self.oracle.scaled({(h.site, h.layer, h.head): 0.0 for h in heads})
        with torch.no_grad():
            return int(model(**self.inputs, use_cache=False).logits[0, -1].argmax())

    def singles(self) -> list[Head]:
        return [h for h in self.lens.topology.heads() if self.answer(HeadSet.of([h])) != self.answer(HeadSet())]


def find(singles: bool, kind: str = "gpt2") -> Planted:
    """A prompt whose answer some single head (or none) can change."""
    rng = torch.Generator().manual_seed(5)
    for seed in range(40):
        made = Planted(kind, seed % 4, torch.randint(3, 23, (5,), generator=rng).tolist())
        if bool(made.singles()) == singles:
            return made
    raise AssertionError("no such prompt among those tried")


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_one_head_is_enough(kind: str) -> None:
    made = find(singles=True, kind=kind)
    found = smallest_change(made.lens, made.inputs)
    assert found.found
    assert found.proved
    assert found.irreducible
    assert len(found.heads) == 1
    assert set(found.heads) <= set(made.singles())
    assert found.singles == len(made.singles())
    assert (found.before.id, found.after.id) == (made.answer(HeadSet()), made.answer(found.heads))
    assert found.left < 0 < found.margin
    assert found.forwards == 1 + len(made.lens.topology.heads())
    assert found.off == made.lens.topology.format(found.heads)
    assert f"Without {found.off} the answer changes from" in found.sentence()


def test_several_heads_none_of_which_can_be_left_out() -> None:
    made = find(singles=False)
    found = smallest_change(made.lens, made.inputs)
    assert found.found
    assert len(found.heads) >= 2
    assert found.singles == 0
    assert made.answer(found.heads) != made.answer(HeadSet())
    assert made.answer(found.heads) == found.after.id
    for head in found.heads:
        assert made.answer(found.heads - HeadSet.of([head])) == made.answer(HeadSet())
    assert found.irreducible
    assert found.proved == (len(found.heads) == 2)
    pairs = any(made.answer(HeadSet.of(p)) != found.before.id for p in combinations(made.lens.topology.heads(), 2))
    assert pairs or not found.proved
    assert "no single head does" in found.sentence()


def test_heads_that_are_not_needed_are_taken_out_again() -> None:
    made = find(singles=True)
    before = made.answer(HeadSet())
    needed = HeadSet.of(made.singles()[:1])
    extra = (HeadSet.of(pair) | needed for pair in combinations(made.lens.topology.heads(), 2))
    bigger = next(heads for heads in extra if len(heads) == 3 and made.answer(heads) != before)
    search = _Search(made.lens, Question(made.lens, made.inputs), 1000, None)
    smaller, lead, irreducible = search.shrink(bigger, search.leads([bigger])[0])
    assert irreducible
    assert lead < 0
    assert len(smaller) < 3
    assert made.answer(smaller) != before
    for head in smaller:
        assert len(smaller) == 1 or made.answer(smaller - HeadSet.of([head])) == before


def test_the_leads_are_those_of_the_plain_model() -> None:
    made = find(singles=False)
    found = smallest_change(made.lens, made.inputs)
    for heads, lead in ((HeadSet(), found.margin), (found.heads, found.left)):
        model = made.oracle.scaled({(h.site, h.layer, h.head): 0.0 for h in heads})
        with torch.no_grad():
            logits = model(**made.inputs).logits[0, -1]
        others = logits.clone()
        others[found.before.id] = -torch.inf
        assert lead == pytest.approx(float(logits[found.before.id] - others.max()), abs=1e-9)


def test_the_budget_is_kept_and_told() -> None:
    made = find(singles=False)
    heads = len(made.lens.topology.heads())
    for budget in (1, 4, heads + 1, heads + 3):
        found = smallest_change(made.lens, made.inputs, budget_forwards=budget)
        assert found.forwards <= budget
        assert not found.found
        assert not found.proved
        assert found.after == found.before
        assert found.tried_all_singles == (budget > heads)
        assert "Nothing found within" in found.sentence()
    with pytest.raises(HeadlensError, match="at least 1"):
        smallest_change(made.lens, made.inputs, budget_forwards=0)


def test_progress_and_cancelling() -> None:
    made = find(singles=True)
    seen: list[tuple[int, int]] = []
    wanted = smallest_change(made.lens, made.inputs, on_progress=lambda *at: seen.append(at))
    assert seen
    assert all(0 < done <= total for done, total in seen)

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        smallest_change(made.lens, made.inputs, on_progress=stop)
    assert current(made.lens.owner) is None
    assert smallest_change(made.lens, made.inputs) == wanted
