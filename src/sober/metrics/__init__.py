"""Metrics of representations: functions of codes and factors, never of a model or a picture.

Each metric in `METRICS` is a function here: `sober.metrics.mig(codes, factors)`. The file that it comes from has the
same name: `from sober.metrics.mig import measure` reads the file, `sober.metrics.mig` is the function.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sober.metrics.common.flags import FLAGS
from sober.metrics.common.inputs import as_codes
from sober.metrics.metric import Meaning, Measured, Metric, Traits
from sober.metrics.registry import METRICS, find_metric, home_of, metric_groups
from sober.metrics.scoring.collector import Collector
from sober.metrics.scoring.metric_functions import function_of
from sober.metrics.scoring.score import Scores, score, score_many
from sober.metrics.scoring.scorer import Scorer, scorer

if TYPE_CHECKING:
    from sober.metrics.scoring.functions import *  # noqa: F403 -- which is a stub: the functions are made when asked for

__all__ = [
    "FLAGS",
    "METRICS",
    "Collector",
    "Meaning",
    "Measured",
    "Metric",
    "Scorer",
    "Scores",
    "Traits",
    "as_codes",
    "find_metric",
    "home_of",
    "metric_groups",
    "score",
    "score_many",
    "scorer",
]

# Importing the registry left each file here under the name that its metric has. The files stay in `sys.modules`, where
# import statements find them; the names are for the functions.
for _name in METRICS:
    globals().pop(_name, None)


def __getattr__(name: str) -> Callable[..., Scores]:
    if name in METRICS:
        return function_of(METRICS[name])
    raise AttributeError(f"module 'sober.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *METRICS})
