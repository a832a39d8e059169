"""Tokenised examples against transformers' own losses, and everything that must not change a number."""

from __future__ import annotations

import copy
import hashlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)

from headlens.data.builtin import read_builtin
from headlens.data.dataset import DataSet, Example, Kind
from headlens.data.encode import IGNORE, EncodedData, encode
from headlens.data.select import live_set
from headlens.errors import DataError
from headlens.lens import Lens
from headlens.metrics import METRICS, readout, sums

VOCAB = 400
SIZES: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
CLASSES = {0: "NEGATIVE", 1: "POSITIVE", 2: "Mixed"}


def corpus() -> list[str]:
    pairs = read_builtin("en-de", "all").examples
    return [e.text or "" for e in read_builtin("stories", "all").examples] + [
        side or "" for e in pairs for side in (e.source, e.target)
    ]


def byte_tokenizer(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def gpt2_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer(["<end>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<end>", eos_token="<end>")


def t5_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer(["<pad>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


def bert_tokenizer() -> PreTrainedTokenizerFast:
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    special["mask_token"] = "[MASK]"
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCAB, special_tokens=list(special.values()))
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special)


TOKENIZERS = {"gpt2": gpt2_tokenizer(), "t5": t5_tokenizer(), "bert": bert_tokenizer()}


def bert_config(**more: Any) -> BertConfig:
    return BertConfig(vocab_size=VOCAB, max_position_embeddings=160, initializer_range=0.5, **SIZES, **more)


def model_of(kind: str) -> tuple[str, Any]:
    """Task and random model."""
    torch.manual_seed(0)
    if kind == "gpt2":
        sizes: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": 160, "initializer_range": 0.5}
        return "causal-lm", GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, bos_token_id=0, eos_token_id=0, **sizes))
    if kind == "t5":
        sizes = {"num_layers": 2, "num_heads": 2, "d_model": 16, "d_kv": 8, "d_ff": 16}
        sizes |= {"decoder_start_token_id": 0}
        return "seq2seq", T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, **sizes))
    if kind == "bert":
        return "masked-lm", BertForMaskedLM(bert_config())
    if kind == "class":
        return "text-classification", BertForSequenceClassification(bert_config(id2label=CLASSES))
    return "embedding", BertModel(bert_config())


def lens_of(task: str, model: Any, tokenizer: Any = None, processor: Any = None) -> Lens:
    loaded = SimpleNamespace(name="tiny", title="tiny", task=task, model=model.eval(), tokenizer=tokenizer)
    loaded.__dict__.update(processor=processor, source="", notes=(), sidecar=None)
    return Lens(loaded)  # type: ignore[arg-type]


KINDS = ("gpt2", "t5", "bert", "class", "bare")


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def lenses() -> dict[str, Lens]:
    return {kind: lens_of(*model_of(kind), TOKENIZERS.get(kind, TOKENIZERS["bert"])) for kind in KINDS}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return {kind: model_of(kind)[1].eval() for kind in KINDS}


def texts_of(*texts: str) -> DataSet:
    return DataSet("made", "text", "all", tuple(Example(text=text) for text in texts))


def labelled(*labels: int | str) -> DataSet:
    return DataSet("made", "labelled", "all", tuple(Example(text="a boat", label=label) for label in labels))


def data_for(kind: str, limit: int = 9) -> DataSet:
    name = {"t5": "en-de", "class": "reviews"}.get(kind, "stories")
    found = read_builtin(name, "score")
    return DataSet(name, found.kind, "score", found.examples[:limit])


def per_example(lens: Lens, data: EncodedData, batch_size: int) -> torch.Tensor:
    """Summed loss and number of predictions of each example, in the order of the data, ``[examples, 2]``."""
    found = torch.zeros(len(data), 2, dtype=torch.float64)
    for batch in data.batches(batch_size):
        with torch.no_grad():
            values = readout(lens.forward(batch.inputs), lens.task)
        found[list(batch.indices)] = torch.stack(sums(METRICS["loss"], values, batch), dim=-1)
    return found


