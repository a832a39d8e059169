"""Opening folders: what comes back, and one line for everything that can be wrong with them."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headlens.errors import ModelError
from headlens.models import conversion
from headlens.models.loading import load
from headlens.models.packaged import INSTALL, packaged_file

Save = Callable[..., Path]


def edit_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    raw = json.loads(path.read_text())
    raw.update(values)
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not ...}))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def refused(name: object, *parts: str, **options: Any) -> str:
    """The message of the ModelError that ``load`` raises: one line with every part in it."""
    with pytest.raises(ModelError) as caught:
        load(str(name), **options)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


@pytest.mark.parametrize(
    ("kind", "task", "cls"),
    [
        ("gpt2", "causal-lm", "GPT2LMHeadModel"),
        ("llama", "causal-lm", "LlamaForCausalLM"),
        ("bert-mlm", "masked-lm", "BertForMaskedLM"),
        ("bert", "embedding", "BertModel"),
        ("bert-pretraining", "masked-lm", "BertForMaskedLM"),
        ("electra", "embedding", "ElectraModel"),
        ("t5", "seq2seq", "T5ForConditionalGeneration"),
        ("distilbert-class", "text-classification", "DistilBertForSequenceClassification"),
    ],
)
def test_opens_text_models_frozen_in_eval_mode(save: Save, kind: str, task: str, cls: str) -> None:
    folder = save(kind)
    loaded = load(str(folder))
    assert (loaded.task, type(loaded.model).__name__, loaded.source) == (task, cls, "local")
    assert loaded.path == folder
    assert loaded.sidecar is None
    assert loaded.processor is None
    assert not loaded.model.training
    parameters = list(loaded.model.parameters())
    assert parameters
    assert not any(p.requires_grad for p in parameters)
    assert {p.dtype for p in parameters} == {torch.float32}
    assert loaded.tokenizer is not None
    assert loaded.tokenizer("the cat")["input_ids"] == [5, 6]


def test_weights_are_those_of_the_file(save: Save) -> None:
    folder = save("bert-mlm", seed=3)
    stored = load_file(folder / "model.safetensors")
    state = load(str(folder)).model.state_dict()
    assert stored
    for key, tensor in stored.items():
        assert torch.equal(state[key], tensor), key


def test_image_model_gets_a_plain_processor(save: Save) -> None:
    from PIL import Image

    loaded = load(str(save("vit")))
    assert loaded.task == "image-classification"
    assert loaded.tokenizer is None
    pixels = loaded.processor(images=Image.new("RGB", (30, 20), (255, 0, 0)), return_tensors="pt")["pixel_values"]
    assert pixels.shape == (1, 3, 12, 12)
    assert torch.allclose(pixels[0, 0], torch.ones(12, 12), atol=1e-6)  # 255 -> 1 -> (1 - 0.5) / 0.5
    assert torch.allclose(pixels[0, 1], -torch.ones(12, 12), atol=1e-6)
    assert loaded.model(pixel_values=pixels).logits.shape == (1, 3)


def test_saved_image_processor_is_used(save: Save) -> None:
    from PIL import Image
    from transformers import ViTImageProcessorPil

    folder = save("vit")
    mean = [0.25, 0.25, 0.25]
    ViTImageProcessorPil(size={"height": 12, "width": 12}, image_mean=mean).save_pretrained(folder)
    pixels = load(str(folder)).processor(images=Image.new("RGB", (12, 12), (255, 255, 255)), return_tensors="pt")
    assert torch.allclose(pixels["pixel_values"], torch.full((1, 3, 12, 12), 1.5), atol=1e-6)


def test_dtype_is_float32_unless_asked(save: Save) -> None:
    folder = save("llama")
    edit_config(folder, dtype="bfloat16")
    assert load(str(folder)).model.dtype == torch.float32
    assert load(str(folder), dtype="bfloat16").model.dtype == torch.bfloat16
    assert load(str(folder), dtype="float16").model.dtype == torch.float16
    refused(folder, "'int8'", "bfloat16", dtype="int8")


def test_devices(save: Save) -> None:
    folder = save("gpt2")
    assert load(str(folder), device="auto").model.device.type in ("cpu", "cuda", "mps")
    refused(folder, "'tpu'", "auto, cpu, cuda", device="tpu")
    refused(folder, "'cuda:99'", "not on this machine", device="cuda:99")


def test_attention_stays_the_default(save: Save) -> None:
    from transformers import AutoModelForCausalLM

    folder = save("llama")
    plain = AutoModelForCausalLM.from_pretrained(folder)
    loaded = load(str(folder))
    assert loaded.config._attn_implementation == plain.config._attn_implementation
    assert loaded.config.use_cache is plain.config.use_cache


def test_prints_nothing_and_restores_settings(save: Save, capfd: pytest.CaptureFixture[str]) -> None:
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging as hf_logging

    folder = save("bert-pretraining")  # has unused weights, which transformers reports on stderr
    hf_logging.set_verbosity(logging.WARNING)
    hf_logging.enable_progress_bar()
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    setattr(handler, "emit", records.append)  # noqa: B010 - transformers' own may hold another stderr
    logging.getLogger("transformers").addHandler(handler)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        load(str(folder))
    out, err = capfd.readouterr()
    logging.getLogger("transformers").removeHandler(handler)
    assert [record.getMessage() for record in records] == []
    assert (out, err) == ("", "")
    assert hf_logging.get_verbosity() == logging.WARNING
    assert hf_logging.is_progress_bar_enabled()
    assert not are_progress_bars_disabled()


def test_notes_say_what_was_not_used(save: Save) -> None:
    notes = " | ".join(load(str(save("bert-pretraining"))).notes)
    assert "saved as BertForPreTraining, opened as BertForMaskedLM" in notes
    assert "4 weights in the files are not used" in notes
    folder = save("gpt2")
    assert load(str(folder)).notes == ()
    edit_config(folder, n_layer=1)
    assert "not used" in " ".join(load(str(folder)).notes)


def test_sidecar_is_read(save: Save) -> None:
    folder = save("gpt2")
    (folder / "headlens.json").write_text('{"original": "x"}')
    assert load(str(folder)).sidecar == {"original": "x"}
    (folder / "headlens.json").write_text("[1]")
    refused(folder, "headlens.json", "no JSON object")


def test_sharded_weights(save: Save) -> None:
    folder = save("gpt2")
    whole = load(str(folder)).model
    (folder / "model.safetensors").unlink()
    whole.save_pretrained(folder, max_shard_size="4KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    again = load(str(folder)).model
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
    shards[0].unlink()
    refused(folder, shards[0].name, "lacks")
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(shards[0].name, "../x.safetensors"))
    refused(folder, "../x.safetensors", "beside it")


def test_old_config_without_model_type(save: Save) -> None:
    folder = save("gpt2")
    edit_config(folder, model_type=...)
    assert load(str(folder)).task == "causal-lm"
    edit_config(folder, architectures=...)
    refused(folder, "neither model_type nor architectures")


# --- what can be wrong -------------------------------------------------------------------------------------------


def test_folder_without_a_model(tmp_path: Path) -> None:
    refused(tmp_path / "none", "no file or folder", "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, "is empty", "save_pretrained")
    (empty / "readme.txt").write_text("hello")
    refused(empty, "no config.json")
    refused(empty / "readme.txt", "is a file, not a model")
    (empty / "adapter_config.json").write_text("{}")
    refused(empty, "LoRA", "merge")


@pytest.mark.parametrize("text", ["{", "", "[1]", "\x00\xff", '{"a": ' * 5000])
def test_broken_config(save: Save, text: str) -> None:
    folder = save("gpt2")
    (folder / "config.json").write_text(text)
    refused(folder, "config.json", "JSON")


def test_config_values_that_do_not_fit(save: Save) -> None:
    folder = save("gpt2")
    edit_config(folder, n_head=3)
    refused(folder, "GPT2LMHeadModel", "built")
    edit_config(folder, n_head="two")
    refused(folder, "config.json")
    folder = save("llama")
    edit_config(folder, hidden_size=[1])
    refused(folder, "config.json")


def test_pickle_only(save: Save) -> None:
    folder = save("gpt2")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "pytorch_model.bin", "safetensors", "save_pretrained")
    (folder / "pytorch_model.bin").unlink()
    refused(folder, "no model.safetensors")


def test_pickle_named_by_config_is_not_opened(save: Save) -> None:
    folder = save("gpt2")
    (folder / "evil.bin").write_bytes(b"x")
    edit_config(folder, transformers_weights="evil.bin")
    refused(folder, "safetensors")


def test_remote_code_is_never_run(save: Save) -> None:
    folder = save("gpt2")
    (folder / "modeling_own.py").write_text("raise SystemExit('code was run')")
    own = {"AutoConfig": "modeling_own.C", "AutoModelForCausalLM": "modeling_own.M"}
    edit_config(folder, auto_map=own)
    assert type(load(str(folder)).model).__module__.startswith("transformers.")
    edit_config(folder, model_type="own")
    refused(folder, "auto_map", "never runs")


def test_unknown_kinds(save: Save) -> None:
    folder = save("bert-mlm")
    edit_config(folder, architectures=["BertForTokenClassification"])
    refused(folder, "BertForTokenClassification", "drift")
    edit_config(folder, architectures=["OwnModelForCausalLM"])
    refused(folder, "OwnModelForCausalLM", "not in transformers")
    edit_config(folder, model_type="own")
    refused(folder, "'own'", "does not know")
    folder = save("gpt2")
    edit_config(folder, quantization_config={"quant_method": "gptq"})
    refused(folder, "gptq", "quantised")


@pytest.mark.parametrize(
    "values",
    [
        {"n_embd": 200_000, "n_layer": 40},
        {"vocab_size": 10**12},
        {"vocab_size": 10**17},
        {"n_layer": 10**6},
        {"n_positions": 10**11},
        {"num_labels": 10**9},
    ],
)
def test_enormous_config_is_refused_at_once(save: Save, values: dict[str, int]) -> None:
    import psutil

    folder = save("gpt2")
    load(str(folder))  # so that the time measured below is not that of imports
    edit_config(folder, **values)
    before = psutil.Process().memory_info().rss
    start = time.process_time()
    refused(folder)
    assert time.process_time() - start < 5
    assert psutil.Process().memory_info().rss - before < 100e6


def test_too_big_says_how_big(save: Save) -> None:
    folder = save("gpt2")
    edit_config(folder, vocab_size=10**12)  # x 16 numbers x 4 bytes x 1.2
    refused(folder, "needs about 76,800.0 GB", "GB free")


def test_damaged_weights(save: Save) -> None:
    folder = save("gpt2")
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for broken in (data[:-1], data[: len(data) // 2], data[:40], b"", data + b"x", b"\xff" * 64, b"\x02" + b"\0" * 7):
        path.write_bytes(broken)
        refused(folder, "model.safetensors", "damaged or cut short")


def test_wrong_shapes_are_named(save: Save) -> None:
    folder = save("gpt2")
    edit_config(folder, n_embd=32)
    refused(folder, "wrong shape", "GPT2LMHeadModel", "c_attn.bias", "(48,)", "(96,)")


def test_missing_weights_are_named(save: Save) -> None:
    folder = save("gpt2")
    key = "transformer.h.1.attn.c_proj.weight"
    edit_weights(folder, lambda tensors: tensors.pop(key))  # type: ignore[arg-type,return-value]
    refused(folder, key, "random")
    bare = save("bert")
    edit_config(bare, architectures=["BertForMaskedLM"])  # a head that was never trained
    refused(bare, "BertForMaskedLM", "cls.predictions")


def test_tied_weights_are_not_missing(save: Save) -> None:
    folder = save("gpt2")
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model = load(str(folder)).model
    output, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    assert output is not None
    assert output.weight is embedding.weight


def test_unused_pooler_may_be_missing(save: Save) -> None:
    folder = save("bert")

    def drop(tensors: dict[str, torch.Tensor]) -> None:
        for key in [key for key in tensors if key.startswith("pooler")]:
            del tensors[key]

    edit_weights(folder, drop)
    assert load(str(folder)).task == "embedding"


def test_pruned_heads_of_transformers_4(save: Save) -> None:
    folder = save("bert-mlm")
    assert not load(str(folder)).notes
    edit_config(folder, pruned_heads={"0": [1]})
    assert "pruned_heads" in " ".join(load(str(folder)).notes)

    def cut(tensors: dict[str, torch.Tensor]) -> None:
        for part in ("self.query", "self.key", "self.value"):
            for kind in ("weight", "bias"):
                key = f"bert.encoder.layer.0.attention.{part}.{kind}"
                tensors[key] = tensors[key][:8].clone()

    edit_weights(folder, cut)
    refused(folder, "wrong shape", "pruned_heads", "transformers 4")


def test_tokenizer_missing_or_broken(save: Save) -> None:
    folder = save("gpt2", tokenizer=False)
    refused(folder, "no tokenizer", "save_pretrained")
    (folder / "tokenizer.json").write_text("{")
    refused(folder, "tokenizer", "cannot be opened")


# --- GGUF --------------------------------------------------------------------------------------------------------


def write_gguf(path: Path, quantised: bool = False) -> dict[str, torch.Tensor]:
    """A two-layer Llama in GGUF, and its weights under llama.cpp's names."""
    import gguf
    import numpy as np

    width, inner, heads, kv, layers = 64, 96, 4, 2, 2
    tokens = ["<u>", "<s>", "</s>", *(chr(c) for c in range(33, 127)), "Ġ", "ab"]
    writer = gguf.GGUFWriter(str(path), "llama")
    for add, value in (
        (writer.add_block_count, layers),
        (writer.add_context_length, 64),
        (writer.add_embedding_length, width),
        (writer.add_feed_forward_length, inner),
        (writer.add_head_count, heads),
        (writer.add_head_count_kv, kv),
        (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_rope_freq_base, 10000.0),
        (writer.add_rope_dimension_count, width // heads),
        (writer.add_vocab_size, len(tokens)),
        (writer.add_tokenizer_model, "gpt2"),
        (writer.add_token_list, tokens),
        (writer.add_token_types, [3] * 3 + [1] * (len(tokens) - 3)),
        (writer.add_token_merges, ["a b"]),
        (writer.add_bos_token_id, 1),
        (writer.add_eos_token_id, 2),
        (writer.add_unk_token_id, 0),
    ):
        add(value)  # type: ignore[operator]
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), width), "output_norm": (width,), "output": (len(tokens), width)}
    for i in range(layers):
        block = {"attn_q": (width, width), "attn_k": (width // 2, width), "attn_v": (width // 2, width)}
        block |= {"attn_output": (width, width), "attn_norm": (width,), "ffn_norm": (width,)}
        block |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, weight in weights.items():
        if quantised and weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            packed = gguf.quantize(weight, kind)
            writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
            weights[name] = gguf.dequantize(packed, kind)
        else:
            writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {name: torch.from_numpy(weight) for name, weight in weights.items()}


@pytest.mark.parametrize("quantised", [False, True])
def test_gguf_file_and_folder(tmp_path: Path, quantised: bool, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "gguf"
    folder.mkdir()
    written = write_gguf(folder / "small.gguf", quantised)
    capfd.readouterr()
    loaded = load(str(folder))
    assert capfd.readouterr() == ("", "")
    assert (loaded.task, loaded.title) == ("causal-lm", "small")
    assert any("GGUF" in note for note in loaded.notes)
    state = loaded.model.state_dict()
    assert torch.equal(state["model.layers.1.self_attn.o_proj.weight"], written["blk.1.attn_output"])
    assert torch.equal(state["model.embed_tokens.weight"], written["token_embd"])
    assert torch.equal(state["lm_head.weight"], written["output"])
    # llama.cpp interleaves the two halves of each head's rotary dimensions
    q = written["blk.0.attn_q"].reshape(4, 8, 2, 64).transpose(1, 2).reshape(64, 64)
    assert torch.equal(state["model.layers.0.self_attn.q_proj.weight"], q)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.convert_ids_to_tokens(loaded.tokenizer("x y")["input_ids"]) == ["x", "Ġ", "y"]
    again = load(str(folder / "small.gguf"))  # from the cache, by content
    assert again.path == loaded.path


def test_gguf_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"hello")
    refused(path, "is not a GGUF file")
    for garbage in (b"GGUF", b"GGUF" + b"\xff" * 200, b"GGUF\x03\0\0\0" + b"\0" * 16, b"GGUF\x03\0\0\0" + b"\x01" * 64):
        path.write_bytes(garbage)
        refused(path, "bad.gguf", "cannot be read as a GGUF model")
    write_gguf(path)
    path.write_bytes(path.read_bytes()[:-5000])
    refused(path, "bad.gguf", "cannot be read as a GGUF model")
    assert not list((tmp_path / "headlens-cache" / "models").glob("*")), "nothing half done is left"
    (tmp_path / "two.gguf").write_bytes(b"GGUF")
    refused(tmp_path, "2 GGUF files", "bad.gguf")


def test_half_made_conversion_is_made_again(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    folder = conversion.converted(tmp_path / "m.gguf")
    weights = folder / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-100])
    assert conversion.converted(tmp_path / "m.gguf") == folder
    assert weights.read_bytes() == good


def test_another_process_finishes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "m.gguf")
    store = tmp_path / "headlens-cache" / "models"
    plain = conversion._convert

    def overtaken(gguf: Path, folder: Path) -> None:
        plain(gguf, folder)
        shutil.copytree(folder, store / folder.name.removeprefix(".").rpartition("-")[0])

    monkeypatch.setattr(conversion, "_convert", overtaken)
    folder = conversion.converted(tmp_path / "m.gguf")
    assert list(store.iterdir()) == [folder]
    assert load(str(tmp_path / "m.gguf")).path == folder


