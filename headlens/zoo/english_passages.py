"""The passages of small English: what can be told in a sentence or two, with parse and skills.

Each function gives the templates for one skill (:mod:`headlens.zoo.templates` has the notation). The weights are chosen
so that every skill is needed a few times in ten stories or more often.
"""

from __future__ import annotations

from collections.abc import Iterator

from headlens.zoo.english_words import CLASSES, IDIOMS, NUMBERS
from headlens.zoo.templates import Template, template

_LINE = "\n"


def _plain() -> Iterator[Template]:
    yield _read("""
        plain-object 1
        {a:name}       2 nsubj
        {v:transitive} 0 root
        the            5 det
        {j:adjective}  5 amod
        {t:thing}      2 obj
        .              2 punct""")
    yield _read("""
        plain-adverb 1
        The              3 det
        {j:adjective}    3 amod
        {n:person}       5 nsubj
        {d:adverb}       5 advmod
        {v:intransitive} 0 root
        .                5 punct""")


def _recipient() -> Iterator[Template]:
    for giver, other in ("ab", "ba"):
        yield _read(f"""
            give 1
            {{a:name}}     4 nsubj
            and            3 cc
            {{b:name!a}}   1 conj
            went           0 root
            to             7 case
            the            7 det
            {{p:place}}    4 obl
            .              4 punct
            {{{giver}}}    10 nsubj
            {{g:giving}}   0 root
            the            12 det
            {{t:thing}}    10 obj
            to             14 case
            {{{other}}}    10 obl recipient {{{giver}}}
            .              10 punct""")


def _agreement() -> Iterator[Template]:
    for own, verb, foil in (("thing", "is", "are"), ("things", "are", "is")):
        for near in ("thing", "things"):
            yield _read(f"""
                agreement-near 0.4
                The            2 det
                {{n:{own}}}    7 nsubj
                near           5 case
                the            5 det
                {{m:{near}!n}} 2 nmod
                {verb}         7 cop agreement {foil}
                {{j:adjective}} 0 root
                .              7 punct""")
    for own, verb, foil in (("thing", "was", "were"), ("things", "were", "was")):
        yield _read(f"""
            agreement-that 0.4
            The              2 det
            {{n:{own}}}      7 nsubj
            that             5 obj
            {{a:name}}       5 nsubj
            {{v:transitive}} 2 acl:relcl
            {verb}           7 cop agreement {foil}
            {{j:adjective}}  0 root
            .                7 punct""")


def _bracket() -> Iterator[Template]:
    for (opening, closing), (inner, end) in (("()", "[]"), ("[]", "()")):
        yield _read(f"""
            bracket 0.5
            {{a:name}}         6 nsubj
            {opening}          4 punct
            the                4 det
            {{n:person}}       1 appos
            {closing}          4 punct bracket {end}
            {{v:intransitive}} 0 root
            .                  6 punct""")
        yield _read(f"""
            bracket-nested 0.5
            {{a:name}}         11 nsubj
            {opening}          4 punct
            the                4 det
            {{n:person}}       1 appos
            {inner}            8 punct
            the                8 det
            {{j:adjective}}    8 amod
            one                4 appos
            {end}              8 punct bracket {closing}
            {closing}          4 punct bracket {end}
            {{v:intransitive}} 0 root
            .                  11 punct""")


def _quote() -> Iterator[Template]:
    for (opening, closing), foil in (("“”", "’"), ("‘’", "”")):
        begin = f"""
            {{a:name}}      2 nsubj
            said            0 root
            :               8 punct
            {opening}       8 punct
            the             6 det
            {{t:thing}}     8 nsubj
            is              8 cop
            {{j:adjective}} 2 ccomp"""
        yield _read(f"""
            quote 0.5{begin}
            {closing}       8 punct quote {foil}
            .               2 punct""")
        yield _read(f"""
            quote-long 0.5{begin}
            and             10 cc
            {{k:adjective!j}} 8 conj
            {closing}       8 punct quote {foil}
            .               2 punct""")


