"""Abstract reasoning (van Steenkiste et al. 2019): does a net that sees only codes learn to complete matrices?

Questions are progressive matrices (`matrices.py`) of pictures of the world. A relation network (`relation_network.py`)
sees the codes of the eight pictures shown and of the six answers, and learns to choose, with new questions each step.
Several nets of different designs are trained for each model; all models get the same nets and the same questions.

    abstract_reasoning = mean over nets of the share of test questions answered correctly      chance: 1/6
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float

from sober.contracts import Cost, ProgressCallback
from sober.errors import RequestError, listed
from sober.metrics.metric import Meaning, Measured, Traits
from sober.shared import Shared
from sober.tasks.matrices import ANSWERS, LEAST, RELATIONS, Kind
from sober.tasks.rounded_factors import MOST, rounded_sizes
from sober.tasks.task import Subjects, Task
from sober.types import Setting

if TYPE_CHECKING:  # these need JAX
    from sober.tasks.panels import Panels
    from sober.tasks.reasoners import Curve
    from sober.worlds import World

Embedding = Literal["codes", "factors", "one_hot", "pictures"]
HALVED = 2**4  # a net that sees pictures halves their sides four times
STEP = 1.5  # cost of a net's step with its share of validation, in steps of a β-VAE: benchmarks/reasoning.py

_SETTINGS: dict[str, Setting] = {
    "nets": 5,
    "steps": 6000,
    "batch": 32,  # questions in a step
    "questions": "hard",
    "embedding": "codes",
    "tested": 100,  # batches to validate on, and as many to test on
    "width": 1.0,  # of the nets' layers, as a share of the published width
}


def perform(
    subjects: Subjects,
    *,
    seed: int,
    progress: ProgressCallback,
    shared: Shared,
    embedding: Embedding,
    **settings: Setting,
) -> list[Measured]:
    """Accuracy of nets on each model's codes. Other embeddings are the same for all models, and used once."""
    from sober.tasks.panels import panels_of  # noqa: PLC0415 -- needs JAX

    assert subjects.world is not None, "models have a world"
    if embedding != "codes":
        same_for_all = reference(subjects.world, embedding, seed=seed, progress=progress, **settings)
        return [same_for_all] * len(subjects.codes)
    panels = panels_of(subjects.world)
    encoded = subjects.encode(panels.everything(), panels)
    outcomes: dict[int, Measured] = {}
    sizes = [codes.mean.shape[1] for codes in encoded]
    groups = [[m for m, size in enumerate(sizes) if size == latents] for latents in sorted(set(sizes))]
    for number, group in enumerate(groups):

        def group_progress(done: int, total: int, before: int = number) -> None:
            progress(before * total + done, len(groups) * total)

        tables = np.stack([np.nan_to_num(encoded[m].mean, posinf=0, neginf=0) for m in group])
        group_outcomes = _reasoned(tables, panels, seed=seed, progress=group_progress, **settings)  # type: ignore[arg-type]
        for m, table, outcome in zip(group, tables, group_outcomes, strict=True):
            collapsed = ("collapsed",) * bool((table == table[0]).all())
            outcomes[m] = outcome._replace(flags=(*collapsed, *encoded[m].flags))
    return [outcomes[m] for m in range(len(encoded))]


def reference(
    world: World,
    embedding: Embedding = "one_hot",
    *,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    **changes: Setting,
) -> Measured:
    """The same nets and questions without a model: on the `factors`, on their `one_hot`s, or on `pictures`, which a
    convolutional net trained with the others encodes."""
    from sober.tasks.panels import panels_of  # noqa: PLC0415 -- needs JAX

    if embedding == "codes":
        raise RequestError("codes need a model: without one, choose the embedding factors, one_hot or pictures")
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
    """Rounded values of factors, scaled to -½ to ½."""
    return (panels.values() / (np.array(panels.sizes) - 1) - 0.5).astype(np.float32)


def _one_hots(panels: Panels) -> Float[np.ndarray, "N L"]:
    columns = zip(panels.values().T, panels.sizes, strict=True)
    return np.concatenate([np.eye(size, dtype=np.float32)[value] for value, size in columns], axis=1)


