"""A Framework for the Quantitative Evaluation of Disentangled Representations (Eastwood & Williams 2018).

PCA, VAE, β-VAE and InfoGAN with ResNets and ten codes on pictures of a teapot, without one region of factor
combinations. Table 1, and Tables 3 and 4 by variable: lassos and random forests on combinations like those of training.
Table 5: the same regressors on the region, in units of each factor's spread there. The paper has one model of each
method; this study has five seeds. What the paper leaves open is as in its public code: Adam(0, 0.9) for all nets, and
50 epochs of 142,927 pictures in batches of 64. InfoGAN's generator takes a step for every five batches. PCA has
standardised pixels.
"""

from sober import Adam, Product, Scale, Study, Training

TRAINING_WORLDS = ["teapots | without gap"]
BATCHES = 142_927 // 64  # in an epoch
NETS = Training(steps=50 * BATCHES, nets="resnet", optimiser=Adam(b1=0.0, b2=0.9))

study = Study(
    name="dci",
    title="A Framework for the Quantitative Evaluation of Disentangled Representations",
    paper="Eastwood & Williams (2018), International Conference on Learning Representations",
    products=[
        Product(TRAINING_WORLDS, {"pca": "dci"}, seeds=5, training=Training(steps=20, batch=10_000)),
        Product(TRAINING_WORLDS, dict.fromkeys(["vae", "beta_vae"], "dci"), seeds=5, training=NETS),
        Product(TRAINING_WORLDS, {"info_gan": "dci"}, seeds=5, training=NETS.but(steps=50 * (BATCHES // 5))),
    ],
    metrics=["dci_lasso", "dci_forest"],
    tasks={"zero_shot": {"unit": "own"}},
    pictures=None,
    criteria={"udr": {"among": "all"}},
    scales={
        "small": Scale(seeds=2, steps=5_000, steps_of={"info_gan": 1_000}, learning_rate=5e-4),  # as in full, a fifth
        "tiny": Scale(seeds=2, steps=2, batch=4, nets="small", pictures=500),
    },
)
