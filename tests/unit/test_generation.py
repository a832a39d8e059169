"""Continuations: the cache changes nothing, switches hold at every step, and transformers' own generate agrees."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from headlens.errors import Cancelled, DataError, HeadlensError
from headlens.generation import Writer, continuations, first_difference
from headlens.heads import HeadSet
from headlens.lens import Lens
from headlens.next_tokens import edits_of
from headlens.run import Run, current
from tests.unit.helpers import TASKS, VOCAB, Oracle, build, open_lens
from tests.unit.tiny_tokenizer import END, WORDS, tiny_tokenizer

PROMPT = "w5 w9 w11 w3"
OFF = {"t5": "enc.L1H2,dec.L0H0,cross.L2H3", "gpt2": "L0H1,L2H0", "llama": "L0,L1H3"}


def opened(kind: str, *, end: bool = False, closes_texts: bool = False) -> tuple[Lens, Oracle]:
    """A lens and a plain copy; without ``end`` no token closes the text, so that the full length is written."""
    model = build(kind)
    eos = END if end else None
    model.config.eos_token_id = eos
    assert model.generation_config is not None
    model.generation_config.eos_token_id = eos
    tokenizer = tiny_tokenizer(closes_texts=closes_texts)
    return open_lens(model, TASKS[kind], tokenizer=tokenizer), Oracle(kind, copy.deepcopy(build(kind)))


def by_hand(oracle: Oracle, off: HeadSet, count: int) -> tuple[list[int], list[float]]:
    """Greedy tokens and their probabilities from the plain model, everything computed again at each step."""
    model = oracle.scaled({(h.site, h.layer, h.head): 0.0 for h in off})
    source, target = [5, 9, 11, 3], [0]
    probabilities = []
    for _ in range(count):
        ids = torch.tensor([source])
        inputs = {"input_ids": ids}
        if oracle.kind == "t5":
            inputs["decoder_input_ids"] = torch.tensor([target])
        with torch.no_grad():
            chances = model(**inputs, use_cache=False).logits[0, -1].softmax(-1)
        probabilities.append(float(chances.max()))
        (target if oracle.kind == "t5" else source).append(int(chances.argmax()))
    return (target[1:] if oracle.kind == "t5" else source[4:]), probabilities


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_greedy_equals_the_plain_model_with_columns_of_w_o_at_zero(kind: str) -> None:
    lens, oracle = opened(kind)
    off = lens.topology.parse(OFF[kind])
    found = continuations(lens, PROMPT, off, max_new_tokens=12)
    for one, heads in ((found.before, HeadSet()), (found.after, off)):
        ids, probabilities = by_hand(oracle, heads, 12)
        assert one.ids == ids
        assert [step.probability for step in one.steps] == pytest.approx(probabilities, rel=1e-9)
        assert [step.label.text for step in one.steps] == [WORDS[i] for i in ids]
        assert one.stop == "length"
    assert found.first_difference == first_difference(found.before.ids, found.after.ids)
    assert found.before != found.after


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_the_cache_changes_nothing(kind: str, temperature: float) -> None:
    lens, _ = opened(kind)
    run = Run(edits=edits_of(lens, lens.topology.parse(OFF[kind])))
    cached, plain = (Writer(lens, PROMPT, 14, 3, temperature, cache=cache) for cache in (True, False))
    one, other = cached.write(run), plain.write(run)
    assert one.ids == other.ids
    assert [s.probability for s in one.steps] == pytest.approx([s.probability for s in other.steps], rel=1e-9)


def test_the_cache_is_used() -> None:
    lens, _ = opened("llama")
    lengths: list[int] = []
    run = Run(on_z=lambda site, layer, z: lengths.append(z.shape[1]), z_of=frozenset([("self", 0)]))
    Writer(lens, PROMPT, 5, 0, 0.0).write(run)
    assert lengths == [4, 1, 1, 1, 1]


def test_generate_of_transformers_agrees() -> None:
    lens, _ = opened("t5", end=True)
    found = continuations(lens, PROMPT, lens.topology.parse("cross.L0"), max_new_tokens=10)
    ids = torch.tensor([[5, 9, 11, 3]])
    model: Any = lens.model
    with torch.no_grad(), lens.off("cross.L0"):
        wanted = model.generate(ids, max_new_tokens=10, do_sample=False, num_beams=1)[0, 1:].tolist()
    assert found.after.ids == wanted[: len(found.after.ids)]
    assert len(found.after.ids) == 10 or wanted[len(found.after.ids) - 1] == END


def test_a_forced_first_token_of_the_decoder() -> None:
    torch.manual_seed(1)
    sizes = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    ends = {"decoder_start_token_id": END, "forced_eos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    config = BartConfig(vocab_size=VOCAB, d_model=16, max_position_embeddings=32, **sizes, **ends)  # type: ignore[arg-type]
    model: Any = BartForConditionalGeneration(config).eval()
    assert model.generation_config is not None
    model.generation_config.forced_bos_token_id = 7
    lens = open_lens(model, "seq2seq", tokenizer=tiny_tokenizer())
    found = continuations(lens, PROMPT, HeadSet(), max_new_tokens=6)
    with torch.no_grad():
        wanted = model.generate(torch.tensor([[5, 9, 11, 3]]), max_new_tokens=7, do_sample=False, num_beams=1)[0]
    assert wanted[:2].tolist() == [END, 7]
    assert found.before.ids == wanted[2:].tolist()


def test_sampling_shares_its_noise() -> None:
    lens, _ = opened("gpt2")
    weak = lens.topology.parse("L0H1")
    runs = {seed: continuations(lens, PROMPT, weak, max_new_tokens=10, seed=seed, temperature=1.0) for seed in range(4)}
    again = continuations(lens, PROMPT, weak, max_new_tokens=10, seed=2, temperature=1.0)
    assert again == runs[2]
    assert len({tuple(run.before.ids) for run in runs.values()}) > 1
    nothing = continuations(lens, PROMPT, HeadSet(), max_new_tokens=10, seed=2, temperature=1.0)
    assert nothing.after == nothing.before == runs[2].before
    assert nothing.first_difference is None


def test_samples_follow_the_distribution() -> None:
    lens, oracle = opened("gpt2")
    with torch.no_grad():
        logits = oracle.model(torch.tensor([[5, 9, 11, 3]])).logits[0, -1]
    wanted = (logits / 2).softmax(-1)
    writer, draws = Writer(lens, PROMPT, 1, 0, 2.0), 4000
    generator = torch.Generator().manual_seed(0)
    found = torch.tensor([writer._pick(logits, generator) for _ in range(draws)]).bincount(minlength=VOCAB) / draws
    spread = (wanted * (1 - wanted) / draws).sqrt()
    assert ((found - wanted).abs() < 4 * spread).all()


def test_stops_at_the_end_token_and_at_the_last_position() -> None:
    lens, _ = opened("gpt2")
    plain = continuations(lens, PROMPT, HeadSet(), max_new_tokens=100)
    assert plain.before.stop == "positions"
    assert len(plain.before.ids) == 32 - 4
    assert lens.model.generation_config is not None
    lens.model.generation_config.eos_token_id = [1, plain.before.ids[2]]
    ended = continuations(lens, PROMPT, HeadSet(), max_new_tokens=100).before
    first = plain.before.ids.index(plain.before.ids[2])
    assert (ended.stop, ended.ids) == ("end", plain.before.ids[: first + 1])


def test_an_end_token_that_the_tokenizer_adds_does_not_end_the_prompt() -> None:
    plain, _ = opened("gpt2")
    closing, _ = opened("gpt2", closes_texts=True)
    one, other = (continuations(lens, PROMPT, HeadSet(), max_new_tokens=3) for lens in (plain, closing))
    assert one.before.ids == other.before.ids


def test_progress_and_cancelling() -> None:
    lens, _ = opened("llama")
    off = lens.topology.parse("L1")
    seen: list[tuple[int, int]] = []
    wanted = continuations(lens, PROMPT, off, max_new_tokens=5, on_progress=lambda *at: seen.append(at))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (10, 10)

    def stop(done: int, total: int) -> None:
        if done == 7:
            raise Cancelled

    with pytest.raises(Cancelled):
        continuations(lens, PROMPT, off, max_new_tokens=5, on_progress=stop)
    assert current(lens.owner) is None
    assert continuations(lens, PROMPT, off, max_new_tokens=5) == wanted
    with torch.no_grad():
        logits = lens.model(torch.tensor([[5, 9, 11, 3]])).logits
        assert torch.equal(logits, build("llama")(torch.tensor([[5, 9, 11, 3]])).logits)


def test_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 4, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2
    assert first_difference([], [5]) == 0


def test_what_cannot_be_written() -> None:
    lens, _ = opened("gpt2")
    masked = open_lens(build("bert-mlm"), "masked-lm", tokenizer=tiny_tokenizer())
    with pytest.raises(HeadlensError, match="does not write"):
        continuations(masked, PROMPT, HeadSet())
    with pytest.raises(HeadlensError, match="at least 1"):
        continuations(lens, PROMPT, HeadSet(), max_new_tokens=0)
    with pytest.raises(HeadlensError, match="temperature"):
        continuations(lens, PROMPT, HeadSet(), temperature=-1.0)
    with pytest.raises(DataError, match="empty"):
        continuations(lens, "  ", HeadSet())
    with pytest.raises(DataError, match="32 tokens"):
        continuations(lens, " ".join(["w4"] * 32), HeadSet())
