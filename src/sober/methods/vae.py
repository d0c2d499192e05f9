"""VAE (Kingma & Welling 2014; Rezende et al. 2014): the evidence lower bound, nothing added.

loss = E_q(z|x)[-log p(x|z)] + KL(q(z|x) || N(0, 1))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Key

from sober.methods.method import LIKELIHOOD, Images, Method, Objective, Setup, elbo_terms, init_autoencoder, update_by
from sober.nets import Autoencoder


def loss(model: Autoencoder, images: Images, key: Key[Array, ""], hyper: Mapping[str, Any], setup: Setup) -> Objective:
    elbo = elbo_terms(model, images, key, setup.compute, hyper)
    return elbo.terms["reconstruction"] + elbo.terms["kl"], elbo.terms, elbo.statistics


vae = Method(
    name="vae",
    title="VAE",
    summary="the evidence lower bound, nothing added",
    reference="Kingma & Welling (2014): Auto-Encoding Variational Bayes",
    hyper=LIKELIHOOD,
    init=init_autoencoder,
    update=update_by(loss),
    step_of="beta_vae",
    sweeps={"dci": {"likelihood": ("gaussian",)}},  # squared error of pixels from -1 to 1, as in their public code
)
