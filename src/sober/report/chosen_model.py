"""The picture of the best placed model: originals above reconstructions, and a row for what each latent does."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from sober.criteria.udr import INFORMATIVE
from sober.errors import counted
from sober.report.model_cards import addresses
from sober.results.latent_names import row_names
from sober.results.showcase_files import STEPS, load_showcase, showcase_path

ROWS = 6  # latents at most
ACROSS = 7  # pictures in a row
PLACES = np.linspace(0, STEPS - 1, ACROSS).round().astype(int)  # the steps of a traversal that a row shows
BYTES = 300_000  # the pictures together should not be larger


def chosen_model_html(folder: Path, run: str, title: str, *, is_blank: bool = False) -> str:
    """Pictures of a model; empty if the folder has none of it.

    If its reconstructions are no better than the mean picture (`is_blank`), its latents would show grey: they are left
    out.
    """
    path = showcase_path(folder, run)
    if not path.exists():
        return ""
    arrays, description = load_showcase(path)
    height, width = arrays["pictures"].shape[1:3]
    order = np.argsort(-arrays["kl"], kind="stable")
    used = [int(latent) for latent in order if arrays["kl"][latent] >= INFORMATIVE]
    if is_blank:
        used = []
    pairs = [arrays["pictures"][:ACROSS], arrays["reconstructions"][:ACROSS]]
    sheets = addresses([*pairs, *(arrays["traversals"][latent][PLACES] for latent in used[:ROWS])], BYTES)
    names = row_names(arrays, description)
    rows = [
        _row("original", "some of the pictures", sheets[0]),
        _row("reconstruction", "the same pictures after encoding and decoding", sheets[1]),
        *(
            _row(names[latent], f"latent {latent}, {arrays['kl'][latent]:.2f} nats", sheet)
            for latent, sheet in zip(used, sheets[2:], strict=False)
        ),
    ]
    caption = "Below the reconstructions, each row moves one latent and keeps the others."
    if len(used) > ROWS:
        verb = "is" if len(used) == ROWS + 1 else "are"
        caption += f" {counted(len(used) - ROWS, 'more latent')} {verb} in “Models in pictures”."
    if is_blank:
        caption = "These reconstructions are no better than the mean picture, so what each latent does is left out."
    elif not used:
        caption = "No latent carries anything, so there is nothing to move."
    return (
        f'<figure class="placed" style="--aspect: {ACROSS * width / height:.4g}; --across: {ACROSS}">'
        f"<h3>{escape(title)}</h3><ul>{''.join(rows)}</ul><figcaption>{caption}</figcaption></figure>"
    )


def _row(name: str, remark: str, sheet: str) -> str:
    described = f"{name}: {ACROSS} pictures"
    return (
        f'<li><span class="words" title="{escape(remark)}">{escape(name)}</span>'
        f'<span class="strip"><img src="{sheet}" alt="{escape(described)}"></span></li>'
    )