class TestLossIsThatOfTransformers:
    """One example at a time, unpadded, with ``labels=``: what a user of transformers would compute."""

    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_causal(self, lenses: dict[str, Lens], plain: dict[str, Any], batch_size: int) -> None:
        data = data_for("gpt2")
        found = per_example(lenses["gpt2"], encode(lenses["gpt2"], data), batch_size)
        for row, example in zip(found, data.examples, strict=True):
            ids = TOKENIZERS["gpt2"](example.text, return_tensors="pt").input_ids[:, :128]
            loss = plain["gpt2"](input_ids=ids, labels=ids).loss.double()
            assert row[1] == ids.shape[1] - 1
            assert float(row[0] / row[1]) == pytest.approx(float(loss), rel=1e-5)

    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_seq2seq(self, lenses: dict[str, Lens], plain: dict[str, Any], batch_size: int) -> None:
        data = data_for("t5")
        found = per_example(lenses["t5"], encode(lenses["t5"], data), batch_size)
        for row, example in zip(found, data.examples, strict=True):
            inputs = TOKENIZERS["t5"](example.source, text_target=example.target, return_tensors="pt")
            loss = plain["t5"](input_ids=inputs["input_ids"], labels=inputs["labels"]).loss
            assert row[1] == inputs["labels"].shape[1]
            assert float(row[0] / row[1]) == pytest.approx(float(loss), rel=1e-5)

    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_masked(self, lenses: dict[str, Lens], plain: dict[str, Any], batch_size: int) -> None:
        data = data_for("bert")
        encoded = encode(lenses["bert"], data)
        found = per_example(lenses["bert"], encoded, batch_size)
        for row, example, made in zip(found, data.examples, encoded.examples, strict=True):
            inputs = TOKENIZERS["bert"](example.text, return_tensors="pt")
            labels = torch.full_like(inputs["input_ids"], -100)
            for position in (made.inputs["input_ids"] == 4).nonzero()[:, 0].tolist():
                labels[0, position] = inputs["input_ids"][0, position]
                inputs["input_ids"][0, position] = TOKENIZERS["bert"].mask_token_id
            loss = plain["bert"](**inputs, labels=labels).loss
            assert float(row[0] / row[1]) == pytest.approx(float(loss), rel=1e-5)

    @pytest.mark.parametrize("batch_size", [1, 4])
    def test_classification(self, lenses: dict[str, Lens], plain: dict[str, Any], batch_size: int) -> None:
        data = data_for("class")
        second = Example(text="A man.", text_pair="He sells the boat, she sells the house.", label="mixed")
        data = DataSet("made", "labelled", "all", (*data.examples, second))
        found = per_example(lenses["class"], encode(lenses["class"], data), batch_size)
        for row, example in zip(found, data.examples, strict=True):
            inputs = TOKENIZERS["bert"](example.text, example.text_pair, return_tensors="pt")
            label = 2 if example.label == "mixed" else example.label
            loss = plain["class"](**inputs, labels=torch.tensor([label])).loss
            assert row[1] == 1
            assert float(row[0]) == pytest.approx(float(loss), rel=1e-5)

    def test_hand_written_loop(self, lenses: dict[str, Lens], plain: dict[str, Any]) -> None:
        """No cross-entropy of any library: log of the softmax at t-1 of the token at t."""
        text = "The clock in the hall struck eleven."
        found = per_example(lenses["gpt2"], encode(lenses["gpt2"], texts_of(text)), 1)
        ids = TOKENIZERS["gpt2"](text)["input_ids"]
        logits = plain["gpt2"](input_ids=torch.tensor([ids])).logits[0].double()
        total = 0.0
        for t in range(1, len(ids)):
            chances = logits[t - 1].exp() / logits[t - 1].exp().sum()
            total -= float(chances[ids[t]].log())
        assert float(found[0, 0]) == pytest.approx(total, rel=1e-5)


