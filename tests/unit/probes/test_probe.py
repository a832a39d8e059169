"""Probes against the plain model, run on one pair at a time with the heads' columns of W_O set to zero."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from threading import Thread

import numpy as np
import pytest
import torch

from headlens.errors import Cancelled, HeadError, HeadlensError
from headlens.lens import Lens
from headlens.probes import Pair, Prober, ProbeResult, TextSkill, probe
from headlens.probes.pairs import PairData
from headlens.run import current
from headlens.switches import partners
from tests.unit.helpers import TASKS, Oracle, build, open_lens
from tests.unit.tiny_tokenizer import tiny_tokenizer

PAIRS = (
    Pair("w3 w4 w5 w6", " w7", " w8", " w9"),
    Pair("w9 w10", " w11", " w12", " w13 w14"),
    Pair("w15 w16 w17", " w18", " w19", " w20"),
    Pair("w5 w3 w9 w4 w8", " w6", " w7"),
    Pair("w11 w12 w13", " w22", " w21", " w3"),
)
SKILL = TextSkill("made-up", "Made up", "do as in the test", "made up", PAIRS)
TRANSLATE = TextSkill(
    "made-up",
    "Made up",
    "do as in the test",
    "made up",
    tuple(Pair(p.context, p.right, p.foil, source="w4 w9 w5") for p in PAIRS),
)
OFF = {"gpt2": "L0H1,L2H3", "llama": "L1", "bert-mlm": "L0H0-H2,L1H3", "t5": "enc.L1H2,dec.L0H3,cross.L2H1"}


def lens_and_oracle(kind: str) -> tuple[Lens, Oracle]:
    model = build(kind)
    oracle = Oracle(kind, copy.deepcopy(model))
    return open_lens(model, TASKS[kind], tokenizer=tiny_tokenizer()), oracle


def skill(kind: str) -> TextSkill:
    return TRANSLATE if kind == "t5" else SKILL


def by_hand(data: PairData, outputs: Sequence[torch.Tensor]) -> np.ndarray:
    """Right minus foil at the answer's place, from the logits of each pair run alone."""
    found = []
    for i, logits in enumerate(outputs):
        at = logits[int(data.position[i])]
        found.append(float(at[int(data.right[i])] - at[int(data.foil[i])]))
    return np.array(found)


def places(lens: Lens, off: str) -> list[tuple[str, int, int]]:
    return [(head.site, head.layer, head.head) for head in lens.topology.parse(off)]


@pytest.mark.parametrize("kind", [*OFF])
@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
def test_differences_are_those_of_the_plain_model(kind: str, ablation: str) -> None:
    lens, oracle = lens_and_oracle(kind)
    data = skill(kind).data(lens)
    found = probe(lens, OFF[kind], [skill(kind)], ablation=ablation, seed=3)  # type: ignore[arg-type]
    (each,) = found.skills
    partner = partners(data.data, 3).tolist() if ablation == "resample" else None
    switched = oracle.replaced(data.data, places(lens, OFF[kind]), ablation, partner)
    # The difference is taken from float32 logits.
    np.testing.assert_allclose(each.before, by_hand(data, oracle.outputs(data.data)), atol=1e-5)
    np.testing.assert_allclose(each.after, by_hand(data, switched), atol=1e-5)
    assert np.abs(each.after - each.before).max() > 1e-3
    assert each.pairs == len(PAIRS)
    assert (found.off, found.ablation) == (lens.topology.format(lens.topology.parse(OFF[kind])), ablation)


@pytest.mark.parametrize("kind", [*OFF])
def test_keeping_blocks_and_batch_size_change_nothing(kind: str) -> None:
    lens, _ = lens_and_oracle(kind)
    kept = Prober(lens, [skill(kind)], keep=True)
    for ablation in ("zero", "mean", "resample"):
        for off in (
            "none",
            OFF[kind],
            *(f"{s.name}.L2" if lens.topology.prefixed else "L2" for s in lens.topology.sites),
        ):
            plain = probe(lens, off, [skill(kind)], ablation=ablation, batch_size=1)  # type: ignore[arg-type]
            quick = kept.probe(off, ablation=ablation)  # type: ignore[arg-type]
            np.testing.assert_allclose(quick.skills[0].after, plain.skills[0].after, atol=1e-6)
            np.testing.assert_allclose(quick.skills[0].before, plain.skills[0].before, atol=1e-6)


