"""Which task a checkpoint is for, told by the class name in its config (``architectures``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from headlens.errors import ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

Task = Literal[
    "causal-lm",
    "masked-lm",
    "seq2seq",
    "text-classification",
    "image-classification",
    "embedding",  # a bare encoder or decoder: only drift can be measured
    "audio",
    "two-tower",
]

# Class names that older checkpoints carry, and what the class is called now.
_RENAMED = {"T5WithLMHeadModel": "T5ForConditionalGeneration", "BertForPretraining": "BertForPreTraining"}
_AUDIO = ("Whisper", "Speech", "Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "SEW", "Moonshine", "AST", "Data2VecAudio")
_ENDINGS: tuple[tuple[tuple[str, ...], Task], ...] = (
    (("ForCausalLM", "LMHeadModel"), "causal-lm"),
    (("ForMaskedLM", "ForPreTraining"), "masked-lm"),
    (("ForConditionalGeneration", "MTModel"), "seq2seq"),
    (("ForSequenceClassification",), "text-classification"),
    (("ForImageClassification", "ForImageClassificationWithTeacher"), "image-classification"),
)


def task_from_names(architecture: str, raw: dict[str, Any]) -> Task | None:
    """Task of a class name such as ``BertForMaskedLM``; None when HeadLens has no measure for it.

    Works on names alone, so that a list of models can be drawn without importing torch.

    Args:
        architecture: class name from ``architectures``.
        raw: the parsed ``config.json`` it came from.
    """
    name = _RENAMED.get(architecture, architecture)
    if name.startswith(_AUDIO):
        return "audio"
    if "text_config" in raw and "vision_config" in raw:
        return "two-tower" if name.endswith("Model") else None
    if name == "ElectraForPreTraining":  # the discriminator has no language-model head: see _class_name
        return "embedding"
    for endings, task in _ENDINGS:
        if name.endswith(endings):
            return task
    return "embedding" if name.endswith("Model") else None


def task_of(config: PretrainedConfig) -> tuple[Task, type[PreTrainedModel]]:
    """Task and transformers class of a config.

    The class is the one named in ``config.architectures``. Where that class holds training-only heads
    (``...ForPreTraining``) it is the masked-LM class of the same family, or the bare encoder for ELECTRA's
    discriminator. A config that names no class gets the one its ``model_type`` stands for.

    Raises:
        ModelError: the class is unknown to transformers, or its task is none of :data:`Task`.
    """
    import transformers

    if not config.architectures:
        return _task_from_type(config)
    architecture = config.architectures[0]
    task = task_from_names(architecture, config.to_dict())
    cls = getattr(transformers, _class_name(architecture), None)
    if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
        raise ModelError(
            f"model class {architecture} is not in transformers {transformers.__version__}; "
            "HeadLens opens only classes that come with transformers"
        )
    if task is None or (task == "seq2seq" and not config.is_encoder_decoder):
        raise ModelError(
            f"{architecture}: HeadLens has no measure for this kind of model; "
            f"to look at the bare model by drift, name its base class in config.json (architectures)"
        )
    _check_direction(task, architecture, config)
    return task, cls


def _class_name(architecture: str) -> str:
    """Class to open for a class named in a config."""
    name = _RENAMED.get(architecture, architecture)
    if name == "ElectraForPreTraining":
        return "ElectraModel"
    return name.removesuffix("ForPreTraining") + "ForMaskedLM" if name.endswith("ForPreTraining") else name


def _check_direction(task: Task, architecture: str, config: PretrainedConfig) -> None:
    """Refuse an encoder named as a causal model but not configured as one: its loss would see the answer."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    encoder = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and hasattr(config, "is_decoder")
    if task == "causal-lm" and encoder and not config.is_encoder_decoder and not config.is_decoder:
        raise ModelError(
            f"{architecture} with is_decoder false attends in both directions, so it is not a causal language "
            "model; set is_decoder in config.json, or name its ...ForMaskedLM class in architectures"
        )


def _task_from_type(config: PretrainedConfig) -> tuple[Task, type[PreTrainedModel]]:
    """Task and class for a config without ``architectures``, from the tables behind transformers' Auto classes."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    seq2seq = (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, "seq2seq")
    causal = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "causal-lm")
    two_tower = (auto.MODEL_MAPPING_NAMES, "two-tower")
    # The first table that knows the model type wins, so what is special about this config comes first.
    tables = [
        *([two_tower] if hasattr(config, "text_config") and hasattr(config, "vision_config") else []),
        *([causal] if getattr(config, "is_decoder", False) else []),  # an encoder class turned into a decoder
        (auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES, "audio"),
        *([seq2seq] if config.is_encoder_decoder else []),
        (auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, "masked-lm"),
        causal,
        (auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, "image-classification"),
        (auto.MODEL_MAPPING_NAMES, "embedding"),
    ]
    for table, task in tables:
        names = table.get(config.model_type)
        if names:
            name = names if isinstance(names, str) else names[0]
            return cast("Task", task), getattr(transformers, name)
    raise ModelError(
        f"config.json names no class and model type {config.model_type!r} has none that HeadLens can measure; "
        "add architectures"
    )
