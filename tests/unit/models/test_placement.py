"""Models spread over devices and the disk give the numbers of the plain ones; maps that do not fit are refused.

There is no GPU here: offloading is real (the disk and the CPU), a second device is torch's meta device, and the GPUs of
the error messages are made up.
"""

from __future__ import annotations

import copy
import json
import threading
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from accelerate.hooks import AlignDevicesHook

from headlens.errors import ModelError
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.instrument import Where, _edited
from headlens.lens import Lens, open_model
from headlens.metrics import METRICS
from headlens.models.placement import main_device, read_device_map, read_limits, spread_by
from headlens.pruning.cut import cut
from headlens.run import Edit
from headlens.scores import HeadScores
from tests.unit.helpers import TASKS, build, open_lens, random_data
from tests.unit.models.conftest import save_tokenizer

ALL_ON_DISK = {"": "disk"}
MAPS: dict[str, list[dict[str, Any]]] = {
    "gpt2": [ALL_ON_DISK, {"": "cpu", "transformer.h.1": "disk"}],
    "llama": [ALL_ON_DISK, {"": "disk", "model.layers.2": "cpu", "model.embed_tokens": "cpu"}],
    "t5": [{"": "cpu", "encoder.block.0": "disk", "decoder.block.1": "disk"}],
    "bert-mlm": [{"": "cpu", "bert.encoder.layer.0": "disk", "bert.encoder.layer.2": "disk"}],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for kind in MAPS:
        found[kind] = tmp_path_factory.mktemp("placed") / kind
        build(kind, dtype=torch.float32).save_pretrained(found[kind])
        save_tokenizer(found[kind])
    return found


def scores(lens: Lens, kind: str, method: str, **options: Any) -> HeadScores:
    return score(lens, METHODS[method], Request(METRICS["loss"], random_data(kind), **options))


def same(one: HeadScores, other: HeadScores) -> None:
    for site in one.values:
        np.testing.assert_array_equal(one.values[site], other.values[site])


@pytest.mark.parametrize(("kind", "device_map"), [(kind, one) for kind, maps in MAPS.items() for one in maps])
def test_what_is_on_the_disk_changes_no_bit(kind: str, device_map: dict[str, Any], folders: dict[str, Path]) -> None:
    plain = open_model(str(folders[kind]), device="cpu")
    spread = open_model(str(folders[kind]), device_map=device_map)
    assert any(parameter.is_meta for parameter in spread.model.parameters())
    assert spread.device == torch.device("cpu")
    assert (spread.fingerprint, spread.parameters) == (plain.fingerprint, plain.parameters)
    assert any("on disk" in note for note in spread.notes)
    for method in (name for name in METHODS if name != "random"):
        same(scores(plain, kind, method), scores(spread, kind, method))
    for ablation in ("mean", "resample"):
        same(scores(plain, kind, "ablation", ablation=ablation), scores(spread, kind, "ablation", ablation=ablation))


@pytest.mark.parametrize("how", ["cpu", "disk"])
def test_what_accelerate_has_offloaded_itself(how: str, tmp_path: Path) -> None:
    model = build("llama")
    expected = scores(open_lens(copy.deepcopy(model), TASKS["llama"]), "llama", "ablation")
    weights = scores(open_lens(copy.deepcopy(model), TASKS["llama"]), "llama", "magnitude")
    if how == "cpu":
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    else:
        accelerate.disk_offload(model, str(tmp_path), execution_device=torch.device("cpu"))
    lens = open_lens(model, TASKS["llama"])
    assert lens.device == torch.device("cpu")
    same(scores(lens, "llama", "ablation"), expected)
    same(scores(lens, "llama", "magnitude"), weights)


def test_a_strategy_within_limits(folders: dict[str, Path]) -> None:
    folder = str(folders["gpt2"])
    plain = open_model(folder, device="cpu")
    roomy = open_model(folder, device_map="auto")
    assert not any(parameter.is_meta for parameter in roomy.model.parameters())
    tight = open_model(folder, device_map="auto", max_memory={"cpu": 20_000})
    assert any(parameter.is_meta for parameter in tight.model.parameters())
    for lens in (roomy, tight):
        same(scores(lens, "gpt2", "gradient"), scores(plain, "gpt2", "gradient"))


def test_threads_wait_for_each_other(folders: dict[str, Path]) -> None:
    """Without that, one thread puts weights away which the other is computing with."""
    lens = open_model(str(folders["gpt2"]), device_map=ALL_ON_DISK)
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    plain = open_model(str(folders["gpt2"]), device="cpu")
    heads = ["L0H0", "L1H1", "L2H3", "none"]
    expected = {}
    for label in heads:
        with plain.off(label), torch.inference_mode():
            expected[label] = plain.model(ids).logits
    wrong: list[str] = []

    def work(label: str) -> None:
        for _ in range(12):
            try:
                with lens.off(label), torch.inference_mode():
                    if not torch.equal(lens.model(ids).logits, expected[label]):
                        wrong.append(label)
            except (RuntimeError, NotImplementedError) as error:
                wrong.append(f"{label}: {error}")

    threads = [threading.Thread(target=work, args=(label,)) for label in heads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_edits_follow_z_to_its_device() -> None:
    z = torch.zeros(2, 3, 4, 5, device="meta")
    off, value, gate = torch.ones(2, 4, dtype=torch.bool), torch.ones(4, 5), torch.ones(2, 4)
    for edit in (Edit(off=off), Edit(off=off, value=value), Edit(gate=gate)):
        assert _edited(z, edit).device.type == "meta"
        assert _edited(z, edit).shape == z.shape
    where = Where(1, "self", "stack", (0,), 1, 4, 5, torch.device("meta"))
    assert where.hand_out(torch.zeros(2)).device.type == "meta"
    assert where.hand_out(torch.zeros(2)).shape == (2,)


def test_inputs_go_where_the_first_part_runs() -> None:
    model = build("gpt2")
    assert main_device(model) is None
    model.hf_device_map = {"transformer.wte": 1, "transformer.h": 0}  # type: ignore[assignment]
    hook = AlignDevicesHook(execution_device=1)
    model._hf_hook = hook  # type: ignore[assignment]
    assert main_device(model) == torch.device("cuda:1")


def test_gates_in_half_precision_are_summed_in_float32() -> None:
    z = torch.randn(1, 300, 2, 8, dtype=torch.bfloat16)
    gate = torch.ones(1, 2, requires_grad=True)
    out = _edited(z, Edit(gate=gate))
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, z)
    (gradient,) = torch.autograd.grad(out.float().sum(), gate)
    exact = z.double().sum((1, 3))
    assert torch.allclose(gradient.double(), exact, rtol=1e-5, atol=1e-3)


def refused(text: str, call: Any) -> None:
    with pytest.raises(ModelError, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_maps_that_do_not_fit(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = str(folders["gpt2"])
    for device_map, text in (
        ("everywhere", "not one of auto, balanced"),
        ({}, "is empty"),
        ({"": 3}, "names 3, which is not on this machine"),
        ({"": "tpu"}, "names 'tpu'"),
        ({"": "cpu", "model.layers.0": "disk"}, "names 'model.layers.0', which GPT2LMHeadModel has not"),
        ({"transformer.wte": "cpu"}, "no place for transformer.wpe"),
        ({"": "cpu", "transformer.h.1.attn": "disk"}, "tears transformer.h.1 apart"),
    ):
        refused(text, lambda device_map=device_map: open_model(folder, device_map=device_map))
    refused(
        "bert.embeddings.word_embeddings.weight and cls.predictions.decoder.weight are one weight",
        lambda: open_model(str(folders["bert-mlm"]), device_map={"": "cpu", "bert.embeddings": "disk"}),
    )
    refused("add --device-map auto", lambda: open_model(folder, max_memory={"cpu": 10}))
    monkeypatch.setattr("headlens.models.sizes.available_bytes", lambda device="cpu": 5_000)
    refused(r"puts 0\.0\d MB on cpu, where 0\.0\d MB are free", lambda: open_model(folder, device_map={"": "cpu"}))


def test_gpus_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    two = spread_by({"a": 0, "b": "cuda:1", "c": "cpu"}, None)
    assert two is not None
    assert two.for_transformers()["device_map"] == {"a": 0, "b": "cuda:1", "c": "cpu"}
    refused("names 2, .* there are cpu, disk, 0, 1", lambda: spread_by({"a": 2}, None))
    kept_off = spread_by("auto", {"cpu": 10}, "cpu")
    assert kept_off is not None
    assert kept_off.limits == {0: 0, 1: 0, "cpu": 10}


def test_options_are_read(tmp_path: Path) -> None:
    assert read_limits("0=20GB, cpu=1.5GiB,1=7") == {0: 20 * 10**9, "cpu": 3 * 2**29, 1: 7}
    assert read_limits(None) is None
    for text in ("", "0:20GB", "cpu=x", "disk=3GB", "0=-1"):
        refused("--max-memory", lambda text=text: read_limits(text))
    assert read_device_map("auto") == "auto"
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"": "cpu", "lm_head": 0}))
    assert read_device_map(str(path)) == {"": "cpu", "lm_head": 0}
    path.write_text('{"a": [1]}')
    refused("one object", lambda: read_device_map(str(path)))
    refused("cannot be read", lambda: read_device_map(str(tmp_path / "none.json")))


def test_an_offloaded_model_is_not_cut(folders: dict[str, Path]) -> None:
    lens = open_model(str(folders["gpt2"]), device_map=ALL_ON_DISK)
    refused("without --device-map", lambda: cut(lens, lens.topology.parse("L0H0")))
