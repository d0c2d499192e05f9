"""All claims in the order of their numbers, and the sets of models that decide them."""

from __future__ import annotations

from typing import NamedTuple

from sober.results.claims import beta_tcvae, dava, dci, sober_look, udr
from sober.results.claims.claim import Claim
from sober.short_text import as_call


class ModelSet(NamedTuple):
    """Models that decide claims: entries of results/wanted.toml, which name folders in results/ once they are there."""

    words: str
    entries: tuple[str, ...]

    def __repr__(self) -> str:
        return as_call(self)


SETS = {
    "A": ModelSet("dSprites, the Sober Look", ("sober_look_dsprites_100k",)),
    "B": ModelSet("its two variants with colour and noise", ("sober_look_colour_30k",)),
    "C": ModelSet("300 β-VAEs of the UDR study", ("udr_beta_vae_30k",)),
    "D": ModelSet("six methods of the UDR study", ("udr_20k",)),
    "E": ModelSet("the DCI paper on teapots", ("dci_teapots_conv", "dci_teapots_resnet")),
    "F": ModelSet("PIPE and abstract reasoning", ("pipe_60k",)),
    "G": ModelSet("dependent factors of heads", ("beta_tcvae_biased_256",)),
    "H": ModelSet("β-VAE and β-TCVAE with dense nets", ("beta_tcvae_dsprites_4k",)),
    "I": ModelSet("FactorVAE and InfoGAN beside them", ("beta_tcvae_others_8k",)),
    "J": ModelSet("variants of β-TCVAE, and sizes of batches", ("beta_tcvae_variants_4k", "beta_tcvae_batches")),
    "K": ModelSet("the DAVA comparison on abstract_dsprites", ("dava_abstract_30k",)),
    "L": ModelSet("the DAVA comparison on dSprites, without and with noise", ("dava_dsprites_30k",)),
}
BY_PAPER = {
    "sober_look": sober_look.CLAIMS,
    "udr": udr.CLAIMS,
    "dci": dci.CLAIMS,
    "beta_tcvae": beta_tcvae.CLAIMS,
    "dava": dava.CLAIMS,
}
CLAIMS: dict[int, Claim] = {
    claim.number: claim for claim in sorted((c for claims in BY_PAPER.values() for c in claims), key=lambda c: c.number)
}


def paper_of(claim: Claim) -> str:
    """The name of the study of the claim's paper."""
    return next(paper for paper, claims in BY_PAPER.items() if claim in claims)


def waits_for(claim: Claim) -> str:
    """The letters of the sets of models that a claim waits for; empty if it can be decided."""
    return "" if claim.decide is not None else claim.sets
