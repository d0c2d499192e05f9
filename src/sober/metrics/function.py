"""A metric as a plain function of arrays: `sober.metrics.mig(codes, factors, bins=50)`.

Signature and docstring are made of what the registry knows, so a metric that is added to it is a function at once.
`functions.pyi` says the same to type checkers; `python docs/make_functions.py` writes it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any

from sober.errors import RequestError
from sober.metrics.metric import Metric
from sober.metrics.score import Scores, score

OF_FACTORS = ("factors", "names", "kinds")  # what `score` is told about factors
EXAMPLE = """\
>>> import numpy as np
>>> from sober.metrics import {name}
>>> factors = np.random.default_rng(0).integers(0, 4, (200, 3))
>>> codes = factors @ np.eye(3, 4)  # a latent for each factor, and one that says nothing
>>> sorted({name}({arguments}))
{scores}"""


@functools.cache
def function_of(metric: Metric) -> Callable[..., Scores]:
    """The function that measures this metric alone; the same function each time."""
    signature = signature_of(metric, evaluated=True)

    def function(*args: Any, **kwargs: Any) -> Scores:
        try:
            given = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise RequestError(f"{metric.name}: {error}: it is called as {metric.name}{_called(signature)}") from error
        settings = {name: given.pop(name) for name in metric.settings if name in given}
        return score(**given, metrics={metric.name: settings})

    function.__name__ = function.__qualname__ = metric.name
    function.__module__ = "sober.metrics"  # where it is found
    function.__doc__ = docstring_of(metric)
    function.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    function.__annotations__["return"] = Scores
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def signature_of(metric: Metric, evaluated: bool = False) -> Signature:
    """`score`'s arguments that matter to a metric, and its settings with their defaults.

    Annotations are text, as they are written, or `evaluated`.
    """
    of_score = dict(inspect.signature(score, eval_str=evaluated).parameters)
    left_out = {"metrics", *(() if metric.supervised else OF_FACTORS), *(() if metric.logvar else ("logvar",))}
    taken = [each for name, each in of_score.items() if name not in left_out]
    if metric.supervised:
        taken = [each.replace(default=Parameter.empty) if each.name == "factors" else each for each in taken]
    places = [each for each in taken if each.kind is not Parameter.KEYWORD_ONLY]
    data = [each for each in taken if each.name == "logvar"]
    others = [each for each in taken if each not in (*places, *data)]
    returns = Scores if evaluated else "Scores"
    return Signature([*places, *data, *_settings(metric, evaluated), *others], return_annotation=returns)


def _settings(metric: Metric, evaluated: bool) -> Iterator[Parameter]:
    for name, default in metric.settings.items():
        kind = type(default)
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind if evaluated else kind.__name__)


def _called(signature: Signature) -> str:
    """A signature without types, for a message."""
    plain = [each.replace(annotation=Parameter.empty) for each in signature.parameters.values()]
    return str(Signature(plain))


def docstring_of(metric: Metric) -> str:
    """What `help` says of a metric: what it asks, its scores, its settings under each preset, its paper, an example."""
    return "\n\n".join(part for part in _parts(metric) if part) + "\n"


def _parts(metric: Metric) -> Iterator[str]:
    module = sys.modules.get(getattr(metric.measure, "__module__", ""))
    own = module is not None and module.__name__.startswith("sober.metrics.")
    yield ((module.__doc__ if module is not None and own else None) or f"{metric.name}: {metric.summary}").strip()
    yield "\n".join(["Scores:", *(f"    {name}: {of.summary} ({of})" for name, of in metric.scores.items())])
    yield (
        f"Takes codes (N, D){' and factors (N, K)' if metric.supervised else ''} of any framework, as `sober.score` "
        "does.\nReturns a dictionary of these scores, with `flags`, `errors` and `parts` as attributes."
    )
    changes = [f"    {preset}: {_assigned(of)}" for preset, of in metric.presets.items() if of]
    if changes:
        yield "\n".join(["Presets change the defaults of settings that are not given:", *changes])
    yield f"Reference: {metric.reference}"
    arguments = "codes, factors" if metric.supervised else "codes"
    arguments += ", logvar=codes - 3" if metric.logvar else ""
    yield EXAMPLE.format(name=metric.name, arguments=arguments, scores=sorted(metric.scores))


def _assigned(settings: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
