"""What each component does to a picture, in several models: traversals from the showcases that a folder keeps."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sober.agreement.analysis import Analysis
from sober.agreement.consensus import latents_of_components, signs_of_members
from sober.report.drawings import figure
from sober.report.model_cards import addresses
from sober.results.showcase_files import SPAN, Pictures, load_showcase, showcase_path

COMPONENTS, MODELS = 16, 3  # that are shown, at most
EVERY = 2  # of the pictures of a traversal, every second is shown
LEFT = 'style="text-align: left; vertical-align: middle; padding: 0.3rem 0.65rem"'
BYTES = 400_000  # all strips together should not be larger


class FolderAgreement(NamedTuple):
    """What recurs among the models of one world of a folder, and the run of each model."""

    analysis: Analysis
    runs: Mapping[str, str]  # identities by the names of the models

    def __repr__(self) -> str:
        return f"FolderAgreement({self.analysis!r})"


def component_pictures(folder: Path, agreement: FolderAgreement) -> str:
    """A strip for each component and model with a showcase; empty if no such model has a component."""
    analysis, traversals = agreement.analysis, _traversals(folder, agreement)
    latent = latents_of_components(analysis)[:COMPONENTS]
    sign = signs_of_members(analysis, latent)
    by_most = sorted(traversals, key=lambda model: -int((latent[:, model] >= 0).sum()))
    models = sorted(model for model in by_most[:MODELS] if (latent[:, model] >= 0).any())
    components = [component for component in range(len(latent)) if (latent[component, models] >= 0).any()]
    if not components:
        return ""
    strips = {
        (component, model): traversals[model][latent[component, model]][:: EVERY * int(sign[component, model])]
        for component in components
        for model in models
        if latent[component, model] >= 0
    }
    images = dict(zip(strips, addresses(list(strips.values()), BYTES), strict=True))
    heads = "".join(f"<th {LEFT}>{escape(analysis.names[model])}</th>" for model in models)
    rows = ""
    for component in components:
        cells = "".join(_cell(images.get((component, model)), component) for model in models)
        rows += f"<tr><th {LEFT}>{component}</th>{cells}</tr>"
    hidden = len(latents_of_components(analysis)) - len(latent)
    return figure(
        "What components do",
        f"Each strip is one picture, decoded while the component’s latent goes from −{SPAN:g} to {SPAN:g}. In a row, "
        "the same should happen in every model.",
        f"<table><thead><tr><th {LEFT}>component</th>{heads}</tr></thead><tbody>{rows}</tbody></table>",
        "The models are those with saved pictures. A model without a strip lacks the component. Where a latent is the "
        "negative of another model’s, its strip is turned round."
        + (f" The {hidden} components in the fewest models are not shown." if hidden else ""),
    )


def _cell(image: str | None, component: int) -> str:
    if image is None:
        return "<td>–</td>"
    return f'<td><img src="{image}" alt="component {component}" style="height: 3rem; image-rendering: pixelated"></td>'


def _traversals(folder: Path, agreement: FolderAgreement) -> dict[int, Pictures]:
    """The traversals (D, 11, H, W, C) of the models that have a showcase."""
    traversals = {}
    for model, name in enumerate(agreement.analysis.names):
        path = showcase_path(folder, agreement.runs[name])
        if path.exists():
            pictures = load_showcase(path)[0].get("traversals", np.zeros(0))
            if len(pictures) == agreement.analysis.models[model].features.width:
                traversals[model] = pictures
    return traversals
