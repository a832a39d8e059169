"""The zoo: small models of every family, trained by this project on data that it makes itself.

Data: :mod:`~headlens.zoo.english`, :mod:`~headlens.zoo.number_words`, :mod:`~headlens.zoo.shapes`. Training:
``python -m headlens.zoo.train NAME|all``. What a shipped model reaches, and what is possible:
:mod:`~headlens.zoo.figures` and the ``zoo.json`` beside its weights.
"""
