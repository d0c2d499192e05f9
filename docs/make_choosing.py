"""Writes docs/criteria/choosing.md: rules for choosing a model, tried on families whose labels are known.

    python docs/make_choosing.py

It reads results/choosing/, which benchmarks/choosing.py made. A test compares the page with what this would write, and
the records in sober.criteria.choice_rule with those counted here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from scipy.stats import rankdata

import sober
from sober.criteria.choice_rule import BEST_QUARTER, LOSS, RULES, ChoiceRule, Record, kept_shares
from sober.criteria.criterion import REPLICATES
from sober.defaults import USUAL_WISH
from sober.errors import counted
from sober.evaluation.mean_picture import losses_of_mean_picture
from sober.files import load_arrays
from sober.models.encode import PictureSample

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "criteria" / "choosing.md"
DATA = ROOT / "results" / "choosing"
LABELS = ("beta_vae", "factor_vae", "mig", "dci_disentanglement", "sap")
KEPT = ("explicitness", "dci_informativeness")
DECIDING = ("blocks", "color_dsprites", "dsprites", "noisy_dsprites")  # populations that decided the rule
LATER = ("rooms32",)  # trained after it was decided
LOSSES = ("reconstruction", "elbo")
CERTAINTIES = (0.75, 0.5, 0.0)  # a choice is this sure if at least this share of draws agrees
PICTURES = 10_000  # that codes are of
WAYS = {
    "all": "",
    "methods": "of one method",
    "seeds": "of one seed",
    "settings": "of a sixth of the settings",
    "fit": "as `sober fit` trains them",
}

Losses = Mapping[
    str, np.ndarray
]  # by criterion, lower is better, and shares that models keep; (M,), or (R, M) for draws
Rule = Callable[[Losses], np.ndarray]  # gives the lowest number to the model it chooses


class Family(NamedTuple):
    """Models to choose from: what is known without labels, and what labels say."""

    world: str
    way: str
    losses: Losses
    draws: np.ndarray  # (R, M), of the negative UDR
    disentangled: np.ndarray  # share of the other models that each beats by labels
    kept: np.ndarray  # the same, by how much codes say about the factors
    settings: np.ndarray
    words: Sequence[str]


class Pick(NamedTuple):
    """What labels say about the model that a rule chose."""

    world: str
    disentangled: float
    kept: float


def families(names: Sequence[str]) -> list[Family]:
    """All families of some populations."""
    result = []
    for name in names:
        arrays, metadata = load_arrays(DATA / f"{name}.safetensors")
        facts = {**json.loads(metadata["about"]), "name": name}
        for way in WAYS:
            member = arrays.get(f"{way}.family", np.zeros(0))
            for number in range(int(member.max(initial=-1)) + 1):
                result.append(_family(arrays, facts, way, np.flatnonzero(member == number)))
    return result


def _family(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], way: str, rows: np.ndarray) -> Family:
    reconstruction = arrays.get("reconstruction", arrays["train_reconstruction"])[rows]
    kl = arrays.get("kl", arrays["train_kl"])[rows]
    losses = {
        "udr": -arrays[f"{way}.udr"][rows],
        "reconstruction": reconstruction,
        "kl": kl,
        "elbo": arrays["elbo"][rows] if "elbo" in arrays else reconstruction + kl,
    }
    everyone_fit, of_mean_picture = np.zeros(len(rows), bool), np.full(len(rows), facts["mean_picture"])
    for name in LOSSES:
        losses[f"kept {name}"] = kept_shares(losses[name], of_mean_picture, everyone_fit)
    if "pipe" in arrays:
        losses["pipe"] = -arrays["pipe"][rows]
    return Family(
        facts["name"],
        way,
        losses,
        -arrays[f"{way}.udr_draws"][:, rows].astype(float),
        _beaten(np.mean([_beaten(arrays[name][rows]) for name in LABELS], axis=0)),
        _beaten(np.mean([_beaten(arrays[name][rows]) for name in KEPT], axis=0)),
        np.array(facts["settings"])[rows],
        [facts["words"][row] for row in rows],
    )


def _beaten(scores: np.ndarray) -> np.ndarray:
    """The share of the other models that each model beats. A tie counts half."""
    return (rankdata(scores) - 1) / (len(scores) - 1)


# The rules that were tried.


def alone(name: str) -> Rule:
    return lambda losses: rankdata(losses[name], axis=-1)


def ranks_added(*names: str) -> Rule:
    return lambda losses: np.sum([rankdata(losses[name], axis=-1) for name in names], axis=0)


def worse_rank(*names: str) -> Rule:
    """The worse of the ranks; where it is the same, their sum decides."""

    def rule(losses: Losses) -> np.ndarray:
        ranks = np.array([rankdata(losses[name], axis=-1) for name in names])
        return ranks.max(axis=0) + ranks.sum(axis=0) / (10 * ranks.shape[-1])

    return rule


def among(share: float, name: str, then: Rule) -> Rule:
    """`then`, among the share of the models that are best by a criterion."""

    def rule(losses: Losses) -> np.ndarray:
        models = losses[name].shape[-1]
        behind = rankdata(losses[name], method="min", axis=-1) > math.ceil(share * models)
        return then(losses) + 10 * models * behind

    return rule


def keeping(least: float, name: str, then: Rule) -> Rule:
    """`then`, among the models that keep at least a share of what the best one keeps."""

    def rule(losses: Losses) -> np.ndarray:
        shares = losses[f"kept {name}"]
        return then(losses) + 10 * shares.shape[-1] * (shares < least)

    return rule


def shipped(rule: ChoiceRule) -> Rule:
    """A rule of Sober's."""
    return lambda losses: rule.ranks(losses["udr"], losses[f"kept {LOSS}"], np.zeros(losses["udr"].shape[-1], bool))


