"""Claims of the DCI framework (Eastwood & Williams 2018). They wait for models of teapots."""

from __future__ import annotations

from sober.results.claims.claim import Claim

E = "python tools/train_wanted.py OUT --entry dci_teapots_conv"
CLAIMS = (
    Claim(
        10,
        "InfoGAN leads with lassos",
        "Measured with lassos InfoGAN is best in everything and PCA worst.",
        "Table 1a",
        "D C E: InfoGAN 0.75 0.72 0.23, VAE 0.67 0.62 0.37, β-VAE 0.66 0.59 0.35, PCA 0.29 0.32 0.44",
        "E",
        "InfoGAN better than both VAEs, and these better than PCA, in all three numbers, by Welch intervals over 5 "
        "seeds.",
        E,
    ),
    Claim(
        11,
        "VAEs catch up with forests",
        "Measured with random forests VAE and β-VAE catch up with InfoGAN and have the least error.",
        "Table 1b",
        "D 0.86, 0.90 against 0.91; error 0.09, 0.10 against 0.13; PCA 0.50, 0.27",
        "E",
        "The gap of D to InfoGAN is smaller than with lassos, and the error of the VAEs below that of InfoGAN.",
        E,
    ),
    Claim(
        12,
        "forests on VAE codes generalise",
        "On combinations that training left out, forests on codes of VAEs lose little, on InfoGAN more, on PCA most.",
        "Table 5",
        "0.09 → 0.15, 0.10 → 0.16, InfoGAN 0.13 → 0.31, PCA 0.27 → 0.55",
        "E",
        "Error inside the region less error outside: VAEs below InfoGAN below PCA.",
        E,
    ),
)
