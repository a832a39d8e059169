"""Tiny random models of several families, saved as users save theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "dog"]
Save = Callable[..., Path]


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """No test sees this user's hub cache; only those marked ``models`` share the store of converted models."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub-cache"))
    if not request.node.get_closest_marker("models"):
        monkeypatch.setenv("HEADLENS_CACHE", str(tmp_path / "headlens-cache"))


def save_tokenizer(folder: Path) -> None:
    """A word-level tokenizer with BERT's special tokens."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)


def configs() -> dict[str, tuple[type, Any]]:
    """Kind -> (class, config) of the tiny models."""
    import transformers

    tf: Any = transformers
    n = len(WORDS)
    small = {"vocab_size": n, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    bert = tf.BertConfig(**small, intermediate_size=32, max_position_embeddings=32)
    image = tf.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=12,
        patch_size=4,
        num_labels=3,
    )
    return {
        "gpt2": (tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=n, n_embd=16, n_layer=2, n_head=2, n_positions=32)),
        "bert-mlm": (tf.BertForMaskedLM, bert),
        "bert": (tf.BertModel, bert),
        "bert-pretraining": (tf.BertForPreTraining, bert),
        "electra": (tf.ElectraForPreTraining, tf.ElectraConfig(**small, embedding_size=16, intermediate_size=32)),
        "t5": (
            tf.T5ForConditionalGeneration,
            tf.T5Config(vocab_size=n, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0),
        ),
        "llama": (
            tf.LlamaForCausalLM,
            tf.LlamaConfig(**small, num_key_value_heads=1, intermediate_size=32, max_position_embeddings=32),
        ),
        "vit": (tf.ViTForImageClassification, image),
        "distilbert-class": (
            tf.DistilBertForSequenceClassification,
            tf.DistilBertConfig(
                vocab_size=n, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=32, num_labels=3
            ),
        ),
    }


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Saves a tiny random model of a kind and gives its folder; ``tokenizer=False`` leaves the tokenizer out."""

    def save(kind: str, *, tokenizer: bool = True, seed: int = 0) -> Path:
        import torch

        cls, config = configs()[kind]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = cls(config)
        folder = tmp_path / f"{kind}-{seed}"
        model.save_pretrained(folder)
        if tokenizer and kind != "vit":
            save_tokenizer(folder)
        return folder

    return save