SINGLE = {name: alone(name) for name in ("udr", "elbo", "reconstruction", "kl", "pipe")}
LEAST = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)  # shares of what the best model keeps
SHARES = {"three quarters": 3 / 4, "two thirds": 2 / 3, "half": 1 / 2, "third": 1 / 3, "quarter": 1 / 4}
COMBINED = {
    "udr + reconstruction, ranks added": ranks_added("udr", "reconstruction"),
    "udr + elbo, ranks added": ranks_added("udr", "elbo"),
    "udr or reconstruction, the worse rank": worse_rank("udr", "reconstruction"),
    "udr or elbo, the worse rank": worse_rank("udr", "elbo"),
    **{
        f"udr, among the best {words} by {name}": among(share, name, alone("udr"))
        for name in ("reconstruction", "elbo")
        for words, share in SHARES.items()
    },
    **{
        f"udr, with {least:.0%} kept by {name}": keeping(least, name, alone("udr"))
        for name in LOSSES
        for least in LEAST
    },
    **{
        f"{name}, among the best {words} by udr": among(SHARES[words], "udr", alone(name))
        for name in ("reconstruction", "elbo")
        for words in ("half", "third", "quarter")
    },
}
WITH_PIPE = {
    "udr + pipe, ranks added": ranks_added("udr", "pipe"),
    "udr + pipe + reconstruction, ranks added": ranks_added("udr", "pipe", "reconstruction"),
    "udr + pipe + elbo, ranks added": ranks_added("udr", "pipe", "elbo"),
    "udr + pipe, among the best half by reconstruction": among(1 / 2, "reconstruction", ranks_added("udr", "pipe")),
    "udr + pipe, among the best half by elbo": among(1 / 2, "elbo", ranks_added("udr", "pipe")),
    "udr + pipe, with 90% kept by reconstruction": keeping(0.9, "reconstruction", ranks_added("udr", "pipe")),
}
EXAMPLE = "sober_look_dsprites_100k"
OF_EXAMPLE = ("beta_vae", "factor_vae", "mig", "dci_disentanglement", "sap", "explicitness")
SHOWN = (
    *("udr", "elbo", "reconstruction", "kl"),
    *("udr + elbo, ranks added", "udr or elbo, the worse rank", "udr, among the best half by elbo"),
)
CHOSEN = "udr, with 90% kept by reconstruction"
DECIDED_NOTHING = (
    "dsprites_small_nets",
    "abstract_dsprites_small_nets",
)  # results with their numbers in one table each


def picks(rule: Rule, groups: Sequence[Family]) -> list[Pick]:
    """What a rule chooses from each family."""
    chosen = [(group, int(np.argmin(rule(group.losses)))) for group in groups]
    return [Pick(group.world, float(group.disentangled[model]), float(group.kept[model])) for group, model in chosen]


# Numbers of picks, each a mean of the means over the families of a world.


