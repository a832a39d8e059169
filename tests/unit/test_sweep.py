"""The exact sweep against a plain loop over deep copies, and what happens when it is stopped."""

from __future__ import annotations

import copy
import gc
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headlens.data.encode import IGNORE, EncodedData
from headlens.errors import Cancelled, DataError
from headlens.heads import LayerShape, SiteShape, Topology
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.store import Store
from headlens.sweep import Sweep, SweepSpec
from headlens.switches import ABLATIONS, Ablation, partners
from tests.unit.helpers import KINDS, LAYERS, SITES, Oracle, core, lens_for, pack, places, random_data

METRICS_OF = {kind: ("drift",) if kind == "bert-bare" else ("loss", "accuracy", "drift") for kind in KINDS}
CASES: list[tuple[str, str, Ablation]] = [
    (kind, metric, ablation)
    for kind in KINDS
    for ablation in ABLATIONS
    for metric in (METRICS_OF[kind] if ablation == "zero" else METRICS_OF[kind][:1])
]


def effects(lens: Lens, data: EncodedData, metric: str, ablation: Ablation = "zero", **more: object) -> dict:
    """``{(site, layer, column): effect per example}``, and the baseline under "baseline"."""
    batch_size, store, resume, on_progress, unit, seed = (
        more.get(name, default)
        for name, default in (
            ("batch_size", None),
            ("store", None),
            ("resume", True),
            ("on_progress", None),
            ("unit", "head"),
            ("seed", 0),
        )
    )
    spec = SweepSpec(METRICS[metric], ablation, unit, seed)  # type: ignore[arg-type]
    sweep = Sweep(lens, data, spec, batch_size=batch_size, store=store, resume=resume, on_progress=on_progress)  # type: ignore[arg-type]
    found: dict = {"baseline": sweep.baseline(), "cached": 0, "sweep": sweep}
    for unit_result in sweep.units():
        found["cached"] += unit_result.cached
        for i, column in enumerate(unit_result.columns):
            found[unit_result.site, unit_result.layer, column] = unit_result.effect[:, i]
    return found


def only_places(found: dict) -> dict[tuple[str, int, int], np.ndarray]:
    return {key: value for key, value in found.items() if isinstance(key, tuple)}


@pytest.fixture(scope="module", params=KINDS)
def opened(request: pytest.FixtureRequest) -> tuple[str, Lens, Oracle, EncodedData]:
    lens, plain = lens_for(request.param)
    return request.param, lens, Oracle(request.param, plain), random_data(request.param)


def test_equals_a_plain_loop_in_float64(opened: tuple[str, Lens, Oracle, EncodedData]) -> None:
    kind, lens, oracle, data = opened
    clean = oracle.outputs(data)
    everywhere = places(kind)
    shown = everywhere[1::5] if kind != "t5" else everywhere[1::4]
    for case, metric, ablation in CASES:
        if case != kind:
            continue
        if metric == "accuracy":  # a random model is never right, so it is asked for what it says itself
            data = own_words(data, clean)
        found = effects(lens, data, metric, ablation, batch_size=2)
        assert set(only_places(found)) == set(everywhere)
        before = oracle.sums(metric, data, clean, clean)
        np.testing.assert_allclose(found["baseline"].numerator, before[:, 0], atol=1e-10)
        np.testing.assert_array_equal(found["baseline"].denominator, before[:, 1])
        partner = partners(data, 0).tolist() if ablation == "resample" else None
        sign = -1 if metric == "accuracy" else 1
        for place in shown:
            after = oracle.sums(metric, data, oracle.replaced(data, [place], ablation, partner), clean)
            expected = sign * (after - before)[:, 0]
            np.testing.assert_allclose(found[place], expected, atol=1e-10, err_msg=f"{metric} {ablation} {place}")
        # The oracle would agree with a sweep that does nothing if nothing mattered.
        largest = [np.abs(effect).max() for effect in only_places(found).values()]
        assert max(largest) >= 1 if metric == "accuracy" else min(largest) > 1e-6
        if metric == "accuracy":
            assert max(sum(found[place]) for place in shown) > 0
        data = opened[3]


def own_words(data: EncodedData, outputs: list[torch.Tensor]) -> EncodedData:
    """The same examples with the model's own first choices as targets."""
    changed = []
    for example, values in zip(data.examples, outputs, strict=True):
        assert example.targets is not None
        targets = torch.where(example.targets == IGNORE, IGNORE, values.argmax(-1)[: len(example.targets)])
        changed.append(replace(example, targets=targets))
    return replace(data, examples=tuple(changed))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_equals_a_plain_loop_in_float32(kind: str) -> None:
    lens, plain = lens_for(kind, dtype=torch.float32)
    oracle, data = Oracle(kind, plain), random_data(kind)
    clean = oracle.outputs(data)
    before = oracle.sums("loss", data, clean, clean)
    found = effects(lens, data, "loss", batch_size=3)
    for place in places(kind)[::7]:
        after = oracle.sums("loss", data, oracle.replaced(data, [place], "zero"), clean)
        np.testing.assert_allclose(found[place], (after - before)[:, 0], atol=1e-5)


