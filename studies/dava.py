"""DAVA: Disentangling Adversarial Variational Autoencoder (Estermann & Wattenhofer 2023), Tables 1 to 3 and 9 to 16.

Five methods at the strengths of Table 7, five seeds, ten data sets; batches of 128, 150,000 steps, gradients clipped to
1 (Table 5). Figures 3 and 18, on PIPE, are the study `pipe`.
"""

from sober import Adam, Product, Scale, Study, Training

METHODS = dict.fromkeys(["beta_tcvae", "factor_vae", "annealed_vae", "control_vae", "dava"], "dava")
WORLDS = ["shapes3d", "abstract_dsprites", "dsprites", "small_norb", "noisy_dsprites", "cars3d", "comp_cars"]
TRAINING = Training(steps=150_000, batch=128, nets="dava", optimiser=Adam(clip=1.0))

study = Study(
    name="dava",
    title="DAVA: Disentangling Adversarial Variational Autoencoder",
    paper="Estermann & Wattenhofer (2023), International Conference on Learning Representations",
    products=[
        Product(WORLDS, METHODS, 5, TRAINING),
        Product(["mpi3d_toy", "mpi3d_real"], METHODS, 5, TRAINING.but(latents=20)),
        Product(["celeba"], METHODS, 5, TRAINING.but(latents=50)),  # Figure 7
    ],
    metrics=["factor_vae", "dci", "mig", "active_latents"],
    criteria=["pipe", "squared_error", ("udr", {"among": "settings"})],  # UDR among five seeds of a setting
    scales={
        "small": Scale(seeds=3, steps=10_000, strengths=3, worlds=["abstract_dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=1, worlds=["abstract_dsprites"], pictures=500),
    },
)