def world_means(values: Sequence[float], worlds: Sequence[str]) -> dict[str, float]:
    return {world: float(np.mean([v for v, w in zip(values, worlds, strict=True) if w == world])) for world in worlds}


def interval(means: Mapping[str, float], *, percent: bool = False) -> str:
    """The mean over worlds, with a 95% interval by Student's t over worlds."""
    values = np.array(list(means.values()))
    half = (
        scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        if len(values) > 1
        else 0
    )
    low, high = max(0.0, values.mean() - half), min(1.0, values.mean() + half)
    form = "{:.0%}" if percent else "{:.2f}"
    return f"{form} [{form}, {form}]".format(values.mean(), low, high)


NUMBERS: Mapping[str, Callable[[Pick], float]] = {
    "disentangled": lambda pick: pick.disentangled,
    "kept": lambda pick: pick.kept,
    "below the median": lambda pick: float(pick.disentangled < 0.5),
    "not in the best quarter": lambda pick: float(pick.disentangled < BEST_QUARTER),
}


def row(name: str, chosen: Sequence[Pick], *, bold: bool = False) -> str:
    worlds = [pick.world for pick in chosen]
    cells = [
        interval(world_means([number(pick) for pick in chosen], worlds), percent="the" in title)
        for title, number in NUMBERS.items()
    ]
    name = f"**{name}**" if bold else name
    return f"| {name} | {' | '.join(cells)} |"


def head(first: str) -> Iterator[str]:
    yield f"| {first} | {' | '.join(NUMBERS)} |"
    yield "|---|" + "---:|" * len(NUMBERS)


def worth(chosen: Sequence[Pick]) -> float:
    """What a rule was chosen by: disentangled and kept weigh the same, and every world does."""
    return float(
        np.mean(list(world_means([(p.disentangled + p.kept) / 2 for p in chosen], [p.world for p in chosen]).values()))
    )


# How sure a choice is, and how often it was right.


def certainty(rule: Rule, group: Family) -> float:
    """The share of draws of pictures and partners in which the chosen model comes first."""
    chosen = int(np.argmin(rule(group.losses)))
    losses = {name: np.broadcast_to(loss, group.draws.shape) for name, loss in group.losses.items()}
    return float(np.mean(np.argmin(rule({**losses, "udr": group.draws}), axis=-1) == chosen))


def records(rule: Rule, groups: Sequence[Family]) -> tuple[Record, ...]:
    """How often choices of each certainty were right."""
    chosen = [
        (certainty(rule, group), pick.disentangled) for group, pick in zip(groups, picks(rule, groups), strict=True)
    ]
    result = []
    for at_least in CERTAINTIES:
        above = min((level for level in CERTAINTIES if level > at_least), default=2.0)
        shares = [share for sure, share in chosen if at_least <= sure < above]
        result.append(
            Record(
                at_least,
                sum(share >= BEST_QUARTER for share in shares),
                sum(share >= 0.5 for share in shares),
                len(shares),
            )
        )
    return tuple(result)


# The page.

HEAD = """# How Sober chooses

You trained many models and have no labels. Which one do you use? Models agree most about codes that keep little: three
latents with position and size are easy to find again, and shape and orientation are forgotten. So [UDR](udr.md) alone,
which measures agreement, often names a model that gave much up. Sober weighs agreement against what the codes keep:

> Take the models that keep at least 90% of what the best one keeps of a picture. Among these, use the model with the
> highest UDR: the other models agree with it most.

A model keeps the difference between the [reconstruction loss](elbo.md) of the mean picture and its own, in nats.
`sober fit` and `sober select` follow this rule. Tell them what you prefer:

| `--prefer` | among | for |
|---|---|---|
| `few` | all models | few latents that every model finds; details of the pictures may be lost |
| `balanced` | the models that keep 90% | most purposes; it is the default |
| `complete` | the models that keep 95% | codes to reconstruct or predict from |

In Python: `sober.fit(images, prefer="complete")` and `results.select(prefer="few")`. With `--criterion` you choose by
criteria of your own instead. The report draws all models by agreement and reconstruction and marks the chosen one.

This page says how the rule was decided and how often it is right. `python docs/make_choosing.py` makes it from
`results/choosing/`, which `benchmarks/choosing.py` measured."""

