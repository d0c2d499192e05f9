"""Claims of Unsupervised Model Selection (Duan et al. 2020). They wait for models of its study."""

from __future__ import annotations

from sober.results.claims.claim import Claim

C, D = ("python tools/train_wanted.py OUT --entry " + name for name in ("udr_beta_vae_30k", "udr_20k"))
CLAIMS = (
    Claim(
        13,
        "UDR needs partners",
        "UDR with lassos goes with the BetaVAE score better the more partners a model has, and its spread shrinks.",
        "Table 1, Figure 9",
        "0.51 ± 0.07 with 5 partners, 0.61 ± 0.01 with 45",
        "C",
        "With 45 partners the interval is above 0.3, the value is above that with 5, and the spread falls by half.",
        C,
    ),
    Claim(
        14,
        "UDR rises with β",
        "Among β-VAEs there are more high scores by UDR as β grows, and β = 1 scores low.",
        "Figure 2",
        "read from a picture",
        "C",
        "UDR rises with the strength, interval above 0; β = 1 has the lowest median.",
        C,
    ),
    Claim(
        15,
        "UDR agrees least with DCI",
        "For β-VAE on dSprites UDR agrees with DCI the least.",
        "Figures 7 and 10",
        "read from a picture",
        "CD",
        "The correlation with DCI is the lowest of the 24 on dSprites (six methods, four scores).",
        f"{C} --entry udr_20k",
    ),
    Claim(
        17,
        "UDR agrees within methods",
        "Within a method UDR agrees with scores, more with partners of all strengths, and less than scores agree.",
        "Table 6",
        "lasso 0.54 ± 0.06, Spearman 0.53; all to all 0.60, 0.59; scores 0.67 ± 0.20",
        "D",
        "Mean over methods and scores: interval above 0.3, all to all above partners of one setting, both below "
        "scores with each other.",
        D,
    ),
    Claim(
        18,
        "UDR rejects three methods",
        "On dSprites no DIP-VAE and no FactorVAE scores high by UDR.",
        "Figure 2, text",
        "DIP-VAE-I 0.21; AnnealedVAE 0.90, β-VAE 0.61, β-TCVAE 0.44",
        "D",
        "The best of the three methods is below the best β-VAE and AnnealedVAE, with the intervals of the judgements.",
        D,
    ),
)
