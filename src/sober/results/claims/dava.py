"""Claims of DAVA and PIPE (Estermann & Wattenhofer 2023). They wait for models of its studies."""

from __future__ import annotations

from sober.results.claims.claim import Claim

F = "python tools/train_wanted.py OUT --entry pipe_60k"
CLAIMS = (
    Claim(
        19,
        "PIPE goes with scores",
        "On AbstractDSprites PIPE goes with DCI, MIG and the FactorVAE score, more than UDR and ModelCentrality do.",
        "Figure 3",
        "read from a picture",
        "F",
        "Three correlations above 0; PIPE's above UDR's and above ModelCentrality's, by paired draws of models.",
        F,
    ),
    Claim(
        20,
        "taking off Rec hurts",
        "On AbstractDSprites PIPE without its reconstruction term goes with scores less, least at α = 1.",
        "Figure 18",
        "read from a picture",
        "F",
        "Mean of three correlations: PIPE above α = 0.5 above α = 1, by paired draws of models.",
        F,
    ),
    Claim(
        21,
        "PIPE tells reasoning",
        "PIPE goes with accuracy of abstract reasoning as well as supervised scores, better than UDR and Rec.",
        "Figure 4",
        "read from a picture",
        "F",
        "Within each method: above 0, not below DCI by more than 0.2, above UDR and Rec.",
        F,
    ),
    Claim(
        30,
        "DAVA leads",
        "On AbstractDSprites DAVA leads the mean strengths of four methods; on noise FactorVAEs ignore their codes; "
        "C ends elsewhere on each data set.",
        "Tables 2, 10, 12 and 15, Figure 6",
        "MIG 0.23 (next 0.15), DCI 0.27 (0.21), FactorVAE 0.67 (0.55), PIPE 0.35 (0.20); PIPE 1.00 on noise",
        "KL",
        "DAVA less each baseline's mean strength above 0 for at least 3 of 4 scores against all four (Welch, 5 "
        "seeds); decoders ignore codes in at least 25 of 30 FactorVAEs on noise; intervals of the last C of three "
        "worlds apart.",
        "python tools/train_wanted.py OUT --entry dava_abstract_30k --entry dava_dsprites_30k",
    ),
)
