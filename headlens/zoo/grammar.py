"""Stories drawn from templates, and the exact probabilities of their words.

A story is a fixed number of passages. Each is drawn from the templates that fit, by weight, and each of its words from
the slot's options, all equally likely. So a story is a path of a Markov chain whose hidden state is (passages told,
memory, template, slot, names), and the forward and the forward-backward algorithm (Rabiner 1989, section III) give,
without any approximation,

* the probability of the next word after any beginning: what a perfect left-to-right language model would say;
* the probability of hidden words given all the others: what a perfect masked language model would say.

The mean of their negative logarithms is the loss that no model can beat except by luck.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from headlens.zoo.templates import Memory, Template, words_of

_BETWEEN = -1  # the template of a state between two passages

State = tuple[int, Memory, int, int, tuple[tuple[str, str], ...]]
"""Passages told, memory, index of the template, of the slot, names still needed: all that the future depends on."""

Beliefs = dict[State, float]
"""Probability of each state given what was read."""


@dataclass(frozen=True)
class Story:
    """A story, with what is known about each of its words, all of the same length.

    Attributes:
        words: the words.
        heads: index of each word's head in the dependency parse; -1 for the root of a sentence.
        relations: its relation to the head (Universal Dependencies 2).
        skills: what one has to be able to do to get this word right, or None.
        foils: the word that one without the skill may take instead; None where there is none.
        templates: name of the template that the word comes from.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    skills: tuple[str | None, ...]
    foils: tuple[str | None, ...]
    templates: tuple[str, ...]


