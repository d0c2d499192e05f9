"""ControlVAE (Shao et al. 2020): a β-VAE whose β a controller moves so that the KL stays at a set point.

    loss  = E_q(z|x)[-log p(x|z)] + β · KL(q(z|x) || N(0, 1))
    e     = set point - KL of the last step
    β     = beta_min + kp / (1 + exp(e)) + I, at most beta_max
    I    <- I - ki · e, kept in [0, beta_max - beta_min]

What one wants to choose is how much the codes hold; which β does that differs between worlds, nets and moments of the
training. As in the paper's experiments on disentangling the set point climbs to its target in small stairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from sober.methods.beta_vae import loss
from sober.methods.method import (
    LIKELIHOOD,
    Draw,
    Hyper,
    Method,
    Scalar,
    Setup,
    State,
    Terms,
    init_autoencoder,
    update_by,
)


class Controller(NamedTuple):
    """What is remembered between steps."""

    integral: Scalar
    beta: Scalar


def set_point(step: Int[Array, ""], hyper: Mapping[str, Any]) -> Scalar:
    """The KL wanted at a step, in nats: from `start` up by `rise` every `rise_every` steps until it is `target`.

    Where there is a `reach`, it rises in a straight line instead, and is `target` at that step.
    """
    stairs = hyper["start"] + hyper["rise"] * (step // hyper["rise_every"])
    reach = hyper.get("reach", 0.0)
    line = hyper["start"] + (hyper["target"] - hyper["start"]) * jnp.minimum(step / jnp.maximum(reach, 1), 1)
    return jnp.minimum(jnp.where(reach > 0, line, stairs), hyper["target"])


def steer(controller: Controller, error: Scalar, hyper: Mapping[str, Any]) -> Controller:
    """One step of the controller, where `error` is what the KL falls short of its set point.

    The paper stops the integral while β is at a limit. Kept within the limits instead, it moves off again at once when
    the error changes its sign.
    """
    room = hyper["beta_max"] - hyper["beta_min"]
    integral = jnp.clip(controller.integral - hyper["ki"] * error, 0, room)
    beta = hyper["beta_min"] + hyper["kp"] * jax.nn.sigmoid(-error) + integral
    return Controller(integral, jnp.minimum(beta, hyper["beta_max"]))


def init(setup: Setup, key: Key[Array, ""], hyper: Mapping[str, Any]) -> State:
    beta = jnp.asarray(hyper["beta_min"])
    return init_autoencoder(setup, key, hyper)._replace(memory=Controller(jnp.zeros_like(beta), beta))


def update(
    setup: Setup, state: State, draw: Draw, key: Key[Array, ""], step: Int[Array, ""], hyper: Mapping[str, Any]
) -> tuple[State, Terms]:
    beta, wanted = state.memory.beta, set_point(step, hyper)
    state, terms = update_by(loss)(setup, state, draw, key, step, {**hyper, "beta": beta})
    controller = steer(state.memory, wanted - terms["kl"], hyper)
    return state._replace(memory=controller), {**terms, "beta": beta, "set_point": wanted}


control_vae = Method(
    name="control_vae",
    summary="a controller moves beta so that the KL stays at a set point",
    reference="Shao et al. (2020): ControlVAE, Controllable Variational Autoencoder",
    hyper=(
        Hyper("target", 18.0, "the KL to reach and hold, in nats", low=0.0),
        Hyper("kp", 0.01, "how strongly beta answers to the error now", low=0.0),
        Hyper("ki", 0.001, "how strongly beta answers to the sum of all errors so far", low=0.0),
        Hyper("beta_min", 1.0, "beta never falls below", low=0.0),
        Hyper("beta_max", 100.0, "beta never rises above", low=0.0),
        Hyper("start", 0.5, "the first set point, in nats; from target on, the set point stands still", low=0.0),
        Hyper("rise", 0.15, "nats by which the set point rises", low=0.0),
        Hyper("rise_every", 5000.0, "steps between two rises", low=1.0, with_steps=1),
        Hyper(
            "reach",
            0.0,
            "the step at which the set point, rising in a straight line, is at target; 0 for stairs as above",
            low=0.0,
            with_steps=1,
            later=True,
        ),
        *LIKELIHOOD,
    ),
    init=init,
    update=update,
    step_of="beta_vae",
    # Table 7. It names no schedule: every target is reached at two thirds of the training, as its annealed baseline's.
    sweeps={"dava": {"target": (16.0, 18.0, 25.0, 35.0, 180.0, 200.0), "reach": (100_000.0,)}},
)
