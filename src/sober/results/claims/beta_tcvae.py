"""Claims of Isolating Sources of Disentanglement (Chen et al. 2018). They wait for models of its study."""

from __future__ import annotations

from sober.results.claims.claim import Claim

TRAIN = "python tools/train_wanted.py OUT --entry "
CLAIMS = (
    Claim(
        16,
        "MIG and Higgins’ score disagree",
        "There are β-VAEs that the BetaVAE score puts above 75% of models and MIG below 26%.",
        "Figures S12 and S14",
        "75% and 26%",
        "C",
        "The most disputed of the β-VAEs has a difference of at least 0.45, beside what shuffled scores give by "
        "chance.",
        f"{TRAIN}udr_beta_vae_30k",
    ),
    Claim(
        25,
        "uneven factors",
        "Where factors are drawn unevenly β-TCVAE has the best MIG, and bias makes a good model less likely.",
        "Figure 5",
        "read from a picture",
        "G",
        "Median MIG of β-TCVAE above β-VAE and InfoGAN in 4 of 4 configurations (Mann-Whitney); the share above A's "
        "median falls for B, C and D.",
        f"{TRAIN}beta_tcvae_biased_256",
    ),
    Claim(
        26,
        "more MIG at equal ELBO",
        "At equal ELBO β-TCVAE has more MIG than β-VAE, whose MIG falls at high β.",
        "Figure 2",
        "read from a picture",
        "H",
        "At β = 6, 8 and 10 the difference of means is above 0 for MIG and for ELBO, by Welch over 10 seeds.",
        f"{TRAIN}beta_tcvae_dsprites_4k",
    ),
    Claim(
        27,
        "less TC, more MIG",
        "Mean total correlation and mean MIG go against each other strongly for β-TCVAE, weakly for β-VAE.",
        "Figure 4",
        "read from a picture",
        "H",
        "Rank correlation below −0.7 for β-TCVAE, interval below 0, and below that of β-VAE.",
        f"{TRAIN}beta_tcvae_dsprites_4k",
    ),
    Claim(
        28,
        "β-TCVAE leads by MIG",
        "By median MIG β-TCVAE is above β-VAE, which is above FactorVAE; InfoGAN fails; half of the β-TCVAEs can be "
        "poor.",
        "Figure 3",
        "read from a picture",
        "HI",
        "Medians in this order, of β-TCVAE at 6 and β-VAE at 4; InfoGAN's upper quartile below β-VAE's lower.",
        f"{TRAIN}beta_tcvae_others_8k",
    ),
    Claim(
        29,
        "variants make no difference",
        "Another estimator, no mutual information and a learned prior make no difference to β-TCVAE; small batches do.",
        "Figures S1 to S3 and S15",
        "read from pictures",
        "HJ",
        "The 90% interval of the difference in mean MIG lies within ± 0.05; the same for batches of 64 against 2,048.",
        f"{TRAIN}beta_tcvae_variants_4k --entry beta_tcvae_batches",
    ),
)
