"""Files that are whole or absent: arrays, records, locks, and the cache."""

from sober.files.arrays import load_arrays, read_npz, save_arrays
from sober.files.cache import cache_dir, cached_array
from sober.files.locks import lock, locked
from sober.files.records import read_json, write_json
from sober.files.whole import replacing, sweep, writable_folder

__all__ = [
    "cache_dir",
    "cached_array",
    "load_arrays",
    "lock",
    "locked",
    "read_json",
    "read_npz",
    "replacing",
    "save_arrays",
    "sweep",
    "writable_folder",
    "write_json",
]
