"""Abstract reasoning (van Steenkiste et al. 2019): whether a net that sees codes alone learns to complete matrices.

Questions are progressive matrices (`matrices.py`) of pictures of the world. A relation network (`relation_network.py`)
sees the codes of the eight pictures shown and of the six answers, and learns to choose, with fresh questions each step.
Several nets of different designs are trained for each model; all models meet the same nets and the same questions.

    abstract_reasoning = mean over nets of the share of test questions that are answered rightly      chance: 1/6
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float

from sober.criteria.criterion import Cost, Progress
from sober.errors import RequestError, listed
from sober.metrics.metric import Meaning, Measured, Traits
from sober.shared import Shared
from sober.tasks.matrices import ANSWERS, LEAST, RELATIONS, Kind
from sober.tasks.rounding import MOST, rounded_sizes
from sober.tasks.task import Subjects, Task
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.tasks.panels import Panels
    from sober.tasks.reasoners import Curve
    from sober.worlds import World

Embedding = Literal["codes", "factors", "one_hot", "pictures"]
HALVED = 2**4  # a net that looks at pictures halves their sides four times
STEP = 1.5  # what a step of a net takes, in steps of a β-VAE: benchmarks/reasoning.py, and what is validated

_SETTINGS: dict[str, Setting] = {
    "nets": 5,
    "steps": 6000,
    "batch": 32,  # questions in a step
    "questions": "hard",
    "embedding": "codes",
    "tested": 100,  # batches to validate, and as many to test
    "width": 1.0,  # of the nets' layers, as a share of what was published
}


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: Progress,
    shared: Shared,
    embedding: Embedding,
    **settings: Setting,
) -> list[Measured]:
    """What nets make of each model's codes; other embeddings are the same for all models, and learned from once."""
    from sober.tasks.panels import panels_of  # noqa: PLC0415 -- needs JAX

    assert subjects.world is not None, "models have a world"
    if embedding != "codes":
        alone = reference(subjects.world, embedding, seed=seed, progress=progress, **settings)
        return [alone] * len(subjects.codes)
    panels = panels_of(subjects.world)
    encoded = subjects.encode(panels.everything(), panels)
    outcomes: dict[int, Measured] = {}
    sizes = [codes.mean.shape[1] for codes in encoded]
    alike = [[m for m, size in enumerate(sizes) if size == latents] for latents in sorted(set(sizes))]
    for number, group in enumerate(alike):

        def told(done: int, total: int, before: int = number) -> None:
            progress(before * total + done, len(alike) * total)

        tables = np.stack([np.nan_to_num(encoded[m].mean, posinf=0, neginf=0) for m in group])
        found = _reasoned(tables, panels, seed=seed, progress=told, **settings)  # type: ignore[arg-type]
        for m, table, outcome in zip(group, tables, found, strict=True):
            collapsed = ("collapsed",) * bool((table == table[0]).all())
            outcomes[m] = outcome._replace(flags=(*collapsed, *encoded[m].flags))
    return [outcomes[m] for m in range(len(encoded))]


def reference(
    world: World,
    embedding: Embedding = "one_hot",
    *,
    seed: int = 0,
    progress: Progress | None = None,
    **changes: Setting,
) -> Measured:
    """The same nets and questions without a model: on the `factors` themselves, their `one_hot`s, or on `pictures` by
    a convolutional net that is trained along."""
    from sober.tasks.panels import panels_of  # noqa: PLC0415 -- needs JAX

    if embedding == "codes":
        raise RequestError("codes are a model's: embeddings of a world alone are factors, one_hot and pictures")
    settings = abstract_reasoning.configured(changes={**changes, "embedding": embedding}, world=world)
    if why := refuses(settings, world):
        raise RequestError(f"{abstract_reasoning.name}: {why}")
    del settings["embedding"]
    panels = panels_of(world)
    table = _factors(panels) if embedding == "factors" else _one_hots(panels)
    return _reasoned(
        table[None],
        panels,
        seed=seed,
        progress=progress or (lambda done, total: None),
        look=embedding == "pictures",
        **settings,  # type: ignore[arg-type]
    )[0]


def _factors(panels: Panels) -> Float[np.ndarray, "N K"]:
    """Rounded values, from -½ to ½."""
    return (panels.values() / (np.array(panels.sizes) - 1) - 0.5).astype(np.float32)


def _one_hots(panels: Panels) -> Float[np.ndarray, "N L"]:
    columns = zip(panels.values().T, panels.sizes, strict=True)
    return np.concatenate([np.eye(size, dtype=np.float32)[value] for value, size in columns], axis=1)


