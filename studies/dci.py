"""A Framework for the Quantitative Evaluation of Disentangled Representations (Eastwood & Williams 2018).

PCA, VAE, β-VAE and InfoGAN with ResNets and ten codes on 200,000 pictures of a teapot: Table 1, and by variable Tables
3 to 5. Each with lassos and with random forests (`--preset`: the metric's own paper).
"""

from sober import Product, Scale, Study, Training

study = Study(
    name="dci",
    title="A Framework for the Quantitative Evaluation of Disentangled Representations",
    paper="Eastwood & Williams (2018), International Conference on Learning Representations",
    products=[
        Product(worlds=["teapots"], methods={"pca": {}}, seeds=5, training=Training(steps=20, batch=10_000)),
        Product(
            worlds=["teapots"],
            methods={"vae": {}, "beta_vae": {"beta": [6.0]}, "info_gan": {"information": [6.0]}},
            seeds=5,
            training=Training(steps=200_000, nets="resnet"),
        ),
    ],
    metrics=["dci"],
    preset="paper",
    criteria={"udr": {"among": "all"}},
    scales={
        "small": Scale(seeds=2, steps=5_000, learning_rate=5e-4),
        "tiny": Scale(seeds=2, steps=2, pictures=1_000),
    },
)
