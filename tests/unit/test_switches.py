"""Masks, partners and replacements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from headlens.errors import DataError, HeadError, HeadlensError
from headlens.heads import Head, HeadSet, LayerShape, SiteShape, Topology
from headlens.run import Run
from headlens.switches import ABLATIONS, as_ablation, by_content, edits_for, gather, off_mask, partners
from tests.unit.helpers import Oracle, lens_for, pack, random_data

CUT = Topology((SiteShape("self", (LayerShape((1, 4, 5), 6, tuple(range(6)), 4, 3, True),) * 2),))


def test_masks_are_in_weight_order() -> None:
    masks = off_mask(CUT, CUT.parse("L1H4-H5"))
    assert list(masks) == [("self", 1)]
    assert masks["self", 1].tolist() == [[False, True, True]]
    assert off_mask(CUT, HeadSet()) == {}


@pytest.mark.parametrize("head", [Head("self", 0, 0), Head("self", 2, 1), Head("enc", 0, 1)])
def test_heads_that_are_not_there_are_not_ignored(head: Head) -> None:
    with pytest.raises(HeadError, match=head.label):
        off_mask(CUT, HeadSet.of([head]))


def test_ablation_names() -> None:
    assert [as_ablation(name) for name in ABLATIONS] == ["zero", "mean", "resample"]
    with pytest.raises(HeadlensError, match="choose one of zero, mean, resample"):
        as_ablation("ones")


def test_partners_are_others_and_follow_the_content() -> None:
    data = random_data("gpt2", 7)
    for seed in range(20):
        partner = partners(data, seed)
        assert sorted(partner) == list(range(7))
        assert all(partner[i] != i for i in range(7))
    assert len({tuple(partners(data, seed)) for seed in range(20)}) > 10
    order = [6, 2, 0, 1, 5, 4, 3]
    mixed = replace(data, examples=tuple(data.examples[i] for i in order))
    assert [order[p] for p in partners(mixed, 3)] == partners(data, 3)[order].tolist()
    assert [order[i] for i in by_content(mixed)] == by_content(data).tolist()
    with pytest.raises(DataError, match="at least 2"):
        partners(pack(data.examples[:1]), 0)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_mean_is_over_real_positions_of_all_examples(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    layers = [(site.name, 1) for site in lens.topology.sites]
    for batch_size in (1, 2, 5):
        found = gather(lens, data, "mean", layers, batch_size=batch_size)
        for site, layer in layers:
            z = torch.cat(oracle.z(data, site, layer))
            torch.testing.assert_close(found.means[site, layer], z.mean(0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_resample_takes_the_partners_positions_and_then_its_last(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    layers = [(site.name, 2) for site in lens.topology.sites]
    found = gather(lens, data, "resample", layers, seed=4, batch_size=2)
    partner = partners(data, 4)
    np.testing.assert_array_equal(found.partner, partner)
    for batch in data.batches(3):
        for site, layer in layers:
            masks = {(site, layer): torch.tensor([[True, False, False, False]])}
            edit = edits_for(masks, found, batch, lens.device)[site, layer]
            assert edit.value is not None
            own = oracle.z(data, site, layer)
            length = batch.inputs["decoder_input_ids" if site in ("dec", "cross") else "input_ids"].shape[1]
            assert edit.value.shape == (len(batch.indices), length, 4, 4)
            for row, index in enumerate(batch.indices):
                other = own[partner[index]]
                for t in range(length):
                    expected = other[min(t, len(other) - 1)]
                    torch.testing.assert_close(edit.value[row, t], expected, rtol=1e-10, atol=1e-12)


def test_zero_gathers_nothing_and_runs_nothing() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    found = gather(lens, data, "zero", [("self", 0)])
    assert found.value(("self", 0), data.batches(2)[0], 5) is None
    calls: list[tuple[int, int]] = []
    gather(lens, data, "mean", [("self", 0)], batch_size=2, on_progress=lambda d, t: calls.append((d, t)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert not gather(lens, data, "mean", []).means


def test_gathering_leaves_the_outputs_alone() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    batch = data.batches(5)[0]
    with torch.no_grad():
        before = lens.forward(batch.inputs, Run()).logits
        gather(lens, data, "mean", [("self", 0)])
        gather(lens, data, "resample", [("self", 1)])
        assert torch.equal(lens.forward(batch.inputs, Run()).logits, before)