def _reasoned(
    tables: Float[np.ndarray, "M N e"],
    panels: Panels,
    *,
    seed: int,
    progress: Progress,
    nets: float,
    steps: float,
    batch: float,
    questions: Kind,
    tested: float,
    width: float,
    look: bool = False,
) -> list[Measured]:
    """Trains every net for all models at once, one net after another: those of one architecture share a program."""
    import jax  # noqa: PLC0415 -- heavy

    from sober.device import seed_key  # noqa: PLC0415 -- needs JAX
    from sober.tasks.reasoners import TEST, TRAINING, VALIDATION, Asked, asked, times_of, trained  # noqa: PLC0415
    from sober.tasks.relation_network import drawn_design  # noqa: PLC0415 -- needs JAX

    training = asked(panels, questions, TRAINING, int(steps), int(batch), seed)
    held_out = [asked(panels, questions, purpose, int(tested), int(batch), seed) for purpose in (VALIDATION, TEST)]
    unseen = Asked(*map(np.concatenate, zip(*held_out, strict=True)))
    designs = [drawn_design(seed, number, width) for number in range(int(nets))]
    whole = len(designs) * len(tables) * int(steps)
    curves = []
    for number, design in enumerate(designs):

        def told(done: int, before: int = number * len(tables) * int(steps)) -> None:
            progress(before + done, whole)

        key = jax.random.fold_in(seed_key(seed), number)
        pictures = panels if look else None
        curves.append(trained(tables, design, training, unseen, key=key, told=told, pictures=pictures))
    described = np.array([[*design.architecture, design.dropout, design.rate] for design in designs])
    times = times_of(int(steps))
    return [_measured(curves, m, times, described) for m in range(len(tables))]


def _measured(
    curves: Sequence[Curve], model: int, times: np.ndarray, described: Float[np.ndarray, "nets 6"]
) -> Measured:
    """The scores of one model."""
    validation, test = (np.stack([getattr(curve, name)[model] for curve in curves]) for name in ("validation", "test"))
    end, early = test[:, -1], test[:, 0]
    values = {
        "abstract_reasoning": float(end.mean()),
        "abstract_reasoning_best": float(end[np.argmax(validation[:, -1])]),
        "abstract_reasoning_early": float(early.mean()),
    }
    errors = {}
    if len(curves) > 1:
        over_nets = {"abstract_reasoning": end, "abstract_reasoning_early": early}
        errors = {name: float(each.std(ddof=1) / math.sqrt(len(each))) for name, each in over_nets.items()}
    parts = {
        **{"accuracy": test, "validation": validation, "steps": times, "nets": described},
        "abstract_reasoning_curve": np.stack([times, test.mean(axis=0)]),
    }
    return Measured(values, (), parts, errors)


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    """Why it cannot be done, in a line."""
    for name, words in (("questions", get_args(Kind)), ("embedding", get_args(Embedding))):
        if settings[name] not in words:
            return f"{name} must be one of {listed(words)}, not {settings[name]!r}"
    for name in ("nets", "steps", "batch", "tested", "width"):
        if not float(settings[name]) >= (0 if name == "width" else 1) or not float(settings[name]):
            return f"{name} must be {'above 0' if name == 'width' else 'at least 1'}, got {settings[name]}"
    if world is None:
        return ""
    if settings["embedding"] == "pictures" and any(side % HALVED for side in world.image_shape[:2]):
        return f"pictures must have sides divisible by {HALVED} for a net to look at them, got {world.image_shape[:2]}"
    return _unsuited(world)


def _unsuited(world: World) -> str:
    """Why there can be no questions about pictures of a world."""
    sizes = rounded_sizes(world)
    if sum(size >= LEAST for size in sizes) < RELATIONS:
        return (
            f"questions need at least {RELATIONS} factors with {LEAST} values or more that are not continuous, and "
            f"{world.spec} has {sum(size >= LEAST for size in sizes)}: take another world"
        )
    if math.prod(sizes) > MOST:
        return f"{world.spec} has {math.prod(sizes):,} combinations of factors, more than {MOST:,}: hide some factors"
    from sober.tasks.panels import lacking  # noqa: PLC0415 -- needs JAX, which a world has loaded

    if missing := lacking(world):
        return (
            f"{world.spec} lacks {missing:,} of the {math.prod(sizes):,} combinations of factors that questions are "
            "made of: hide some factors, or take a world that has all"
        )
    return ""


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    shared_by = 1 if settings["embedding"] == "codes" else max(1, models)  # other embeddings are learned from once
    return Cost(steps=STEP * float(settings["nets"]) * float(settings["steps"]) / shared_by)


def _meaning(summary: str, headline: bool = False) -> Meaning:
    return Meaning(summary, headline=headline, traits=Traits(perfect=None, noise=lambda sizes: 1 / ANSWERS))


abstract_reasoning = Task(
    name="abstract_reasoning",
    summary="do nets that see codes alone learn to complete progressive matrices?",
    reference="van Steenkiste et al. (2019): Are disentangled representations helpful for abstract visual reasoning?",
    scores={
        "abstract_reasoning": _meaning("share of questions answered rightly, mean over nets; chance is 1/6", True),
        "abstract_reasoning_best": _meaning("the same, of the net that is best on questions to validate"),
        "abstract_reasoning_early": _meaning("as the first, after a sixth of the steps: how soon it is learned"),
    },
    perform=perform,
    settings=_SETTINGS,
    presets={"reference": {"questions": "easy"}},
    quick={"nets": 1, "steps": 12, "batch": 8, "tested": 4, "width": 0.125},
    needs="models",
    steps="steps",
    refuses=refuses,
    cost=cost,
)
