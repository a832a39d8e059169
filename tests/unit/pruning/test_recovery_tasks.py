"""Every kind of model can be trained, from a folder, on its own kind of data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headlens.data.encode import encode
from headlens.errors import HeadlensError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.lens import Lens
from headlens.metrics import metric_for
from headlens.models.loading import load
from headlens.pruning.recovery import recover
from headlens.pruning.recovery_spec import RecoverySpec
from headlens.pruning.training_data import recovery_data
from tests.small_models import save_bert, save_llama, save_t5
from tests.unit.pruning.recovery_toys import WORDS, cut_of, lines, open_lens, tokenizer


def classifier(folder: Path) -> Path:
    """A BERT that tells two classes of lines apart, badly."""
    from transformers import BertConfig, BertForSequenceClassification

    reader = tokenizer()
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 32, "num_labels": 2}
    config = BertConfig(**sizes, vocab_size=len(reader))
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    reader.save_pretrained(folder)
    return folder


def pictures(folder: Path) -> Path:
    """A ViT for two classes."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 24, "num_labels": 2}
    torch.manual_seed(0)
    config = ViTConfig(**sizes, image_size=16, patch_size=8)
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return folder


def rows(path: Path, found: list[dict[str, Any]]) -> Path:
    """A data file."""
    path.write_text("\n".join(json.dumps(row) for row in found), encoding="utf-8")
    return path


def texts(folder: Path) -> Path:
    return rows(folder / "texts.jsonl", [{"text": line} for line in lines(40)])


def pairs(folder: Path) -> Path:
    return rows(folder / "pairs.jsonl", [{"source": a, "target": a} for a in lines(40)])


def labels(folder: Path) -> Path:
    return rows(folder / "labels.jsonl", [{"text": a, "label": int(a.split()[0] in WORDS[:6])} for a in lines(60)])


def images(folder: Path) -> Path:
    """Dark and bright pictures."""
    from PIL import Image

    found = []
    for number in range(24):
        shade = (30 if number % 2 else 200) + number
        Image.new("RGB", (16, 16), (shade, shade, 255 - shade)).save(folder / f"{number}.png")
        found.append({"image": f"{number}.png", "label": number % 2})
    return rows(folder / "images.jsonl", found)


CASES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Path], str]] = {
    "causal, grouped": (save_llama, texts, "L0H0-H1,L1H3"),
    "masked": (save_bert, texts, "L0H0-H2,L2"),
    "seq2seq": (save_t5, pairs, "enc.L0H1,dec.L1,cross.L0H0-H2"),
    "text classes": (classifier, labels, "L0H0-H2"),
    "image classes": (pictures, images, "L0H0-H2"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_falls_on_examples_that_were_not_trained_on(name: str, tmp_path: Path) -> None:
    build, write, off = CASES[name]
    full = build(tmp_path / "full")
    lens = open_lens(cut_of(full, tmp_path / "cut", off))
    data = recovery_data(lens, str(write(tmp_path)))
    spec = RecoverySpec(steps=30, learning_rate=3e-3, every=5)
    found = recover(lens, data, spec, full=open_lens(full), keep_in=tmp_path / "keep")
    assert found.change.delta < -2 * found.change.delta_sem
    measured = evaluate(lens, encode(lens, data.report), HeadSet(), metric=metric_for(None, lens.task))
    assert found.change.value == measured.main.baseline
    assert len(lens.topology.heads()) < len(open_lens(full).topology.heads())


def test_a_bare_encoder_learns_from_the_full_model(tmp_path: Path) -> None:
    full = open_lens(save_bert(tmp_path / "full", bare=True))
    lens = open_lens(cut_of(tmp_path / "full", tmp_path / "cut", "L0H0-H2,L2"))
    data = recovery_data(lens, str(texts(tmp_path)))
    spec = RecoverySpec(steps=30, learning_rate=1e-3, every=5)
    with pytest.raises(HeadlensError, match="--teacher"):
        recover(lens, data, spec, keep_in=tmp_path / "keep")
    found = recover(lens, data, spec, full=full, keep_in=tmp_path / "keep")
    assert (found.metric, found.spec.objective) == ("drift", "distill")
    assert found.change.delta < -0.3 * found.change.baseline
    totals = []
    for example in encode(lens, data.report).examples:
        pooled = []
        for one in (full, lens):
            with torch.no_grad():
                hidden = one.model(input_ids=example.inputs["input_ids"][None]).last_hidden_state[0]
            pooled.append(hidden.mean(0).double())
        totals.append(1 - float(torch.cosine_similarity(*pooled, dim=0)))
    assert found.change.value == pytest.approx(sum(totals) / len(totals), rel=1e-4)


def test_labels_that_the_model_does_not_have_are_told(tmp_path: Path) -> None:
    lens = Lens(load(str(classifier(tmp_path / "full"))))
    path = rows(tmp_path / "labels.jsonl", [{"text": line, "label": "sad"} for line in lines(12)])
    with pytest.raises(HeadlensError, match="'sad' is not one of the model's 2 classes"):
        recover(lens, recovery_data(lens, str(path)), RecoverySpec(), keep_in=tmp_path / "keep")
