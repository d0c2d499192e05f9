"""The components that recur, averaged after alignment: one representation that stands for all models.

codes        mean over the members of a component of sign · (z − mean) / standard deviation
directions   mean over its members of sign · direction / length, then made of length 1
encoders     mean over its members of sign · encoder · length of the direction, which belongs to that direction; biases
             alike, and each member's decoder bias is subtracted in them
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from sober.agreement.analysis import Analysis
from sober.errors import RequestError, brief, counted
from sober.files import load_arrays, save_arrays
from sober.files.dictionaries import Dictionary, read_dictionary, save_saelens
from sober.metrics.common.arrays import as_array

LARGEST_MAP = 2**24  # numbers of a linear map that is written out
FOLDER, FILE = "consensus", "consensus.safetensors"


@dataclasses.dataclass(frozen=True, eq=False)
class Consensus:
    """K components, each a latent in at least half of the models, and how to make them from the models' codes."""

    models: tuple[str, ...]
    latent: Int[np.ndarray, "K M"]  # the component's latent in each model; -1 where a model has none
    sign: Float[np.ndarray, "K M"]
    mean: Float[np.ndarray, "K M"]  # of the latent's codes; 0 without codes
    scale: Float[np.ndarray, "K M"]  # standard deviation of the latent's codes; 1 without codes
    widths: Int[np.ndarray, " M"]
    recurrence: Float[np.ndarray, " K"]  # the share of models that have the component
    similarity: Float[np.ndarray, " K"]  # the mean similarity of its latents with their partners
    dictionary: Dictionary | None

    def __len__(self) -> int:
        return len(self.latent)

    def __repr__(self) -> str:
        directions = "" if self.dictionary is None else ", with directions"
        return f"Consensus({counted(len(self), 'component')} of {counted(len(self.models), 'model')}{directions})"

    def encode(self, codes: Any) -> Float[np.ndarray, "N K"]:
        """The components of rows, from codes of some or all models by name. A component without any model is 0.

        >>> agreement.consensus.encode({"seed 0": first, "seed 2": third})
        """
        if unknown := codes.keys() - set(self.models):
            raise RequestError(f"the consensus knows no model {min(unknown)!r}: name {', '.join(self.models[:5])}")
        codes = {name: as_array(f"model {name!r}", array) for name, array in codes.items()}
        for name, array in codes.items():
            width = int(self.widths[self.models.index(name)])
            if array.ndim != 2 or array.shape[1] != width:
                raise RequestError(f"codes of {name!r} must be (N, {width}), got {tuple(array.shape)}")
        if len({array.shape[0] for array in codes.values()}) != 1:
            raise RequestError("the consensus needs codes of the same rows under one model or more")
        rows = next(iter(codes.values())).shape[0]
        total, members = np.zeros((rows, len(self))), np.zeros(len(self))
        for name, array in codes.items():
            model = self.models.index(name)
            present = np.flatnonzero(self.latent[:, model] >= 0)
            columns = array[:, self.latent[present, model]]
            columns = columns.toarray() if scipy.sparse.issparse(columns) else np.asarray(columns, float)
            sign, mean, scale = (numbers[present, model] for numbers in (self.sign, self.mean, self.scale))
            total[:, present] += sign * (columns - mean) / scale
            members[present] += 1
        return total / np.maximum(members, 1)

    def linear_map(self) -> tuple[Float[np.ndarray, "W K"], Float[np.ndarray, " K"]]:
        """A matrix and an offset: codes of all models side by side, times the matrix, plus the offset."""
        start = np.cumsum([0, *self.widths])
        matrix, offset = np.zeros((start[-1], len(self))), np.zeros(len(self))
        component, model = np.nonzero(self.latent >= 0)
        members = (self.latent >= 0).sum(axis=1)
        weight = self.sign[component, model] / self.scale[component, model] / members[component]
        matrix[start[model] + self.latent[component, model], component] = weight
        np.add.at(offset, component, -weight * self.mean[component, model])
        return matrix, offset

    @classmethod
    def load(cls, path: str | Path) -> Consensus:
        """A consensus from the file, or the folder, that `sober agree --out` wrote.

        >>> consensus = Consensus.load("agreement")
        >>> components = consensus.encode({"seed 0": codes})
        """
        path = Path(path) / FILE if Path(path).is_dir() else Path(path)
        arrays, metadata = load_arrays(path)
        try:
            models, widths = json.loads(metadata["models"]), json.loads(metadata["widths"])
            fields = [arrays[name] for name in ("latent", "sign", "mean", "scale", "recurrence", "similarity")]
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"{path} is no consensus of sober agree ({brief(error)})") from error
        latent, sign, mean, scale, recurrence, similarity = (array.astype(float) for array in fields)
        dictionary = None
        if "W_dec" in arrays:
            folder = path.parent / FOLDER
            dictionary = read_dictionary(folder) if folder.is_dir() else Dictionary(arrays["W_dec"])
        return cls(
            tuple(models), latent.astype(int), sign, mean, scale, np.array(widths), recurrence, similarity, dictionary
        )

    def save(self, folder: Path) -> list[Path]:
        """Writes `consensus.safetensors`, and a folder `consensus` as SAELens saves it if there are directions."""
        arrays = {
            "latent": self.latent.astype(np.int32),
            "sign": self.sign.astype(np.float32),
            "mean": self.mean.astype(np.float32),
            "scale": self.scale.astype(np.float32),
            "recurrence": self.recurrence.astype(np.float32),
            "similarity": self.similarity.astype(np.float32),
        }
        if int(self.widths.sum()) * len(self) <= LARGEST_MAP:
            matrix, offset = self.linear_map()
            arrays |= {"map": matrix.astype(np.float32), "offset": offset.astype(np.float32)}
        if self.dictionary is not None:
            arrays["W_dec"] = self.dictionary.directions.astype(np.float32)
        metadata = {"models": json.dumps(self.models), "widths": json.dumps(self.widths.tolist())}
        save_arrays(folder / FILE, arrays, metadata)
        if self.dictionary is None or not len(self):
            return [folder / FILE]
        notes = {"made_by": "sober agree", "models": list(self.models), "recurrence": self.recurrence.tolist()}
        return [folder / FILE, save_saelens(folder / FOLDER, self.dictionary, notes)]


