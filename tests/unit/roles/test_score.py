"""Role scores of whole models: planted heads are found, and random ones agree with loops over eager attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headlens.errors import Cancelled
from headlens.heads import Head
from headlens.lens import Lens
from headlens.roles import DETECTORS, RoleScores, roles
from headlens.roles.blocks import repeated_blocks
from headlens.run import current
from tests.unit.helpers import LAYERS, lens_for, open_lens, pack, random_data, sentence
from tests.unit.tiny_tokenizer import tiny_tokenizer

POSITIONS, D_HEAD = 16, 16


def planted() -> Lens:
    """One layer whose heads look, by construction, at the token before, their own, the first, and at everything.

    The embedding of position p is the p-th unit vector and tokens have none; keys are the position, and each head's
    queries are the position that it is to look at.
    """
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"n_layer": 1, "n_head": 4, "n_embd": 4 * D_HEAD, "n_positions": POSITIONS}
    model = GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=24)).eval()
    parts: Any = model.transformer
    with torch.no_grad():
        parts.wte.weight.zero_()
        parts.wpe.weight.copy_(torch.eye(POSITIONS, 4 * D_HEAD))
        weight = parts.h[0].attn.c_attn.weight.zero_()  # [in, queries | keys | values]
        targets = (lambda i: i - 1, lambda i: i, lambda i: 0)
        for head, target in enumerate(targets):
            for position in range(POSITIONS):
                if target(position) >= 0:
                    weight[position, head * D_HEAD + target(position)] = 1.0
                weight[position, 4 * D_HEAD + head * D_HEAD + position] = 1.0
    return open_lens(model, "causal-lm")


def test_planted_heads_are_found_and_no_others() -> None:
    lens = planted()
    rng = np.random.default_rng(0)
    data = pack(sentence(rng.integers(1, 24, size=n).tolist()) for n in (8, 12, 15, 9))
    found = roles(lens, data, batch_size=3)
    heads = [Head("self", 0, head) for head in range(4)]
    passing = {role: {head.head for head in found.passing(role)} for role in DETECTORS}
    planted_at = {"previous-token": {0}, "self": {1}, "first-token": {2}, "broad": {3}, "positional": {0, 1}}
    assert passing == {role: planted_at.get(role, set()) for role in DETECTORS}
    assert [found.label(head) for head in heads] == ["previous-token", "self", "first-token", "broad"]
    assert found.labels() == dict(zip(heads, ["previous-token", "self", "first-token", "broad"], strict=True))
    assert found.scores["previous-token"]["self"][0, 0] > 0.99
    assert "next-token" not in found.of(heads[0])  # a causal layer sees nothing ahead


def eager(kind: str, data: Any) -> list[list[np.ndarray]]:
    """Attention of an untouched copy of the model, ``[example][layer]`` each ``[head, query, key]``."""
    _, plain = lens_for(kind)
    plain.set_attn_implementation("eager")
    found = []
    for example in data.examples:
        inputs: dict[str, Any] = {name: value[None] for name, value in example.inputs.items()}
        with torch.no_grad():
            output = plain(**inputs, output_attentions=True)
        found.append([layer[0].double().numpy() for layer in output.attentions])
    return found


def by_loops(role: str, attention: list[list[np.ndarray]], layer: int, head: int, causal: bool) -> float:
    """The score from its definition, one entry at a time."""
    values: list[float] = []
    for example in attention:
        a = example[layer][head]
        n = len(a)
        for i in range(n):
            if role == "previous-token" and i >= 1:
                values.append(a[i, i - 1])
            elif role == "next-token" and i + 1 < n:
                values.append(a[i, i + 1])
            elif role == "self" and (i >= 1 or not causal):
                values.append(a[i, i])
            elif role == "first-token" and i >= 1:
                values.append(a[i, 0])
            elif role == "distance":
                values.append(sum(a[i, j] * abs(i - j) for j in range(n)))
            elif role == "broad" and (keys := i + 1 if causal else n) > 1:
                values.append(-sum(a[i, j] * math.log(a[i, j]) for j in range(keys)) / math.log(keys))
    return float(np.mean(values))


@pytest.mark.parametrize("kind", ["llama", "bert-bare"])
def test_random_models_agree_with_loops(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind, 5)
    causal = kind == "llama"
    found, again = roles(lens, data, batch_size=2), roles(lens, data, batch_size=5)
    attention = eager(kind, data)
    looped = ["previous-token", "self", "first-token", "distance", "broad", *([] if causal else ["next-token"])]
    for role in looped:
        wanted = [[by_loops(role, attention, layer, head, causal) for head in range(4)] for layer in range(LAYERS)]
        np.testing.assert_allclose(found.scores[role]["self"], wanted, rtol=1e-5, atol=1e-6)
        best = found.examples[role]["self"]
        for layer in range(LAYERS):
            each = [by_loops(role, [example], layer, 0, causal) for example in attention]
            assert each[best[layer, 0]] == pytest.approx(max(each), rel=1e-5)
    for role, by_site in found.scores.items():
        np.testing.assert_allclose(by_site["self"], again.scores[role]["self"], rtol=1e-5, atol=1e-6)


def test_induction_agrees_with_a_loop_over_the_same_blocks() -> None:
    lens, _ = lens_for("gpt2")
    blocks = repeated_blocks(lens, 50, 2, seed=7)
    assert blocks is not None
    block = blocks.of("self").block
    assert block == 15  # 32 positions
    for example in blocks.data.examples:
        ids = example.inputs["input_ids"].tolist()
        assert ids[:block] == ids[block:]
        assert len(set(ids)) == block
    found = roles(lens, None, seed=7)
    attention = eager("gpt2", blocks.data)
    for layer in range(LAYERS):
        each = [a[layer][2][i, i - (block - 1)] for a in attention for i in range(block, 2 * block)]
        assert found.scores["induction"]["self"][layer, 2] == pytest.approx(np.mean(each), rel=1e-5)
    assert set(found.scores) == {"duplicate-token", "induction", "prefix-matching"}
    assert roles(lens, None, seed=8).scores["induction"]["self"][0, 0] != found.scores["induction"]["self"][0, 0]


def test_a_site_has_only_the_roles_that_make_sense_there() -> None:
    lens, _ = lens_for("t5")
    frame = roles(lens, random_data("t5", 3)).to_frame()
    assert list(frame.columns) == ["site", "layer", "head", "role", "score"]
    by_site = {site: set(part["role"]) for site, part in frame.groupby("site")}
    copying = {"duplicate-token", "induction", "prefix-matching"}
    text = {"previous-token", "self", "first-token", "distance", "positional", "broad"} | copying
    assert by_site == {"enc": text | {"next-token"}, "dec": text, "cross": {"first-token", "broad"}}
    assert len(frame) == sum(len(found) for found in by_site.values()) * LAYERS * 4
    assert np.isfinite(frame["score"].to_numpy()).all()


def test_separators_leave_out_the_mask_and_the_first_position() -> None:
    from tests.unit.helpers import TASKS, build

    lens = open_lens(build("bert-mlm"), TASKS["bert-mlm"], tokenizer=tiny_tokenizer())
    ids = torch.tensor([2, 5, 23, 2, 6])  # [END] w5 [MASK] [END] w6
    from headlens.data.encode import Encoded

    data = pack([Encoded({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, None)])
    found = roles(lens, data).scores["separator"]["self"]
    _, plain = lens_for("bert-mlm")
    attention = eager("bert-mlm", data)[0]
    assert found[1, 2] == pytest.approx(attention[1][2][:, 3].mean(), rel=1e-5)
    assert plain is not lens.model


def test_a_particular_role_goes_before_the_place_where_a_head_rests() -> None:
    lens, _ = lens_for("gpt2")
    head, other, none = Head("self", 1, 2), Head("self", 0, 0), Head("self", 2, 3)
    scores = {role: {"self": np.zeros((LAYERS, 4))} for role in ("first-token", "induction", "positional", "distance")}
    for role, where, value in (
        *(("first-token", head, 0.97), ("induction", head, 0.6), ("first-token", other, 0.6)),
        *(("positional", other, 0.99), ("distance", none, 30.0)),
    ):
        scores[role]["self"][where.layer, where.head] = value
    found = RoleScores(lens.topology, scores, {}, 0)
    assert (found.label(head), found.label(other), found.label(none)) == ("induction", "positional", None)
    assert found.passing("first-token") == [other, head]


def test_progress_and_cancelling() -> None:
    lens, _ = lens_for("gpt2")
    seen: list[tuple[int, int]] = []
    roles(lens, random_data("gpt2", 4), on_progress=lambda *at: seen.append(at))
    assert [done for done, _ in seen] == list(range(1, seen[-1][1] + 1))

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        roles(lens, random_data("gpt2", 4), on_progress=stop)
    assert current(lens.owner) is None
