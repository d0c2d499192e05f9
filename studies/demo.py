"""The demonstration: three methods at three strengths with three seeds on a small world, in minutes on a CPU."""

from sober import Adam, Product, Scale, Study, Training

study = Study(
    name="demo",
    title="Three ways to train a VAE, on a world of four blocks",
    paper="what every chapter of the documentation uses",
    products=[
        Product(
            worlds=["blocks"],
            methods={
                "beta_vae": {"beta": [1.0, 2.0, 4.0]},
                "beta_tcvae": {"beta": [1.0, 2.0, 4.0]},
                "dip_vae_ii": {"lambda_od": [2.0, 10.0, 50.0]},
            },
            seeds=3,
            training=Training(steps=4_000, latents=6, optimiser=Adam(1e-3)),
        )
    ],
    metrics=["mig", "dci", "factor_vae", "sap", "modularity", "gaussian_total_correlation", "active_latents"],
    criteria={"udr": {}, "pipe": {"mixing": "permuted", "steps": 500, "rate": 1e-3}, "elbo": {}},
    scales={"quick": Scale(strengths=2, steps=2_000), "tiny": Scale(seeds=2, steps=60)},
)