def consensus(analysis: Analysis) -> Consensus:
    """The components that are in at least half of the models, and whose latents mostly recur beyond chance."""
    models = len(analysis.models)
    latent = latents_of_components(analysis)
    count = len(latent)
    grouped = np.flatnonzero(analysis.group >= 0)
    group = analysis.group[grouped]
    members = np.maximum((latent >= 0).sum(axis=1), 1)
    recurring = np.bincount(group, analysis.recurrence.recurs[grouped], count)
    similarity = np.bincount(group, analysis.recurrence.similarity[grouped], count) / members
    chosen = (2 * members >= models) & (2 * recurring >= members)
    latent = latent[chosen]
    mean, scale = np.zeros(latent.shape), np.ones(latent.shape)
    if analysis.sources[0].codes is not None:
        for number, source in enumerate(analysis.sources):
            present = latent[:, number] >= 0
            codes = source.codes[:, latent[present, number]]
            codes = codes.toarray() if scipy.sparse.issparse(codes) else codes
            mean[present, number], scale[present, number] = codes.mean(axis=0), codes.std(axis=0)
    sign = signs_of_members(analysis, latent)
    return Consensus(
        analysis.names,
        latent,
        sign,
        mean,
        scale,
        np.diff(analysis.partners.start),
        (latent >= 0).sum(axis=1) / models,
        similarity[chosen],
        _dictionary(analysis, latent, sign),
    )


def latents_of_components(analysis: Analysis) -> Int[np.ndarray, "K M"]:
    """The latent of each component in each model, the component in most models first; -1 where a model has none."""
    latent = np.full((int(analysis.group.max(initial=-1)) + 1, len(analysis.models)), -1)
    grouped = np.flatnonzero(analysis.group >= 0)
    model = analysis.partners.model[grouped]
    latent[analysis.group[grouped], model] = grouped - analysis.partners.start[model]
    return latent


def signs_of_members(analysis: Analysis, latent: Int[np.ndarray, "K M"]) -> Float[np.ndarray, "K M"]:
    """The sign of each member of a component relative to its first."""
    sign = np.where(latent >= 0, 1.0, 0.0)
    if analysis.signed:
        return sign
    first = (latent >= 0).argmax(axis=1)
    for component in range(len(latent)):
        members = np.flatnonzero(latent[component] >= 0)
        columns = [analysis.models[m].parts[0].dense(latent[component, m : m + 1])[:, 0] for m in members]
        columns = [column - column.mean() if analysis.measure != "cosine" else column for column in columns]
        reference = columns[list(members).index(first[component])]
        sign[component, members] = [1.0 if reference @ column >= 0 else -1.0 for column in columns]
    return sign


def _dictionary(
    analysis: Analysis, latent: Int[np.ndarray, "K M"], sign: Float[np.ndarray, "K M"]
) -> Dictionary | None:
    dictionaries = [source.dictionary for source in analysis.sources]
    complete = [dictionary for dictionary in dictionaries if dictionary is not None]
    if len(complete) < len(dictionaries):
        return None
    total = np.zeros((len(latent), complete[0].directions.shape[1]))
    encoder, bias = _encoders(complete, latent, sign)
    for model, dictionary in enumerate(complete):
        present = np.flatnonzero(latent[:, model] >= 0)
        directions = np.asarray(dictionary.directions[latent[present, model]], float)
        total[present] += sign[present, model, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    biases = [dictionary.decoder_bias for dictionary in complete if dictionary.decoder_bias is not None]
    return Dictionary(
        total / np.where(length > 0, length, 1),
        encoder,
        bias,
        np.mean(biases, axis=0) if biases else None,
        one_sided=all(dictionary.one_sided for dictionary in complete),
        centred=encoder is None,
    )


def _encoders(
    dictionaries: Sequence[Dictionary], latent: Int[np.ndarray, "K M"], sign: Float[np.ndarray, "K M"]
) -> tuple[Float[np.ndarray, "Q K"] | None, Float[np.ndarray, " K"] | None]:
    """The mean over members of what their encoders compute of x. None if an encoder is missing, or spaces differ.

    A member's activation is (x − decoder bias) · encoder + bias before f; the mean has this decoder bias in its bias.
    """
    spaces = {-1 if dictionary.encoder is None else len(dictionary.encoder) for dictionary in dictionaries}
    if len(spaces) > 1 or spaces == {-1}:
        return None, None
    encoder, bias = np.zeros((spaces.pop(), len(latent))), np.zeros(len(latent))
    for model, dictionary in enumerate(dictionaries):
        present = np.flatnonzero(latent[:, model] >= 0)
        numbers = latent[present, model]
        weight = sign[present, model] * np.linalg.norm(np.asarray(dictionary.directions[numbers], float), axis=1)
        columns = np.asarray(dictionary.encoder, float)[:, numbers]
        encoder[:, present] += columns * weight
        if dictionary.encoder_bias is not None:
            bias[present] += np.asarray(dictionary.encoder_bias)[numbers] * weight
        if dictionary.centred and dictionary.decoder_bias is not None:
            bias[present] -= dictionary.decoder_bias @ columns * weight
    members = np.maximum((latent >= 0).sum(axis=1), 1)
    return encoder / members, bias / members
