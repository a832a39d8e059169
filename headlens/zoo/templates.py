"""Templates of sentences, written as tables in the manner of CoNLL-U: a word a line, with its head and relation.

The first line is ``NAME WEIGHT [MEMORY? ...] [MEMORY[KEY]=VALUE ...]``: what the passage is called, how often it is
told relative to the others, which memories must hold something, and what it adds to a memory (KEY and VALUE are names
of words, see below). Every other line is ``FORM HEAD RELATION [SKILL FOIL]``. HEAD is the number of a word of the same
template, counted from 1, or 0 for the root of a sentence. FORM is one of

* ``word``: this word;
* ``{a:name}``: a word of the class ``name``, all equally likely, from now on called ``a``;
  ``{a:name!b,@t}``: none that is called ``b``, and none that the memory ``t`` holds;
* ``{a}``: the word called ``a``;
* ``{a:t?}``: one of the keys of the memory ``t``, all equally likely, from now on called ``a``;
* ``{t[a]}``: what the memory ``t`` holds for ``a``.

SKILL names what one has to be able to do to get the word right; FOIL is the word that one without the skill may take
instead: a word, ``{b}``, or ``{t[*]}`` for something else that the memory ``t`` holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

Names = Mapping[str, str]
"""Words by what the template calls them."""

Memory = tuple[tuple[str, str, str], ...]
"""What a story has established so far: (memory, key, value), in the order in which it was told."""

MOST_REMEMBERED = 4
"""How many things one memory holds: a template that would add more is not told."""

Kind = Literal["word", "pick", "same", "key", "value"]
_PICK = re.compile(r"\{(\w+):([\w-]+)(\?)?(?:!([\w@,]+))?\}")
_VALUE = re.compile(r"\{([\w-]+)\[(\w+|\*)\]\}")
_STORE = re.compile(r"([\w-]+)\[(\w+)\]=(\w+)")
_SAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Slot:
    """One line of a template.

    Attributes:
        kind: how the word is found.
        source: the word, the class, or the memory that it comes from.
        name: what the word is called (``pick``, ``key``), or the name that is looked up (``same``, ``value``).
        words: words of the class (``pick``).
        without: names, or ``@memory``, whose words are left out (``pick``).
        head: index of the head in the template; -1 for a root.
        relation: dependency relation, as in Universal Dependencies 2.
        skill: what is needed to get this word right, or None.
        foil: the wrong word that stands for the lack of the skill, in the notation of a form; None without a skill.
    """

    kind: Kind
    source: str
    name: str
    words: tuple[str, ...]
    without: tuple[str, ...]
    head: int
    relation: str
    skill: str | None
    foil: str | None

    @property
    def binds(self) -> bool:
        """Whether its word gets a name."""
        return self.kind in ("pick", "key")

    def options(self, names: Names, memory: Memory) -> Sequence[str]:
        """The words that may stand here, all equally likely."""
        if self.kind == "word":
            return (self.source,)
        if self.kind == "same":
            return (names[self.name],)
        if self.kind == "key":
            return [key for table, key, _ in memory if table == self.source]
        if self.kind == "value":
            return [value for table, key, value in memory if table == self.source and key == names[self.name]]
        if not self.without:
            return self.words
        taken = {names[name] for name in self.without if not name.startswith("@")}
        for table in self.without:
            taken |= {word for kept, key, value in memory if "@" + kept == table for word in (key, value)}
        return [word for word in self.words if word not in taken]

    def foil_word(self, word: str, names: Names, memory: Memory) -> str | None:
        """The foil of ``word``; None where there is none (nothing else is remembered)."""
        if self.foil is None:
            return None
        if found := _SAME.fullmatch(self.foil):
            return names[found[1]]
        if found := _VALUE.fullmatch(self.foil):
            others = [value for table, _, value in memory if table == found[1] and value != word]
            return others[-1] if others else None
        return self.foil


@dataclass(frozen=True)
class Template:
    """One kind of passage, a sentence or a few.

    Attributes:
        name: what it is called.
        weight: how often it is told, relative to the others that fit.
        slots: its words.
        needs: memories that must hold something.
        stores: each (memory, name of the key, name of the value) that is kept for the rest of the story; all in the
            same memory.
    """

    name: str
    weight: float
    slots: tuple[Slot, ...]
    needs: tuple[str, ...] = ()
    stores: tuple[tuple[str, str, str], ...] = ()

    @cached_property
    def needed(self) -> tuple[frozenset[str], ...]:
        """Names that matter after each slot: for a later slot's word, or for the memory."""
        found = [frozenset(name for _, key, value in self.stores for name in (key, value))]
        for slot in reversed(self.slots[1:]):
            used = {name for name in slot.without if not name.startswith("@")}
            found.append(found[-1] | used | ({slot.name} if slot.kind in ("same", "value") else set()))
        return tuple(reversed(found))

    def fits(self, memory: Memory) -> bool:
        """Whether it can be told now: what it needs is there, and there is room for what it stores."""
        if not self.needs and not self.stores:
            return True
        if not {*self.needs} <= {table for table, _, _ in memory}:
            return False
        if not self.stores:
            return True
        held = sum(table == self.stores[0][0] for table, _, _ in memory)
        return held + len(self.stores) <= MOST_REMEMBERED

    def remember(self, names: Names, memory: Memory) -> Memory:
        """The memory after it has been told."""
        return (*memory, *((table, names[key], names[value]) for table, key, value in self.stores))