MEANING = f"""A *family* is a set of models to choose one from: all models of one method, all models of one seed, or
the models of a random sixth of the settings. UDR compares only the models of a family. Labels then judge the choice:

- *Disentangled*: the share of the other models that the chosen one beats by its mean rank under five scores:
  {", ".join(f"`{name}`" for name in LABELS)}. A random pick has 0.5.
- *Kept*: the same under `explicitness` and `dci_informativeness`: how well the factors can be read from the codes,
  however the latents hold them.
- *Below the median*, *not in the best quarter*: how often the chosen model failed to be that good, disentangled.

Numbers are means over worlds of the mean over a world's families. Intervals are 95%, by Student's t over the worlds,
which are few: intervals are wide."""

LATER_TEXT = """No rule was chosen by these models. `rooms32` was trained after the rule had been fixed: 24 models of
[rooms](../worlds/rooms.md) in 32 × 32 pictures, with `small` nets and 4,000 steps. None of them is well disentangled
(the highest MIG is 0.13). `dsprites_small_nets` and `abstract_dsprites_small_nets` are [results that come with
Sober](../results.md); their UDR compares the seeds of a setting. Numbers are means over families."""

LIMITS = """## What this does not show

- Three of the worlds draw the same dSprites shapes, and `blocks` is small. No photographs are here: they have no
  labels.
- The same models are in up to three families, so families are not independent: 8 of 8 says less than 8 draws
  would. Most families have 24 to 36 models. How often a choice among 5 or 200 is right was not measured.
- The shares of the rules (90%, half, …) and the rules themselves were tried on the same families. Believe the table
  of left out worlds most, and the families that decided nothing.
- Rules by a share of what is kept were added after rules by a share of the models (half, third, …) had been tried.
  Sober followed the best half by ELBO until the demo showed its weakness: where half of the settings regularise
  little, it takes one of these, however good the others are.
- Agreement cannot see an error that all models share. If every model mixes the same two factors, the choice does, too.
- Where a folder has codes but no weights, the loss comes from the last steps of training. Where both are known, their
  rank correlation is {loss_correlations}.
- Twenty older families, with PIPE and the criteria that `fit` used to sum, are on [another page](does_it_work.md)."""


def page() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    groups, later = families(DECIDING), [*families(LATER), *map(table_family, DECIDED_NOTHING)]
    chosen = {name: picks(rule, groups) for name, rule in (SINGLE | COMBINED).items() if name != "pipe"}
    yield HEAD
    yield ""
    yield "## What was tried, and on what"
    yield ""
    yield from _populations(groups)
    yield ""
    yield MEANING
    yield ""
    yield from head("chosen by")
    for name in SHOWN:
        yield row(name, chosen[name])
    yield row(CHOSEN, chosen[CHOSEN], bold=True)
    yield f"| *random pick* | 0.50 | 0.50 | {_random(groups, 0.5)} | {_random(groups, BEST_QUARTER)} |"
    yield "| *best pick* | 1.00 | | 0% | 0% |"
    yield ""
    yield _beside_udr(chosen)
    yield ""
    yield from _left_out(groups, chosen)
    yield ""
    yield from _tried_later(later)
    yield ""
    yield from _example()
    yield ""
    yield from _wishes(groups)
    yield ""
    yield from _with_pipe(groups)
    yield ""
    yield from _certainties([*groups, *families(LATER)])
    yield ""
    yield from _failures([*groups, *families(LATER)])
    yield ""
    yield LIMITS.format(loss_correlations=_loss_correlations())
    yield ""
    yield "## All that was tried"
    yield ""
    yield f"{len(COMBINED)} rules from UDR and a loss, and four criteria alone:"
    yield ""
    yield from head("chosen by")
    for name, chosen_models in sorted(chosen.items(), key=lambda item: -worth(item[1])):
        yield row(name, chosen_models, bold=name == CHOSEN)


def _loss_correlations() -> str:
    """How far the loss of training goes with the loss on pictures, by population."""
    words = []
    for name in (*DECIDING, *LATER):
        arrays, _ = load_arrays(DATA / f"{name}.safetensors")
        if LOSS in arrays:
            words.append(f"{scipy.stats.spearmanr(arrays[LOSS], arrays['train_reconstruction'])[0]:.2f} on {name}")
    return ", ".join(words)


def _populations(groups: Sequence[Family]) -> Iterator[str]:
    yield "| world | models | steps | families |"
    yield "|---|---:|---:|---|"
    for name in DECIDING:
        arrays, metadata = load_arrays(DATA / f"{name}.safetensors")
        facts = json.loads(metadata["about"])
        counts = [
            f"{int(arrays[f'{way}.family'].max()) + 1} {words}"
            for way, words in WAYS.items()
            if f"{way}.family" in arrays
        ]
        yield f"| {facts['world']} | {len(facts['runs'])} | {facts['steps']:,} | {', '.join(counts)} |"


