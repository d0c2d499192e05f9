"""Measures the numbers of docs/agree.md and draws its pictures.

python docs/make_agree.py misleading           where other numbers mislead, on dictionaries whose features are known
python docs/make_agree.py discoveries          false discoveries over 200 draws
python docs/make_agree.py factors CODES        174 models of dSprites: do recurring latents follow factors?

CODES is a folder with one npz file for each method: `mean`, `logvar_byte`, `factors` and `about`, as an archive of the
results `sober_look_dsprites_100k` has them. All draws have fixed seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.stats
from jaxtyping import Float
from make_impossibility import put, table
from make_metric_pictures import BLUE, FADED, FOLDER, ORANGE, STYLE, paper
from matplotlib import rc_context

from sober.agreement.analysis import Analysis, analyse
from sober.agreement.planted import PlantedModel, planted, planted_model
from sober.estimators.discrete import binned
from sober.results import Folder
from sober.types import Codes

PAGE = Path(__file__).parent / "agree.md"
SHIPPED = Path(__file__).parents[1] / "results" / "sober_look_dsprites_100k"
DRAWS, MODELS = 200, 5


# Where other numbers mislead.


def dictionaries() -> Iterator[tuple[str, list[np.ndarray], bool]]:
    """Families of dictionaries, in words, and whether they hold the same features."""
    rng = np.random.default_rng(0)

    def random(features: int, space: int) -> list[np.ndarray]:
        return [rng.standard_normal((features, space)) for _ in range(4)]

    yield "random, 512 features in 256 dimensions", random(512, 256), False
    yield "random, 512 features in 16 dimensions", random(512, 16), False
    yield "random, 4,096 features in 16 dimensions", random(4_096, 16), False
    lean = 3 * rng.standard_normal(64)
    yield "random, all leaning the same way", [directions + lean for directions in random(512, 64)], False
    truth = planted(512, 64, 200, seed=1)
    yield "four fifths of the same features", [model.directions for model in models(truth, 0.8, 102)], True
    yield "the same features, much noise", [model.directions for model in models(truth, 1.0, 0, noise=0.8)], True
    learned = models(truth, 1.0, 0)
    yield "the same features, each twice", [np.concatenate([model.directions] * 2) for model in learned], True
    dead = [np.concatenate([model.directions, rng.standard_normal((512, 64))]) for model in learned]
    yield "the same features, half of the dictionary never trained", dead, True


def models(truth, learned: float, junk: int, noise: float = 0.3) -> list[PlantedModel]:  # type: ignore[no-untyped-def]
    return [planted_model(truth, learned=learned, junk=junk, noise=noise, seed=seed) for seed in range(4)]


def misleading() -> None:
    rows, drawn = [], []
    for words, family, _ in dictionaries():
        matched = analyse(None, family, matching="one-to-one", signed=True, draws=64)
        free = analyse(None, family, matching="one-to-one", signed=False, draws=64)
        ours = analyse(None, family, signed=True)
        off = ~np.eye(len(family), dtype=bool)
        recurs = float(ours.recurrence.recurs.mean())
        numbers = (matched.pair_means()[off].mean(), free.pair_means()[off].mean(), recurs)
        chance = float(ours.recurrence.chance_similarity.mean())
        rows.append([words, *(f"{number:.2f}" for number in numbers[:2]), f"{chance:.2f}", f"{recurs:.0%}"])
        drawn.append((words, *numbers))
    write("misleading", table(["four dictionaries", "Hungarian cosine", "PW-MCC", "cosine by chance", "recur"], rows))
    with rc_context(STYLE):
        figure = paper(4.4)
        axes = figure.subplots()
        places = np.arange(len(drawn))[::-1]
        for shift, column, colour, label in (
            (0.26, 1, FADED, "Hungarian cosine"), (0.0, 2, ORANGE, "PW-MCC"), (-0.26, 3, BLUE, "recur, Sober"),
        ):  # fmt: skip
            axes.barh(places + shift, [row[column] for row in drawn], 0.24, color=colour, label=label)
        axes.set_yticks(places, [row[0] for row in drawn])
        axes.set_xlim(0, 1)
        axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.08), ncols=3, frameon=False)
        figure.savefig(FOLDER / "agree_misleading.png", metadata={"Software": None})


# False discoveries.


def independent(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((300, 8)) for _ in range(MODELS)]


def rotations(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(300, 8))
    return [sources @ np.linalg.qr(rng.standard_normal((8, 8)))[0] for _ in range(MODELS)]


def random_features(seed: int) -> list[np.ndarray]:
    """Features that fire where a random direction of shared rows is high: the rows are shared, the features are not."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((300, 16))
    activity = [rows @ rng.standard_normal((16, 40)) for _ in range(MODELS)]
    return [np.maximum(table - np.quantile(table, 0.9, axis=0), 0) for table in activity]


