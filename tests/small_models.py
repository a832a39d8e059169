"""Small random models on disk that read real text, for the tests of the app: they open in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

POSITIONS = 512


def byte_tokenizer(vocabulary: int = 600) -> Any:
    """A byte-level BPE tokenizer trained on the built-in stories; it reads any script without unknown tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from headlens.data.builtin import read_builtin

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    raw.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<pad>", "</s>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [example.text or "" for example in read_builtin("stories", "all").examples]
    raw.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", mask_token="<mask>")


def save_gpt2(folder: Path, layers: int = 3, heads: int = 4, seed: int = 0) -> Path:
    """A GPT-2 whose heads matter (weights far from zero), with a byte-level tokenizer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = byte_tokenizer()
    config = GPT2Config(
        n_layer=layers,
        n_head=heads,
        n_embd=heads * 8,
        n_positions=POSITIONS,
        vocab_size=len(tokenizer),
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return _save(GPT2LMHeadModel(config), tokenizer, folder, seed)


def save_llama(folder: Path, seed: int = 0) -> Path:
    """A Llama with grouped key/value heads: 3 layers, 4 query heads, 2 key/value heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=len(tokenizer),
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return _save(LlamaForCausalLM(config), tokenizer, folder, seed)


def save_t5(folder: Path, seed: int = 0) -> Path:
    """A T5: 2 + 2 layers of 4 heads, three sites."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = byte_tokenizer()
    config = T5Config(
        num_layers=2,
        num_heads=4,
        d_model=32,
        d_kv=8,
        d_ff=64,
        vocab_size=len(tokenizer),
        eos_token_id=1,
        pad_token_id=0,
    )
    config.decoder_start_token_id = 0
    return _save(T5ForConditionalGeneration(config), tokenizer, folder, seed)


def save_bert(folder: Path, *, bare: bool = False, seed: int = 0) -> Path:
    """A BERT with a masked-language head, or without any head."""
    from transformers import BertConfig, BertForMaskedLM, BertModel

    tokenizer = byte_tokenizer()
    config = BertConfig(
        num_hidden_layers=3,
        num_attention_heads=4,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=len(tokenizer),
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
    )
    return _save((BertModel if bare else BertForMaskedLM)(config), tokenizer, folder, seed)


def _save(model: Any, tokenizer: Any, folder: Path, seed: int) -> Path:
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.25)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
