"""PyTorch versions of the step that `train.py` measures, for one model: plain, and tuned."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

Step = Callable[[], Any]
Steps = Callable[[int], float]

BETA, LEARNING_RATE = 4.0, 1e-4
MODE = {"cuda": "max-autotune-no-cudagraphs", "cpu": "default"}  # of torch.compile
PATIENCE = 60.0  # seconds that compiling may take on a CPU


class Vae(nn.Module):
    """Sober's nets `conv` for 64 x 64, with the loss of a β-VAE: what a batch costs, given the noise of its codes."""

    def __init__(self, channels: int, latents: int) -> None:
        super().__init__()
        encoder: list[Any] = []
        for i, o in itertools.pairwise((channels, 32, 32, 64, 64)):
            encoder += [nn.Conv2d(i, o, 4, 2, 1), nn.ReLU()]
        encoder += [nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 2 * latents)]
        decoder = [nn.Linear(latents, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(), nn.Unflatten(1, (64, 4, 4))]
        for i, o in itertools.pairwise((64, 64, 32, 32, channels)):
            decoder += [nn.ConvTranspose2d(i, o, 4, 2, 1), nn.ReLU()]
        self.encoder, self.decoder = nn.Sequential(*encoder), nn.Sequential(*decoder[:-1])

    def forward(self, images: Any, noise: Any) -> Any:
        mean, logvar = self.encoder(images).float().chunk(2, 1)
        logits = self.decoder(mean + torch.exp(logvar / 2) * noise)
        reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        kl = 0.5 * (logvar.exp() + mean**2 - 1 - logvar).sum()
        return (reconstruction + BETA * kl) / len(images)


def contenders(pictures: np.ndarray, latents: int, batch: int, device: str) -> dict[str, Steps]:
    """The rows of the table: functions that train one model for n steps and return the seconds it took.

    `pictures` (N, 64, 64, C) are bytes, `device` is "cuda" or "cpu". Prints which parts of the tuning failed here.
    """
    pool = torch.tensor(pictures).permute(0, 3, 1, 2).float().to(device) / 255
    plain_model, tuned_model = (Vae(pictures.shape[-1], latents).to(device) for _ in range(2))
    optimiser = torch.optim.Adam(plain_model.parameters(), LEARNING_RATE)
    plain = functools.partial(train, pool, plain_model, optimiser, batch, latents)
    best = tuned(pool, tuned_model, batch, latents)
    named = {"PyTorch eager": plain} | ({"PyTorch tuned": best} if best else {})
    return {name: timed(step, device) for name, step in named.items()}


def train(pool: Any, loss: Callable[..., Any], optimiser: Any, batch: int, latents: int) -> None:
    """One step: random pictures of the pool, noise, the loss and its gradients, Adam. All on the pool's device."""
    images = pool[torch.randint(0, len(pool), (batch,), device=pool.device)]
    noise = torch.randn(batch, latents, device=pool.device)
    optimiser.zero_grad()
    loss(images, noise).backward()
    optimiser.step()


def tuned(pool: Any, model: Vae, batch: int, latents: int) -> Step | None:
    """`train` as fast as PyTorch makes it for one model without another way to write it.

    On a GPU: products in bfloat16 with float32 weights (autocast), channels last, convolutions chosen by timing,
    forward, loss and backward compiled, Adam in one kernel, and the whole step replayed as a CUDA graph. Without
    compiling or without the graph where these fail. On a CPU, where Sober computes in float32 too: compiled, with Adam
    in one kernel, or None where that fails.
    """
    on_gpu = pool.is_cuda
    if on_gpu:
        pool, model = (tensors.to(memory_format=torch.channels_last) for tensors in (pool, model))
    else:
        print("PyTorch tuned: on a CPU in float32, as Sober is.")
    loss = in_bfloat16(model) if on_gpu else model
    optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True, capturable=on_gpu)
    # dynamic=False: else the second shape of pictures in a process would be compiled for any number of channels
    compiled = torch.compile(loss, mode=MODE[pool.device.type], dynamic=False)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        step = functools.partial(train, pool, compiled, optimiser, batch, latents)
        started = time.perf_counter()
        try:
            warm(step, on_gpu)
        except Exception as error:  # its compilers raise errors of many types
            print(f"PyTorch tuned: {'not compiled' if on_gpu else 'left out'}, {in_short(error)}")
            if not on_gpu:
                return None
            step = functools.partial(train, pool, loss, optimiser, batch, latents)
            warm(step, on_gpu)
        if not on_gpu:
            return within_patience(step, time.perf_counter() - started)
        try:
            return captured(step)
        except Exception as error:
            print(f"PyTorch tuned: not as a CUDA graph, {in_short(error)}")
            return step


def in_bfloat16(model: Vae) -> Callable[..., Any]:
    def loss(images: Any, noise: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):  # a graph must cast in every replay
            return model(images, noise)

    return loss


def warm(step: Step, on_gpu: bool) -> None:
    """Compiles, and makes the optimiser's state; on a GPU in another stream, as capturing a graph requires."""
    if not on_gpu:
        for _ in range(3):
            step()
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def captured(step: Step) -> Step:
    """The step as a CUDA graph. Random numbers go on from replay to replay."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # whatever JAX's threads do meanwhile
        step()
    return graph.replay


def within_patience(step: Step, seconds: float) -> Step | None:
    if seconds > PATIENCE:
        print(f"PyTorch tuned: left out, compiling took {seconds:.0f} s, more than {PATIENCE:.0f}")
        return None
    return step


def timed(step: Step, device: str) -> Steps:
    def steps(n: int) -> float:
        started = time.perf_counter()
        for _ in range(n):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    steps(2)
    return steps


def in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
