"""Files that are complete or absent: arrays, JSON, locks; npy files as streams; tables; the cache folder."""

from sober.files.arrays import load_arrays, npz_shapes, read_npy, read_npz, save_arrays
from sober.files.atomic import folder_names, is_there, reading, remove_stale, replacing, writable_folder
from sober.files.cache import cache_dir
from sober.files.locks import lock, locked
from sober.files.memory import check_size
from sober.files.npy import map_npy, npy_header, npy_rows, raw_rows, write_npy
from sober.files.records import expecting, parse_json, read_json, write_json
from sober.files.tables import TableFile, is_table, read_table

__all__ = [
    "TableFile",
    "cache_dir",
    "check_size",
    "expecting",
    "folder_names",
    "is_table",
    "is_there",
    "load_arrays",
    "lock",
    "locked",
    "map_npy",
    "npy_header",
    "npy_rows",
    "npz_shapes",
    "parse_json",
    "raw_rows",
    "read_json",
    "read_npy",
    "read_npz",
    "read_table",
    "reading",
    "remove_stale",
    "replacing",
    "save_arrays",
    "writable_folder",
    "write_json",
    "write_npy",
]
