"""DAVA (Estermann & Wattenhofer 2023) as its public code has it: the study `dava` with the other reading.

Three baselines take the mean KL over latents, DAVA is the variant of the code, and PIPE has the code's discriminator
beside Sober's. Tables name the reading.
"""

from sober import Adam, Product, Scale, Study, Training

METHODS = dict.fromkeys(["beta_tcvae", "factor_vae", "annealed_vae", "control_vae", "dava"], "dava_as_published")
WORLDS = ["shapes3d", "abstract_dsprites", "dsprites", "small_norb", "noisy_dsprites", "cars3d", "comp_cars"]
TRAINING = Training(steps=150_000, batch=128, nets="dava", optimiser=Adam(clip=1.0))

study = Study(
    name="dava_as_published",
    title="DAVA: Disentangling Adversarial Variational Autoencoder, as in its public code",
    paper="Estermann & Wattenhofer (2023), International Conference on Learning Representations",
    products=[
        Product(WORLDS, METHODS, 5, TRAINING),
        Product(["mpi3d_toy", "mpi3d_real"], METHODS, 5, TRAINING.but(latents=20)),
        Product(["celeba"], METHODS, 5, TRAINING.but(latents=50)),  # Figure 7
    ],
    metrics=["factor_vae", "dci", "mig", "active_latents"],
    criteria=["pipe_reference", "pipe", "squared_error", ("udr", {"among": "settings"})],
    items_of="dava",
    scales={
        "small": Scale(seeds=3, steps=10_000, strengths=3, worlds=["abstract_dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=1, worlds=["abstract_dsprites"], pictures=500),
    },
)
