"""Encoders and decoders, by name. To add a pair: one file here and one line below."""

from sober.errors import UnknownError, listed
from sober.nets.conv import conv, conv_bn, conv_bn_leaky, conv_bn_wide, dava
from sober.nets.dense import dense, small
from sober.nets.linear import linear
from sober.nets.nets import FLOAT32, Autoencoder, Compute, Nets, Shape, autoencoder
from sober.nets.resnet import resnet

NETS: dict[str, Nets] = {
    "conv": conv,
    "dava": dava,
    "dense": dense,
    "small": small,
    "conv_bn": conv_bn,
    "conv_bn_wide": conv_bn_wide,
    "conv_bn_leaky": conv_bn_leaky,
    "resnet": resnet,
    "linear": linear,
}


def find_nets(name: str) -> Nets:
    """The nets of this name."""
    if name not in NETS:
        raise UnknownError(f"unknown nets {name!r}: choose one of {listed(NETS)}")
    return NETS[name]


def default_nets(image_shape: Shape) -> str:
    """The nets for pictures of this shape where none are asked for: of those meant for them, the first in the registry
    among those that are meant for the largest."""
    side = min(image_shape[:2])
    return max((nets for nets in NETS.values() if nets.least <= side), key=lambda nets: nets.least).name


__all__ = ["FLOAT32", "NETS", "Autoencoder", "Compute", "Nets", "autoencoder", "default_nets", "find_nets"]
