"""Tiny models with random weights, of every family, for tests. No download, a few milliseconds each.

``tiny("llama")`` gives ``(model, inputs)``: an untrained model of the family's main class in eval mode, and a padded
batch for it. ``tiny("llama", "LlamaModel")`` builds another class on the same config. ``TINY`` lists the names, and
``CASES`` every (name, class) pair. The weights are drawn so that every head matters: matrices keep the size of what
passes through them, biases and norm weights are not trivial. The same arguments always give the same model.

Names are a config's ``model_type``, with a suffix for variants: ``llama-mqa`` has one KV head, ``albert-groups`` two
groups of two inner layers each, ``falcon-gqa`` and ``falcon-alibi`` are Falcon's other two layouts.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

VOCAB = 60
LENGTHS = (9, 6, 4)
TARGET_LENGTHS = (7, 7, 3)
EOS = 2

Kind = Literal["causal", "encoder", "seq2seq", "image", "sound", "towers"]


@dataclass(frozen=True)
class TinySpec:
    """How to build one tiny model: config class, its arguments, and the classes to build, the main one first."""

    kind: Kind
    config: str
    classes: tuple[str, ...]
    arguments: dict[str, Any] = field(default_factory=dict)


_IDS: dict[str, Any] = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": EOS}
_DEEP = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}
_WIDE = {**_DEEP, "intermediate_size": 48}
_LLAMA = {**_IDS, **_WIDE, "max_position_embeddings": 64}
_BERT = {**_LLAMA, "type_vocab_size": 2}
_BART = {
    **_IDS,
    **{f"{side}_layers": 3 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 48 for side in ("encoder", "decoder")},
    "d_model": 32,
    "max_position_embeddings": 64,
    "decoder_start_token_id": EOS,
    "forced_eos_token_id": None,
}
_T5 = {**_IDS, "num_layers": 3, "num_heads": 4, "d_model": 32, "d_kv": 6, "d_ff": 48, "decoder_start_token_id": 0}
_IMAGE = {**_WIDE, "image_size": 12, "patch_size": 4, "num_labels": 3}
_MLA = {
    **_LLAMA,
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 7,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 2,
}
_FALCON = {**_IDS, **_DEEP, "bias": True}


def _decoder(name: str, *classes: str, **arguments: Any) -> TinySpec:
    found = classes or (f"{name}ForCausalLM", f"{name}Model")
    return TinySpec("causal", f"{name}Config", found, arguments)


def _encoder(name: str, *classes: str, **arguments: Any) -> TinySpec:
    found = classes or (f"{name}ForMaskedLM", f"{name}Model", f"{name}ForSequenceClassification")
    return TinySpec("encoder", f"{name}Config", found, {"num_labels": 3, **arguments})


def _seq2seq(name: str, *classes: str, **arguments: Any) -> TinySpec:
    found = (f"{name}ForConditionalGeneration", f"{name}Model", *classes)
    return TinySpec("seq2seq", f"{name}Config", found, arguments)


TINY: dict[str, TinySpec] = {
    "gpt2": _decoder(
        "GPT2",
        *("GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification"),
        **{**_IDS, "n_layer": 3, "n_head": 4, "n_embd": 32, "n_positions": 64},
    ),
    "gpt_neo": _decoder(
        "GPTNeo",
        **{**_IDS, "num_layers": 4, "attention_types": [[["global", "local"], 2]], "num_heads": 4},
        **{"hidden_size": 32, "window_size": 4, "max_position_embeddings": 64},
    ),
    "gpt_neox": _decoder("GPTNeoX", "GPTNeoXForCausalLM", "GPTNeoXModel", **_LLAMA),
    "opt": _decoder(
        "OPT",
        *("OPTForCausalLM", "OPTModel", "OPTForSequenceClassification"),
        **{**_IDS, **_DEEP, "ffn_dim": 48, "max_position_embeddings": 64, "word_embed_proj_dim": 32},
    ),
    "bloom": _decoder(
        "Bloom",
        *("BloomForCausalLM", "BloomModel", "BloomForSequenceClassification"),
        **{**_IDS, "n_layer": 3, "n_head": 4, "hidden_size": 32},
    ),
    "falcon": _decoder("Falcon", **_FALCON),
    "falcon-gqa": _decoder("Falcon", **_FALCON, new_decoder_architecture=True, num_kv_heads=2),
    "falcon-alibi": _decoder("Falcon", **_FALCON, multi_query=False, alibi=True, parallel_attn=False),
    "llama": _decoder(
        "Llama",
        *("LlamaForCausalLM", "LlamaModel", "LlamaForSequenceClassification"),
        **{**_LLAMA, "num_key_value_heads": 2, "attention_bias": True},
    ),
    "llama-mqa": _decoder("Llama", **_LLAMA, num_key_value_heads=1, head_dim=6),
    "mistral": _decoder("Mistral", **_LLAMA, num_key_value_heads=2, sliding_window=4),
    "mixtral": _decoder("Mixtral", **_LLAMA, num_key_value_heads=2, num_local_experts=4),
    "qwen2": _decoder("Qwen2", **_LLAMA, num_key_value_heads=2),
    "qwen3": _decoder("Qwen3", **_LLAMA, num_key_value_heads=2, head_dim=12),
    "gemma": _decoder("Gemma", **_LLAMA, num_key_value_heads=1, head_dim=12),
    "gemma2": _decoder("Gemma2", **_LLAMA, num_key_value_heads=2, head_dim=12, sliding_window=4),
    "gemma3_text": TinySpec(
        "causal",
        "Gemma3TextConfig",
        ("Gemma3ForCausalLM", "Gemma3TextModel"),
        {**_LLAMA, "num_key_value_heads": 2, "head_dim": 12, "sliding_window": 4},
    ),
    "olmo": _decoder("Olmo", **_LLAMA),
    "olmo2": _decoder("Olmo2", **_LLAMA, num_key_value_heads=2),
    "granite": _decoder("Granite", **_LLAMA, num_key_value_heads=2, attention_multiplier=0.4),
    "smollm3": _decoder("SmolLM3", **_LLAMA, num_key_value_heads=2),
    "phi": _decoder("Phi", **_LLAMA, num_key_value_heads=2),
    "phi3": _decoder("Phi3", **_LLAMA, num_key_value_heads=2),
    "deepseek_v2": _decoder("DeepseekV2", **_MLA),
    "deepseek_v3": _decoder("DeepseekV3", **{**_MLA, "q_lora_rank": None}),
    "bert": _encoder("Bert", **_BERT),
    "bert-decoder": TinySpec("causal", "BertConfig", ("BertLMHeadModel",), {**_BERT, "is_decoder": True}),
    "roberta": _encoder("Roberta", **_BERT),
    "xlm-roberta": _encoder("XLMRoberta", **_BERT),
    "camembert": _encoder("Camembert", **_BERT),
    "distilbert": _encoder(
        "DistilBert",
        **{**_IDS, "n_layers": 3, "n_heads": 4, "dim": 32, "hidden_dim": 48},
        max_position_embeddings=64,
    ),
    "electra": _encoder("Electra", **_BERT, embedding_size=16),
    "albert": _encoder("Albert", **{**_BERT, "num_hidden_layers": 4}, embedding_size=16),
    "albert-groups": _encoder("Albert", **_BERT, embedding_size=16, num_hidden_groups=2, inner_group_num=2),
    "modernbert": _encoder(
        "ModernBert",
        **{**_LLAMA, "cls_token_id": 1, "sep_token_id": EOS, "local_attention": 4, "global_attn_every_n_layers": 2},
        **{"attention_bias": True, "norm_bias": True, "mlp_bias": True},
    ),
    "t5": _seq2seq("T5", "T5EncoderModel", "T5ForSequenceClassification", **_T5, feed_forward_proj="relu"),
    "mt5": _seq2seq("MT5", **_T5, feed_forward_proj="gated-gelu"),
    "umt5": _seq2seq("UMT5", **_T5, feed_forward_proj="gated-gelu"),
    "bart": _seq2seq("Bart", "BartForSequenceClassification", "BartForCausalLM", **_BART, num_labels=3),
    "mbart": _seq2seq("MBart", **_BART),
    "pegasus": _seq2seq("Pegasus", **_BART),
    "marian": TinySpec("seq2seq", "MarianConfig", ("MarianMTModel", "MarianModel"), _BART),
    "m2m_100": _seq2seq("M2M100", **_BART),
    "blenderbot": _seq2seq("Blenderbot", **_BART),
    "blenderbot-small": _seq2seq("BlenderbotSmall", **_BART),
    "whisper": TinySpec(
        "sound",
        "WhisperConfig",
        ("WhisperForConditionalGeneration", "WhisperModel"),
        {**_BART, "num_mel_bins": 4, "max_source_positions": 6, "max_target_positions": 20},
    ),
    "vit": TinySpec("image", "ViTConfig", ("ViTForImageClassification", "ViTModel"), _IMAGE),
    "deit": TinySpec(
        "image",
        "DeiTConfig",
        ("DeiTForImageClassification", "DeiTModel", "DeiTForImageClassificationWithTeacher"),
        _IMAGE,
    ),
    "dinov2": TinySpec("image", "Dinov2Config", ("Dinov2ForImageClassification", "Dinov2Model"), _IMAGE),
    "clip": TinySpec(
        "towers",
        "CLIPConfig",
        ("CLIPModel",),
        {"text_config": {**_LLAMA, "projection_dim": 8}, "vision_config": {**_IMAGE, "projection_dim": 8}}
        | {"projection_dim": 8},
    ),
    "clip_text_model": TinySpec(
        "encoder", "CLIPTextConfig", ("CLIPTextModel", "CLIPTextModelWithProjection"), {**_LLAMA, "projection_dim": 8}
    ),
    "clip_vision_model": TinySpec(
        "image", "CLIPVisionConfig", ("CLIPVisionModel", "CLIPVisionModelWithProjection"), _IMAGE
    ),
}

CASES: tuple[tuple[str, str], ...] = tuple((name, cls) for name, spec in TINY.items() for cls in spec.classes)
"""Every (name, class) that :func:`tiny` builds."""


def tiny(
    name: str, cls: str | None = None, *, seed: int = 0, padded: bool = True, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """A tiny random model and inputs for it.

    Args:
        name: one of ``TINY``.
        cls: transformers class; the main one of the family by default.
        seed: draws weights and inputs.
        padded: rows of different lengths with attention masks; else two full rows without masks.
        dtype: of the weights.

    Returns:
        The model in eval mode and its inputs: 3 rows when padded, else 2 (pictures and sound: 2).
    """
    spec = TINY[name]
    return build(spec, cls or spec.classes[0], seed=seed, padded=padded, dtype=dtype)


def build(
    spec: TinySpec, cls: str, *, seed: int = 0, padded: bool = True, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, dict[str, Tensor]]:
    """As :func:`tiny`, from a spec of one's own."""
    config = getattr(transformers, spec.config)(**spec.arguments)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, cls)(config).eval()
    randomise(model, generator)
    return model.to(dtype), inputs_for(model, spec.kind, generator, padded, dtype)


