"""What each model of the zoo is and how it is trained: one entry a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headlens.zoo.vocabulary import PAD, Style, tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

SETS: Mapping[str, str] = MappingProxyType(
    {"causal": "small-english", "masked": "small-english", "pairs": "number-words", "pictures": "shapes"}
)
"""The built-in set on which models of each kind are measured."""


@dataclass(frozen=True)
class Recipe:
    """How one model is built and trained.

    Attributes:
        name: name of the model.
        title: what it is, for readers.
        kind: ``causal``, ``masked`` (small English), ``pairs`` (number words) or ``pictures`` (shapes).
        model: its class in transformers.
        config: class of its config.
        settings: what the config is made with, besides the sizes of the vocabulary and the ids of special tokens.
        steps: training steps.
        batch: examples a step.
        rate: highest learning rate.
        checkpoints: steps after which a copy is kept, besides the last.
        practice: share of the steps, at the start, in which mostly words that need a skill are asked for. They are one
            in seven, and some models do not come upon repeating or recalling otherwise.
    """

    name: str
    title: str
    kind: str
    model: str
    config: str
    settings: Mapping[str, Any]
    steps: int
    batch: int
    rate: float
    checkpoints: tuple[int, ...] = ()
    practice: float = 0.0


LENGTH = 128
"""Positions of models that read text: every story and every pair of numbers has fewer tokens."""

_SIDES = {
    **{f"{side}_layers": 3 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 8 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 128 for side in ("encoder", "decoder")},
    **{"d_model": 64, "dropout": 0.0, "max_position_embeddings": LENGTH, "forced_eos_token_id": None},
    **{"init_std": 0.1, "activation_function": "gelu"},
}
_WIDE = {
    **{"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8, "max_position_embeddings": LENGTH},
    **{"initializer_range": 0.08},
}
_STORIES = "trained on small English"


def _gpt2(name: str, title: str, shape: tuple[int, int, int, int], **training: Any) -> Recipe:
    layers, heads, width, inner = shape
    settings = {
        **{"n_layer": layers, "n_head": heads, "n_embd": width, "n_inner": inner, "n_positions": LENGTH},
        **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "initializer_range": 0.08},
    }
    return Recipe(name, title, "causal", "GPT2LMHeadModel", "GPT2Config", settings, **training)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            _gpt2(
                "zoo-gpt2",
                f"GPT-2, 4 x 8 heads, {_STORIES}",
                (4, 8, 128, 256),
                **{"steps": 6000, "batch": 16, "rate": 2e-3, "checkpoints": (100, 250, 500, 1000, 2000, 4000)},
            ),
            Recipe(
                "zoo-llama",
                f"Llama with grouped queries (4 x 8 heads, 2 KV heads), {_STORIES}",
                "causal",
                "LlamaForCausalLM",
                "LlamaConfig",
                {**_WIDE, "num_key_value_heads": 2, "intermediate_size": 192, "tie_word_embeddings": True},
                **{"steps": 6000, "batch": 16, "rate": 2e-3},
            ),
            Recipe(
                "zoo-bert",
                f"BERT, 4 x 8 heads, {_STORIES} with hidden words",
                "masked",
                "BertForMaskedLM",
                "BertConfig",
                {
                    **{**_WIDE, "initializer_range": 0.05, "intermediate_size": 256, "type_vocab_size": 2},
                    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
                },
                **{"steps": 8000, "batch": 16, "rate": 1e-3, "practice": 0.6},
            ),
            Recipe(
                "zoo-t5",
                "T5, 3 + 3 layers of 8 heads, trained on number words",
                "pairs",
                "T5ForConditionalGeneration",
                "T5Config",
                {
                    **{"d_model": 64, "d_kv": 8, "d_ff": 128, "num_layers": 3, "num_heads": 8, "dropout_rate": 0.0},
                    **{"feed_forward_proj": "relu", "n_positions": LENGTH},
                },
                **{"steps": 2500, "batch": 64, "rate": 2e-3},
            ),
            Recipe(
                "zoo-marian",
                "Marian, 3 + 3 layers of 8 heads, trained on number words",
                "pairs",
                "MarianMTModel",
                "MarianConfig",
                _SIDES,
                **{"steps": 2000, "batch": 64, "rate": 2e-3},
            ),
            Recipe(
                "zoo-vit",
                "ViT, 4 x 8 heads, trained on questions about shapes",
                "pictures",
                "ViTForImageClassification",
                "ViTConfig",
                {
                    **{"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 128},
                    **{"image_size": 32, "patch_size": 4, "initializer_range": 0.08},
                    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
                },
                **{"steps": 4000, "batch": 64, "rate": 1e-3},
            ),
            Recipe(
                "zoo-bart",
                "BART, 3 + 3 layers of 8 heads, trained on number words",
                "pairs",
                "BartForConditionalGeneration",
                "BartConfig",
                {**_SIDES, "init_std": 0.15},
                **{"steps": 2500, "batch": 64, "rate": 2e-3},
            ),
            Recipe(
                "zoo-pegasus",
                "Pegasus, 3 + 3 layers of 8 heads, trained on number words",
                "pairs",
                "PegasusForConditionalGeneration",
                "PegasusConfig",
                _SIDES,
                **{"steps": 2000, "batch": 64, "rate": 2e-3},
            ),
            Recipe(
                "zoo-mla",
                f"DeepSeek-V3 with latent attention (MLA), 4 x 8 heads, {_STORIES}",
                "causal",
                "DeepseekV3ForCausalLM",
                "DeepseekV3Config",
                {
                    **{**_WIDE, "num_key_value_heads": 8, "intermediate_size": 192, "first_k_dense_replace": 4},
                    **{"q_lora_rank": None, "kv_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8},
                    **{"v_head_dim": 16, "tie_word_embeddings": True},
                },
                **{"steps": 7000, "batch": 16, "rate": 2e-3},
            ),
            _gpt2(
                "zoo-gpt2-small",
                f"GPT-2, smaller: 2 x 8 heads, {_STORIES}",
                (2, 8, 64, 128),
                **{"steps": 9000, "batch": 16, "rate": 3e-3},
            ),
            _gpt2(
                "zoo-gpt2-large",
                f"GPT-2, larger: 6 x 12 heads, {_STORIES}",
                (6, 12, 192, 384),
                **{"steps": 4000, "batch": 16, "rate": 1e-3},
            ),
        )
    }
)


def reader(recipe: Recipe) -> PreTrainedTokenizerFast | None:
    """The model's tokenizer; None for pictures."""
    styles: dict[str, Style] = {"causal": "causal", "masked": "masked", "pairs": "pairs"}
    return tokenizer(styles[recipe.kind]) if recipe.kind in styles else None