def _reasoned(
    tables: Float[np.ndarray, "M N e"],
    panels: Panels,
    *,
    seed: int,
    progress: ProgressCallback,
    nets: float,
    steps: float,
    batch: float,
    questions: Kind,
    tested: float,
    width: float,
    look: bool = False,
) -> list[Measured]:
    """Trains every net for all models at once, one net after another. Nets of one architecture share a program."""
    import jax  # noqa: PLC0415 -- heavy

    from sober.device import seed_key  # noqa: PLC0415 -- needs JAX
    from sober.tasks.reasoners import (  # noqa: PLC0415 -- needs JAX
        TEST,
        TRAINING,
        VALIDATION,
        QuestionBatches,
        question_batches,
        times_of,
        training_curves,
    )
    from sober.tasks.relation_network import drawn_design  # noqa: PLC0415 -- needs JAX

    training = question_batches(panels, questions, TRAINING, int(steps), int(batch), seed)
    held_out = [
        question_batches(panels, questions, purpose, int(tested), int(batch), seed) for purpose in (VALIDATION, TEST)
    ]
    unseen = QuestionBatches(*map(np.concatenate, zip(*held_out, strict=True)))
    designs = [drawn_design(seed, number, width) for number in range(int(nets))]
    total = len(designs) * len(tables) * int(steps)
    curves = []
    for number, design in enumerate(designs):

        def report_done(done: int, before: int = number * len(tables) * int(steps)) -> None:
            progress(before + done, total)

        key = jax.random.fold_in(seed_key(seed), number)
        pictures = panels if look else None
        curves.append(
            training_curves(tables, design, training, unseen, key=key, report_done=report_done, pictures=pictures)
        )
    design_table = np.array([[*design.architecture, design.dropout, design.rate] for design in designs])
    times = times_of(int(steps))
    return [_measured(curves, m, times, design_table) for m in range(len(tables))]


def _measured(
    curves: Sequence[Curve], model: int, times: np.ndarray, design_table: Float[np.ndarray, "nets 6"]
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
        errors = {name: float(nets.std(ddof=1) / math.sqrt(len(nets))) for name, nets in over_nets.items()}
    parts = {
        **{"accuracy": test, "validation": validation, "steps": times, "nets": design_table},
        "abstract_reasoning_curve": np.stack([times, test.mean(axis=0)]),
    }
    return Measured(values, (), parts, errors)


def refuses(settings: Mapping[str, Setting], world: World | None) -> str:
    """Why the task cannot be performed, in one line; empty if it can."""
    for name, choices in (("questions", get_args(Kind)), ("embedding", get_args(Embedding))):
        if settings[name] not in choices:
            return f"{name} must be one of {listed(choices)}, not {settings[name]!r}"
    for name in ("nets", "steps", "batch", "tested", "width"):
        if not float(settings[name]) >= (0 if name == "width" else 1) or not float(settings[name]):
            return f"{name} must be {'above 0' if name == 'width' else 'at least 1'}, got {settings[name]}"
    if world is None:
        return ""
    if settings["embedding"] == "pictures" and any(side % HALVED for side in world.image_shape[:2]):
        return f"pictures must have sides divisible by {HALVED} for a net to look at them, got {world.image_shape[:2]}"
    return _unsuited(world)


def _unsuited(world: World) -> str:
    """Why a world has no questions; empty if it has."""
    sizes = rounded_sizes(world)
    if sum(size >= LEAST for size in sizes) < RELATIONS:
        return (
            f"questions need at least {RELATIONS} factors with {LEAST} values or more (not continuous), and "
            f"{world.spec} has {sum(size >= LEAST for size in sizes)}: take another world"
        )
    if math.prod(sizes) > MOST:
        return f"{world.spec} has {math.prod(sizes):,} combinations of factors, more than {MOST:,}: hide some factors"
    from sober.tasks.panels import lacking  # noqa: PLC0415 -- needs JAX, which a world has loaded

    if missing := lacking(world):
        return (
            f"{world.spec} lacks {missing:,} of the {math.prod(sizes):,} combinations of factors that questions are "
            "made of: hide some factors, or take a world that has them all"
        )
    return ""


def cost(settings: Mapping[str, Setting], models: int) -> Cost:
    shared_by = 1 if settings["embedding"] == "codes" else max(1, models)  # other embeddings: one training for all
    return Cost(steps=STEP * float(settings["nets"]) * float(settings["steps"]) / shared_by)


def _meaning(title: str, summary: str, headline: bool = False) -> Meaning:
    return Meaning(
        summary, title=title, headline=headline, traits=Traits(perfect=None, noise=lambda sizes: 1 / ANSWERS)
    )


abstract_reasoning = Task(
    name="abstract_reasoning",
    summary="do nets that see only codes learn to complete progressive matrices?",
    reference="van Steenkiste et al. (2019): Are disentangled representations helpful for abstract visual reasoning?",
    scores={
        "abstract_reasoning": _meaning(
            "abstract reasoning", "share of questions answered correctly, mean over nets; chance is 1/6", True
        ),
        "abstract_reasoning_best": _meaning(
            "abstract reasoning of the best net", "share answered correctly by the net best on validation questions"
        ),
        "abstract_reasoning_early": _meaning(
            "early abstract reasoning", "share answered correctly after a sixth of the steps: speed of learning"
        ),
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