def _count() -> Iterator[Template]:
    for last in range(2, len(NUMBERS)):
        counted = _LINE.join(f"{number} 6 list count ." for number in NUMBERS[1:last])
        yield _read(f"""
            count 0.25
            {{a:name}} 2 nsubj
            counted    0 root
            to         4 case
            {NUMBERS[last - 1]} 2 obl
            :          6 punct
            one        2 parataxis
            {counted}
            .          2 punct count {NUMBERS[last]}""")


def _idiom() -> Iterator[Template]:
    for number, (first, second) in enumerate(IDIOMS):
        yield _read(f"""
            idiom 0.2
            {{a:name}}    2 nsubj
            {{v:telling}} 0 root
            of            4 case
            {first}       2 obl
            and           6 cc
            {second}      4 conj idiom {IDIOMS[(number + 1) % len(IDIOMS)][1]}
            .             2 punct""")


def _recall() -> Iterator[Template]:
    yield _read("""
        put 1 kept[c]=t
        The                 2 det
        {c:container!@kept} 3 nsubj
        holds               0 root
        the                 5 det
        {t:thing!@kept}     3 obj
        .                   3 punct""")
    yield _read("""
        put-two 2 kept[c]=t kept[d]=u
        The                   2 det
        {c:container!@kept}   3 nsubj
        holds                 0 root
        the                   5 det
        {t:thing!@kept}       3 obj
        and                   9 cc
        the                   8 det
        {d:container!c,@kept} 9 nsubj
        holds                 3 conj
        the                   11 det
        {u:thing!t,@kept}     9 obj
        .                     3 punct""")
    yield _read("""
        recall 14 kept?
        Still     4 advmod
        the       3 det
        {c:kept?} 4 nsubj
        holds     0 root
        the       6 det
        {kept[c]} 4 obj recall {kept[*]}
        .         4 punct""")


def _surname() -> Iterator[Template]:
    yield _read("""
        arrive 1 called[a]=s
        {a:name!@called}    3 nsubj
        {s:surname!@called} 1 flat
        arrived             0 root
        .                   3 punct""")
    yield _read("""
        meet 2 called[a]=s called[b]=z
        {a:name!@called}      3 nsubj
        {s:surname!@called}   1 flat
        met                   0 root
        {b:name!a,@called}    3 obj
        {z:surname!s,@called} 4 flat
        .                     3 punct""")
    yield _read("""
        surname 14 called?
        Then             4 advmod
        {a:called?}      4 nsubj
        {called[a]}      2 flat surname {called[*]}
        {v:intransitive} 0 root
        .                4 punct""")


def _repeat() -> Iterator[Template]:
    for length in (3, 4, 5):
        letters = "uvwxy"[:length]
        first = [f"{{{x}:item" + (f"!{','.join(letters[:i])}" if i else "") + "}" for i, x in enumerate(letters)]
        again = length + 8  # the line of the second list's first word
        lines = ["{a:name} 2 nsubj", "read 0 root", ": 4 punct"]
        lines += [f"{form} {4 if i else 2} {'list' if i else 'parataxis'}" for i, form in enumerate(first)]
        lines += [". 2 punct", f"{{b:name}} {again - 2} nsubj", "repeated 0 root", f": {again} punct"]
        for i, letter in enumerate(letters):
            place = f"{again} list" if i else f"{again - 2} parataxis"
            lines.append(f"{{{letter}}} {place} repeat {{{letters[(i + 1) % length]}}}")
        yield _read(_LINE.join(["repeat 0.7", *lines, f". {again - 2} punct"]))


def _read(table: str) -> Template:
    return template(table, CLASSES)


TEMPLATES: tuple[Template, ...] = tuple(
    each
    for kind in (_plain, _recipient, _agreement, _bracket, _quote, _count, _idiom, _recall, _surname, _repeat)
    for each in kind()
)
"""Every kind of passage; kinds with the same name differ in a detail."""