class TestNothingElseMatters:
    @pytest.mark.parametrize("kind", KINDS)
    def test_batch_size_order_and_padding(self, lenses: dict[str, Lens], kind: str) -> None:
        lens, data = lenses[kind], data_for(kind)
        order = list(range(len(data.examples)))
        random.Random(1).shuffle(order)
        moved = DataSet(data.name, data.kind, data.split, tuple(data.examples[i] for i in order))
        straight, shuffled = encode(lens, data), encode(lens, moved)
        assert [e.content for e in shuffled.examples] == [straight.examples[i].content for i in order]
        alone = outputs_of(lens, straight, 1)
        for encoded, back in ((straight, range(len(order))), (shuffled, [order.index(i) for i in range(len(order))])):
            for batch_size in (2, 5, 100):
                rows = outputs_of(lens, encoded, batch_size)
                for i, j in enumerate(back):
                    torch.testing.assert_close(rows[j], alone[i], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_example_once(self, lenses: dict[str, Lens], kind: str) -> None:
        encoded = encode(lenses[kind], data_for(kind))
        for batch_size in (1, 4, 100):
            rows = [i for batch in encoded.batches(batch_size) for i in batch.indices]
            assert sorted(rows) == list(range(len(encoded)))
        with pytest.raises(DataError, match="--batch-size 0"):
            encoded.batches(0)

    @pytest.mark.parametrize("kind", KINDS)
    def test_hash(self, lenses: dict[str, Lens], kind: str) -> None:
        lens, data = lenses[kind], data_for(kind)
        first, again = encode(lens, data), encode(lens, data)
        first.batches(2)
        assert first.hash == again.hash
        assert len(first.hash) == 64
        fewer = DataSet(data.name, data.kind, data.split, data.examples[:-1])
        swapped = DataSet(data.name, data.kind, data.split, data.examples[::-1])
        renamed = DataSet("other", data.kind, "all", data.examples)
        others = [encode(lens, fewer).hash, encode(lens, swapped).hash, encode(lens, data, max_tokens=5).hash]
        assert len({first.hash, *others}) == 4
        assert encode(lens, renamed).hash == first.hash

    def test_hash_sees_labels_and_targets(self, lenses: dict[str, Lens]) -> None:
        assert encode(lenses["class"], labelled(0)).hash != encode(lenses["class"], labelled(1)).hash
        pairs = [DataSet("d", "pairs", "all", (Example(source="a boat", target=t),)) for t in ("ein Boot", "ein Haus")]
        assert encode(lenses["t5"], pairs[0]).hash != encode(lenses["t5"], pairs[1]).hash

    def test_threads_with_different_cuts(self, lenses: dict[str, Lens]) -> None:
        """A fast tokenizer keeps the cut of the last call in itself."""
        data = texts_of("The clock in the hall struck eleven, though it was barely half past nine.")
        wrong: list[int] = []

        def work(cut: int) -> None:
            for _ in range(300):
                length = encode(lenses["gpt2"], data, max_tokens=cut).examples[0].length
                if length != cut:
                    wrong.append(length)

        threads = [threading.Thread(target=work, args=(cut,)) for cut in (4, 7, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def outputs_of(lens: Lens, data: EncodedData, batch_size: int) -> dict[int, torch.Tensor]:
    """Outputs at the real positions of each example."""
    found = {}
    for batch in data.batches(batch_size):
        with torch.no_grad():
            values = readout(lens.forward(batch.inputs), lens.task)
        name = "decoder_attention_mask" if lens.task == "seq2seq" else "attention_mask"
        for row, i in enumerate(batch.indices):
            mask = batch.inputs[name][row].bool()
            found[i] = values[row] if values.shape[1] == 1 else values[row][mask]
    return found


class TestMasking:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from(["boat", "the", "clock", "?", "[SEP]", "[MASK]", "☃"]), min_size=1, max_size=60))
    def test_share_and_places(self, lenses: dict[str, Lens], words: list[str]) -> None:
        text = " ".join([*words, "house"])
        ids = torch.tensor(TOKENIZERS["bert"](text)["input_ids"][:128])
        special = set(TOKENIZERS["bert"].all_special_ids)
        ordinary = [i for i, token in enumerate(ids.tolist()) if token not in special]
        (made,) = encode(lenses["bert"], texts_of(text)).examples
        assert made.targets is not None
        hidden = (made.targets != IGNORE).nonzero()[:, 0].tolist()
        assert len(hidden) == max(1, round(0.15 * len(ordinary))) == made.predicted
        assert set(hidden) <= set(ordinary)
        assert (made.inputs["input_ids"][hidden] == 4).all()
        assert torch.equal(made.targets[hidden], ids[hidden])
        rest = [i for i in range(len(ids)) if i not in hidden]
        assert torch.equal(made.inputs["input_ids"][rest], ids[rest])
        assert (made.targets[rest] == IGNORE).all()

    def test_seed_decides_and_neighbours_do_not(self, lenses: dict[str, Lens]) -> None:
        data = data_for("bert")
        by_seed = [encode(lenses["bert"], data, seed=seed) for seed in (0, 0, 1, -1)]
        assert by_seed[0].hash == by_seed[1].hash
        assert len({encoded.hash for encoded in by_seed}) == 3
        alone = DataSet("other", "text", "all", data.examples[4:5])
        assert encode(lenses["bert"], alone).examples[0].content == by_seed[0].examples[4].content

    def test_every_place_is_hidden_about_equally_often(self, lenses: dict[str, Lens]) -> None:
        text = "the " * 20
        assert len(TOKENIZERS["bert"](text)["input_ids"]) == 22
        counts = torch.zeros(22)
        for seed in range(400):
            (made,) = encode(lenses["bert"], texts_of(text), seed=seed).examples
            assert made.targets is not None
            counts += (made.targets != IGNORE).float()
        assert counts[0] == counts[21] == 0
        # 3 of 20 places, 400 times: 60 expected at each, standard deviation 7.1.
        assert (counts[1:21] - 60).abs().max() < 30

    def test_no_mask_token(self) -> None:
        tokenizer = copy.deepcopy(TOKENIZERS["gpt2"])
        lens = lens_of(*model_of("bert"), tokenizer)
        with pytest.raises(DataError, match="no mask token"):
            encode(lens, texts_of("a boat"))


class TestCut:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("most", [3, 7, 128])
    def test_each_side_is_cut_as_the_tokenizer_does(self, lenses: dict[str, Lens], kind: str, most: int) -> None:
        data = data_for(kind)
        tokenizer = lenses[kind].tokenizer
        assert tokenizer is not None
        encoded = encode(lenses[kind], data, max_tokens=most)
        for made, example in zip(encoded.examples, data.examples, strict=True):
            text = example.text or example.source
            wanted = tokenizer(text, truncation=True, max_length=most)["input_ids"]
            assert len(made.inputs["input_ids"]) == len(wanted) <= most
            if kind != "bert":
                assert made.inputs["input_ids"].tolist() == wanted
            if kind == "t5":
                target = tokenizer(text_target=example.target, truncation=True, max_length=most)["input_ids"]
                assert made.targets is not None
                assert made.targets.tolist() == target

    def test_default_is_128_and_the_model_may_take_less(self, lenses: dict[str, Lens]) -> None:
        long = texts_of("boat " * 1000)
        assert encode(lenses["gpt2"], long).examples[0].length == 128
        assert encode(lenses["gpt2"], long, max_tokens=1000).examples[0].length == 160

    def test_special_tokens_alone_are_too_many(self, lenses: dict[str, Lens]) -> None:
        pair = DataSet("d", "labelled", "all", (Example(text="a boat", text_pair="a house", label=0),))
        with pytest.raises(DataError, match="2 tokens are too few for the special ones; raise --max-tokens"):
            encode(lenses["class"], pair, max_tokens=2)
        with pytest.raises(DataError, match="at least 2 are needed"):
            encode(lenses["gpt2"], texts_of("a"), max_tokens=1)


class TestDecoder:
    def test_inputs_are_those_that_transformers_makes_from_labels(
        self, lenses: dict[str, Lens], plain: dict[str, Any]
    ) -> None:
        for made in encode(lenses["t5"], data_for("t5")).examples:
            assert made.targets is not None
            wanted = plain["t5"].prepare_decoder_input_ids_from_labels(labels=made.targets[None])[0]
            assert torch.equal(made.inputs["decoder_input_ids"], wanted)
            assert wanted[0] == 0
            assert torch.equal(wanted[1:], made.targets[:-1])

    def test_mbart_turns_the_last_token_to_the_front(self) -> None:
        torch.manual_seed(0)
        sizes: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "encoder_ffn_dim": 16}
        sizes |= {"decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
        model = MBartForConditionalGeneration(MBartConfig(vocab_size=VOCAB, pad_token_id=0, eos_token_id=1, **sizes))
        data = data_for("t5", 3)
        lens = lens_of("seq2seq", copy.deepcopy(model), TOKENIZERS["t5"])
        encoded = encode(lens, data)
        found = per_example(lens, encoded, 3)
        model.eval()
        for row, example in zip(found, data.examples, strict=True):
            inputs = TOKENIZERS["t5"](example.source, text_target=example.target, return_tensors="pt")
            loss = model(input_ids=inputs["input_ids"], labels=inputs["labels"]).loss
            assert float(row[0] / row[1]) == pytest.approx(float(loss), rel=1e-5)


class TestBatch:
    @pytest.mark.parametrize("kind", KINDS)
    def test_positions_are_the_real_ones(self, lenses: dict[str, Lens], kind: str) -> None:
        encoded = encode(lenses[kind], data_for(kind, 5))
        sites = {"enc": "input_ids", "dec": "decoder_input_ids", "cross": "decoder_input_ids"}
        for batch in encoded.batches(3):
            for site in ("enc", "dec", "cross") if kind == "t5" else ("self",):
                name = sites.get(site, "input_ids")
                lengths = [len(encoded.examples[i].inputs[name]) for i in batch.indices]
                assert batch.query_length(site) == max(lengths)
                mask = batch.positions(site, max(lengths))
                assert mask.dtype == torch.bool
                assert mask.tolist() == [[t < n for t in range(max(lengths))] for n in lengths]

    def test_padding_is_on_the_right_and_never_scored(self, lenses: dict[str, Lens]) -> None:
        encoded = encode(lenses["t5"], data_for("t5", 5))
        batch = encoded.batch([0, 3, 4])
        assert batch.targets is not None
        assert batch.targets.shape == batch.inputs["decoder_input_ids"].shape
        for row, i in enumerate(batch.indices):
            example = encoded.examples[i]
            for name, value in example.inputs.items():
                assert torch.equal(batch.inputs[name][row, : len(value)], value)
                assert (batch.inputs[name][row, len(value) :] == 0).all()
            assert (batch.targets[row, example.predicted :] == IGNORE).all()

    def test_repeat(self, lenses: dict[str, Lens]) -> None:
        batch = encode(lenses["bert"], data_for("bert", 3)).batch([2, 0])
        thrice = batch.repeat(3)
        assert thrice.indices == (2, 0) * 3
        for copy_ in range(3):
            rows = slice(2 * copy_, 2 * copy_ + 2)
            assert all(torch.equal(thrice.inputs[name][rows], value) for name, value in batch.inputs.items())
            assert thrice.targets is not None
            assert batch.targets is not None
            assert torch.equal(thrice.targets[rows], batch.targets)

    def test_number_of_predictions(self, lenses: dict[str, Lens]) -> None:
        for kind in KINDS:
            encoded = encode(lenses[kind], data_for(kind))
            assert encoded.tokens == sum(e.predicted for e in encoded.examples)
            scored = sum(int((b.targets != IGNORE).sum()) for b in encoded.batches(4) if b.targets is not None)
            assert encoded.tokens == scored
        assert encode(lenses["bare"], data_for("bare")).tokens == 0
        assert encode(lenses["class"], data_for("class")).tokens == 9


class TestSegments:
    def test_gpt2_never_gets_them(self) -> None:
        """Its forward takes token_type_ids, and would add the embedding of token 0 at every place."""
        tokenizer = copy.deepcopy(TOKENIZERS["gpt2"])
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        assert "token_type_ids" in tokenizer("a boat")
        lens = lens_of(*model_of("gpt2"), tokenizer)
        assert lens.accepts("token_type_ids")
        assert set(encode(lens, texts_of("a boat")).examples[0].inputs) == {"input_ids", "attention_mask"}

    def test_bert_gets_those_of_the_tokenizer(self, lenses: dict[str, Lens]) -> None:
        pair = DataSet("d", "labelled", "all", (Example(text="a boat", text_pair="a house", label=0),))
        (made,) = encode(lenses["class"], pair).examples
        wanted = TOKENIZERS["bert"]("a boat", "a house")
        assert made.inputs["token_type_ids"].tolist() == wanted["token_type_ids"]
        assert 1 in wanted["token_type_ids"]


class TestLabels:
    @pytest.mark.parametrize(
        ("label", "number"),
        [(0, 0), (2, 2), ("0", 0), (" 1 ", 1), ("POSITIVE", 1), ("positive", 1), ("Mixed", 2), ("NEGATIVE ", 0)],
    )
    def test_numbers_and_names(self, lenses: dict[str, Lens], label: int | str, number: int) -> None:
        made = encode(lenses["class"], labelled(label)).examples[0]
        assert made.targets is not None
        assert made.targets.tolist() == [number]

    @pytest.mark.parametrize(
        "label", [3, -1, "3", "-1", "--1", "²", "1.0", "", "good", "x" * 900, "a\nb", "9" * 5000, "None"]
    )
    def test_no_such_class(self, lenses: dict[str, Lens], label: int | str) -> None:
        with pytest.raises(DataError) as caught:
            encode(lenses["class"], labelled(0, label))
        message = str(caught.value)
        assert message.startswith("made, example 2: label ")
        assert "is not one of the model's 3 classes: 0 (NEGATIVE), 1 (POSITIVE), 2 (Mixed)" in message
        assert len(message.splitlines()) == 1
        assert len(message) < 200

    def test_names_that_are_numbers(self) -> None:
        """A class called "1" is meant by the text "1"; the number 1 is class 1."""
        torch.manual_seed(0)
        model = BertForSequenceClassification(bert_config(id2label={0: "1", 1: "2", 2: "3"}))
        lens = lens_of("text-classification", model, TOKENIZERS["bert"])
        found = [e.targets for e in encode(lens, labelled("1", 1, "3")).examples]
        assert [t.tolist() for t in found if t is not None] == [[0], [1], [2]]

    @pytest.mark.parametrize("kept", ["id2label", "label2id"])
    def test_either_table_of_names_will_do(self, kept: str) -> None:
        torch.manual_seed(0)
        lens = lens_of("text-classification", BertForSequenceClassification(bert_config()), TOKENIZERS["bert"])
        tables: dict[str, Any] = {"id2label": {0: "no", 1: "Yes"}, "label2id": {"no": 0, "Yes": 1}}
        lens.model.config.id2label = tables["id2label"] if kept == "id2label" else {0: "LABEL_0", 1: "LABEL_1"}
        lens.model.config.label2id = tables["label2id"] if kept == "label2id" else None  # type: ignore[assignment]
        found = [e.targets for e in encode(lens, labelled("yes", "no")).examples]
        assert [t.tolist() for t in found if t is not None] == [[1], [0]]

    def test_names_that_differ_in_capitals_only(self) -> None:
        torch.manual_seed(0)
        model = BertForSequenceClassification(bert_config(id2label={0: "a", 1: "A"}))
        lens = lens_of("text-classification", model, TOKENIZERS["bert"])
        found = [e.targets for e in encode(lens, labelled("a", "A")).examples]
        assert [t.tolist() for t in found if t is not None] == [[0], [1]]

    def test_regression(self) -> None:
        model = BertForSequenceClassification(bert_config(num_labels=1))
        with pytest.raises(DataError, match="one number, not classes"):
            encode(lens_of("text-classification", model, TOKENIZERS["bert"]), labelled(0))


class TestRefusals:
    def test_one_token_gives_no_prediction(self, lenses: dict[str, Lens]) -> None:
        encoded = encode(lenses["gpt2"], texts_of("a", "a boat"))
        assert [e.predicted for e in encoded.examples] == [0, len(TOKENIZERS["gpt2"]("a boat")["input_ids"]) - 1]
        found = per_example(lenses["gpt2"], encoded, 2)
        assert found[0].tolist() == [0.0, 0.0]
        with pytest.raises(DataError, match="made: nothing to predict; every text needs at least two tokens"):
            encode(lenses["gpt2"], texts_of("a", "b"))

    def test_only_special_tokens(self, lenses: dict[str, Lens]) -> None:
        with pytest.raises(DataError, match="nothing to predict"):
            encode(lenses["bert"], texts_of("☃", " "))
        assert len(encode(lenses["bare"], texts_of(" "))) == 1

    def test_no_tokens_at_all(self, lenses: dict[str, Lens]) -> None:
        with pytest.raises(DataError, match="made, example 2: no tokens"):
            encode(lenses["gpt2"], texts_of("a boat", ""))

    @pytest.mark.parametrize(
        ("kind", "data"), [("gpt2", "pairs"), ("t5", "text"), ("class", "text"), ("bare", "images")]
    )
    def test_wrong_kind(self, lenses: dict[str, Lens], kind: str, data: Kind) -> None:
        with pytest.raises(DataError, match=f"needs data of kind .*, and made is {data}"):
            encode(lenses[kind], DataSet("made", data, "all", (Example(text="a"),)))

    def test_no_examples(self, lenses: dict[str, Lens]) -> None:
        with pytest.raises(DataError, match="made has no examples"):
            encode(lenses["gpt2"], texts_of())

    @pytest.mark.parametrize("kind", ["gpt2", "t5"])
    def test_ids_beyond_the_vocabulary(self, lenses: dict[str, Lens], kind: str) -> None:
        tokenizer = copy.deepcopy(lenses[kind].tokenizer)
        assert tokenizer is not None
        tokenizer.add_tokens(["☃"])
        task, model = model_of(kind)
        example = Example(source="a boat", target="ein ☃") if kind == "t5" else Example(text="a ☃")
        data = DataSet("made", "pairs" if kind == "t5" else "text", "all", (example,))
        with pytest.raises(DataError, match="outside the model's vocabulary"):
            encode(lens_of(task, model, tokenizer), data)

    def test_no_tokenizer(self) -> None:
        with pytest.raises(DataError, match="tiny has no tokenizer"):
            encode(lens_of(*model_of("gpt2")), texts_of("a boat"))

    def test_task_without_a_data_path(self) -> None:
        _, model = model_of("gpt2")
        with pytest.raises(DataError, match="audio model"):
            encode(lens_of("audio", model, TOKENIZERS["gpt2"]), texts_of("a boat"))


class TestPictures:
    @pytest.fixture
    def lens(self) -> Lens:
        torch.manual_seed(0)
        model = ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, id2label=CLASSES, **SIZES))
        return lens_of("image-classification", model, processor=ViTImageProcessor(size={"height": 8, "width": 8}))

    def data(self, folder: Path) -> DataSet:
        for i in range(3):
            Image.new("RGB", (9, 9 + i), (80 * i, 20, 255)).save(folder / f"{i}.png")
        examples = tuple(Example(image=folder / f"{i}.png", label=i) for i in range(3))
        return DataSet("made", "images", "all", examples)

    def test_loss_is_that_of_transformers(self, lens: Lens, tmp_path: Path) -> None:
        encoded = encode(lens, self.data(tmp_path))
        found = per_example(lens, encoded, 2)
        for i, row in enumerate(found):
            with Image.open(tmp_path / f"{i}.png") as picture:
                pixels = ViTImageProcessor(size={"height": 8, "width": 8})(picture, return_tensors="pt")
            loss = lens.model(**pixels, labels=torch.tensor([i])).loss
            assert float(row[0]) == pytest.approx(float(loss), rel=1e-5)
        (batch,) = encoded.batches(3)
        assert batch.positions("self", 5).tolist() == [[True] * 5] * 3
        assert encoded.tokens == 3

    def test_hash_in_half_precision(self, lens: Lens, tmp_path: Path) -> None:
        lens.model.bfloat16()
        encoded = encode(lens, self.data(tmp_path))
        assert encoded.examples[0].inputs["pixel_values"].dtype == torch.bfloat16
        assert len({e.content for e in encoded.examples}) == 3

    def test_broken_picture(self, lens: Lens, tmp_path: Path) -> None:
        data = self.data(tmp_path)
        (tmp_path / "1.png").write_bytes(b"no picture")
        with pytest.raises(DataError, match=r"made, example 2: .*1\.png cannot be read as a picture"):
            encode(lens, data)


