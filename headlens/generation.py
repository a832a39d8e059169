"""What the model writes on, with every head on and with some off, from the same seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from headlens.attention import MAX_TOKENS, prompt_inputs
from headlens.errors import DataError, HeadlensError
from headlens.metrics import at_least_float32
from headlens.next_tokens import edits_of, token_labels
from headlens.run import LayerKey, Run, running
from headlens.tokens import TokenLabel

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.lens import Lens

Stop = Literal["end", "length", "positions"]


@dataclass(frozen=True)
class Step:
    """One token that was written.

    Attributes:
        id: its id.
        label: as a person reads it.
        probability: what the model gave it (at temperature 1, whatever the sampling used).
    """

    id: int
    label: TokenLabel
    probability: float


@dataclass(frozen=True)
class Continuation:
    """What was written.

    Attributes:
        steps: token by token; an end-of-sequence token is the last one.
        stop: why it ends: ``end`` (end-of-sequence token), ``length`` (as many as asked for) or ``positions`` (the
            model has no more).
    """

    steps: tuple[Step, ...]
    stop: Stop

    @property
    def ids(self) -> list[int]:
        """Token ids."""
        return [step.id for step in self.steps]

    @property
    def text(self) -> str:
        """The text, without special tokens."""
        return "".join(step.label.surface for step in self.steps)


@dataclass(frozen=True)
class Continuations:
    """The same prompt continued twice.

    Attributes:
        before, after: with every head on, and with the heads off.
        first_difference: index of the first token that differs; None where both are the same.
        off: HEADS that are off.
    """

    before: Continuation
    after: Continuation
    first_difference: int | None
    off: str


def continuations(
    lens: Lens,
    prompt: str,
    off: HeadSet,
    *,
    max_new_tokens: int = 40,
    seed: int = 0,
    temperature: float = 0.0,
    means: Mapping[LayerKey, Tensor] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Continuations:
    """Continues ``prompt`` with all heads on and with ``off`` zero- or mean-ablated, at every step.

    Encoder-decoder models read the prompt as the source and write the target. With a temperature, the token is the
    largest of ``logits / temperature + noise`` with Gumbel noise: an exact sample (Gumbel 1954; Maddison et al. 2014).
    Both continuations get the same noise, so what differs is the heads' doing and not chance.

    Args:
        lens: the model.
        prompt: the text.
        off: heads that are off.
        max_new_tokens: most tokens to write.
        seed: draws the noise.
        temperature: 0 takes the most probable token; more than 0 samples.
        means: what the heads write instead of zero, see :func:`headlens.next_tokens.next_tokens`.
        on_progress: called with (done, total) tokens after each; may raise to cancel, which leaves nothing behind.

    Raises:
        HeadlensError: models that do not write text, a negative temperature, or no tokens asked for.
        DataError: an empty or too long prompt.
    """
    if max_new_tokens < 1:
        raise HeadlensError(f"{max_new_tokens} new tokens were asked for; ask for at least 1")
    if not 0 <= temperature < float("inf"):
        raise HeadlensError(f"temperature {temperature}: take 0 (most probable token) or a number above it")
    writer = Writer(lens, prompt, max_new_tokens, seed, temperature)
    edits = edits_of(lens, off, means)
    total = max_new_tokens * (2 if edits else 1)

    def report(done: int) -> None:
        if on_progress is not None:
            on_progress(done, total)

    before = after = writer.write(Run(), report)
    if edits:
        report(max_new_tokens)
        after = writer.write(Run(edits=edits), lambda done: report(max_new_tokens + done))
    report(total)
    return Continuations(before, after, first_difference(before.ids, after.ids), lens.topology.format(off))


def first_difference(first: list[int], second: list[int]) -> int | None:
    """Index of the first place where two lists differ (the end of the shorter one counts), or None."""
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return index
    return None if len(first) == len(second) else min(len(first), len(second))


class Writer:
    """Writes on from one prompt, token by token, under any run.

    Args:
        lens, prompt, max_new_tokens, seed, temperature: see :func:`continuations`.
        cache: keep keys and values of earlier tokens; False computes everything again at each step.
    """

    def __init__(
        self, lens: Lens, prompt: str, max_new_tokens: int, seed: int, temperature: float, *, cache: bool = True
    ) -> None:
        if lens.task not in ("causal-lm", "seq2seq"):
            raise HeadlensError(f"{lens.name} ({lens.task}) does not write text; take a causal or a seq2seq model")
        self.lens, self.most, self.seed, self.temperature = lens, max_new_tokens, seed, temperature
        # transformers 5.24 calls the cache of keys and values "cache", earlier versions "past_key_values".
        names = [name for name in ("cache", "past_key_values") if lens.accepts(name)] if cache else []
        self.cache_name = names[0] if names else None
        self.source, self.start = self._read(prompt)
        self.end = self._end_ids()

    def _read(self, prompt: str) -> tuple[dict[str, Tensor], list[int]]:
        """What the encoder reads (nothing for decoders), and the tokens in front of the first new one."""
        lens = self.lens
        if lens.task == "seq2seq":
            inputs = prompt_inputs(lens, prompt, target=prompt)
            source = {name: value for name, value in inputs.items() if not name.startswith("decoder_")}
            return source, self._decoder_start()
        ids: list[int] = prompt_inputs(lens, prompt)["input_ids"][0].tolist()
        tokenizer: Any = lens.tokenizer
        end = tokenizer.eos_token
        # Tokenizers that close every text with an end token would have the model begin another one.
        if len(ids) > 1 and end and ids[-1] == tokenizer.eos_token_id and not prompt.endswith(end):
            ids = ids[:-1]
        if lens.max_positions is not None and len(ids) >= lens.max_positions:
            raise DataError(f"the prompt has {len(ids)} tokens and {lens.name} takes no more: shorten it")
        return {}, ids

    def _decoder_start(self) -> list[int]:
        """The decoder's start token, and the one that the model's settings put after it (BART's, mBART's)."""
        settings = [getattr(self.lens.model, "generation_config", None), self.lens.model.config]
        starts = [getattr(each, "decoder_start_token_id", None) for each in settings]
        given = next((start for start in starts if isinstance(start, int)), None)
        start = int(self.lens.shift_right(torch.zeros(1, dtype=torch.long))[0]) if given is None else given
        forced = getattr(settings[0], "forced_bos_token_id", None)
        return [start] if forced is None else [start, int(forced)]

    def _end_ids(self) -> frozenset[int]:
        for source in (getattr(self.lens.model, "generation_config", None), self.lens.model.config):
            found = getattr(source, "eos_token_id", None)
            if found is not None:
                return frozenset(found if isinstance(found, (list, tuple)) else [found])
        found = getattr(self.lens.tokenizer, "eos_token_id", None)
        return frozenset() if found is None else frozenset([found])

    def write(self, run: Run, on_step: Callable[[int], None] = lambda _: None) -> Continuation:
        """The continuation under ``run``; ``on_step`` gets the number of tokens so far and may raise to cancel."""
        ids, probabilities, stop = list(self.start), [], "length"
        generator = torch.Generator().manual_seed(self.seed)
        state: dict[str, Any] = {}
        limit = min(self.lens.max_positions or MAX_TOKENS, MAX_TOKENS)
        while len(probabilities) < self.most:
            if len(ids) >= limit:
                stop = "positions"
                break
            logits = self._step(run, ids, state)
            ids.append(self._pick(logits, generator))
            probabilities.append(float(logits.softmax(-1)[ids[-1]]))
            on_step(len(probabilities))
            if ids[-1] in self.end:
                stop = "end"
                break
        labels = token_labels(self.lens, ids)[len(self.start) :]
        new = ids[len(self.start) :]
        steps = tuple(Step(*found) for found in zip(new, labels, probabilities, strict=True))
        return Continuation(steps, stop)

    def _step(self, run: Run, ids: list[int], state: dict[str, Any]) -> Tensor:
        """Logits after ``ids``, ``[vocabulary]``; ``state`` carries the cache and the encoder's output."""
        past = state.get("past")
        new = torch.tensor([ids if past is None else ids[-1:]], device=self.lens.device)
        inputs: dict[str, Any] = {} if past is None or self.cache_name is None else {self.cache_name: past}
        if self.lens.task == "seq2seq":
            inputs |= self._decoder_inputs(new, state)
        else:
            inputs |= {"input_ids": new, "attention_mask": torch.ones(1, len(ids), dtype=torch.long).to(new.device)}
        if self.lens.accepts("use_cache"):
            inputs["use_cache"] = self.cache_name is not None
        with torch.inference_mode(), running(self.lens.owner, run):
            output = self.lens.model(**inputs)
        state["encoder_outputs"] = getattr(output, "encoder_last_hidden_state", None)
        if self.cache_name is not None:
            state["past"] = getattr(output, self.cache_name, None)
        return at_least_float32(output.logits[0, -1]).cpu()

    def _decoder_inputs(self, new: Tensor, state: Mapping[str, Any]) -> dict[str, Any]:
        encoded = state.get("encoder_outputs")
        if encoded is None:
            return {**self.source, "decoder_input_ids": new}
        from transformers.modeling_outputs import BaseModelOutput

        mask = self.source["attention_mask"]
        return {"encoder_outputs": BaseModelOutput(encoded), "attention_mask": mask, "decoder_input_ids": new}

    def _pick(self, logits: Tensor, generator: torch.Generator) -> int:
        if self.temperature == 0:
            return int(logits.argmax())
        noise = torch.empty(logits.shape, dtype=torch.float64).exponential_(generator=generator).log().neg()
        return int((logits.double() / self.temperature + noise).argmax())
