"""Encoders and decoders, by name. To add a pair: one file here and one line below."""

from sober.errors import unknown
from sober.nets.autoencoder import FLOAT32, Autoencoder, Compute, Nets, Shape, autoencoder
from sober.nets.conv import conv, conv_bn, conv_bn_leaky, conv_bn_wide, dava
from sober.nets.dense import dense, small
from sober.nets.linear import linear
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
        raise unknown("nets", NETS, name)
    return NETS[name]


def default_nets(image_shape: Shape) -> str:
    """The default nets for pictures of this shape.

    Among the nets whose `least` these pictures reach, the first in the registry with the largest `least`.
    """
    side = min(image_shape[:2])
    return max((nets for nets in NETS.values() if nets.least <= side), key=lambda nets: nets.least).name


__all__ = ["FLOAT32", "NETS", "Autoencoder", "Compute", "Nets", "autoencoder", "default_nets", "find_nets"]
