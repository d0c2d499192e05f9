"""A Sober Look at the Unsupervised Learning of Disentangled Representations (Locatello et al. 2020).

Six methods, six strengths each, fifty seeds, eight data sets: 14,400 models (Tables 2 to 4).
"""

from sober import Product, Scale, Study

METHODS = ["beta_vae", "factor_vae", "dip_vae_i", "dip_vae_ii", "beta_tcvae", "annealed_vae"]

study = Study(
    name="sober_look",
    title="A Sober Look at the Unsupervised Learning of Disentangled Representations",
    paper="Locatello et al. (2020), Journal of Machine Learning Research 21",
    products=[
        Product(
            worlds=[
                "dsprites",
                "color_dsprites",
                "noisy_dsprites",
                "scream_dsprites",
                "small_norb",
                "cars3d",
                "shapes3d",
                "mpi3d_real",
            ],
            methods=dict.fromkeys(METHODS, "sober_look"),
            seeds=50,
        )
    ],
    tasks=["downstream"],
    criteria={
        **{"elbo": {}, "reconstruction": {}, "kl": {}, "total_correlation": {}},  # as in the paper
        **{"udr": {"partners": 50}, "pipe": {"steps": 4_000, "rate": 2.5e-4}},  # what came after it
    },
    scales={
        "small": Scale(seeds=5, steps=15_000, worlds=["dsprites"], learning_rate=5e-4),
        "drawn": Scale(
            seeds=5,
            steps=30_000,
            worlds=["dsprites", "color_dsprites", "noisy_dsprites"],
            learning_rate=2.5e-4,  # half the rate of `small` for twice its steps
        ),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=1, worlds=["dsprites"], pictures=500),
    },
)