def _random(groups: Sequence[Family], share: float) -> str:
    """How often a random pick beats fewer than this share of the models."""
    means = world_means(
        [float(np.mean(group.disentangled < share)) for group in groups], [group.world for group in groups]
    )
    return f"{np.mean(list(means.values())):.0%}"


def table_family(name: str) -> Family:
    """The models of results that come with Sober as one family."""
    results = sober.results(name)
    numbers = ["udr", "train_reconstruction", "train_kl", *LABELS, *KEPT]
    by_run: dict[str, dict[str, float]] = {}
    for run, metric, value in results.table(["run", "metric", "value"]).iter_rows():
        if metric in numbers:
            by_run.setdefault(run, {})[metric] = value
    runs = [run for run in results.runs if by_run.get(run.identity, {}).keys() >= set(numbers)]
    arrays = {metric: np.array([by_run[run.identity][metric] for run in runs]) for metric in numbers}
    world = results.families[runs[0].world].world
    of_mean_picture = losses_of_mean_picture(world, PictureSample(PICTURES), runs)
    arrays |= {"all.udr": arrays["udr"], "all.udr_draws": arrays["udr"][None]}
    facts = {
        "name": name,
        "mean_picture": of_mean_picture[0],
        "settings": np.zeros(len(runs)),
        "words": [f"{results.words(run)}, seed {run.seed}" for run in runs],
    }
    return _family(arrays, facts, "all", np.arange(len(runs)))


def _tried_later(groups: Sequence[Family]) -> Iterator[str]:
    """What the rule does on families that no decision rests on."""
    rules = ("udr", "udr, among the best half by elbo", CHOSEN)
    yield "## Families that decided nothing"
    yield ""
    yield LATER_TEXT
    yield ""
    yield "| models | " + " | ".join(f"{name}: disentangled | kept" for name in rules) + " |"
    yield "|---|" + "---:|" * 2 * len(rules)
    for world in dict.fromkeys(group.world for group in groups):
        of_world = [group for group in groups if group.world == world]
        cells = []
        for name in rules:
            chosen = picks((SINGLE | COMBINED)[name], of_world)
            cells += [
                f"{np.mean([getattr(pick, number) for pick in chosen]):.2f}" for number in ("disentangled", "kept")
            ]
        count = "1 family" if len(of_world) == 1 else f"{len(of_world)} families"
        yield f"| `{world}`, {count} | {' | '.join(cells)} |"


