"""Isolating Sources of Disentanglement in VAEs (Chen et al. 2018), Figures 1 to 7 and S1 to S15.

Shape (dSprites) and identity (3D Faces) are nuisance: they vary, and no score uses them. Scores are over the whole data
set. The paper states neither the steps nor the latents of its VAEs; this study chooses them.
"""

from sober import Adam, Product, Scale, Study, Training

BETAS = {"beta": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]}
FEW_BETAS = {"beta": [2.0, 4.0, 6.0, 8.0, 10.0]}
SPRITES, FACES = "dsprites | hide shape", "faces3d | hide identity"
BIASED = [f"{FACES} | keep lighting=5 | joint azimuth elevation {configuration}" for configuration in "ABCD"]
HEADS = {spec: f"heads | joint azimuth elevation {spec[-1]}" for spec in BIASED}  # Figure 5 without the paper's files
SEEDS = 40
TRAINING = Training(batch=2_048, optimiser=Adam(1e-3))
DENSE, CONV = TRAINING.but(steps=18_000, nets="dense"), TRAINING.but(steps=12_000, nets="conv_bn")
GAN = Training(steps=18_000, batch=128, nets="conv_bn_leaky", latents=5, optimiser=Adam(2e-4, b1=0.5))
GAMMAS = {"factor_vae": {"gamma": [1.0, 10.0, 20.0, 40.0, 80.0]}}
FIGURES = {"vae": {}, "beta_vae": {"beta": [4.0, 15.0]}, "beta_tcvae": {"beta": [6.0, 15.0]}}

study = Study(
    name="beta_tcvae",
    title="Isolating Sources of Disentanglement in Variational Autoencoders",
    paper="Chen et al. (2018), Neural Information Processing Systems",
    products=[
        Product([SPRITES], {"beta_vae": BETAS, "beta_tcvae": BETAS}, SEEDS, DENSE),  # Figures 2 to 4, S4, S6 to S14
        Product([FACES], {"beta_vae": BETAS, "beta_tcvae": BETAS}, SEEDS, CONV),
        Product([SPRITES], GAMMAS, SEEDS, DENSE.but(steps=36_000)),  # Figure 3: twice the steps
        Product([FACES], GAMMAS, SEEDS, CONV.but(steps=24_000)),
        Product([SPRITES, FACES], {"info_gan": "beta_tcvae"}, SEEDS, GAN),
        Product(BIASED, {"beta_vae": {"beta": [4.0]}, "beta_tcvae": {"beta": [4.0]}}, 10, CONV),  # Figure 5
        Product(BIASED, {"info_gan": "beta_tcvae_biased"}, 10, GAN.but(latents=2)),
        Product(["chairs3d"], FIGURES, 1, CONV),  # Figure 6
        Product(["celeba"], FIGURES, 1, CONV.but(nets="conv_bn_wide", batch=1_000, latents=32)),  # Figures 1 and 7, I.2
        Product([SPRITES], {"beta_tcvae": {**FEW_BETAS, "estimator": ["stratified"]}}, 10, DENSE),  # S1
        Product([SPRITES], {"beta_tcvae": {**FEW_BETAS, "alpha": [0.0]}}, 10, DENSE),  # S2
        Product([SPRITES], {"beta_tcvae": {**FEW_BETAS, "prior": ["flow"]}}, 10, DENSE),  # S3
        *(
            Product([FACES], {"beta_tcvae": {"beta": [6.0]}}, 10, CONV.but(batch=size)) for size in (64, 256, 512)
        ),  # S15
    ],
    metrics=["mig", "aggregate_total_correlation", "beta_vae", "active_latents"],
    preset="paper",
    pictures=None,
    criteria={"elbo": {}},
    scales={
        "small": Scale(
            seeds=4,
            steps=4_000,
            steps_of={"factor_vae": 8_000},  # twice the steps, as in the study
            strengths=4,
            worlds=[SPRITES],
            pictures=100_000,
        ),
        "heads": Scale(stand_ins=HEADS, worlds=[*HEADS.values()], batch=256),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=1, worlds=[SPRITES], pictures=1_000),
    },
)