def half_true(seed: int) -> list[np.ndarray]:
    """Four sources that all models hold, and four latents of their own."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(300, 4))
    noisy = [sources + 0.3 * rng.standard_normal(sources.shape) for _ in range(MODELS)]
    return [np.concatenate([table, rng.laplace(size=(300, 4))], axis=1) for table in noisy]


FAMILIES: dict[str, Callable[[int], list[np.ndarray]]] = {
    "independent codes": independent,
    "rotations of the same codes": rotations,
    "random features of the same rows": random_features,
    "half of the latents shared": half_true,
}


def discoveries() -> None:
    rows = []
    for words, family in FAMILIES.items():
        any_significant, any_recurs, shares, power = 0, 0, [], []
        for seed in range(DRAWS):
            codes = family(seed)
            result = analyse(codes, draws=1_000, seed=seed).recurrence
            latent = np.tile(np.arange(codes[0].shape[1]), MODELS)
            true = (latent < 4) & (family is half_true)
            significant = result.q <= 0.05
            any_significant += (significant & ~true).any()
            any_recurs += (result.recurs & ~true).any()
            shares.append((significant & ~true).sum() / max(1, significant.sum()))
            power.append(result.recurs[true].mean() if true.any() else np.nan)
        low, high = scipy.stats.binomtest(int(any_significant), DRAWS).proportion_ci()
        rows.append(
            [
                words,
                f"{np.mean(shares):.3f}",
                f"{any_significant / DRAWS:.3f} ({low:.3f} to {high:.3f})",
                f"{any_recurs / DRAWS:.3f}",
                f"{np.nanmean(power):.0%}" if family is half_true else "–",
            ]
        )
        print(rows[-1], flush=True)
    heads = [
        "five models",
        "false among q ≤ 0.05",
        "draws with a false q ≤ 0.05",
        "draws with a false “recurs”",
        "found",
    ]
    write("discoveries", table(heads, rows))


# Factors.


def information(latents: Float[np.ndarray, "N D"], factors: np.ndarray) -> Float[np.ndarray, "D K"]:
    """The share of each factor's entropy that 20 bins of a latent tell."""
    shares = np.zeros((latents.shape[1], factors.shape[1]))
    for d in range(latents.shape[1]):
        bins = binned(latents[:, d : d + 1].astype(float))[:, 0]
        for k in range(factors.shape[1]):
            joint = np.zeros((bins.max() + 1, factors[:, k].max() + 1))
            np.add.at(joint, (bins, factors[:, k]), 1 / len(bins))
            entropies = [scipy.stats.entropy(p.ravel()) for p in (joint.sum(axis=1), joint.sum(axis=0), joint)]
            shares[d, k] = (entropies[0] + entropies[1] - entropies[2]) / max(entropies[1], 1e-12)
    return shares


def families_of_dsprites(folder: Path) -> Iterator[tuple[str, list[str], list[Codes], np.ndarray]]:
    """For each method and strength: the models' identities, their codes and the factors."""
    for path in sorted(folder.glob("*.npz")):
        arrays = np.load(path)
        entries = json.loads(str(arrays["about"]))
        by_setting: dict[str, list[int]] = {}
        for number, entry in enumerate(entries):
            run = entry["run"] if isinstance(entry["run"], dict) else json.loads(entry["run"])
            setting = json.dumps({name: value for name, value in run.items() if name != "seed"}, sort_keys=True)
            by_setting.setdefault(setting, []).append(number)
        for numbers in by_setting.values():
            codes = []
            for number in numbers:
                logvar = arrays["logvar_byte"][number] / 255 * 16 - 12
                mean = arrays["mean"][number].astype(np.float64)
                codes.append(Codes(mean, logvar, np.zeros((len(mean), 0)), ()))
            yield path.stem, [entries[number]["identity"] for number in numbers], codes, arrays["factors"].astype(int)


