"""Sizes known in advance."""

from __future__ import annotations

import time

import pytest
import torch
import transformers as tf

from headlens.errors import ModelError
from headlens.models import sizes


def test_count_equals_the_real_model_with_tied_weights_once() -> None:
    config = tf.GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2, n_positions=8)
    block = 2 * 2 * 16 + (16 * 48 + 48) + (16 * 16 + 16) + (16 * 64 + 64) + (64 * 16 + 16)
    assert sizes.parameter_count(config, tf.GPT2LMHeadModel) == 20 * 16 + 8 * 16 + 2 * block + 2 * 16
    untied = tf.GPT2Config(**{**config.to_dict(), "tie_word_embeddings": False})
    assert sizes.parameter_count(untied, tf.GPT2LMHeadModel) == 2 * 20 * 16 + 8 * 16 + 2 * block + 2 * 16


def test_count_takes_no_memory() -> None:
    import psutil

    config = tf.LlamaConfig()  # 7B: 28 GB in float32
    sizes.parameter_count(tf.LlamaConfig(num_hidden_layers=1), tf.LlamaForCausalLM)
    before = psutil.Process().memory_info().rss
    start = time.process_time()
    assert sizes.parameter_count(config, tf.LlamaForCausalLM) == 6_738_415_616
    assert time.process_time() - start < 20
    assert psutil.Process().memory_info().rss - before < 100e6


@pytest.mark.parametrize("config", [tf.GPT2Config(n_layer=5000), tf.T5Config(num_decoder_layers=5000)])
def test_too_many_layers(config: tf.PretrainedConfig) -> None:
    with pytest.raises(ModelError, match="5,000 layers"):
        sizes.parameter_count(config, tf.GPT2LMHeadModel)


def test_impossible_config() -> None:
    with pytest.raises(ModelError, match="GPT2LMHeadModel that can be built"):
        sizes.parameter_count(tf.GPT2Config(n_embd=10, n_head=3), tf.GPT2LMHeadModel)


def test_required_bytes() -> None:
    assert sizes.required_bytes(1_000_000, torch.float32) == 4_800_000
    assert sizes.required_bytes(1_000_000, torch.bfloat16) == 2_400_000


def test_check_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sizes.available_bytes() > 0
    monkeypatch.setattr(sizes, "available_bytes", lambda device="cpu": int(2e9))
    sizes.check_fits("m", int(2e9))
    with pytest.raises(ModelError, match=r"^m needs about 2\.1 GB of memory, 2\.0 GB free: "):
        sizes.check_fits("m", int(2.1e9))
