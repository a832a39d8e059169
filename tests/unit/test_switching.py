"""Switches on every family against deep copies with zeroed columns of the output projection."""

from __future__ import annotations

import copy
import json
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from headlens.errors import ModelError
from headlens.heads import Head
from headlens.instrument import repeat_rows
from headlens.run import Edit, Replay, Run, current, running
from headlens.switches import off_mask
from tests.unit.models.opened import (
    Opened,
    assert_same,
    differs,
    heads,
    hook_count,
    lens_on,
    opened,
    some_heads,
)
from tests.unit.models.tiny import CASES, TINY

NAMES = tuple(TINY)
MAIN_AND_BARE = pytest.mark.parametrize(("name", "cls"), CASES)
CAUSAL = (*(name for name, spec in TINY.items() if spec.kind == "causal"), "t5", "umt5", "bart", "marian")


@MAIN_AND_BARE
def test_all_on_is_the_plain_model_to_the_bit(name: str, cls: str) -> None:
    case = opened(name, cls)
    assert_same(case.out(), case.reference())


@pytest.mark.parametrize("name", NAMES)
def test_all_on_without_padding_and_while_watched(name: str) -> None:
    case = opened(name, padded=False)
    plain = case.reference()
    assert_same(case.out(), plain)
    with case.lens.off("none"):
        assert_same(case.out(), plain)
    with running(case.lens.owner, Run(on_z=lambda site, layer, z: None, on_block=lambda *_: None)):
        assert_same(case.out(), plain)


@MAIN_AND_BARE
def test_head_off_is_its_columns_zeroed(name: str, cls: str) -> None:
    case = opened(name, cls)
    plain = case.reference()
    last = {site.name: len(site.layers) - 1 for site in case.lens.sites}
    chosen = some_heads(case.lens)
    for head in chosen if cls == TINY[name].classes[0] else chosen[1::3]:
        with case.lens.off(heads(head)):
            found = case.out()
        assert_same(found, case.reference([head]), atol=1e-5)
        # The last decoder layer of a classifier may be read at one position; all other heads must show.
        assert differs(found, plain) or head.layer == last.get(head.site), head
    assert_same(case.out(), plain)


# torch's grouped product of mixtures of experts does not take float64 on a CPU.
FLOAT64 = tuple(name for name in NAMES if name not in ("mixtral", "deepseek_v2", "deepseek_v3"))


