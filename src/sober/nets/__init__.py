"""Encoders and decoders, by name. To add a pair: one file here and one line below."""

from sober.nets.conv import conv, conv_bn, conv_bn_wide, dava
from sober.nets.dense import dense, small
from sober.nets.linear import linear
from sober.nets.nets import Autoencoder, Nets
from sober.nets.resnet import resnet

NETS: dict[str, Nets] = {
    "conv": conv,
    "dava": dava,
    "dense": dense,
    "small": small,
    "conv_bn": conv_bn,
    "conv_bn_wide": conv_bn_wide,
    "resnet": resnet,
    "linear": linear,
}

__all__ = ["NETS", "Autoencoder", "Nets"]
