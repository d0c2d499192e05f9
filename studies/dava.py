"""DAVA: Disentangling Adversarial Variational Autoencoder (Estermann & Wattenhofer 2023), Tables 1 to 3 and 9 to 16.

Five methods at the strengths of Table 7, five seeds, eight data sets; batches of 128, 150,000 steps (Table 5).
"""

from sober import Product, Scale, Study, Training

METHODS = ["beta_tcvae", "factor_vae", "annealed_vae", "control_vae", "dava"]

study = Study(
    name="dava",
    title="DAVA: Disentangling Adversarial Variational Autoencoder",
    paper="Estermann & Wattenhofer (2023), International Conference on Learning Representations",
    products=[
        Product(
            worlds=[
                "shapes3d",
                "abstract_dsprites",
                "mpi3d_toy",
                "dsprites",
                "mpi3d_real",
                "small_norb",
                "noisy_dsprites",
                "cars3d",
            ],
            methods=dict.fromkeys(METHODS, "dava"),
            seeds=5,
            training=Training(steps=150_000, batch=128, nets="dava"),
        )
    ],
    metrics=["factor_vae", "dci", "mig", "active_latents"],
    criteria={"pipe": {}, "pipe_rec": {}, "udr": {}},
    scales={
        "small": Scale(seeds=3, steps=10_000, strengths=3, worlds=["abstract_dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=10, strengths=1, worlds=["abstract_dsprites"], pictures=1_000),
    },
)