@pytest.mark.parametrize("name", FLOAT64)
def test_head_off_in_float64(name: str) -> None:
    # Gemma-2 itself gives NaN at float64 for padding that a window hides from everything.
    case = opened(name, dtype=torch.float64, padded=name != "gemma2")
    assert_same(case.out(), case.reference())
    for head in some_heads(case.lens):
        with case.lens.off(heads(head)):
            assert_same(case.out(), case.reference([head]), atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_every_head_of_a_layer_and_several_layers(name: str) -> None:
    case = opened(name)
    layer = [Head(site.name, 1, head) for site in case.lens.topology.sites for head in range(4)]
    with case.lens.off(heads(*layer)):
        assert_same(case.out(), case.reference(layer), atol=1e-5)
    spread = some_heads(case.lens)
    with case.lens.off(heads(*spread)):
        assert_same(case.out(), case.reference(spread), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_rows_with_their_own_heads_off(name: str) -> None:
    """One mask for each row: row r has head r of layer 1 off, as in a sweep."""
    case = opened(name)
    site = case.lens.topology.sites[0].name
    rows = len(next(iter(case.inputs.values())))
    mask = torch.zeros(rows, 4, dtype=torch.bool)
    mask[range(rows), range(rows)] = True
    with running(case.lens.owner, Run(edits={(site, 1): Edit(off=mask)})):
        found = case.out()
    for row in range(rows):
        wanted = case.reference([Head(site, 1, row)])
        for key in found:
            if found[key].shape[:1] == (rows,) and name != "clip":  # CLIP's logits mix the rows
                torch.testing.assert_close(found[key][row], wanted[key][row], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gate_and_replacement(name: str) -> None:
    """A gate scales z; a value replaces it, whatever it was."""
    case = opened(name)
    site = case.lens.sites[0]
    half = torch.tensor([[1.0, 0.5, 1.0, 0.0]])
    seen: list[Tensor] = []
    with running(
        case.lens.owner, Run(on_z=lambda _, layer, z: seen.append(z.clone()), z_of=frozenset({(site.name, 1)}))
    ):
        case.out()
    (z,) = seen
    edits = {(site.name, 1): Edit(gate=half)}
    with running(case.lens.owner, Run(edits=edits)):
        gated = case.out()
    everything = torch.ones(1, 4, dtype=torch.bool)
    with running(case.lens.owner, Run(edits={(site.name, 1): Edit(off=everything, value=z * half[..., None])})):
        assert_same(case.out(), gated, atol=1e-5)
    with running(case.lens.owner, Run(edits={(site.name, 1): Edit(off=everything, value=z)})):
        assert_same(case.out(), case.reference())
    assert differs(gated, case.reference())


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert-groups", "t5", "bloom"])
def test_nested_switches_and_what_stays_after_errors(name: str) -> None:
    case = opened(name)
    one, other, *_ = some_heads(case.lens)
    hooks = hook_count(case.model)
    with case.lens.off(heads(one)):
        outer = case.out()
        with case.lens.off(heads(other)):
            assert_same(case.out(), case.reference([other]), atol=1e-5)
        assert_same(case.out(), outer)
        with case.lens.off("none"):
            assert_same(case.out(), case.reference())
        assert_same(case.out(), case.reference([one]), atol=1e-5)

    class Stop(BaseException):
        pass

    for error in (RuntimeError, KeyboardInterrupt, Stop):
        with pytest.raises(error), case.lens.off(heads(one)):
            raise error

        def interrupt(site: str, layer: int, z: Tensor, error: type[BaseException] = error) -> None:
            if layer == 1:
                raise error

        with pytest.raises(error), running(case.lens.owner, Run(on_z=interrupt)):
            case.out()
        assert current(case.lens.owner) is None
        assert_same(case.out(), case.reference())
        with case.lens.off(heads(other)):  # a count of calls that was cut short must not be carried over
            with pytest.raises((TypeError, AttributeError)):
                case.model(input_ids=case.inputs["input_ids"], attention_mask="wrong")
            assert_same(case.out(), case.reference([other]), atol=1e-5)
    assert hook_count(case.model) == hooks


def _changed_future(inputs: dict[str, Tensor], name: str, cut: int) -> dict[str, Tensor]:
    changed = dict(inputs)
    changed[name] = inputs[name].clone()
    changed[name][:, cut:] = (changed[name][:, cut:] - 3 + 7) % 50 + 3
    return changed


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("name", CAUSAL)
def test_later_tokens_never_reach_earlier_positions(name: str, padded: bool) -> None:
    """On every path: plain, switched, pattern capture, replay."""
    case = opened(name, padded=padded)
    tokens = "decoder_input_ids" if "decoder_input_ids" in case.inputs else "input_ids"
    cut = 3
    changed = _changed_future(case.inputs, tokens, cut)
    site = next(site for site in case.lens.sites if site.name in ("self", "dec"))
    blocks: dict[int, object] = {}

    def logits(inputs: dict[str, Tensor], run: Run) -> Tensor:
        with running(case.lens.owner, run):
            return case.out(inputs)["logits"]

    edits = {key: Edit(off=mask) for key, mask in off_mask(case.lens.topology, heads(Head(site.name, 1, 2))).items()}
    record = Run(on_block=lambda stack, index, out: blocks.__setitem__(index, out) if stack == site.stack else None)
    runs = {
        "plain": lambda: Run(),
        "switched": lambda: Run(edits=edits),
        "pattern": lambda: Run(on_pattern=lambda *_: None),
        "replay": lambda: Run(replay=Replay({site.stack: (2, blocks[1])})),
    }
    for path, run in runs.items():
        logits(case.inputs, record)
        before = logits(case.inputs, run())
        logits(changed, record)
        after = logits(changed, run())
        torch.testing.assert_close(before[:, :cut], after[:, :cut], atol=2e-5, rtol=0, msg=f"{name} {path}")
        assert float((before[:, cut:] - after[:, cut:]).abs().max()) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_replay_from_every_block(name: str) -> None:
    case = opened(name)
    lens = case.lens
    plain = case.reference()
    recorded: dict[tuple[str, int], object] = {}
    with running(lens.owner, Run(on_block=lambda stack, index, out: recorded.__setitem__((stack, index), out))):
        case.out()
    stacks = {site.stack: len(site.layers) for site in lens.sites}
    assert set(recorded) == {(stack, i) for stack, depth in stacks.items() for i in range(depth)}
    for stack, depth in stacks.items():
        for count in range(1, depth + 1):
            known = {stack: (count, recorded[stack, count - 1])}
            if stack == "dec":
                known["enc"] = (stacks["enc"], recorded["enc", stacks["enc"] - 1])
            computed: list[tuple[str, int]] = []
            run = Run(replay=Replay(known), on_block=lambda s, i, out: computed.append((s, i)))  # noqa: B023
            with running(lens.owner, run):
                assert_same(case.out(), plain)
            assert [i for s, i in computed if s == stack] == list(range(count, depth))
            with torch.no_grad():
                until = lens.forward_until(case.inputs, Run(replay=Replay(stop=(stack, count - 1))))
            torch.testing.assert_close(until, recorded[stack, count - 1], atol=0, rtol=0)
    assert current(lens.owner) is None
    assert_same(case.out(), plain)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "clip"])
def test_replay_with_rows_repeated_and_heads_off(name: str) -> None:
    """What a sweep does: the prefix once, then each head of a layer off in a copy of the rows of its own."""
    case = opened(name)
    lens = case.lens
    site = lens.sites[-1]
    rows = len(next(iter(case.inputs.values())))
    recorded: dict[tuple[str, int], object] = {}
    with running(lens.owner, Run(on_block=lambda stack, index, out: recorded.__setitem__((stack, index), out))):
        case.out()
    layer = 2
    many = {key: value.repeat(4, *[1] * (value.dim() - 1)) for key, value in case.inputs.items()}
    known = {site.stack: (layer, repeat_rows(recorded[site.stack, layer - 1], rows, 4))}
    if site.stack == "dec":
        known["enc"] = (3, repeat_rows(recorded["enc", 2], rows, 4))
    off = torch.eye(4, dtype=torch.bool).repeat_interleave(rows, dim=0)
    with running(lens.owner, Run(edits={(site.name, layer): Edit(off=off)}, replay=Replay(known))):
        found = case.out(many)
    for head in range(4):
        wanted = case.reference([Head(site.name, layer, head)])
        for key, value in wanted.items():
            if found[key].shape[0] == rows * 4:
                part = found[key][head * rows : (head + 1) * rows]
                torch.testing.assert_close(part, value, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "albert", "t5", "bloom", "vit", "falcon"])
