"""Training methods, by name. To add one: one file here, one line below, one test."""

from sober.methods.beta_vae import beta_vae
from sober.methods.method import Hyper, Method
from sober.methods.vae import vae

METHODS: dict[str, Method] = {
    "vae": vae,
    "beta_vae": beta_vae,
}

__all__ = ["METHODS", "Hyper", "Method"]