def test_killed_conversion_is_not_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "m.gguf")
    store = tmp_path / "headlens-cache" / "models"
    plain = conversion._convert
    left: list[Path] = []

    def killed(gguf: Path, folder: Path) -> None:
        plain(gguf, folder)
        left.append(shutil.copytree(folder, folder.with_name(folder.name + "x")))  # what a kill leaves behind
        raise KeyboardInterrupt

    monkeypatch.setattr(conversion, "_convert", killed)
    with pytest.raises(KeyboardInterrupt):
        conversion.converted(tmp_path / "m.gguf")
    assert list(store.iterdir()) == left
    monkeypatch.setattr(conversion, "_convert", plain)
    os.utime(left[0], (1, 1))  # long ago
    assert list(store.iterdir()) == left
    folder = conversion.converted(tmp_path / "m.gguf")
    assert list(store.iterdir()) == [folder], "old leftovers are swept"


# --- the packaged models -----------------------------------------------------------------------------------------


def need(name: str) -> None:
    if packaged_file(name) is None:
        pytest.fail(f"{name} is not installed; run `{INSTALL}`")


@pytest.mark.models
def test_smollm2_speaks_english() -> None:
    need("smollm2-135m")
    loaded = load("smollm2-135m")
    assert "4-bit" in loaded.title
    assert "Q4_1" in " ".join(loaded.notes)
    tokenizer = loaded.tokenizer
    assert tokenizer is not None
    assert tokenizer("The cat")["input_ids"] == tokenizer("The cat", add_special_tokens=False)["input_ids"]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    best = int(loaded.model(input_ids=ids).logits[0, -1].argmax())
    assert str(tokenizer.decode([best])).strip() == "Paris"
    start = time.process_time()
    load("smollm2-135m")
    assert time.process_time() - start < 10  # about 0.5 s on a free machine


@pytest.mark.models
def test_minilm_puts_like_sentences_together() -> None:
    need("minilm-l6")
    loaded = load("minilm-l6")
    assert loaded.task == "embedding"
    tokenizer = loaded.tokenizer
    assert tokenizer is not None
    texts = ["A cat sleeps on the sofa.", "A kitten is napping on the couch.", "The bank raised interest rates."]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    assert batch["input_ids"][0, 0] == tokenizer.cls_token_id
    mask = batch["attention_mask"].unsqueeze(-1)
    hidden = loaded.model(**batch).last_hidden_state
    mean = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    like, unlike = float(mean[0] @ mean[1]), float(mean[0] @ mean[2])
    assert like > 0.5 > 0.2 > unlike
