"""Unsupervised Model Selection for Variational Disentangled Representation Learning (Duan et al. 2020).

Six methods, six strengths each, fifty seeds, three data sets: 5,400 models, ranked without labels.
"""

from sober import Product, Scale, Study

METHODS = ["beta_vae", "annealed_vae", "factor_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii"]

study = Study(
    name="udr",
    title="Unsupervised Model Selection for Variational Disentangled Representation Learning",
    paper="Duan et al. (2020), International Conference on Learning Representations",
    products=[
        Product(worlds=["dsprites", "shapes3d", "cars3d"], methods=dict.fromkeys(METHODS, "udr"), seeds=50),
    ],
    metrics=["beta_vae", "factor_vae", "mig", "dci", "active_latents"],
    criteria={"udr": {"among": "settings", "partners": 50}},
    scales={
        "small": Scale(seeds=10, steps=20_000, worlds=["dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=20, strengths=2, worlds=["dsprites"], pictures=1_000),
    },
)
