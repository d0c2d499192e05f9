"""Isolating Sources of Disentanglement in VAEs (Chen et al. 2018), Figures 2 to 5.

β against MIG and the evidence lower bound on dSprites and 3D Faces (Figures 2 and 4), the spread over seeds (Figure 3),
and two factors of 3D Faces sampled in the configurations A to D (Figure 5).
"""

from sober import Adam, Product, Scale, Study, Training

BETAS = {"beta": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]}
BIASED = [f"faces3d | keep lighting=5 | joint azimuth elevation {configuration}" for configuration in "ABCD"]
SEEDS = 40
TRAINING = Training(batch=2_048, optimiser=Adam(1e-3))
SPRITES, FACES = TRAINING.but(steps=18_000), TRAINING.but(steps=12_000, nets="conv_bn")
DENSE = SPRITES.but(nets="dense")

study = Study(
    name="beta_tcvae",
    title="Isolating Sources of Disentanglement in Variational Autoencoders",
    paper="Chen et al. (2018), Neural Information Processing Systems",
    products=[
        Product(["dsprites"], {"beta_vae": BETAS, "beta_tcvae": BETAS}, SEEDS, DENSE),
        Product(["faces3d"], {"beta_vae": BETAS, "beta_tcvae": BETAS}, SEEDS, FACES),
        Product(["dsprites"], {"factor_vae": {"gamma": [10.0, 20.0, 40.0, 80.0]}}, SEEDS, DENSE.but(steps=36_000)),
        Product(["dsprites"], {"info_gan": {}}, SEEDS, SPRITES),
        Product(BIASED, {"beta_vae": {"beta": [4.0]}, "beta_tcvae": {"beta": [4.0]}}, SEEDS, FACES),
    ],
    metrics=["mig", "gaussian_total_correlation", "active_latents"],
    preset="paper",
    criteria={"elbo": {}, "total_correlation": {}},
    scales={
        "small": Scale(seeds=4, steps=4_000, strengths=4, worlds=["dsprites"]),
        "tiny": Scale(seeds=2, steps=2, strengths=1, worlds=["dsprites"], pictures=1_000),
    },
)
