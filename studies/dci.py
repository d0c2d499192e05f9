"""A Framework for the Quantitative Evaluation of Disentangled Representations (Eastwood & Williams 2018).

PCA, VAE, β-VAE and InfoGAN with ResNets and ten codes on pictures of a teapot, of which one combination of factors is
held out: Table 1, by variable Tables 3 and 4, with lassos and with random forests; and the same regressors on what was
held out, Table 5, in units of each factor's spread there. The paper prints one model of each, and no number of steps:
five seeds and the steps are ours.
"""

from sober import Product, Scale, Study, Training

SEEN = ["teapots | without gap"]

study = Study(
    name="dci",
    title="A Framework for the Quantitative Evaluation of Disentangled Representations",
    paper="Eastwood & Williams (2018), International Conference on Learning Representations",
    products=[
        Product(SEEN, {"pca": {}}, seeds=5, training=Training(steps=20, batch=10_000)),
        Product(
            SEEN,
            dict.fromkeys(["vae", "beta_vae", "info_gan"], "dci"),
            seeds=5,
            training=Training(steps=200_000, nets="resnet"),
        ),
    ],
    metrics=["dci_lasso", "dci_forest"],
    tasks={"zero_shot": {"unit": "own"}},
    pictures=None,
    criteria={"udr": {"among": "all"}},
    scales={
        "small": Scale(seeds=2, steps=5_000, learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", pictures=500),
    },
)