def test_deep_copies_are_plain_and_can_be_opened(name: str) -> None:
    case = opened(name)
    head = some_heads(case.lens)[1]
    copied = copy.deepcopy(case.model)
    mine = Opened(name, case.lens, copied, case.inputs)
    with case.lens.off(heads(head)):
        assert_same(mine.reference(), case.reference())
        assert differs(case.out(), case.reference())
    again = Opened(name, lens_on(copied), case.plain, case.inputs)
    with again.lens.off(heads(head)):
        assert_same(again.out(), case.reference([head]), atol=1e-5)
        assert_same(case.out(), case.reference())
    with pytest.raises(ModelError, match="open already"):
        lens_on(case.model)


@pytest.mark.parametrize("name", NAMES)
def test_saved_model_is_the_plain_model(name: str, tmp_path: Path) -> None:
    case = opened(name)
    with case.lens.off(heads(some_heads(case.lens)[0])):
        case.model.save_pretrained(tmp_path)
    assert "headlens" not in (tmp_path / "config.json").read_text().lower()
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [type(case.plain).__name__]
    loaded: PreTrainedModel = type(case.plain).from_pretrained(tmp_path).eval()
    assert_same(Opened(name, case.lens, loaded, case.inputs).reference(), case.reference(), atol=1e-6)