def factors(folder: Path) -> None:
    scores = Folder.open(SHIPPED).store.table()
    value = {
        (row["metric"], row["run"]): row["value"]
        for row in scores.filter((scores["preset"] == "study") | (scores["metric"] == "udr")).iter_rows(named=True)
    }
    per_model, per_latent = [], []
    for method, identities, codes, labels in families_of_dsprites(folder):
        analysis = analyse(dict(zip(identities, codes, strict=True)), rows=4_096, draws=1_000)
        per_latent += list(latents_with_factors(analysis, codes, labels))
        for row in analysis.ranking().iter_rows(named=True):
            numbers = {name: value.get((name, row["model"]), np.nan) for name in ("mig", "dci_disentanglement", "udr")}
            per_model.append({"method": method, **row, **numbers})
        print(method, len(per_model), flush=True)
    write_factors(per_model, per_latent)


def latents_with_factors(analysis: Analysis, codes: list[Codes], labels: np.ndarray) -> Iterator[dict[str, float]]:
    result, alive = analysis.recurrence, analysis.alive
    shares = np.concatenate([information(model.mean, labels) for model in codes])
    best = np.sort(shares, axis=1)[:, ::-1]
    for feature in range(len(alive)):
        yield {
            "alive": bool(alive[feature]),
            "recurs": bool(result.recurs[feature]),
            "share": float(result.share[feature]),
            "similarity": float(result.similarity[feature]),
            "best": float(best[feature, 0]),
            "gap": float(best[feature, 0] - best[feature, 1]),
        }


def rank_correlation(rows: list[dict], first: str, second: str) -> float:
    pairs = np.array([(row[first], row[second]) for row in rows], float)
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return (
        float(scipy.stats.spearmanr(*pairs.T).statistic)
        if len(pairs) > 3 and np.ptp(pairs, axis=0).all()
        else float("nan")
    )


def write_factors(per_model: list[dict], per_latent: list[dict]) -> None:
    numbers = {
        "recurring": "latents that recur beyond chance",
        "recurrence": "recurrence",
        "similarity": "mean similarity",
        "udr": "UDR (lasso), same models",
    }
    methods = sorted({row["method"] for row in per_model})
    rows = []
    for name, words in numbers.items():
        cells = [words]
        for metric in ("mig", "dci_disentanglement"):
            within = [rank_correlation([r for r in per_model if r["method"] == m], name, metric) for m in methods]
            cells += [f"{rank_correlation(per_model, name, metric):.2f}", f"{np.nanmean(within):.2f}"]
        rows.append(cells)
    heads = ["of a model", "MIG, all models", "MIG, within methods", "DCI, all models", "DCI, within methods"]
    write("models", table(heads, rows))
    unmatched = [row for row in per_latent if row["alive"] and not row["recurs"]]
    groups = {
        "recur beyond chance": [row for row in per_latent if row["recurs"]],
        "recur by the rule alone": [row for row in unmatched if row["share"] >= 0.5],
        "do not recur": [row for row in unmatched if row["share"] < 0.5],
        "without information": [row for row in per_latent if not row["alive"]],
    }
    rows = [
        [words, f"{len(group):,}", *(f"{np.mean([row[name] for row in group]):.2f}" for name in ("best", "gap"))]
        for words, group in groups.items()
        if group
    ]
    write("latents", table(["latents that", "number", "share of the best factor", "less the next factor"], rows))
    with rc_context(STYLE):
        figure = paper(3.2)
        left, right = figure.subplots(1, 2)
        left.scatter([row["similarity"] for row in per_model], [row["mig"] for row in per_model], 12, color=BLUE)
        left.set_xlabel("mean similarity of a model's latents")
        left.set_ylabel("MIG")
        titles = list(groups)[:3]
        shares = [[row["best"] for row in groups[words]] for words in titles]
        right.hist(shares, 12, range=(0, 1), color=[BLUE, ORANGE, FADED], label=titles)
        right.set_xlabel("share of its best factor that a latent predicts")
        right.set_ylabel("latents")
        right.legend(frameon=False)
        figure.savefig(FOLDER / "agree_factors.png", metadata={"Software": None})


def write(name: str, text: str) -> None:
    PAGE.write_text(put(PAGE.read_text(), name, text))
    print(text, flush=True)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ["misleading"]
    if command == "factors":
        factors(Path(arguments[0]))
    else:
        {"misleading": misleading, "discoveries": discoveries}[command]()
