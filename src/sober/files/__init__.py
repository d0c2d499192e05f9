"""Files that are whole or absent: arrays, records, locks; npy files as streams; and where the cache is."""

from sober.files.arrays import load_arrays, read_npz, save_arrays
from sober.files.cache import cache_dir
from sober.files.locks import lock, locked
from sober.files.npy import map_npy, npy_header, npy_rows, raw_rows, write_npy
from sober.files.records import read_json, write_json
from sober.files.whole import replacing, sweep, writable_folder

__all__ = [
    "cache_dir",
    "load_arrays",
    "lock",
    "locked",
    "map_npy",
    "npy_header",
    "npy_rows",
    "raw_rows",
    "read_json",
    "read_npz",
    "replacing",
    "save_arrays",
    "sweep",
    "writable_folder",
    "write_json",
    "write_npy",
]
