"""The models that HeadLens knows by name, and which of them can be opened right now.

Nothing here imports torch or transformers: the list must appear at once.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from headlens.errors import ModelError
from headlens.models import hub
from headlens.models.folders import CONFIG, read_json, stored_parameters, weight_files
from headlens.models.packaged import INSTALL, MINILM, SMOLLM2, packaged_file
from headlens.models.tasks import Task, task_from_names
from headlens.paths import asset_dir

Source = Literal["package", "zoo", "hub", "local"]
ABOUT = "about.json"
CHECKPOINTS = "checkpoints"
"""Folder inside a model of the zoo with copies from during its training, ``step-00500``; named ``zoo-gpt2@500``."""


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue.

    Attributes:
        name: what users type.
        title: what users read.
        family: ``model_type`` of its config.
        source: ``package`` (installed with pip), ``zoo`` (comes with HeadLens) or ``hub`` (from the local hub cache).
        task: what it was trained for.
        note: one sentence worth knowing before choosing it.
        layers: layers of one stack (encoder-decoder models have two); None when not known.
        heads: query heads a layer.
        kv_heads: key/value heads a layer.
        parameters: numbers in the model, tied ones once.
        hub_ids: names on the hub, the present one first.
        available: whether it opens without a network.
    """

    name: str
    title: str
    family: str
    source: Source
    task: Task
    note: str = ""
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    parameters: int | None = None
    hub_ids: tuple[str, ...] = ()
    available: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The entry as ``headlens models --json`` shows it."""
        names = ("name", "title", "family", "source", "task", "layers", "heads", "kv_heads", "parameters")
        return {name: getattr(self, name) for name in (*names, "available", "note")}


_PACKAGED = (
    Entry(
        SMOLLM2,
        "SmolLM2-135M-Instruct (4-bit weights dequantised to float32)",
        "llama",
        "package",
        "causal-lm",
        "Q4_1 weights dequantised to float32, so numbers differ a little from the original's; English.",
        30,
        9,
        3,
        134_515_008,
    ),
    Entry(
        MINILM,
        "all-MiniLM-L6-v2 (sentence encoder)",
        "bert",
        "package",
        "embedding",
        "A bare encoder: a switched-off head is measured by how far it moves the sentence embedding (drift).",
        6,
        12,
        12,
        22_713_216,
    ),
)


def _hub(title: str, family: str, task: Task, shape: tuple[int, int, int], parameters: int, *ids: str) -> Entry:
    layers, heads, kv_heads = shape
    note = "Opens without a network once it is in the local hub cache."
    return Entry(ids[-1], title, family, "hub", task, note, layers, heads, kv_heads, parameters, ids)


_HUB = (
    _hub("GPT-2 small", "gpt2", "causal-lm", (12, 12, 12), 124_439_808, "openai-community/gpt2", "gpt2"),
    _hub("DistilGPT-2", "gpt2", "causal-lm", (6, 12, 12), 81_912_576, "distilbert/distilgpt2", "distilgpt2"),
    _hub(
        "BERT base, uncased",
        "bert",
        "masked-lm",
        (12, 12, 12),
        109_514_298,
        "google-bert/bert-base-uncased",
        "bert-base-uncased",
    ),
    _hub("T5 small", "t5", "seq2seq", (6, 8, 8), 60_506_624, "google-t5/t5-small", "t5-small"),
    _hub("BART base", "bart", "seq2seq", (6, 12, 12), 139_420_416, "facebook/bart-base"),
    _hub("PEGASUS, XSum", "pegasus", "seq2seq", (16, 16, 16), 569_748_480, "google/pegasus-xsum"),
    _hub("OPUS-MT English-German", "marian", "seq2seq", (6, 8, 8), 74_410_496, "Helsinki-NLP/opus-mt-en-de"),
    _hub("ViT base", "vit", "image-classification", (12, 12, 12), 86_567_656, "google/vit-base-patch16-224"),
    _hub("Qwen3 0.6B", "qwen3", "causal-lm", (28, 16, 8), 596_049_920, "Qwen/Qwen3-0.6B"),
)


def zoo_dir() -> Path:
    """Folder of the small models that come with HeadLens, one folder each."""
    return asset_dir() / "models"


def entries() -> list[Entry]:
    """Every model of the catalogue, those that come with HeadLens or as packages first."""
    packaged = [replace(entry, available=packaged_file(entry.name) is not None) for entry in _PACKAGED]
    zoo = [entry for path in sorted(zoo_dir().glob(f"*/{CONFIG}")) if (entry := _zoo_entry(path.parent))]
    remote = [replace(entry, available=any(map(hub.cached_snapshot, entry.hub_ids))) for entry in _HUB]
    return [*packaged, *zoo, *remote]


def find(name: str) -> Entry | None:
    """The entry called ``name`` (or by one of its hub ids), also a checkpoint of the zoo; None when there is none."""
    known = entries()
    found = next((entry for entry in known if name == entry.name or name in entry.hub_ids), None)
    return found or _checkpoint(name, known)


def checkpoints(name: str) -> list[str]:
    """Names of the copies that were kept while a model of the zoo was trained, such as ``zoo-gpt2@500``, in order."""
    steps = [path.parent.name.removeprefix("step-") for path in zoo_folder(name).glob(f"{CHECKPOINTS}/step-*/{CONFIG}")]
    return [f"{name}@{step}" for step in sorted(int(step) for step in steps if step.isdecimal())]


def zoo_folder(name: str) -> Path:
    """Folder of a model of the zoo, or of one of its checkpoints."""
    model, _, step = name.partition("@")
    return zoo_dir() / model / CHECKPOINTS / f"step-{int(step):05d}" if step else zoo_dir() / model


def default_model() -> str:
    """Name of the model to start with: ``smollm2-135m`` when installed, else a decoder, else anything available.

    Raises:
        ModelError: nothing is available.
    """
    usable = [entry for entry in entries() if entry.available]
    ranked = sorted(usable, key=lambda entry: (entry.name != SMOLLM2, entry.task != "causal-lm"))
    if not ranked:
        raise ModelError(f"no model can be opened without a network; run `{INSTALL}` or give a folder")
    return ranked[0].name


def suggest(name: str) -> str:
    """End of an error message about an unknown model: the nearest name, and what opens without a network."""
    known = entries()
    by_lower = {alias.lower(): alias for entry in known for alias in (entry.name, *entry.hub_ids)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    offline = ", ".join(entry.name for entry in known if entry.available) or f"nothing yet (run `{INSTALL}`)"
    hint = f"did you mean {by_lower[near[0]]}? " if near and by_lower[near[0]] != name else ""
    return f"{hint}Available without a network: {offline}, or a local folder"


def _checkpoint(name: str, known: list[Entry]) -> Entry | None:
    """Entry of ``MODEL@STEP``: that of the model under this name, if there is such a copy."""
    model = name.partition("@")[0]
    entry = next((entry for entry in known if entry.source == "zoo" and entry.name == model), None)
    if entry is None or name not in checkpoints(model):
        return None
    note = f"A copy from during the training; {entry.name} is the trained model."
    return replace(entry, name=name, title=f"{entry.title}, after {name.partition('@')[2]} steps", note=note)


def _zoo_entry(folder: Path) -> Entry | None:
    """Entry of a folder in the zoo, from its config and weight header; None when it is not a whole model.

    An optional ``about.json`` beside the config gives ``title`` and ``note``, and ``parameters`` where some that a
    model has are not stored (Marian's fixed positions).
    """
    try:
        raw = read_json(folder / CONFIG)
        parameters = stored_parameters(weight_files(folder))
        about = read_json(folder / ABOUT) if (folder / ABOUT).is_file() else {}
    except ModelError:
        return None
    task = task_from_names(next(iter(raw.get("architectures") or []), ""), raw)
    if task is None:
        return None
    heads = _first(raw, "num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads")
    layers = _first(raw, "num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers")
    return Entry(
        name=folder.name,
        title=str(about.get("title", folder.name)),
        family=str(raw.get("model_type", "")),
        source="zoo",
        task=task,
        note=str(about.get("note", "")),
        layers=layers,
        heads=heads,
        kv_heads=_first(raw, "num_key_value_heads") or heads,
        parameters=int(about.get("parameters", parameters)),
        available=True,
    )


def _first(raw: dict[str, Any], *keys: str) -> int | None:
    """The first of ``keys`` that a config gives as a whole number; families name the same thing differently."""
    return next((raw[key] for key in keys if isinstance(raw.get(key), int)), None)
