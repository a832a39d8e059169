"""``attention`` against the weights that transformers gives itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from headlens.cli.attention import patch_labels

from .conftest import Cli, tokenizer


def _load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _stack(layers: tuple[torch.Tensor, ...]) -> np.ndarray:
    return torch.stack([layer[0] for layer in layers]).numpy()


def test_decoder(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    out = tmp_path / "p.npz"
    found = cli("attention", gpt2, "--prompt", "the old cat sang", "--out", out, "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json["arrays"]["pattern_self"] == [5, 4, 5, 5]
    arrays = _load(out)
    assert set(arrays) == {"pattern_self", "tokens_self_query", "tokens_self_key"}
    model = AutoModelForCausalLM.from_pretrained(gpt2, attn_implementation="eager")
    ids = torch.tensor([tokenizer()("the old cat sang")["input_ids"]])
    with torch.no_grad():
        expected = _stack(model(ids, output_attentions=True).attentions)
    assert arrays["pattern_self"].dtype == np.float32
    np.testing.assert_allclose(arrays["pattern_self"], expected, atol=1e-5)
    assert arrays["tokens_self_query"].tolist() == ["the", "old", "cat", "sang", "</s>"]
    assert arrays["tokens_self_key"].dtype.kind == "U"
    assert list(tmp_path.glob(".*")) == []  # no temporary file is left


def test_off_changes_later_layers_only(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    for name, off in (("a", "none"), ("b", "L1H2")):
        assert (
            cli("attention", gpt2, "--prompt", "a cat sat", "--off", off, "--out", tmp_path / f"{name}.npz").code == 0
        )
    on, switched = (_load(tmp_path / f"{name}.npz")["pattern_self"] for name in "ab")
    np.testing.assert_array_equal(on[:2], switched[:2])
    assert np.abs(on[2:] - switched[2:]).max() > 1e-4


def test_encoder_decoder(cli: Cli, t5: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    out = tmp_path / "p.npz"
    found = cli("attention", t5, "--prompt", "the cat sat", "--target", "a dog", "--out", out)
    assert found.code == 0, found.err
    arrays = _load(out)
    model = AutoModelForSeq2SeqLM.from_pretrained(t5, attn_implementation="eager")
    words = tokenizer()
    source, target = (torch.tensor([words(text)["input_ids"]]) for text in ("the cat sat", "a dog"))
    decoder = torch.tensor([[0, *target[0, :-1].tolist()]])
    with torch.no_grad():
        output = model(input_ids=source, decoder_input_ids=decoder, output_attentions=True)
    for site, name in (("enc", "encoder"), ("dec", "decoder"), ("cross", "cross")):
        expected = _stack(output[f"{name}_attentions"])
        np.testing.assert_allclose(arrays[f"pattern_{site}"], expected, atol=1e-5)
    assert arrays["tokens_cross_query"].tolist() == ["<pad>", "a", "dog"]
    assert arrays["tokens_cross_key"].tolist() == ["the", "cat", "sat", "</s>"]


def test_picture(cli: Cli, vit: Path, tmp_path: Path) -> None:
    from PIL import Image

    picture, out = tmp_path / "picture.png", tmp_path / "p.npz"
    Image.effect_noise((20, 16), 90).convert("RGB").save(picture)
    found = cli("attention", vit, "--prompt", picture, "--out", out)
    assert found.code == 0, found.err
    arrays = _load(out)
    assert arrays["pattern_self"].shape == (2, 2, 5, 5)
    np.testing.assert_allclose(arrays["pattern_self"].sum(-1), 1, atol=1e-5)
    assert arrays["tokens_self_key"].tolist() == ["[CLS]", "r0c0", "r0c1", "r1c0", "r1c1"]
    missing = cli("attention", vit, "--prompt", tmp_path / "none.png", "--out", out)
    assert (missing.code, len(missing.lines)) == (2, 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--prompt", " "), "empty"),
        (("--prompt", "the cat", "--target", "a dog"), "--target"),
        (("--prompt", "the " * 40), "tokens"),
        (("--prompt", "the", "--off", "L7"), "L7"),
    ],
)
def test_mistakes(cli: Cli, gpt2: Path, tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    found = cli("attention", gpt2, *options, "--out", tmp_path / "p.npz", "--json")
    assert (found.code, found.out, len(found.lines)) == (2, "", 1)
    assert expected in found.err
    assert not (tmp_path / "p.npz").exists()


def test_target_is_needed_by_encoder_decoder_models(cli: Cli, t5: Path, tmp_path: Path) -> None:
    found = cli("attention", t5, "--prompt", "the cat", "--out", tmp_path / "p.npz")
    assert (found.code, len(found.lines)) == (2, 1)
    assert "target" in found.err


def test_full_disk(cli: Cli, gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    found = cli("attention", gpt2, "--prompt", "a cat", "--out", tmp_path / "p.npz")
    assert (found.code, len(found.lines)) == (2, 1)
    assert "No space left" in found.err


def test_layer_without_heads_keeps_its_row() -> None:
    from types import SimpleNamespace

    from headlens.attention import Patterns
    from headlens.cli.attention import to_arrays
    from headlens.heads import LayerShape, SiteShape, Topology

    def shape(heads: tuple[int, ...]) -> LayerShape:
        return LayerShape(heads, 2, (0, 1), 4, len(heads), causal=True)

    topology = Topology((SiteShape("self", (shape((0, 1)), shape(()), shape((1,)))),))
    lens = SimpleNamespace(topology=topology, tokenizer=None, model=SimpleNamespace(config=SimpleNamespace()))
    computed = np.full((2, 2, 3, 3), 0.5, dtype=np.float32)
    found = Patterns({"self": computed}, {"self": []}, {"self": []}, {"self": (0, 2)})
    pattern = to_arrays(lens, found)["pattern_self"]  # type: ignore[arg-type]
    assert np.isnan(pattern[1]).all()
    assert (pattern[[0, 2]] == 0.5).all()


def test_patch_labels() -> None:
    from types import SimpleNamespace

    deit = SimpleNamespace(image_size=16, patch_size=(8, 16))
    assert patch_labels(deit, 4) == ["[CLS]", "[EXTRA1]", "r0c0", "r1c0"]
    assert patch_labels(deit, 2) == ["r0c0", "r1c0"]
    assert patch_labels(SimpleNamespace(), 2) == ["[0]", "[1]"]
