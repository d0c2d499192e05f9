"""Kernels for a GPU that run the convolutions of many small models in less than half of the time, where they apply."""

from sober.nets.kernels.stacks import down, up

__all__ = ["down", "up"]
