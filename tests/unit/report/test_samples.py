"""What the models say: against plain transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from headlens.data.select import load_data
from headlens.lens import Lens
from headlens.models.loading import load
from headlens.report.models import FULL, Subject, Subjects
from headlens.report.samples import Sample, samples
from tests.small_models import save_bert, save_t5
from tests.unit.pruning.recovery_toys import lines
from tests.unit.pruning.test_recovery_tasks import classifier, images, labels, pairs, pictures, texts


def test_continuations_are_those_of_generate(subjects: Subjects, text: Path) -> None:
    prompts = [" ".join(line.split()[:4]) for line in lines(2, seed=11)]
    data = load_data(str(text), task="causal-lm", split="held-out")
    found = samples(subjects, data, prompts=prompts, new_tokens=6)
    assert [sample.given for sample in found.samples] == prompts
    for sample in found.samples:
        for one in subjects.all:
            tokenizer: Any = one.lens.tokenizer
            inputs = tokenizer(sample.given, return_tensors="pt")
            with torch.no_grad():
                model: Any = one.lens.model
                ids = model.generate(**inputs, max_new_tokens=6, do_sample=False)[0, inputs["input_ids"].shape[1] :]
            assert sample.said[one.role].split() == tokenizer.decode(ids, skip_special_tokens=True).split()
    assert f"of {len(prompts)} are the same for all 3 models" in found.sentence()
    assert found.how.endswith("prompts given by whoever made the report.")


def test_without_prompts_the_first_held_out_texts_are_taken(subjects: Subjects, text: Path) -> None:
    data = load_data(str(text), task="causal-lm", split="held-out")
    steps: list[tuple[int, int]] = []
    found = samples(subjects, data, count=2, new_tokens=3, on_progress=lambda *step: steps.append(step))
    for sample, example in zip(found.samples, data.examples, strict=False):
        assert (example.text or "").startswith(sample.given)
    assert steps[-1] == (6, 6)
    assert found.how.endswith("the first texts of the data, not chosen.")


def one_model(folder: Path) -> Subjects:
    return Subjects(Subject(FULL, str(folder), Lens(load(str(folder)))))


def test_classes_hidden_words_and_neighbours(tmp_path: Path) -> None:
    path = labels(tmp_path)
    alone = one_model(classifier(tmp_path / "classifier"))
    found = samples(alone, load_data(str(path), task="text-classification"))
    assert found.kind == "Classes"
    assert all(sample.said[FULL] in ("LABEL_0", "LABEL_1") for sample in found.samples)
    assert all(sample.wanted in ("LABEL_0", "LABEL_1") for sample in found.samples)
    assert all(sample.sure[FULL].endswith(" %") for sample in found.samples)

    (tmp_path / "images").mkdir()
    found = samples(
        one_model(pictures(tmp_path / "vit")), load_data(str(images(tmp_path / "images")), task="image-classification")
    )
    assert found.samples[0].given == "0.png"

    found = samples(one_model(save_bert(tmp_path / "bert")), load_data("stories", task="masked-lm"))
    assert "<mask>" in found.samples[0].given
    wanted = found.samples[0].wanted
    assert wanted is not None
    assert len(found.samples[0].said[FULL].split(", ")) == len(wanted.split(", "))

    found = samples(one_model(save_t5(tmp_path / "t5")), load_data(str(pairs(tmp_path)), task="seq2seq"), new_tokens=4)
    assert found.samples[0].wanted == found.samples[0].given

    bare = one_model(save_bert(tmp_path / "bare", bare=True))
    data = load_data(str(texts(tmp_path)), task="embedding")
    found = samples(bare, data)
    said = found.samples[0].said[FULL]
    assert said in {example.text for example in data.examples[1:]}
    hidden = {}
    for example in data.examples:
        tokenizer: Any = bare.full.lens.tokenizer
        with torch.no_grad():
            output = bare.full.lens.model(**tokenizer(example.text, return_tensors="pt"))
        hidden[example.text] = output.last_hidden_state[0].double().mean(0)
    mine = hidden.pop(data.examples[0].text)
    assert said == max(hidden, key=lambda text: float(torch.cosine_similarity(mine, hidden[text], dim=0)))


def test_answers_are_the_same_whatever_their_probability() -> None:
    assert Sample("x", None, {"full": "a", "cut": "a"}, {"full": "90 %", "cut": "60 %"}).same
    assert not Sample("x", None, {"full": "a", "cut": "b"}).same
