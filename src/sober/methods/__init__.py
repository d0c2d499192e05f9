"""Training methods, by name. To add one: one file here, one line below, one test."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Key

from sober.errors import unknown
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
from sober.nets.autoencoder import Shape
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
        raise unknown("method", METHODS, name)
    return METHODS[name]


def hyper_of(run: Run) -> dict[str, Setting]:
    """All hyperparameters of a run, with the defaults of hyperparameters that were added after it."""
    return METHODS[run.method].complete(run.hyper) if run.method in METHODS else dict(run.hyper)


class Structure(NamedTuple):
    """Everything that shapes the arrays of a trained model. On one world, models of one structure can be stacked."""

    model: Callable[..., Autoencoder]  # makes the model that the method trains
    nets: str
    latents: int
    shaping: tuple[tuple[str, Any], ...] = ()  # hyperparameters that the shapes of arrays depend on

    def fresh(self, key: Key[Array, ""], nets: Nets, shape: Shape) -> Autoencoder:
        """An untrained model of this structure with the given nets."""
        return self.model(key, nets, shape, self.latents, **dict(self.shaping))


def structure(run: Run) -> Structure:
    method = find_method(run.method)
    return Structure(method.model, run.nets, run.latents, tuple(method.shaping(run.hyper).items()))


__all__ = ["METHODS", "Hyper", "Method", "Structure", "find_method", "hyper_of", "structure"]
