"""Trained models outside JAX: as PyTorch modules, as ONNX files. Both are made from one description, `graph`."""

from sober.interop import graph, onnx, torch

__all__ = ["graph", "onnx", "torch"]