def _left_out(groups: Sequence[Family], chosen: Mapping[str, Sequence[Pick]]) -> Iterator[str]:
    """Which rule the other worlds would have chosen, and what it does on the world that was left out."""
    worlds = list(dict.fromkeys(group.world for group in groups))
    yield "## Decided on some worlds, tried on another"
    yield ""
    yield (
        f"{len(COMBINED)} rules combine UDR and a loss. We take the rule with the largest mean of *disentangled* and "
        "*kept* on all worlds but one. The table shows what it does on the world that was left out, beside UDR alone."
    )
    yield ""
    yield (
        "| left out | the others choose | disentangled | kept | below the median | UDR alone: disentangled | "
        "kept | below the median |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    lost = []  # worlds on which the rule that the others choose is no better than a random pick
    same = 0
    above_udr = {"disentangled": 0, "kept": 0}  # worlds on which it beats UDR alone
    for world in worlds:
        elsewhere = {name: [pick for pick in chosen[name] if pick.world != world] for name in COMBINED}
        best = max(elsewhere, key=lambda name: worth(elsewhere[name]))
        same += best == CHOSEN
        for name in above_udr:
            above_udr[name] += _mean_of_world(chosen[best], world, name) > _mean_of_world(chosen["udr"], world, name)
        if np.mean([pick.disentangled for pick in chosen[best] if pick.world == world]) < 0.5:
            lost.append(world)
        yield f"| {world} | {best} | {_of_world(chosen[best], world)} | {_of_world(chosen['udr'], world)} |"
    yield ""
    yield f"{same} of {len(worlds)} times the others choose the rule that Sober follows."
    yield (
        f"On a world that was left out, their rule beats UDR alone by *kept* {above_udr['kept']} of {len(worlds)} "
        f"times and by *disentangled* {above_udr['disentangled']} of {len(worlds)} times."
    )
    for world in lost:
        yield (
            f"Without {world} they choose a rule that is worse on {world} than a random pick: no other world shows "
            "what is right there."
        )


def _mean_of_world(picks: Sequence[Pick], world: str, name: str) -> float:
    return float(np.mean([getattr(pick, name) for pick in picks if pick.world == world]))


def _beside_udr(chosen: Mapping[str, Sequence[Pick]]) -> str:
    """How far Sober's rule is from UDR alone, in pairs."""
    worlds, parts = [pick.world for pick in chosen[CHOSEN]], []
    for name in ("disentangled", "kept"):
        pairs = zip(chosen[CHOSEN], chosen["udr"], strict=True)
        means = np.array(list(world_means([getattr(a, name) - getattr(b, name) for a, b in pairs], worlds).values()))
        half = scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
        ends = (f"{end:+.2f}".replace("-", "−") for end in (means.mean(), means.mean() - half, means.mean() + half))
        parts.append("{} [{}, {}] by *{}*".format(*ends, name))
    return (
        f"In pairs of choices from one family, Sober's rule differs from UDR alone by {' and '.join(parts)}. If an "
        "interval holds 0, these worlds do not tell which of the two is better."
    )


def _of_world(all_picks: Sequence[Pick], world: str) -> str:
    picks_of_world = [pick for pick in all_picks if pick.world == world]
    failed = sum(pick.disentangled < 0.5 for pick in picks_of_world)
    disentangled, informative = (
        np.mean([getattr(pick, name) for pick in picks_of_world]) for name in ("disentangled", "kept")
    )
    return f"{disentangled:.2f} | {informative:.2f} | {failed} of {len(picks_of_world)}"


def _example() -> Iterator[str]:
    """What each wish chooses from one large population, and what labels say about these models."""
    results = sober.results(EXAMPLE)
    table = results.table(["run", "metric", "value"])
    yield "## An example"
    yield ""
    yield (
        f"The {len(results.runs)} models of `{EXAMPLE}` as one family, with the value of each score and the "
        f"share of the "
        "models that it beats:"
    )
    yield ""
    yield f"| `--prefer` | chosen | latents | {' | '.join(OF_EXAMPLE)} |"
    yield "|---|---|---:|" + "---:|" * len(OF_EXAMPLE)
    for wish in RULES:
        model = results.select(prefer=wish).best
        cells = []
        for name in OF_EXAMPLE:
            values = dict(table.filter(metric=name).select("run", "value").iter_rows())
            beaten = float(_beaten(np.array(list(values.values())))[list(values).index(model.run.identity)])
            cells.append(f"{values[model.run.identity]:.2f} ({beaten:.0%})")
        words = f"{results.words(model.run)}, seed {model.run.seed}"
        yield f"| `{wish}` | {words} | {model.informative} | {' | '.join(cells)} |"
    yield ""
    yield f"`sober select {EXAMPLE} --prefer few` prints such a choice. `sober report {EXAMPLE}` draws it:"
    yield ""
    yield (
        "![Models by reconstruction loss and UDR; the chosen one, in a ring, is at the bend](../pictures/choosing.png)"
    )


def _wishes(groups: Sequence[Family]) -> Iterator[str]:
    yield "## What each wish gives"
    yield ""
    yield from head("`--prefer`")
    for wish, rule in RULES.items():
        yield row(f"`{wish}`", picks(shipped(rule), groups), bold=wish == USUAL_WISH)


def _with_pipe(groups: Sequence[Family]) -> Iterator[str]:
    with_pipe = [group for group in groups if "pipe" in group.losses]
    names = list(dict.fromkeys(group.world for group in with_pipe))
    yield "## With PIPE"
    yield ""
    yield (
        f"{len(WITH_PIPE)} rules use [PIPE](pipe.md) too, which needs the decoders. It was measured on "
        f"{counted(len(names), 'world')} "
        f"({', '.join(names)}), where the table compares these rules with the ones above. `sober fit` used to "
        f"add the ranks of UDR "
        "and PIPE. PIPE takes longer than all other criteria together, and the rule does without it."
    )
    yield ""
    yield from head("chosen by")
    rules = {name: SINGLE[name] for name in ("udr", "pipe")} | WITH_PIPE | {CHOSEN: COMBINED[CHOSEN]}
    for name, rule in rules.items():
        yield row(name, picks(rule, with_pipe), bold=name == CHOSEN)


def _certainties(groups: Sequence[Family]) -> Iterator[str]:
    """How often choices of each certainty were right, and what other worlds would have promised."""
    rule = shipped(RULES[USUAL_WISH])
    worlds = list(dict.fromkeys(group.world for group in groups))
    yield "## How sure it is"
    yield ""
    yield (
        f"Sober makes every choice again {REPLICATES} times, with other pictures and partners, and says how "
        "often the model came first. The verdict repeats these numbers in words:"
    )
    yield ""
    yield "| the model came first in | families | one of the best quarter | one of the better half |"
    yield "|---|---:|---:|---:|"
    for record in records(rule, groups):
        yield f"| {_range(record.at_least)} | {record.families} | {record.best_quarter} | {record.better_half} |"
    yield ""
    yield "How often a choice named one of the best quarter on each world, and how often it did on all the others:"
    yield ""
    yield "| world | " + " | ".join(f"first in {_range(level)}: here | elsewhere" for level in CERTAINTIES) + " |"
    yield "|---|" + "---:|" * 2 * len(CERTAINTIES)
    for world in worlds:
        records_of_world = records(rule, [group for group in groups if group.world == world])
        elsewhere = records(rule, [group for group in groups if group.world != world])
        cells = [f"{_right(one)} | {_right(other)}" for one, other in zip(records_of_world, elsewhere, strict=True)]
        yield f"| {world} | {' | '.join(cells)} |"
    yield ""
    yield from _settings_agree(rule, groups)


def _range(at_least: float) -> str:
    above = min((level for level in CERTAINTIES if level > at_least), default=None)
    if above is None:
        return f"{at_least:.0%} of draws or more"
    return f"{at_least:.0%} to {above:.0%}" if at_least else f"less than {above:.0%}"


def _right(record: Record) -> str:
    return f"{record.best_quarter} of {record.families}" if record.families else "–"


def _settings_agree(rule: Rule, groups: Sequence[Family]) -> Iterator[str]:
    """Whether it matters that the chosen model has the best setting, where a setting has several seeds."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for group in groups:
        members = [np.flatnonzero(group.settings == setting) for setting in np.unique(group.settings)]
        if max(map(len, members)) == 1:
            continue
        medians = {name: np.array([np.median(loss[rows]) for rows in members]) for name, loss in group.losses.items()}
        best, chosen = int(np.argmin(rule(medians))), int(np.argmin(rule(group.losses)))
        right[chosen in members[best]].append(bool(group.disentangled[chosen] >= BEST_QUARTER))
    same, other = right[True], right[False]
    yield (
        "The best setting, by the median over its seeds, is another question. Where the chosen model has "
        "that setting, it was "
        f"one of the best quarter in {sum(same)} of {len(same)} families; where it has another, in "
        f"{sum(other)} of {len(other)}. So a verdict names the model, and names the best setting beside it if "
        f"that is another."
    )


def _failures(groups: Sequence[Family]) -> Iterator[str]:
    rule = shipped(RULES[USUAL_WISH])
    chosen = picks(rule, groups)
    failed = [(group, pick) for group, pick in zip(groups, chosen, strict=True) if pick.disentangled < 0.5]
    yield "## When it fails"
    yield ""
    yield (
        f"In {len(failed)} of {len(groups)} families the chosen model was below the median. A person then "
        f"reads how often "
        "it came first:"
    )
    yield ""
    yield "| world | family | chosen | beats | came first in |"
    yield "|---|---|---|---:|---:|"
    for group, pick in failed:
        words = group.words[int(np.argmin(rule(group.losses)))]
        yield (
            f"| {group.world} | {WAYS[group.way]} | {words} | {pick.disentangled:.0%} | {certainty(rule, group):.0%} |"
        )


def rule_records() -> dict[str, tuple[Record, ...]]:
    """The records that sober.criteria.choice_rule should have."""
    groups = families([*DECIDING, *LATER])
    return {wish: records(shipped(rule), groups) for wish, rule in RULES.items()}


if __name__ == "__main__":
    for wish, counted_records in rule_records().items():
        if RULES[wish].records != counted_records:
            print(f"sober.criteria.choice_rule: the records of {wish} should be {counted_records}")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
