"""Kernels for a GPU: the convolutions of many small models at once, where plain layers would copy pixels about.

`why_not` and `why_not_here` say whether they do, `tried` whether they are right and faster on this machine, and `down`
and `up` are the runs of layers. Pallas is imported where a kernel is asked for, and not before.
"""

from sober.nets.kernels.reasons import why_not, why_not_here
from sober.nets.kernels.stacks import down, up
from sober.nets.kernels.trial import Verdict, tried

__all__ = ["Verdict", "down", "tried", "up", "why_not", "why_not_here"]