class Grammar:
    """Templates, and how many passages a story has.

    Args:
        templates: what can be told.
        passages: how many of them make a story.
    """

    def __init__(self, templates: tuple[Template, ...], passages: int) -> None:
        self.templates = templates
        self.passages = passages
        self.words = words_of(templates)

    def story(self, rng: Random) -> Story:
        """Draws a story."""
        words: list[str] = []
        told: list[Template] = []
        memory: Memory = ()
        for _ in range(self.passages):
            fitting = [each for each in self.templates if each.fits(memory)]
            each = rng.choices(fitting, cum_weights=list(accumulate(found.weight for found in fitting)))[0]
            names: dict[str, str] = {}
            for slot in each.slots:
                options = slot.options(names, memory)
                word = options[0] if len(options) == 1 else rng.choice(options)
                if slot.binds:
                    names[slot.name] = word
                words.append(word)
            memory = each.remember(names, memory)
            told.append(each)
        return _annotated(told, words)

    def annotate(self, words: Sequence[str]) -> Story:
        """What is known about the words of a story: the most probable way of telling it (Viterbi).

        Raises:
            ValueError: the words are no story, or not a whole one.
        """
        best: dict[State, tuple[float, tuple[int, ...]]] = dict.fromkeys(self.start(), (1.0, ()))
        for word in words:
            after: dict[State, tuple[float, tuple[int, ...]]] = {}
            for state, (belief, told) in best.items():
                for found, probability, following in self._steps(state):
                    if found == word and belief * probability > after.get(following, (0.0, ()))[0]:
                        begun = (*told, following[2]) if state[2] == _BETWEEN else told
                        after[following] = belief * probability, begun
            largest = max((belief for belief, _ in after.values()), default=1.0)
            best = {state: (belief / largest, told) for state, (belief, told) in after.items()}
        ends = [found for (told, *_), found in best.items() if told == self.passages]
        if not ends:
            raise ValueError(f"these {len(words)} words are no whole story: {' '.join(words)[:60]}")
        return _annotated([self.templates[index] for index in max(ends)[1]], words)

    def start(self) -> Beliefs:
        """What is known before the first word."""
        return {(0, (), _BETWEEN, 0, ()): 1.0}

    def next_words(self, beliefs: Beliefs) -> dict[str, float]:
        """Probability of each word that may come next; empty at the end of a story."""
        found: dict[str, float] = {}
        for state, belief in beliefs.items():
            for word, probability, _ in self._steps(state):
                found[word] = found.get(word, 0.0) + belief * probability
        return found

    def read(self, beliefs: Beliefs, word: str) -> tuple[float, Beliefs]:
        """Probability of ``word`` as the next one, and what is known after it (nothing, if it is impossible)."""
        after: Beliefs = {}
        for state, belief in beliefs.items():
            for found, probability, following in self._steps(state):
                if found == word:
                    after[following] = after.get(following, 0.0) + belief * probability
        total = sum(after.values())
        return total, {state: belief / total for state, belief in after.items()}

    def log_probabilities(self, words: Sequence[str]) -> list[float]:
        """Natural log of each word's probability given those before it; ``-inf`` from the first impossible one."""
        beliefs, found = self.start(), []
        for word in words:
            probability, beliefs = self.read(beliefs, word)
            found.append(math.log(probability) if probability > 0 else -math.inf)
        return found

    def hidden_words(self, words: Sequence[str | None]) -> list[dict[str, float]]:
        """Probability of each possible word at each hidden place (None), in order, given the rest of a whole story.

        Raises:
            ValueError: no whole story has these words at these places.
        """
        steps: list[dict[State, list[tuple[str, float, State]]]] = []
        reached: Beliefs = self.start()
        forward: list[Beliefs] = []
        for word in words:
            taken = {
                state: [step for step in self._steps(state) if word is None or step[0] == word] for state in reached
            }
            after: Beliefs = {}
            for state, belief in reached.items():
                for _, probability, following in taken[state]:
                    after[following] = after.get(following, 0.0) + belief * probability
            total = sum(after.values())
            if not total:
                raise ValueError("no whole story has these words at these places")
            steps.append(taken)
            forward.append(reached)
            reached = {state: belief / total for state, belief in after.items()}
        backward = {state: float(state[0] == self.passages) for state in reached}
        if not any(backward.values()):
            raise ValueError("no whole story has these words at these places")
        found: list[dict[str, float]] = []
        for word, taken, before in zip(reversed(words), reversed(steps), reversed(forward), strict=True):
            weights: dict[str, float] = {}
            earlier: Beliefs = {}
            for state, belief in before.items():
                for each, probability, following in taken[state]:
                    joint = probability * backward[following]
                    earlier[state] = earlier.get(state, 0.0) + joint
                    weights[each] = weights.get(each, 0.0) + belief * joint
            if word is None:
                total = sum(weights.values())
                found.append({each: weight / total for each, weight in weights.items() if weight > 0})
            largest = max(earlier.values())
            backward = {state: earlier.get(state, 0.0) / largest for state in before}
        return found[::-1]

    def _steps(self, state: State) -> Iterator[tuple[str, float, State]]:
        """Each word that may follow in this state, its probability, and the state after it."""
        told, memory, index, position, names = state
        if told == self.passages:
            return
        if index == _BETWEEN:
            fitting = [i for i, each in enumerate(self.templates) if each.fits(memory)]
            total = sum(self.templates[i].weight for i in fitting)
            starts = [(i, self.templates[i].weight / total) for i in fitting]
        else:
            starts = [(index, 1.0)]
        for chosen, share in starts:
            each = self.templates[chosen]
            slot = each.slots[position]
            known = dict(names)
            options = slot.options(known, memory)
            needed = each.needed[position]  # forgetting the rest lets states that differ by it alone be one
            names_kept = tuple(pair for pair in names if pair[0] in needed)
            for word in options:
                kept = (*names_kept, (slot.name, word)) if slot.binds and slot.name in needed else names_kept
                if position + 1 < len(each.slots):
                    following = (told, memory, chosen, position + 1, kept)
                else:
                    following = (told + 1, each.remember(dict(kept), memory), _BETWEEN, 0, ())
                yield word, share / len(options), following


def _annotated(told: Sequence[Template], words: Sequence[str]) -> Story:
    """The story that these templates tell in these words."""
    heads: list[int] = []
    foils: list[str | None] = []
    memory: Memory = ()
    for each in told:
        start = len(heads)
        own = words[start : start + len(each.slots)]
        names = {slot.name: word for slot, word in zip(each.slots, own, strict=True) if slot.binds}
        heads += [start + slot.head if slot.head >= 0 else -1 for slot in each.slots]
        foils += [slot.foil_word(word, names, memory) for slot, word in zip(each.slots, own, strict=True)]
        memory = each.remember(names, memory)
    slots = [slot for each in told for slot in each.slots]
    return Story(
        tuple(words),
        tuple(heads),
        tuple(slot.relation for slot in slots),
        tuple(slot.skill for slot in slots),
        tuple(foils),
        tuple(each.name for each in told for _ in each.slots),
    )
