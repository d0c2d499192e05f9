"""Trains the small CNN and the small ViT that docs/probe.md asks, and saves them as ONNX files.

    pip install torch onnx
    apt install dataset-fashion-mnist                     or its four files from elsewhere
    python docs/train_encoders.py FOLDER                  writes cnn.onnx and vit.onnx, takes some minutes on two cores

They learn to name the 10 kinds of clothes of Fashion-MNIST (Xiao, Rasul & Vollgraf 2017). Each picture is drawn in a
random colour, size and place on a background of a random colour, so no factor of these tells the class.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIDE, CLASSES, BATCH, RATE = 64, 10, 64, 2e-3
DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def convolutions(*widths: int) -> list[nn.Module]:
    """Convolutions that halve the side, each followed by batch statistics and a ReLU."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return layers


def cnn() -> nn.Module:
    """Four convolutions and the mean over places; 0.2 million weights."""
    layers = convolutions(3, 32, 64, 96, 128)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, CLASSES))


class Block(nn.Module):
    """Attention and two dense layers, each added to what it reads (Vaswani et al. 2017, with norms first)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attended, self.projected = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # (n, T, width)
        by_use = self.attended(self.norms[0](tokens)).chunk(3, dim=-1)  # queries, keys, values
        by_head = [table.unflatten(-1, (self.heads, -1)).transpose(1, 2) for table in by_use]
        mixed = functional.scaled_dot_product_attention(*by_head).transpose(1, 2).flatten(2)
        tokens = tokens + self.projected(mixed)
        return tokens + self.dense(self.norms[1](tokens))


class ViT(nn.Module):
    """A vision transformer (Dosovitskiy et al. 2021): 64 tokens of 64 units, three blocks; 0.2 million weights.

    Three convolutions make the tokens, because it then learns in fewer steps (Xiao et al. 2021).
    """

    def __init__(self, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.tokens = nn.Sequential(*convolutions(3, 32, 48, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (SIDE // 8) ** 2, width))
        self.blocks = nn.ModuleList([Block(width, heads=4) for _ in range(depth)])
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:  # (n, 3, H, W)
        tokens = self.tokens(pictures).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            tokens = block(tokens)
        return self.classes(self.norm(tokens).mean(dim=1))


NETWORKS = {"cnn": cnn, "vit": ViT}


def fashion(folder: Path, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures (n, 1, 28, 28) from 0 to 1, and the number of the class of each."""
    pictures, labels = (
        np.frombuffer(gzip.decompress((folder / f"{name}-{kind}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for kind, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return torch.from_numpy(pictures.reshape(-1, 1, 28, 28) / np.float32(255)), torch.from_numpy(labels.astype(int))


def drawn(clothes: torch.Tensor) -> torch.Tensor:
    """Each picture in a random colour, size and place on a background of a random colour: (n, 3, SIDE, SIDE)."""
    count = len(clothes)
    zoom = 1 / torch.empty(count, 1).uniform_(0.35, 0.9)  # of the side that the picture takes
    shift = torch.empty(count, 2).uniform_(-1, 1) * (zoom - 1)
    places = torch.cat([zoom, torch.zeros(count, 2), zoom, shift], dim=1)[:, [0, 1, 4, 2, 3, 5]].view(count, 2, 3)
    grid = functional.affine_grid(places, [count, 1, SIDE, SIDE], align_corners=False)
    shape = functional.grid_sample(clothes, grid, align_corners=False)
    colour, background = torch.rand(2, count, 3, 1, 1)
    return shape * colour + (1 - (shape > 0.05).float()) * background


def train(net: nn.Module, pictures: torch.Tensor, labels: torch.Tensor, steps: int) -> None:
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=steps)
    for step in range(steps):
        chosen = torch.randint(len(pictures), (BATCH,))
        loss = functional.cross_entropy(net(drawn(pictures[chosen])), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step:,}: loss {loss.item():.2f}", flush=True)


def accuracy(net: nn.Module, pictures: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        right = [net(drawn(x)).argmax(dim=1) == y for x, y in zip(pictures.split(500), labels.split(500), strict=True)]
    return torch.cat(right).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the networks")
    parser.add_argument("--data", type=Path, default=DEBIAN, help="with the four files of Fashion-MNIST")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        torch.manual_seed(0)
        net = NETWORKS[name]()
        train(net, *fashion(arguments.data, "train"), arguments.steps)
        net.eval()
        print(f"{name} names {accuracy(net, *fashion(arguments.data, 't10k')):.1%} of the test pictures", flush=True)
        example = torch.zeros(2, 3, SIDE, SIDE)
        path = str(arguments.folder / f"{name}.onnx")
        names: dict[str, Any] = {"input_names": ["pictures"], "output_names": ["classes"]}
        any_number = {"pictures": {0: "n"}, "classes": {0: "n"}}
        torch.onnx.export(net, (example,), path, dynamo=False, opset_version=17, dynamic_axes=any_number, **names)


if __name__ == "__main__":
    main()
