"""What a step of a relation network takes, in steps of a β-VAE, and what sharing pairs saves.

python benchmarks/reasoning.py               one model (a CPU)
python benchmarks/reasoning.py --models 64   as many side by side (a GPU)

Edge nets of every published size take turns with a β-VAE (nets `conv`, dSprites, batches of 64) and with a net of the
same weights that sends all 486 pairs of a question through all layers. The best of three rounds; processor time on a
CPU, which others may be using, and time by the clock on a GPU. Then how many questions are drawn a second.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from family_steps import FamilySteps
from methods import runs_of
from sober.device import seed_key
from sober.nets.layers import relu
from sober.tasks.matrices import ANSWERS, CONTEXT, draw_questions
from sober.tasks.panels import panels_of
from sober.tasks.reasoners import TRAINING, programs_of, question_batches
from sober.tasks.relation_network import EDGE_LAYERS, EDGE_UNITS, GRAPH_UNITS, PANELS, Architecture, RelationNetwork
from sober.worlds import world

ROUNDS, STEPS, LATENTS = 3, 8, 10


class AllPairs(RelationNetwork):
    """The formula as written: all pairs of the nine panels of every answer go through every layer."""

    def __call__(self, panels: Float[Array, "b 14 e"], mask: Any = 1.0) -> Float[Array, "b 6"]:
        b = len(panels)
        context = jnp.broadcast_to(panels[:, None, :CONTEXT], (b, ANSWERS, CONTEXT, panels.shape[-1]))
        nine = jnp.concatenate([context, panels[:, CONTEXT:, None]], axis=2)
        places = jnp.broadcast_to(jnp.eye(PANELS), (b, ANSWERS, PANELS, PANELS))
        nodes = jnp.concatenate([nine, places], axis=-1)
        first, second = np.array(list(itertools.product(range(PANELS), repeat=2))).T
        pairs = jnp.concatenate([nodes[:, :, first], nodes[:, :, second]], axis=-1)
        x = relu(pairs @ jnp.concatenate([self.first, self.second]) + self.bias)
        for layer in self.edge:
            x = relu(layer(x))
        x = jnp.sum(x, axis=2)
        for layer in self.graph:
            x = relu(layer(x))
        return (x * mask) @ self.last


def net_stepper(architecture: Architecture, models: int, kind: type[RelationNetwork]) -> Callable[[int], None]:
    """A function that trains nets for n steps."""
    panels, key = panels_of(world("blocks")), seed_key(0)
    tables = jax.random.normal(key, (models, panels.size, LATENTS))
    training = jax.tree.map(jnp.asarray, question_batches(panels, "hard", TRAINING, STEPS, 32, 0))
    programs = programs_of(architecture, None, kind)
    nets = programs.begin(tables, programs.untrained(key, LATENTS))

    def steps(n: int) -> None:
        nonlocal nets
        nets = jax.block_until_ready(programs.advance(tables, nets, None, training, key, 1e-3, 0.0, 0, n))

    steps(1)  # compiles
    return steps


def seconds(steps: Callable[[int], Any], clock: Callable[[], float]) -> float:
    started = clock()
    steps(STEPS)
    return (clock() - started) / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1)
    models = parser.parse_args().models
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    dsprites = world("dsprites")
    vae = FamilySteps(dsprites, runs_of(dsprites, "beta_vae", models))
    print(f"{jax.devices()[0].device_kind}, {models} at once; milliseconds a step and model, steps of a β-VAE")
    shares = []
    for layers, units in itertools.product(EDGE_LAYERS, EDGE_UNITS):
        architecture = Architecture(layers, units, 1, GRAPH_UNITS[-1])
        nets: list[Callable[[int], Any]] = [
            vae,
            *(net_stepper(architecture, models, kind) for kind in (RelationNetwork, AllPairs)),
        ]
        rounds = np.array([[seconds(steps, clock) for steps in nets] for _ in range(ROUNDS)])
        of_vae, shared, plain = rounds.min(axis=0) / models
        shares.append(shared / of_vae)
        times = plain / shared
        print(f"{layers} x {units}  {1e3 * shared:7.2f} ms  {shares[-1]:5.2f}   all pairs: {times:.1f} times that")
    print(f"mean over sizes: {np.mean(shares):.2f} steps of a β-VAE")
    for kind in ("easy", "hard"):
        started = time.perf_counter()
        draw_questions(np.random.default_rng(0), (5, 6, 3, 3, 4, 4), 2**15, kind)
        print(f"{kind} questions: {2**15 / (time.perf_counter() - started):,.0f} a second")


if __name__ == "__main__":
    main()