def size_of(encoded: Any) -> int:
    return sum(len(value) for name, value in encoded.inputs.items() if name.endswith("input_ids"))


class TestLiveSet:
    @pytest.mark.parametrize("kind", KINDS)
    def test_is_the_start_of_the_held_out_half(self, lenses: dict[str, Lens], kind: str) -> None:
        lens = lenses[kind]
        name = {"t5": "en-de", "class": "reviews"}.get(kind, "stories")
        whole = encode(lens, read_builtin(name, "held-out"))
        live = live_set(lens)
        assert (live.name, live.split) == (name, "held-out")
        sizes = [size_of(e) for e in live.examples]
        assert 200 < sum(sizes) <= 256
        same = [a.content == b.content for a, b in zip(live.examples, whole.examples, strict=False)]
        assert all(same[:-1])
        if not same[-1]:
            assert sum(sizes[:-1]) + size_of(whole.examples[len(sizes) - 1]) > 256
            if kind != "t5":
                assert sum(sizes) == 256
        assert live.hash == live_set(lens).hash

    @pytest.mark.parametrize(("kind", "special"), [("gpt2", 0), ("bare", 2), ("bert", 2)])
    def test_rule_for_every_number(self, lenses: dict[str, Lens], kind: str, special: int) -> None:
        data = data_for(kind, 4)
        tokenizer = lenses[kind].tokenizer
        assert tokenizer is not None
        lengths = [min(128, len(tokenizer(e.text)["input_ids"])) for e in data.examples]
        for tokens in range(2 + special, sum(lengths) + 20, 5):
            wanted, left = [], tokens
            for length in lengths:
                if length > left:
                    wanted += [left] if left >= 2 + special else []
                    break
                wanted.append(length)
                left -= length
            assert [size_of(e) for e in live_set(lenses[kind], data, tokens=tokens).examples] == wanted

    def test_pairs_share_what_is_left(self, lenses: dict[str, Lens]) -> None:
        data = data_for("t5")
        first = size_of(encode(lenses["t5"], data).examples[0])
        for left, sides in ((5, None), (6, 3), (7, 3), (8, 4)):
            made = live_set(lenses["t5"], data, tokens=first + left).examples
            found = [[len(v) for k, v in e.inputs.items() if k.endswith("input_ids")] for e in made[1:]]
            assert found == ([] if sides is None else [[sides, sides]])

    def test_too_few_tokens(self, lenses: dict[str, Lens]) -> None:
        with pytest.raises(DataError, match="nothing to predict in 3 tokens"):
            live_set(lenses["bert"], tokens=3)


def test_content_hash_is_plain_sha256(lenses: dict[str, Lens]) -> None:
    encoded = encode(lenses["gpt2"], data_for("gpt2"))
    inner = [hashlib.sha256(e.content).digest() for e in encoded.examples]
    assert encoded.hash == hashlib.sha256(b"".join(inner)).hexdigest()