@torch.no_grad()
def randomise(model: nn.Module, generator: torch.Generator) -> None:
    """Draws all trained weights anew so that nothing is trivial: biases differ from 0 and norm weights from 1."""
    for name, weight in model.named_parameters():
        if not weight.requires_grad:  # fixed positions: some classes build them again when they are loaded
            continue
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() < 2:
            # Norm weights and scales start at 1 (Gemma's at 0), biases at 0.
            start = 1.0 if name.endswith(("weight", "lambda1")) and bool((weight == 1).all()) else 0.0
            weight.copy_(start + 0.3 * noise)
        elif "embed" in name or "position" in name or "wte" in name or "wpe" in name or "relative" in name:
            weight.copy_(0.7 * noise)
        else:
            weight.copy_(noise * (1.3 / math.sqrt(weight[0].numel())))


def inputs_for(
    model: PreTrainedModel, kind: Kind, generator: torch.Generator, padded: bool, dtype: torch.dtype
) -> dict[str, Tensor]:
    """A batch that the model's class takes."""
    inputs: dict[str, Tensor] = {}
    if kind in ("causal", "encoder", "seq2seq", "towers"):
        inputs |= _tokens(model, LENGTHS, generator, padded)
    if kind in ("image", "towers"):
        vision = getattr(model.config, "vision_config", model.config)
        rows = 3 if kind == "towers" and padded else 2
        inputs["pixel_values"] = torch.randn(
            rows, 3, vision.image_size, vision.image_size, generator=generator, dtype=torch.float32
        ).to(dtype)
    if kind == "sound":
        shape = (2, model.config.num_mel_bins, 2 * model.config.max_source_positions)
        inputs["input_features"] = torch.randn(shape, generator=generator).to(dtype)
    needs_targets = kind in ("seq2seq", "sound") and not type(model).__name__.endswith(_NO_TARGETS)
    if needs_targets:
        targets = _tokens(model, TARGET_LENGTHS if kind == "seq2seq" else TARGET_LENGTHS[:2], generator, padded)
        inputs |= {f"decoder_{name}": value for name, value in targets.items()}
    return inputs


_NO_TARGETS = ("EncoderModel", "ForCausalLM", "ForSequenceClassification")


def _tokens(
    model: PreTrainedModel, lengths: tuple[int, ...], generator: torch.Generator, padded: bool
) -> dict[str, Tensor]:
    """Token ids that end in EOS; padded to the right with the model's own id."""
    rows = len(lengths) if padded else 2
    ids = torch.randint(3, VOCAB, (rows, lengths[0]), generator=generator)
    if not padded:
        ids[:, -1] = EOS
        return {"input_ids": ids}
    mask = torch.zeros_like(ids)
    pad = getattr(model.config, "pad_token_id", None) or 0
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
        ids[row, length - 1] = EOS
        ids[row, length:] = pad
    return {"input_ids": ids, "attention_mask": mask}


def outputs(model: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """All tensors of the model's output that depend on its blocks, by name; no caches."""
    takes_cache = "use_cache" in inspect.signature(model.forward).parameters
    found = model(**inputs, **({"use_cache": False} if takes_cache else {}))
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
