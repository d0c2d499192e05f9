"""Training methods, by name. To add one: one file here, one line below, one test."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Key

from sober.errors import UnknownError, listed
from sober.methods.annealed_vae import annealed_vae
from sober.methods.beta_tcvae import beta_tcvae
from sober.methods.beta_vae import beta_vae
from sober.methods.control_vae import control_vae
from sober.methods.dava import dava
from sober.methods.dip_vae_i import dip_vae_i
from sober.methods.dip_vae_ii import dip_vae_ii
from sober.methods.factor_vae import factor_vae
from sober.methods.info_gan import info_gan
from sober.methods.method import Hyper, Method
from sober.methods.pca import pca
from sober.methods.vae import vae
from sober.nets import Autoencoder, Nets
from sober.nets.nets import Shape
from sober.types import Run, Setting

METHODS: dict[str, Method] = {
    "vae": vae,
    "beta_vae": beta_vae,
    "annealed_vae": annealed_vae,
    "dip_vae_i": dip_vae_i,
    "dip_vae_ii": dip_vae_ii,
    "beta_tcvae": beta_tcvae,
    "control_vae": control_vae,
    "factor_vae": factor_vae,
    "dava": dava,
    "info_gan": info_gan,
    "pca": pca,
}


def find_method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise UnknownError(f"unknown method {name!r}: choose one of {listed(METHODS)}")
    return METHODS[name]


def hyper_of(run: Run) -> dict[str, Setting]:
    """All hyperparameters of a run, also those that came later than it and that it leaves out."""
    return METHODS[run.method].complete(run.hyper) if run.method in METHODS else dict(run.hyper)


class Structure(NamedTuple):
    """What the arrays of a trained model are: those of two runs that agree in it can be stacked, on one world."""

    model: Callable[..., Autoencoder]  # what the method trains
    nets: str
    latents: int
    shaping: tuple[tuple[str, Any], ...] = ()  # hyperparameters that shapes depend on

    def fresh(self, key: Key[Array, ""], nets: Nets, shape: Shape) -> Autoencoder:
        """An untrained model of this structure, with the nets that go by its name now."""
        return self.model(key, nets, shape, self.latents, **dict(self.shaping))


def structure(run: Run) -> Structure:
    method = find_method(run.method)
    return Structure(method.model, run.nets, run.latents, tuple(method.shaping(run.hyper).items()))


__all__ = ["METHODS", "Hyper", "Method", "Structure", "find_method", "hyper_of", "structure"]