def build(recipe: Recipe, seed: int) -> PreTrainedModel:
    """The untrained model, its weights drawn by ``seed``."""
    import torch
    import transformers

    from headlens.models.quiet import quiet

    config = getattr(transformers, recipe.config)(**recipe.settings, **_ids(recipe))
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, recipe.model)(config)
    if recipe.kind == "causal":
        model.loss_type = "ForCausalLM"  # transformers cannot tell it from the name of every class, and says so
    return model


def _ids(recipe: Recipe) -> dict[str, Any]:
    """Vocabulary, special tokens or classes, and the built-in set that the model is made for."""
    own: dict[str, Any] = {"headlens_data": SETS[recipe.kind]}
    found = reader(recipe)
    if found is None:
        from headlens.zoo.shapes import LABELS

        return {**own, "id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    own |= {"vocab_size": len(found), "pad_token_id": PAD}
    # None where a tokenizer has no such token: the families' defaults would be ids of ordinary words.
    own |= {"bos_token_id": found.bos_token_id, "eos_token_id": found.eos_token_id}
    if recipe.kind == "pairs":
        # BART begins with the end token, the other families with the padding token.
        start = found.eos_token_id if recipe.config == "BartConfig" else PAD
        own |= {"decoder_start_token_id": start, "decoder_vocab_size": len(found)}
    if recipe.config in ("T5Config", "BartConfig", "PegasusConfig"):
        own.pop("decoder_vocab_size", None)
    return own
