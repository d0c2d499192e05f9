"""Encoders and decoders, by name. To add a pair: one file here and one line below."""

from sober.nets.conv import conv, dava
from sober.nets.dense import dense, small
from sober.nets.linear import linear
from sober.nets.nets import Autoencoder, Nets

NETS: dict[str, Nets] = {
    "conv": conv,
    "dava": dava,
    "dense": dense,
    "small": small,
    "linear": linear,
}

__all__ = ["NETS", "Autoencoder", "Nets"]
