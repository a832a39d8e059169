"""From contributions to scores: error, reliability, normalisation, provenance, and data without a signal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

from headlens.data.encode import EncodedData
from headlens.errors import HeadlensError, StoreError
from headlens.heads import LayerShape, SiteShape, Topology
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.scores import HeadScores
from headlens.store import Store
from tests.unit.helpers import LAYERS, Oracle, build, core, lens_for, open_lens, pack, random_data, sentence

LOSS = METRICS["loss"]


def measure(
    lens: Lens, data: EncodedData | None, name: str = "ablation", metric: str = "loss", **more: Any
) -> HeadScores:
    return score(lens, METHODS[name], Request(METRICS[metric], data, **more))


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bert-class"])
def test_the_score_is_the_rise_of_the_token_weighted_loss(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    scores = measure(lens, data)
    clean = oracle.outputs(data)
    baseline = oracle.value("loss", data, clean, clean)
    assert scores.provenance["baseline"] == pytest.approx(baseline, abs=1e-10)
    for site, layer, head in scores.columns()[::7]:
        off = oracle.outputs(data, oracle.scaled({(site, layer, head): 0.0}))
        expected = oracle.value("loss", data, off, clean) - baseline
        assert scores.values[site][layer, head] == pytest.approx(expected, abs=1e-10)
        pairs = oracle.sums("loss", data, off, clean) - [[1, 0]] * oracle.sums("loss", data, clean, clean)
        a, b = pairs[:, 0], pairs[:, 1]
        n = int((b > 0).sum())
        residual = a - expected * b
        sem = np.sqrt(n / (n - 1) * (residual**2).sum()) / b.sum()
        assert scores.sem[site][layer, head] == pytest.approx(sem, rel=1e-6)


def test_normalize_layer() -> None:
    lens, _ = lens_for("t5")
    data = random_data("t5")
    request = Request(LOSS, data)
    for name in ("ablation", "gradient", "magnitude"):
        plain = score(lens, METHODS[name], request)
        scaled = score(lens, METHODS[name], request, normalize="layer")
        for site, array in plain.values.items():
            for layer in range(LAYERS):
                norm = np.sqrt((array[layer] ** 2).sum())
                np.testing.assert_allclose(scaled.values[site][layer], array[layer] / norm)
                np.testing.assert_allclose(scaled.sem[site][layer], plain.sem[site][layer] / norm)
        assert scaled.describe()["normalize"] == "layer"


def test_normalize_skips_layers_without_heads_and_refuses_layers_without_effect() -> None:
    lens, _ = lens_for("gpt2")
    full = lens.topology.sites[0].layers[0]
    empty = LayerShape((), 4, full.kv_of, full.d_head, 0, True)
    original = lens.topology
    lens.topology = Topology((SiteShape("self", (full, empty, full)),))
    found = score(lens, METHODS["ablation"], Request(LOSS, random_data("gpt2")), normalize="layer").array
    np.testing.assert_allclose((found[[0, 2]] ** 2).sum(1), 1)
    assert np.isnan(found[1]).all()
    lens.topology = original
    core(lens).h[1].attn.c_proj.weight.data.zero_()
    with pytest.raises(HeadlensError, match="--normalize layer"):
        score(lens, METHODS["gradient"], Request(LOSS, random_data("gpt2")), normalize="layer")


SAME = [3, 3, 3, 3]


def untrained() -> Lens:
    torch.manual_seed(0)
    model = build("gpt2")
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data *= 0.03
    return open_lens(model, "causal-lm")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("one example", "only one distinct example"),
        ("duplicated examples", "only one distinct example"),
        ("one repeated token", "repeats one single token"),
        ("one-token texts behind a start token", "repeats one single token"),
        ("untrained model", "no better than guessing"),
        ("no effect", "all scores are equal"),
        ("not finite", "not finite"),
    ],
)
@pytest.mark.parametrize("name", ["ablation", "gradient"])
def test_data_without_signal_is_told(case: str, said: str, name: str, tmp_path: Path) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    if case == "one example":
        data = pack([sentence([1, 2, 3])])
    elif case == "duplicated examples":
        data = pack([sentence([1, 2, 3])] * 5)
    elif case == "one repeated token":
        data = pack([sentence(SAME), sentence([4, 4, 4])])
    elif case == "one-token texts behind a start token":
        lens.tokenizer = cast(Any, type("T", (), {"all_special_ids": [0]})())
        data = pack([sentence([0, 4]), sentence([0, 5])])
    elif case == "untrained model":
        lens = untrained()
    elif case == "no effect":
        for block in core(lens).h:
            block.attn.c_proj.weight.data.zero_()
        core(lens).wte.weight.data *= 0.3
    else:
        core(lens).wte.weight.data[1:] = float("inf")
    scores = measure(lens, data, name)
    assert said in scores.no_signal
    assert said in scores.stability()
    stored = json.loads(scores.save(tmp_path / "s.csv").read_text())
    assert said in stored["no_signal"]


def test_a_signal_is_not_denied() -> None:
    """The random model guesses badly, so its loss is read on another metric; short texts are not constant texts."""
    lens, _ = lens_for("gpt2")
    data = pack(sentence(ids) for ids in ([1, 2, 3], [4, 5, 6], [7, 8]))
    assert measure(lens, data, metric="drift").no_signal == ""
    lens, _ = lens_for("bert-class")
    words = random_data("bert-class")
    single = pack(type(e)({k: v[:1] for k, v in e.inputs.items()}, e.targets) for e in words.examples)
    assert measure(lens, single).no_signal == ""  # one-word texts can be classified
    stored = measure(lens, words).describe()
    assert stored["no_signal"] is None


def test_reliability_does_not_depend_on_the_order_of_the_examples() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 9)
    mixed = pack(data.examples[i] for i in (4, 8, 1, 0, 7, 3, 2, 6, 5))
    first = measure(lens, data, batch_size=1).reliability
    assert first is not None
    assert measure(lens, mixed, batch_size=1).reliability == pytest.approx(first, abs=1e-12)
    assert measure(lens, pack(data.examples[:3])).reliability is None
    assert measure(lens, None, "magnitude").reliability is None


def test_files(tmp_path: Path) -> None:
    lens, _ = lens_for("t5")
    data = random_data("t5")
    scores = measure(lens, data, metric="drift", seed=3, store=Store(tmp_path / "store"))
    beside = scores.save(tmp_path / "S.csv")
    assert beside == tmp_path / "S.json"
    assert (tmp_path / "S.csv").read_text().splitlines()[0] == "site,layer,head,score,sem,n"
    frame = pd.read_csv(tmp_path / "S.csv")
    assert list(frame.site.unique()) == ["enc", "dec", "cross"]
    assert len(frame) == 3 * LAYERS * 4
    assert set(frame.n) == {5}
    row: Any
    for row in frame.itertuples():
        assert row.score == scores.values[row.site][row.layer, row.head]  # to the last digit
        assert row.sem == scores.sem[row.site][row.layer, row.head]
    stored = json.loads(beside.read_text())
    expected = {
        "fingerprint": lens.fingerprint,
        "method": "ablation",
        "metric": "drift",
        "ablation": "zero",
        "unit": "head",
        "data": "made up",
        "data_hash": data.hash,
        "split": "score",
        "seed": 3,
        "baseline": 0.0,
        "reliability": scores.reliability,
        "cached": 0,
        "n": 5,
    }
    assert {key: stored[key] for key in expected} == expected
    assert set(stored["versions"]) == {"headlens", "torch", "transformers", "numpy"}
    assert stored["seconds"] > 0
    again = measure(lens, data, metric="drift", seed=3, store=Store(tmp_path / "store"))
    assert again.describe()["cached"] == 3 * LAYERS
    np.testing.assert_array_equal(again.flat(), scores.flat())
    # Where no data are behind the scores, nothing is said of data.
    measure(lens, data, "magnitude").save(tmp_path / "M.csv")
    frame = pd.read_csv(tmp_path / "M.csv")
    assert frame[["sem", "n"]].isna().to_numpy().all()
    stored = json.loads((tmp_path / "M.json").read_text())
    for name in ("metric", "ablation", "data_hash", "split", "baseline", "reliability"):
        assert stored[name] is None


def test_gone_heads_have_no_row(tmp_path: Path) -> None:
    lens, _ = lens_for("gpt2")
    kv_of = tuple(range(6))
    shape = LayerShape((0, 2, 3, 5), 6, kv_of, 4, 4, True)
    lens.topology = Topology((SiteShape("self", (shape,) * LAYERS),))
    for name in METHODS:
        scores = measure(lens, random_data("gpt2"), name)
        assert scores.array.shape == (LAYERS, 6)
        assert np.isnan(scores.array[:, [1, 4]]).all()
        assert np.isfinite(scores.array[:, [0, 2, 3, 5]]).all()
        scores.save(tmp_path / "s.csv")
        frame = pd.read_csv(tmp_path / "s.csv")
        assert list(frame["head"]) == [0, 2, 3, 5] * LAYERS


def test_kv_rows_are_groups(tmp_path: Path) -> None:
    lens, _ = lens_for("llama")
    scores = measure(lens, random_data("llama"), unit="kv")
    scores.save(tmp_path / "s.csv")
    assert list(pd.read_csv(tmp_path / "s.csv")["head"]) == [0, 1] * LAYERS
    assert scores.describe()["unit"] == "kv"


def test_finished_scores_survive_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise StoreError("no space left; set HEADLENS_CACHE to another folder")

    monkeypatch.setattr(Store, "put", full)
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    found = measure(lens, data, "gradient", store=Store(tmp_path))
    assert found.array == pytest.approx(measure(lens, data, "gradient").array, abs=1e-12)
    assert "no space left" in caplog.text


def test_a_ranking_without_signal_is_not_called_stable() -> None:
    site = LayerShape(heads=(0, 1), original=2, kv_of=(0, 1), d_head=8, kv_heads=2, causal=True)
    values = {"self": np.array([[1.0, 2.0]])}
    topology = Topology((SiteShape("self", (site,)),))
    scores = HeadScores(topology, values, values, 4, "head", "gradient", reliability=0.9, no_signal="all texts are one")
    assert scores.describe()["stable"] is None
