"""The folder of a probe: it encodes the pictures of a world, keeps the features, and measures each layer once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sober.defaults import PROBED_PICTURES
from sober.encoders import Encoder, Pooling, SavedFeatures, features, pooled_features
from sober.errors import RequestError, counted
from sober.evaluation.context import Context
from sober.evaluation.progress_notes import StageWatcher
from sober.evaluation.score_rows import task_rows
from sober.evaluation.task_step import requested_tasks
from sober.files import is_there, save_arrays
from sober.metrics import Measured, score
from sober.models.encode import codes_path, read_codes
from sober.models.family import Family
from sober.models.model import TrainingRecord
from sober.parallel import map_in_order
from sober.probing.knowledge import LABELS, Number
from sober.probing.layer import Layer
from sober.probing.layer_files import load_layer, save_layer
from sober.probing.measured_layer import measured_layer, need_rows
from sober.requests.probe.probed_pictures import Block, Images, ProbedPictures
from sober.results.folder import Folder
from sober.results.request import Cohort, Measure, Request
from sober.tasks import Subjects, as_scores
from sober.tasks.readout import scores_of
from sober.training.progress import Watcher
from sober.types import NO_NETS, Codes, Factor, NamedSettings, Run
from sober.worlds import World

SAME, AGAIN = 0.05, 8  # how far features may be from kept ones, as a share of their length, and how many are compared
FEW_UNITS = 64  # in a layer with at most this many units, the units themselves are scored
UNIT_SCORES = ("mig", "modularity")

Key = tuple[str, Pooling]  # a layer, and how its tokens are pooled
Features = Float[np.ndarray, "N D"]


class Wishes(NamedTuple):
    """What a person asked for, for every encoder and world."""

    poolings: tuple[Pooling, ...] = ("mean",)
    pictures: int = PROBED_PICTURES
    labels: tuple[int, ...] = LABELS
    seed: int = 0

    @property
    def measure(self) -> Measure:
        """The same as a request for scores: the task readout with these pictures."""
        rows = {"rows": float(self.pictures)} if self.pictures > LABELS[-1] else {}
        return Measure(pictures=self.pictures, seed=self.seed, tasks=(NamedSettings("readout", rows),))


class ProbeFolder:
    """A folder of results whose runs are the layers of encoders."""

    def __init__(self, path: Path, wishes: Wishes, command: str, watcher: Watcher | None) -> None:
        self.path, self.wishes, self.command, self.watcher = path, wishes, command, watcher
        self.folder = self._begun({}, ())

    def note(self, sentence: str) -> None:
        """Keeps a sentence about what was decided for the person who asked, and says it."""
        if sentence not in self.folder.request.notes:
            self.folder = self._begun({}, (), (sentence,))
            if self.watcher is not None:
                self.watcher.note(sentence)

    def probe(
        self, name: str, encoder: Encoder | SavedFeatures, world: World, world_name: str, reference: bool
    ) -> list[Layer]:
        """The layers of an encoder on a world, measured or read. `world_name` is its name as the person gave it."""
        pictures = ProbedPictures(world, self.wishes.pictures, self.wishes.seed)
        places, _, varying_factors = pictures.labelled
        need_rows(len(places))  # before any picture is encoded
        if not varying_factors:
            raise RequestError(f"{world_name}: no factor has two values in these pictures: ask for more pictures")
        if isinstance(encoder, SavedFeatures) and encoder.rows != len(pictures.index):
            raise RequestError(
                f"{name} has {counted(encoder.rows, 'row')}, and {world_name} {len(pictures.index):,} pictures: give a "
                f"row for each, in their order, say how many there are (--pictures {encoder.rows}), or name factors of "
                "their own (--factors)"
            )
        layer_names = self._layer_names(encoder, pictures)
        keys = [(layer, pooling) for layer in layer_names for pooling in self._poolings(name, reference)]
        runs = self._kept(name, world, pictures, keys)
        if isinstance(encoder, Encoder) and encoder.fit is None:
            self._refuse_another(name, encoder, pictures, runs)
        settings = {"labels": list(self.wishes.labels), "seed": self.wishes.seed, "rows": len(pictures.index)}
        layers = {key: layer for key, run in runs.items() if (layer := load_layer(self.path, run.identity, settings))}
        missing = [key for key in keys if key not in layers]
        if missing:
            sample, further = self._features(name, encoder, pictures, missing, runs)
            runs |= self._keep(name, world, pictures, {key: sample[key] for key in missing if key not in runs})

            def measure(key: Key) -> Layer:
                place = layer_names.index(key[0])
                return self._measured(
                    world_name,
                    name,
                    key,
                    place,
                    reference,
                    runs[key].identity,
                    sample[key],
                    pictures,
                    {block: f[key] for block, f in further.items()},
                )

            started = time.monotonic()
            for done, layer in enumerate(map_in_order(measure, missing), 1):
                save_layer(self.path, layer, settings)
                layers[layer.name, layer.pooling] = layer  # type: ignore[index]
                self._stage(f"measuring {name}", done, len(missing))
            self._write_scores(world, [runs[key] for key in missing], [layers[key] for key in missing], started)
        return [layers[key] for key in keys]

    # ------------------------------------------------------------ the folder

    def _begun(self, worlds: Mapping[str, str], runs: Sequence[Run], notes: Sequence[str] = ()) -> Folder:
        """The folder with further runs and notes in its request."""
        before = Folder.open(self.path).request if is_there(self.path / "request.json") else None
        request = Request(
            "probe",
            {"pictures": self.wishes.pictures, "seed": self.wishes.seed},
            {**(before.worlds if before else {}), **worlds},
            (*(before.cohorts if before else ()), *([Cohort.of(runs)] if runs else [])),
            self.wishes.measure,
            command=before.command if before else self.command,
            notes=(*(before.notes if before else ()), *notes),
        )
        return Folder.begin(self.path, request)

    def _kept(self, name: str, world: World, pictures: ProbedPictures, keys: Sequence[Key]) -> dict[Key, Run]:
        """The runs whose features the folder keeps."""
        finished = {run.identity for run in self.folder.finished}
        kept_runs: dict[Key, Run] = {}
        for run in self.folder.runs:
            key: Key = (str(run.hyper["layer"]), str(run.hyper.get("pooling", "mean")))  # type: ignore[assignment]
            same = (run.method, run.world) == (name, world.label) and key in keys and run.identity in finished
            if same and codes_path(self._family(world, [run]), run, pictures.pictures).exists():
                kept_runs[key] = run
        return kept_runs

    def _family(self, world: World, runs: Sequence[Run]) -> Family:
        return Family(self.path, world.spec, tuple(runs))

    def _keep(self, name: str, world: World, pictures: ProbedPictures, new: Mapping[Key, Features]) -> dict[Key, Run]:
        """Adds runs with their features to the folder."""
        runs = {
            key: Run(
                world.label,
                name,
                {"layer": key[0], **({} if key[1] == "mean" else {"pooling": key[1]})},
                nets=NO_NETS,
                latents=array.shape[1],
                steps=1,
                batch=1,
            )
            for key, array in new.items()
        }
        if not runs:
            return {}
        self.folder = self._begun({world.label: world.spec}, list(runs.values()))
        for subfolder in ("models", "codes"):
            (self.path / subfolder).mkdir(exist_ok=True)
        for key, run in runs.items():
            metadata = {"kind": "sober.codes", "run": run.identity, "flags": json.dumps([])}
            save_arrays(codes_path(self._family(world, [run]), run, pictures.pictures), {"mean": new[key]}, metadata)
            TrainingRecord(run, world.image_shape).save(self.folder.model_path(run))
        return runs

    def _write_scores(self, world: World, runs: Sequence[Run], layers: Sequence[Layer], started: float) -> None:
        """Writes the scores of the task readout into the folder's table."""
        context = Context(self.folder, self.wishes.measure, strict=True, watcher=self.watcher)
        [requested] = requested_tasks(context, world.label)
        seconds = (time.monotonic() - started) / len(layers)
        rows = []
        for run, layer in zip(runs, layers, strict=True):
            codes = Codes(np.zeros((1, 1)), None, np.zeros((1, len(layer.about))), layer.about)
            outcome = Measured(scores_of(layer.numbers))
            scores = as_scores(requested.task, requested.settings, outcome, Subjects((codes,)), seconds)
            rows += task_rows(run, requested, scores, self.wishes.measure, layer.rows)
        context.write(rows)
        self.folder.store.compact(wait=False)

    # ------------------------------------------------------------ features and numbers

    def _features(
        self,
        name: str,
        encoder: Encoder | SavedFeatures,
        pictures: ProbedPictures,
        keys: Sequence[Key],
        kept_runs: Mapping[Key, Run],
    ) -> tuple[dict[Key, Features], dict[str, dict[Key, Features]]]:
        """Features of the sample, and of the further blocks by name. Kept features of the sample are read."""
        if isinstance(encoder, SavedFeatures):
            by_pooling = {pooling: encoder.features(pooling) for pooling in self.wishes.poolings}
            return {(layer, pooling): by_pooling[pooling][layer] for layer, pooling in keys}, {}
        blocks = pictures.further_blocks()
        # An encoder that learns must see the sample again.
        all_kept = all(key in kept_runs for key in keys) and encoder.fit is None
        sample = Block(0, pictures.world.render) if all_kept else pictures.sample_block()
        sizes = [sample.size, *(block.size for block in blocks.values())]
        batches = self._counted(name, pictures.world, [sample, *blocks.values()])
        layers, poolings = (tuple(dict.fromkeys(column)) for column in zip(*keys, strict=True))
        encoded = pooled_features(encoder.only(layers), batches, poolings) if sum(sizes) else {}
        ends = np.cumsum(sizes)[:-1]
        parts = {key: np.split(encoded[key], ends) for key in keys} if encoded else {}
        of_sample = {
            key: self._read(kept_runs[key], pictures) if all_kept else np.ascontiguousarray(parts[key][0])
            for key in keys
        }
        return of_sample, {block: {key: parts[key][place] for key in keys} for place, block in enumerate(blocks, 1)}

    def _layer_names(self, encoder: Encoder | SavedFeatures, pictures: ProbedPictures) -> tuple[str, ...]:
        """The layers of an encoder, if need be from its output for a few pictures."""
        if isinstance(encoder, SavedFeatures) or encoder.layers:
            return tuple(encoder.layers)
        return tuple(features(encoder, (draw() for draw in pictures.sample_block(AGAIN).draws())))

    def _poolings(self, name: str, reference: bool) -> tuple[Pooling, ...]:
        """How tokens and maps are pooled. A random net has no class token, so its mean takes that place."""
        if not (reference and name == "random"):
            return self.wishes.poolings
        return tuple(dict.fromkeys("mean" if pooling == "class" else pooling for pooling in self.wishes.poolings))

    def _read(self, run: Run, pictures: ProbedPictures) -> Features:
        return read_codes(self._family(pictures.world, [run]), run, pictures=pictures.pictures).mean

    def _counted(self, name: str, world: World, blocks: Sequence[Block]) -> Iterator[Images]:
        """All batches; the next one is drawn while one is encoded."""
        total, done = sum(block.size for block in blocks), 0
        draws = (draw for block in blocks for draw in block.draws())
        for batch in map_in_order(lambda draw: draw(), draws, 1, ahead=1):
            self._stage(f"{name} sees {world.name}", done, total)
            yield batch
            done += len(batch)
        self._stage(f"{name} sees {world.name}", total, total)

    def _refuse_another(
        self, name: str, encoder: Encoder, pictures: ProbedPictures, kept_runs: Mapping[Key, Run]
    ) -> None:
        """Refuses an encoder if the folder keeps other features under its name."""
        if not kept_runs:
            return
        layers, poolings = (tuple(dict.fromkeys(column)) for column in zip(*kept_runs, strict=True))
        few = (draw() for draw in pictures.sample_block(AGAIN).draws())
        again = pooled_features(encoder.only(layers), few, poolings)
        for key, run in kept_runs.items():
            before = self._read(run, pictures)[:AGAIN]
            if before.shape != again[key].shape or np.linalg.norm(again[key] - before) > SAME * np.linalg.norm(before):
                raise RequestError(
                    f"{self.path} keeps features of another encoder named {name}: choose another --out, or another name"
                )

    def _measured(
        self,
        world_name: str,
        name: str,
        key: Key,
        place: int,
        reference: bool,
        run: str,
        sample: Features,
        pictures: ProbedPictures,
        further: dict[str, Features],
    ) -> Layer:
        places, factors, varying_factors = pictures.labelled
        used, index = sample[places], pictures.index[places]
        measured = measured_layer(used, factors, varying_factors, labels=self.wishes.labels, seed=self.wishes.seed)
        return Layer(
            world=world_name,
            encoder=name,
            name=key[0],
            pooling=key[1],
            place=place,
            width=sample.shape[1],
            rows=len(used),
            reference=reference,
            about=varying_factors,
            numbers=(
                *measured.numbers,
                *pictures.numbers(sample, further),
                *_unit_scores(used, factors, varying_factors),
            ),
            guesses=measured.knowledge.guesses.astype(np.float32),
            truth=factors[measured.knowledge.test],
            nearest=index[measured.nearest],
            along=np.where(measured.along < 0, -1, index[np.maximum(measured.along, 0)]),
            run=run,
        )

    def _stage(self, stage: str, done: int, total: int) -> None:
        if isinstance(self.watcher, StageWatcher):
            self.watcher.stage(stage, done, total)


def _unit_scores(sample: Features, labels: np.ndarray, factors: Sequence[Factor]) -> Iterator[Number]:
    """Scores of single units, where the layer has few."""
    if sample.shape[1] <= FEW_UNITS:
        scores = score(Codes(sample, None, labels, tuple(factors)), metrics=list(UNIT_SCORES))
        yield from (Number("", name, scores[name]) for name in UNIT_SCORES if name in scores)