@pytest.mark.parametrize(("name", "forwards"), [("llama", 200), ("albert-groups", 60), ("t5", 30)])
def test_threads_with_different_switches_on_one_model(name: str, forwards: int) -> None:
    case = opened(name)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _race(case, forwards)
    finally:
        torch.set_num_threads(before)


def _race(case: Opened, forwards: int) -> None:
    sites = [site.name for site in case.lens.topology.sites]
    chosen = [heads(Head(sites[i % len(sites)], i % 3, i % 4), Head(sites[0], 2, (i + 1) % 4)) for i in range(8)]
    wanted = []
    for off in chosen:
        with case.lens.off(off):
            wanted.append(case.out())
    plain = case.reference()
    patterns: dict[tuple[str, int], Tensor] = {}
    with running(case.lens.owner, Run(on_pattern=lambda s, i, p: patterns.__setitem__((s, i), p))):
        case.out()
    wrong: list[str] = []
    start = threading.Barrier(9)

    def switch(number: int) -> None:
        start.wait()
        for _ in range(forwards):
            with case.lens.off(chosen[number]):
                found = case.out()
            if any(not torch.equal(found[key], wanted[number][key]) for key in found):
                wrong.append(f"switch {number}")

    def watch() -> None:
        start.wait()
        for _ in range(forwards):
            mine: dict[tuple[str, int], Tensor] = {}
            with running(case.lens.owner, Run(on_pattern=lambda s, i, p, to=mine: to.__setitem__((s, i), p))):
                found = case.out()
            if any(not torch.equal(found[key], plain[key]) for key in found):
                wrong.append("outputs while patterns are asked for")
            if mine.keys() != patterns.keys() or any(not torch.equal(mine[k], patterns[k]) for k in patterns):
                wrong.append("patterns")

    threads = [threading.Thread(target=switch, args=(i,)) for i in range(8)] + [threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert_same(case.out(), plain)


def test_one_run_shared_by_threads_of_a_model_with_shared_layers() -> None:
    """The count of block calls is kept for each thread."""
    case = opened("albert-groups")
    run = Run(edits={("self", 3): Edit(off=torch.tensor([[True, False, False, True]]))})
    with torch.no_grad():
        wanted = case.lens.forward(case.inputs, run).logits
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(40):
            with torch.no_grad():
                if not torch.equal(case.lens.forward(case.inputs, run).logits, wanted):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    "name", ["gpt2", "gpt_neo", "bloom", "falcon", "llama", "gemma2", "deepseek_v3", "t5", "bart", "marian"]
)
def test_generation_inside_a_switch(name: str) -> None:
    """With and without a cache of keys and values, and equal to the copy with zeroed columns."""
    case = opened(name)
    off = some_heads(case.lens)
    inputs = {key: value[:1] for key, value in case.inputs.items() if not key.startswith("decoder")}
    inputs = {key: value[:, : case.inputs["attention_mask"][0].sum()] for key, value in inputs.items()}
    found = {}
    with case.lens.off(heads(*off)):
        for cache in (True, False):
            found[cache] = _generate(case.model, inputs, cache)
    assert torch.equal(found[True], found[False])
    with case.without(off) as model:
        assert torch.equal(found[True], _generate(model, inputs, True))
    assert torch.equal(_generate(case.model, inputs, True), _generate(case.plain, inputs, True))


def _generate(model: PreTrainedModel, inputs: dict[str, Tensor], cache: bool) -> Tensor:
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "num_beams": 1, "use_cache": cache}
    with torch.no_grad():
        return model.generate(**inputs, **options)  # type: ignore[operator]
