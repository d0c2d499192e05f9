"""PIPE against labels and other criteria (Estermann & Wattenhofer 2023, section 4 and B.1): Figures 3, 4, 18 and 19.

30 FactorVAEs and 30 β-TCVAEs on each of three data sets, trained as by van Steenkiste et al. (2019): the strengths of
the Sober Look study, five seeds.
"""

from sober import Product, Scale, Study

study = Study(
    name="pipe",
    title="PIPE: how well can models be chosen without labels?",
    paper="Estermann & Wattenhofer (2023), International Conference on Learning Representations",
    products=[
        Product(
            worlds=["shapes3d", "abstract_dsprites", "mpi3d_toy"],
            methods=dict.fromkeys(["factor_vae", "beta_tcvae"], "sober_look"),
            seeds=5,
        )
    ],
    metrics=["factor_vae", "dci", "mig", "active_latents"],
    criteria=[
        "pipe",
        ("pipe_rec", {"alpha": 0.5, "error": "squared"}),
        ("pipe_rec", {"alpha": 1.0, "error": "squared"}),
        ("udr", {"among": "settings"}),  # five seeds of a setting, in the paper's words
        "model_centrality",
        "squared_error",
    ],
    tasks=["abstract_reasoning", ("abstract_reasoning", {"questions": "easy"})],  # the second as in the public code
    scales={
        "small": Scale(seeds=3, steps=10_000, strengths=3, worlds=["abstract_dsprites"], learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", strengths=2, worlds=["abstract_dsprites"], pictures=500),
    },
)
