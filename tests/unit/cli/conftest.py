"""Tiny models on disk, and two ways to run the command line: in this process, and in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headlens.cli.main import main

LINES = [
    "the cat sat on the mat",
    "the dog saw a small bird",
    "a bird sang to the old dog",
    "one old cat saw the mat",
    "the small dog sat",
    "a cat sang on the old mat",
]
WORDS = sorted({word for line in LINES for word in line.split()})
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Result:
    """What a run gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, which must be exactly one JSON object without NaN."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def lines(self) -> list[str]:
        """Lines on stderr."""
        return self.err.splitlines()


Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for each test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADLENS_CACHE", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("HEADLENS_DEBUG", raising=False)
    return folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs ``headlens`` in this process: ``cli("models", "--json")``."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


def start(*arguments: object, script: str = "", stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
    """Starts ``headlens`` in a process of its own; ``script`` runs before it."""
    program = f"import sys\n{script}\nfrom headlens.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *(str(argument) for argument in arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


def finish(process: subprocess.Popen[str], seconds: float = 120) -> Result:
    """Waits for a process."""
    out, err = process.communicate(timeout=seconds)
    return Result(process.returncode, out or "", err)


def tokenizer() -> Any:
    """One token a word, with the special tokens that the tiny models need."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: index for index, word in enumerate([*special, *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def _save(model: Any, folder: Path, spread: float) -> Path:
    import torch

    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:  # far enough from zero that heads differ
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal language model, 5 layers x 4 heads."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(tokenizer()),
        n_positions=32,
        n_embd=16,
        n_layer=5,
        n_head=4,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return _save(GPT2LMHeadModel(config), tmp_path_factory.mktemp("models") / "gpt2", 0.25)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal language model with 2 KV groups of 2 query heads, 2 layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer()),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        bos_token_id=1,
        eos_token_id=1,
        pad_token_id=0,
    )
    return _save(LlamaForCausalLM(config), tmp_path_factory.mktemp("models") / "llama", 0.25)


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder-decoder model, 2 + 2 layers x 4 heads."""
    from transformers import T5Config, T5ForConditionalGeneration

    settings: dict[str, Any] = dict(  # noqa: C408
        vocab_size=len(tokenizer()),
        d_model=16,
        d_kv=4,
        d_ff=24,
        num_layers=2,
        num_heads=4,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return _save(T5ForConditionalGeneration(T5Config(**settings)), tmp_path_factory.mktemp("models") / "t5", 0.5)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare encoder, 2 layers x 4 heads."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(tokenizer()),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=32,
    )
    return _save(BertModel(config), tmp_path_factory.mktemp("models") / "bert", 0.25)


@pytest.fixture(scope="session")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image classifier, 2 layers x 2 heads, 2 x 2 patches."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    settings: dict[str, Any] = dict(  # noqa: C408
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=16,
        patch_size=8,
        num_labels=2,
    )
    folder = tmp_path_factory.mktemp("models") / "vit"
    ViTForImageClassification(ViTConfig(**settings)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A text file."""
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of sources and targets."""
    path = tmp_path / "pairs.jsonl"
    rows = [{"source": line, "target": other} for line, other in zip(LINES, LINES[1:] + LINES[:1], strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path
