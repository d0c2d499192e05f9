"""A metric as a plain function of arrays: `sober.metrics.mig(codes, factors, bins=50)`.

Signature and docstring come from the registry, so a metric that is added to it is a function at once.
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
from sober.metrics.scoring.score import Scores, score

OF_FACTORS = ("factors", "names", "kinds")  # arguments of `score` about factors
EXAMPLE = """\
>>> import numpy as np
>>> from sober.metrics import {name}
>>> factors = np.random.default_rng(0).integers(0, 4, (200, 3))
>>> codes = factors @ np.eye(3, 4)  # a latent for each factor, and a constant latent
>>> sorted({name}({arguments}))
{scores}"""


@functools.lru_cache(maxsize=256)  # of the metrics in the registry
def function_of(metric: Metric) -> Callable[..., Scores]:
    """The function that measures only this metric; the same object each time."""
    signature = signature_of(metric, evaluated=True)

    def function(*args: Any, **kwargs: Any) -> Scores:
        try:
            arguments = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise RequestError(f"{metric.name}: {error}: it is called as {metric.name}{_called(signature)}") from error
        settings = {name: arguments.pop(name) for name in metric.settings if name in arguments}
        return score(**arguments, metrics={metric.name: settings})

    function.__name__ = function.__qualname__ = metric.name
    function.__module__ = "sober.metrics"  # where it is found
    function.__doc__ = docstring_of(metric)
    function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    function.__annotations__["return"] = Scores
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def signature_of(metric: Metric, evaluated: bool = False) -> Signature:
    """The arguments of `score` that matter to a metric, and its settings with their defaults.

    Annotations are text, as written in the source, or `evaluated` types.
    """
    score_parameters = dict(inspect.signature(score, eval_str=evaluated).parameters)
    left_out = {"metrics", *(() if metric.supervised else OF_FACTORS), *(() if metric.logvar else ("logvar",))}
    parameters = [parameter for name, parameter in score_parameters.items() if name not in left_out]
    if metric.supervised:
        parameters = [
            parameter.replace(default=Parameter.empty) if parameter.name == "factors" else parameter
            for parameter in parameters
        ]
    positional = [parameter for parameter in parameters if parameter.kind is not Parameter.KEYWORD_ONLY]
    data = [parameter for parameter in parameters if parameter.name == "logvar"]
    options = [parameter for parameter in parameters if parameter not in (*positional, *data)]
    returns = Scores if evaluated else "Scores"
    return Signature([*positional, *data, *_settings(metric, evaluated), *options], return_annotation=returns)


def _settings(metric: Metric, evaluated: bool) -> Iterator[Parameter]:
    for name, default in metric.settings.items():
        kind = type(default)
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind if evaluated else kind.__name__)


def _called(signature: Signature) -> str:
    """A signature without types, for a message."""
    plain = [parameter.replace(annotation=Parameter.empty) for parameter in signature.parameters.values()]
    return str(Signature(plain))


def docstring_of(metric: Metric) -> str:
    """The text of `help`: what a metric asks, its scores, its settings under each preset, its paper, an example."""
    return "\n\n".join(section for section in _sections(metric) if section) + "\n"


def _sections(metric: Metric) -> Iterator[str]:
    module = sys.modules.get(getattr(metric.measure, "__module__", ""))
    is_ours = module is not None and module.__name__.startswith("sober.metrics.")
    yield ((module.__doc__ if module is not None and is_ours else None) or f"{metric.name}: {metric.summary}").strip()
    yield "\n".join(
        ["Scores:", *(f"    {name}: {meaning.summary} ({meaning})" for name, meaning in metric.scores.items())]
    )
    yield (
        f"Takes codes (N, D){' and factors (N, K)' if metric.supervised else ''} of any framework, as `sober.score` "
        "does.\nReturns a dictionary of these scores, with `flags`, `errors` and `parts` as attributes."
    )
    changes = [f"    {preset}: {_assigned(changed)}" for preset, changed in metric.presets.items() if changed]
    if changes:
        yield "\n".join(["Presets change the defaults of settings that are not given:", *changes])
    yield f"Reference: {metric.reference}"
    arguments = "codes, factors" if metric.supervised else "codes"
    arguments += ", logvar=codes - 3" if metric.logvar else ""
    yield EXAMPLE.format(name=metric.name, arguments=arguments, scores=sorted(metric.scores))


def _assigned(settings: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
