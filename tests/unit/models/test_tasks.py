"""Task and class by the names in a config."""

from __future__ import annotations

from typing import Any

import pytest
import transformers as tf

from headlens.errors import ModelError
from headlens.models.tasks import task_from_names, task_of


@pytest.mark.parametrize(
    ("architecture", "config", "task", "cls"),
    [
        ("GPT2LMHeadModel", tf.GPT2Config, "causal-lm", tf.GPT2LMHeadModel),
        ("LlamaForCausalLM", tf.LlamaConfig, "causal-lm", tf.LlamaForCausalLM),
        ("GPT2Model", tf.GPT2Config, "embedding", tf.GPT2Model),
        ("RobertaForMaskedLM", tf.RobertaConfig, "masked-lm", tf.RobertaForMaskedLM),
        ("AlbertForPreTraining", tf.AlbertConfig, "masked-lm", tf.AlbertForMaskedLM),
        ("ElectraForPreTraining", tf.ElectraConfig, "embedding", tf.ElectraModel),
        ("BertModel", tf.BertConfig, "embedding", tf.BertModel),
        ("T5WithLMHeadModel", tf.T5Config, "seq2seq", tf.T5ForConditionalGeneration),
        ("BartForConditionalGeneration", tf.BartConfig, "seq2seq", tf.BartForConditionalGeneration),
        ("MarianMTModel", tf.MarianConfig, "seq2seq", tf.MarianMTModel),
        ("T5EncoderModel", tf.T5Config, "embedding", tf.T5EncoderModel),
        ("BertForSequenceClassification", tf.BertConfig, "text-classification", tf.BertForSequenceClassification),
        ("ViTForImageClassification", tf.ViTConfig, "image-classification", tf.ViTForImageClassification),
        (
            "DeiTForImageClassificationWithTeacher",
            tf.DeiTConfig,
            "image-classification",
            tf.DeiTForImageClassificationWithTeacher,
        ),
        ("Dinov2Model", tf.Dinov2Config, "embedding", tf.Dinov2Model),
        ("WhisperForConditionalGeneration", tf.WhisperConfig, "audio", tf.WhisperForConditionalGeneration),
        ("CLIPModel", tf.CLIPConfig, "two-tower", tf.CLIPModel),
        ("CLIPVisionModel", tf.CLIPVisionConfig, "embedding", tf.CLIPVisionModel),
    ],
)
def test_by_architecture(architecture: str, config: Any, task: str, cls: type) -> None:
    assert task_of(config(architectures=[architecture])) == (task, cls)


@pytest.mark.parametrize(
    ("config", "task", "cls"),
    [
        (tf.GPT2Config(), "causal-lm", tf.GPT2LMHeadModel),
        (tf.BertConfig(), "masked-lm", tf.BertForMaskedLM),
        (tf.BertConfig(is_decoder=True), "causal-lm", tf.BertLMHeadModel),
        (tf.T5Config(), "seq2seq", tf.T5ForConditionalGeneration),
        (tf.BartConfig(), "seq2seq", tf.BartForConditionalGeneration),
        (tf.MarianConfig(), "seq2seq", tf.MarianMTModel),
        (tf.ViTConfig(), "image-classification", tf.ViTForImageClassification),
        (tf.WhisperConfig(), "audio", tf.WhisperForConditionalGeneration),
        (tf.CLIPConfig(), "two-tower", tf.CLIPModel),
        (tf.Qwen3Config(), "causal-lm", tf.Qwen3ForCausalLM),
    ],
)
def test_by_model_type_when_no_class_is_named(config: Any, task: str, cls: type) -> None:
    assert task_of(config) == (task, cls)


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("BertForTokenClassification", tf.BertConfig),
        ("BertForQuestionAnswering", tf.BertConfig),
        ("NoSuchModelForCausalLM", tf.GPT2Config),
        ("LlavaForConditionalGeneration", tf.LlavaConfig),  # not an encoder-decoder: pictures go in with the text
        ("AutoModel", tf.BertConfig),  # in transformers, but no model class
        ("BertLMHeadModel", tf.BertConfig),  # without is_decoder it would see the token it predicts
    ],
)
def test_refused(architecture: str, config: Any) -> None:
    with pytest.raises(ModelError, match=architecture):
        task_of(config(architectures=[architecture]))


def test_encoder_configured_as_decoder_is_causal() -> None:
    config = tf.BertConfig(architectures=["BertLMHeadModel"], is_decoder=True)
    assert task_of(config) == ("causal-lm", tf.BertLMHeadModel)


def test_names_alone() -> None:
    assert task_from_names("GPT2LMHeadModel", {}) == "causal-lm"
    assert task_from_names("SiglipModel", {"text_config": {}, "vision_config": {}}) == "two-tower"
    assert task_from_names("BertForMultipleChoice", {}) is None
