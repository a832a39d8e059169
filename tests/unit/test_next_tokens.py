"""Top answers against a plain copy of the model with columns of W_O set to zero."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headlens.attention import prompt_inputs
from headlens.errors import DataError, HeadError, HeadlensError
from headlens.heads import HeadSet
from headlens.lens import Lens
from headlens.next_tokens import next_tokens
from tests.unit.helpers import TASKS, Oracle, build, lens_for, open_lens
from tests.unit.tiny_tokenizer import WORDS, tiny_tokenizer

OFF = {"t5": "enc.L1H2,dec.L0H0,cross.L2H3"}


def opened(kind: str) -> tuple[Lens, Oracle]:
    tokenizer = tiny_tokenizer()
    return open_lens(build(kind), TASKS[kind], tokenizer=tokenizer), Oracle(kind, build(kind))


def expected(oracle: Oracle, inputs: dict[str, torch.Tensor], position: int, off: HeadSet) -> torch.Tensor:
    model = oracle.scaled({(h.site, h.layer, h.head): 0.0 for h in off})
    with torch.no_grad():
        logits = model(**inputs, use_cache=False).logits if oracle.kind != "bert-class" else model(**inputs).logits
    return (logits[0] if logits.dim() == 2 else logits[0, position]).softmax(-1)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-mlm", "bert-class"])
def test_probabilities_of_both_top_lists(kind: str) -> None:
    lens, oracle = opened(kind)
    prompt = "w5 w9 [MASK] w3 [MASK] w4" if kind == "bert-mlm" else "w5 w9 w11 w3"
    inputs = prompt_inputs(lens, prompt, target="w6 w7 w8" if kind == "t5" else None)
    off = lens.topology.parse(OFF.get(kind, "L0H1,L2"))
    found = next_tokens(lens, inputs, off, k=3)
    position = {"bert-mlm": 2, "t5": 2, "bert-class": 0}.get(kind, 3)
    assert found.position == position
    assert found.kind == {"bert-mlm": "mask", "bert-class": "class"}.get(kind, "next")
    before, after = expected(oracle, inputs, position, HeadSet()), expected(oracle, inputs, position, off)
    assert {c.id for c in found.choices} == {*before.topk(3).indices.tolist(), *after.topk(3).indices.tolist()}
    for choice in found.choices:
        assert choice.before == pytest.approx(float(before[choice.id]), rel=1e-9)
        assert choice.after == pytest.approx(float(after[choice.id]), rel=1e-9)
    assert [c.before for c in found.choices] == sorted((c.before for c in found.choices), reverse=True)
    assert (found.top_before.id, found.top_after.id) == (int(before.argmax()), int(after.argmax()))
    assert found.changed == (before.argmax() != after.argmax())
    assert found.drift == pytest.approx(float((before * (before / after).log()).sum()), rel=1e-6)
    assert found.off == lens.topology.format(off)
    if kind == "bert-class":
        assert {c.label.text for c in found.choices} <= {"LABEL_0", "LABEL_1", "LABEL_2"}
    else:
        assert [c.label.text for c in found.choices] == [WORDS[c.id] for c in found.choices]


def test_with_nothing_off_both_sides_are_equal() -> None:
    lens, _ = opened("gpt2")
    found = next_tokens(lens, prompt_inputs(lens, "w4 w5"), HeadSet(), k=5)
    assert len(found.choices) == 5
    assert all(c.before == c.after for c in found.choices)
    assert (found.drift, found.changed, found.off) == (0.0, False, "none")


def test_a_target_that_has_not_begun_is_read_at_its_first_token() -> None:
    lens, oracle = opened("t5")
    source = {n: v for n, v in prompt_inputs(lens, "w4 w5", target="w6").items() if not n.startswith("decoder")}
    found = next_tokens(lens, source, HeadSet(), k=1)
    wanted = expected(oracle, {**source, "decoder_input_ids": torch.tensor([[0]])}, 0, HeadSet())
    assert found.choices[0].id == int(wanted.argmax())
    assert found.choices[0].before == pytest.approx(float(wanted.max()), rel=1e-9)


def test_k_may_be_larger_than_the_vocabulary() -> None:
    lens, _ = opened("llama")
    found = next_tokens(lens, prompt_inputs(lens, "w4"), lens.topology.parse("L0"), k=1000)
    assert len(found.choices) == 24
    assert sum(c.after for c in found.choices) == pytest.approx(1)


def test_what_cannot_be_asked() -> None:
    masked, _ = opened("bert-mlm")
    with pytest.raises(HeadlensError, match=r"write \[MASK\] where"):
        next_tokens(masked, prompt_inputs(masked, "w4 w5"), HeadSet())
    bare, _ = lens_for("bert-bare")
    ids: dict[str, Any] = {"input_ids": torch.tensor([[4, 5]])}
    with pytest.raises(HeadlensError, match="predicts no token"):
        next_tokens(bare, ids, HeadSet())
    lens, _ = lens_for("gpt2")
    with pytest.raises(HeadlensError, match="at least 1"):
        next_tokens(lens, ids, HeadSet(), k=0)
    with pytest.raises(DataError, match="no tokens"):
        next_tokens(lens, {"input_ids": torch.zeros(1, 0, dtype=torch.long)}, HeadSet())
    with pytest.raises(HeadError):
        next_tokens(lens, ids, HeadSet.of(bare.topology.parse("L2H3")) | _ghost())
    assert next_tokens(lens, ids, HeadSet(), k=1).choices[0].label.text.startswith("[id ")


def _ghost() -> HeadSet:
    from headlens.heads import Head

    return HeadSet.of([Head("self", 2, 9)])
