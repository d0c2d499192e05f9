"""Kernels for a GPU: the convolutions of many small models at once, where plain layers would copy pixels about.

`unmet_requirement` and `unmet_here` say why kernels do not apply. `trial_verdicts` says whether they are right and
faster on this machine. `down` and `up` compute runs of layers. Pallas is imported when a kernel is first asked for.
"""

from sober.nets.kernels.requirements import unmet_here, unmet_requirement
from sober.nets.kernels.stacks import down, up
from sober.nets.kernels.trial import Verdicts, trial_verdict, trial_verdicts
from sober.nets.kernels.verdicts import Case, Verdict

__all__ = [
    "Case",
    "Verdict",
    "Verdicts",
    "down",
    "trial_verdict",
    "trial_verdicts",
    "unmet_here",
    "unmet_requirement",
    "up",
]
