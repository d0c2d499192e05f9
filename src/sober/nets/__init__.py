"""Encoders and decoders, by name. To add a pair: one file here and one line below."""

from sober.nets.conv import conv
from sober.nets.dense import dense, small
from sober.nets.nets import Autoencoder, Nets

NETS: dict[str, Nets] = {
    "conv": conv,
    "dense": dense,
    "small": small,
}

__all__ = ["NETS", "Autoencoder", "Nets"]