def test_kv_unit_switches_the_whole_group() -> None:
    lens, plain = lens_for("llama")
    oracle, data = Oracle("llama", plain), random_data("llama")
    clean = oracle.outputs(data)
    before = oracle.sums("loss", data, clean, clean)
    for ablation in ("zero", "mean", "resample"):
        found = effects(lens, data, "loss", ablation, unit="kv", batch_size=2)
        assert set(only_places(found)) == {("self", layer, group) for layer in range(LAYERS) for group in (0, 1)}
        for layer, group in ((0, 1), (2, 0)):
            members = [("self", layer, head) for head in (2 * group, 2 * group + 1)]
            outputs = oracle.replaced(data, members, ablation, partners(data, 0).tolist())
            expected = (oracle.sums("loss", data, outputs, clean) - before)[:, 0]
            np.testing.assert_allclose(found["self", layer, group], expected, atol=1e-10)


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_batch_size_order_and_padding_change_nothing(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    metric = METRICS_OF[kind][0]
    order = [3, 0, 4, 2, 1]
    shuffled = replace(data, examples=tuple(data.examples[i] for i in order), pad=7)
    for ablation in ("zero", "mean", "resample"):
        one = only_places(effects(lens, data, metric, ablation, batch_size=1))
        for batch_size in (2, 5):
            other = only_places(effects(lens, data, metric, ablation, batch_size=batch_size))
            for place, effect in one.items():
                np.testing.assert_allclose(other[place], effect, atol=1e-11)
        other = only_places(effects(lens, shuffled, metric, ablation, batch_size=2))
        for place, effect in one.items():
            np.testing.assert_allclose(other[place], effect[order], atol=1e-11)


def test_portions_of_one_head_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")
    data = random_data("t5")
    whole = only_places(effects(lens, data, "drift", batch_size=2))
    monkeypatch.setattr("headlens.leave_one_out.TOKENS_PER_FORWARD", 1)
    single = only_places(effects(lens, data, "drift", batch_size=2))
    for place, effect in whole.items():
        np.testing.assert_allclose(single[place], effect, atol=1e-11)


def test_each_block_below_a_layer_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch, all heads side by side: block i runs for the baseline, as a suffix i + 1 times, and once as prefix."""
    lens, _ = lens_for("gpt2")
    calls = [0] * LAYERS
    for i, block in enumerate(core(lens).h):
        block.mlp.register_forward_pre_hook(lambda *_, i=i: calls.__setitem__(i, calls[i] + 1))
    effects(lens, random_data("gpt2"), "loss", batch_size=5)
    assert calls == [1 + (i + 1) + (i < LAYERS - 1) for i in range(LAYERS)]


def count_forwards(lens: Lens, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted = [0]
    plain = lens.forward

    def forward(*args: object, **kwargs: object) -> object:
        counted[0] += 1
        return plain(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(lens, "forward", forward)
    return counted


def test_a_second_run_takes_everything_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")
    data, store = random_data("t5"), Store(tmp_path)
    counted = count_forwards(lens, monkeypatch)
    first = effects(lens, data, "loss", store=store)
    fresh = counted[0]
    assert fresh > 0
    assert first["cached"] == 0
    second = effects(lens, data, "loss", store=Store(tmp_path))
    assert counted[0] == fresh
    assert second["cached"] == LAYERS * len(SITES["t5"])
    for place, effect in only_places(first).items():
        np.testing.assert_array_equal(second[place], effect)
    np.testing.assert_array_equal(first["baseline"].numerator, second["baseline"].numerator)
    third = effects(lens, data, "loss", store=store, resume=False)
    assert counted[0] == 2 * fresh
    assert third["cached"] == 0


@pytest.mark.parametrize("change", ["data", "order", "metric", "ablation", "unit", "seed of resample", "weights"])
def test_nothing_is_taken_from_the_store_for_another_question(change: str, tmp_path: Path) -> None:
    kind = "llama"
    lens, _ = lens_for(kind)
    data, store = random_data(kind), Store(tmp_path)
    ablation: Ablation = "resample" if change == "seed of resample" else "zero"
    effects(lens, data, "loss", ablation, store=store)
    more: dict = {"store": store}
    metric = "loss"
    if change == "data":
        data = random_data(kind, seed=1)
    elif change == "order":
        data = replace(data, examples=data.examples[::-1])
    elif change == "metric":
        metric = "accuracy"
    elif change == "ablation":
        ablation = "mean"
    elif change == "unit":
        more["unit"] = "kv"
    elif change == "seed of resample":
        more["seed"] = 1
    else:
        lens, _ = lens_for(kind, seed=1)
    assert effects(lens, data, metric, ablation, **more)["cached"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_cancelling_keeps_finished_units_and_resumes_to_the_same_bits(seed: int, tmp_path: Path) -> None:
    kind = ("llama", "t5")[seed % 2]
    ablation: Ablation = ("zero", "mean", "resample", "zero")[seed]  # type: ignore[assignment]
    lens, _ = lens_for(kind)
    data = random_data(kind)
    reports: list[tuple[int, int]] = []
    whole = effects(lens, data, "loss", ablation, batch_size=2, on_progress=lambda d, t: reports.append((d, t)))
    assert [d for d, _ in reports] == sorted(d for d, _ in reports)
    assert reports[-1] == (len(data) * len(places(kind)),) * 2
    stop = random.Random(seed).randrange(len(reports) // 3, len(reports))
    store = Store(tmp_path)
    seen = [0]
    kept = 0

    def cancel(done: int, total: int) -> None:
        seen[0] += 1
        if seen[0] > stop:
            raise Cancelled

    spec = SweepSpec(METRICS["loss"], ablation)
    with pytest.raises(Cancelled):  # noqa: PT012
        for _ in Sweep(lens, data, spec, batch_size=2, store=store, on_progress=cancel).units():
            kept += 1
    resumed = effects(lens, data, "loss", ablation, batch_size=2, store=store)
    assert resumed["cached"] == kept
    for place, effect in only_places(whole).items():
        np.testing.assert_array_equal(resumed[place], effect)


def test_a_cancelled_sweep_stops_at_the_first_report() -> None:
    lens, _ = lens_for("gpt2")

    def cancel(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        effects(lens, random_data("gpt2"), "loss", on_progress=cancel)


def test_a_damaged_unit_is_computed_again(tmp_path: Path) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    first = effects(lens, data, "loss", store=Store(tmp_path))
    sweep = first["sweep"]
    sweep.store.put(sweep.key(site="self", layer=0), {"effect": np.zeros((2, 2))})  # another shape
    key = sweep.key(site="self", layer=1)
    (path,) = tmp_path.rglob(key)
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    again = effects(lens, data, "loss", store=Store(tmp_path))
    assert again["cached"] == LAYERS - 2
    for place, effect in only_places(first).items():
        np.testing.assert_array_equal(again[place], effect)


def test_layers_without_heads_and_ragged_labels() -> None:
    """Labels of a cut model: weights 0..3 of layer 0 are called 1, 4, 5, 7; a layer with nothing left has no column."""
    lens, _ = lens_for("gpt2")
    plain = only_places(effects(lens, random_data("gpt2"), "loss"))
    kv_of = tuple(range(8))
    full = LayerShape((1, 4, 5, 7), 8, kv_of, 4, 4, True)
    shapes = (full, replace(full, heads=(), kv_heads=0), full)
    lens.topology = Topology((SiteShape("self", shapes),))
    found = only_places(effects(lens, random_data("gpt2"), "loss", "mean"))
    assert set(found) == {("self", layer, head) for layer in (0, 2) for head in (1, 4, 5, 7)}
    found = only_places(effects(lens, random_data("gpt2"), "loss"))
    for index, label in enumerate((1, 4, 5, 7)):
        np.testing.assert_allclose(found["self", 2, label], plain["self", 2, index], atol=1e-12)


def test_resample_needs_two_examples() -> None:
    lens, _ = lens_for("gpt2")
    with pytest.raises(DataError, match="at least 2"):
        effects(lens, pack(random_data("gpt2").examples[:1]), "loss", "resample")


def test_half_precision_is_measured_in_float32() -> None:
    """bfloat16 keeps 3 digits of each weight, so scores are near those of the same (rounded) weights in float64."""
    lens, plain = lens_for("llama", dtype=torch.bfloat16)
    data = random_data("llama")
    for ablation in ("zero", "mean", "resample"):
        found = effects(lens, data, "loss", ablation)
        exact = Oracle("llama", copy.deepcopy(plain).double())
        clean = exact.outputs(data)
        place = ("self", 0, 1)
        outputs = exact.replaced(data, [place], ablation, partners(data, 0).tolist())
        expected = (exact.sums("loss", data, outputs, clean) - exact.sums("loss", data, clean, clean))[:, 0]
        np.testing.assert_allclose(found[place], expected, atol=0.3)
        assert np.corrcoef(found[place], expected)[0, 1] > 0.95


def test_memory_is_given_back() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 2)

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    def sweep(ablation: Ablation) -> None:
        for _ in Sweep(lens, data, SweepSpec(METRICS["drift"], ablation), batch_size=2).units():
            pass

    for ablation in ("zero", "mean", "resample"):
        sweep(ablation)
    before = tensors()
    for number in range(30):
        sweep(("zero", "mean", "resample")[number % 3])  # type: ignore[arg-type]
    assert tensors() <= before