def test_nothing_off_is_the_clean_run_to_the_bit() -> None:
    lens, _ = lens_and_oracle("gpt2")
    (each,) = probe(lens, "none", [SKILL]).skills
    assert np.array_equal(each.after, each.before)
    assert np.array_equal(each.loss_after, each.loss_before)


def test_what_cannot_be_asked_is_told() -> None:
    lens, _ = lens_and_oracle("gpt2")
    odd = TextSkill("odd", "Odd", "nothing", "unknown words", (Pair("w3 hello", " w4", " w5"),))
    found = probe(lens, "none", [SKILL, odd, "facts"])
    assert [each.skill.name for each in found.skills] == ["made-up"]
    assert {*found.skipped} == {"odd", "facts"}
    assert "a word that the tokenizer does not know" in found.skipped["odd"]
    half = TextSkill("half", "Half", "half", "half", (PAIRS[0], Pair("w3 hello", " w4", " w5")))
    (each,) = probe(lens, "none", [half]).skills
    assert (each.pairs, each.dropped) == (1, {"a word that the tokenizer does not know": 1})
    assert half.data(lens).asked == 2
    assert probe(lens, "none", [odd]).sentences() == [
        "No skill could be asked about: no pair of odd can be used (a word that the tokenizer does not know)."
    ]


def test_mistakes() -> None:
    lens, _ = lens_and_oracle("gpt2")
    with pytest.raises(HeadError, match="L9"):
        probe(lens, "L9H0", [SKILL])
    with pytest.raises(HeadlensError, match="did you mean agreement"):
        probe(lens, "none", ["agrement"])
    with pytest.raises(HeadlensError, match="named twice"):
        probe(lens, "none", ["facts", "facts"])
    with pytest.raises(HeadlensError, match="no skill is named"):
        probe(lens, "none", [])
    with pytest.raises(HeadlensError, match="limit of 0"):
        probe(lens, "none", [SKILL], limit=0)
    bare = open_lens(build("bert-bare"), "embedding", tokenizer=tiny_tokenizer())
    with pytest.raises(HeadlensError, match="says no words"):
        probe(bare, "none")


def test_a_limit_takes_the_first_usable_pairs() -> None:
    lens, _ = lens_and_oracle("gpt2")
    whole, part = (probe(lens, "L1", [SKILL], limit=limit).skills[0] for limit in (None, 2))
    assert part.pairs == 2
    np.testing.assert_allclose(part.after, whole.after[:2], atol=1e-6)


def test_progress_and_cancelling() -> None:
    lens, _ = lens_and_oracle("gpt2")
    seen: list[tuple[int, int]] = []
    probe(lens, "L1", [SKILL], batch_size=2, on_progress=lambda *at: seen.append(at))
    assert seen == [(i, 6) for i in range(1, 7)]

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        probe(lens, "L1", [SKILL], on_progress=stop)
    assert current(lens.owner) is None


def test_threads_with_other_heads_off_do_not_disturb_each_other() -> None:
    lens, _ = lens_and_oracle("gpt2")
    prober = Prober(lens, [SKILL], keep=True)
    sets = [f"L{layer}H{head}" for layer in range(3) for head in range(4)]
    wanted = {off: prober.probe(off, ablation="mean").skills[0].after for off in sets}
    fresh = Prober(lens, [SKILL], keep=True)
    found: dict[str, ProbeResult] = {}

    def work(off: str) -> None:
        found[off] = fresh.probe(off, ablation="mean")

    threads = [Thread(target=work, args=(off,)) for off in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for off in sets:
        np.testing.assert_allclose(found[off].skills[0].after, wanted[off], atol=1e-6)


def test_half_precision_is_read_as_float32() -> None:
    lens, _ = lens_and_oracle("gpt2")
    data = SKILL.data(lens)
    values = torch.zeros(5, 8, 24, dtype=torch.bfloat16)
    values[2, int(data.position[2]), 18] = 3.0
    values[2, int(data.position[2]), 19] = -0.5
    found = data.differences(values, range(5))
    assert found.dtype == torch.float64
    assert found.tolist() == [0, 0, 3.5, 0, 0]
