"""Unsupervised Model Selection for Variational Disentangled Representation Learning (Duan et al. 2020).

Six methods, six strengths each, fifty seeds, three data sets: 5,400 models, ranked without labels by four versions of
UDR: codes compared by lassos or by rank correlation, with models of the same settings or of the same method. The paper
compares 60 models of a method all to all, so there each model has 59 partners.
"""

from sober import Product, Scale, Study

METHODS = ["beta_vae", "annealed_vae", "factor_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii"]
PARTNERS = {"settings": 50, "methods": 59}
VERSIONS = [
    {"similarity": similarity, "among": among, "partners": partners}
    for similarity in ("lasso", "spearman")
    for among, partners in PARTNERS.items()
]

study = Study(
    name="udr",
    title="Unsupervised Model Selection for Variational Disentangled Representation Learning",
    paper="Duan et al. (2020), International Conference on Learning Representations",
    products=[
        Product(worlds=["dsprites", "shapes3d", "cars3d"], methods=dict.fromkeys(METHODS, "udr"), seeds=50),
    ],
    metrics=["beta_vae", "factor_vae", "mig", "dci", "active_latents"],
    criteria=[("udr", settings) for settings in VERSIONS],
    scales={
        "small": Scale(seeds=10, steps=20_000, worlds=["dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=1, worlds=["dsprites"], pictures=500),
    },
)