def template(table: str, classes: Mapping[str, tuple[str, ...]]) -> Template:
    """Reads a template; see the module's text for the notation.

    Args:
        table: the lines.
        classes: the words of each class.

    Raises:
        ValueError: a line cannot be understood. Templates are part of the program, so this is a mistake in it.
    """
    (name, weight, *memories), *lines = [line.split() for line in table.strip().splitlines()]
    stores = tuple(found.groups() for memory in memories if (found := _STORE.fullmatch(memory)))
    needs = tuple(memory[:-1] for memory in memories if memory.endswith("?"))
    if len(stores) + len(needs) != len(memories) or len({table for table, *_ in stores}) > 1:
        raise ValueError(f"template {name}: {' '.join(memories)!r} cannot be understood, or stores in two memories")
    slots = tuple(_slot(line, len(lines), classes) for line in lines)
    return Template(name, float(weight), slots, needs, tuple((table, key, value) for table, key, value in stores))


def _slot(line: Sequence[str], lines: int, classes: Mapping[str, tuple[str, ...]]) -> Slot:
    if len(line) not in (3, 5) or not 0 <= int(line[1]) <= lines:
        raise ValueError(f"template line {' '.join(line)!r}: give FORM HEAD RELATION [SKILL FOIL]")
    form, head, relation = line[0], int(line[1]) - 1, line[2]
    skill, foil = line[3:] or (None, None)
    kind, source, name, words, without = _form(form, classes)
    return Slot(kind, source, name, words, without, head, relation, skill, foil)


def _form(form: str, classes: Mapping[str, tuple[str, ...]]) -> tuple[Kind, str, str, tuple[str, ...], tuple[str, ...]]:
    if found := _PICK.fullmatch(form):
        name, source, from_memory, without = found.groups()
        if from_memory:
            return "key", source, name, (), ()
        return "pick", source, name, classes[source], tuple(without.split(",")) if without else ()
    if found := _VALUE.fullmatch(form):
        return "value", found[1], found[2], (), ()
    if found := _SAME.fullmatch(form):
        return "same", "", found[1], (), ()
    if "{" in form:
        raise ValueError(f"template form {form!r} cannot be understood")
    return "word", form, "", (), ()


@cache
def words_of(templates: tuple[Template, ...]) -> tuple[str, ...]:
    """Every word that the templates can produce or name as a foil, in alphabetical order."""
    slots = [slot for each in templates for slot in each.slots]
    found = {word for slot in slots for word in slot.words}
    found |= {slot.source for slot in slots if slot.kind == "word"}
    found |= {slot.foil for slot in slots if slot.foil is not None and not slot.foil.startswith("{")}
    return tuple(sorted(found))
