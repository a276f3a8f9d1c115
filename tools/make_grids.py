#!/usr/bin/env python3
"""Writes src/quant/grids.c from the code books in tests/data/golden/quants/grids.safetensors.

    tools/make_grids.py tests/data/golden/quants/grids.safetensors > src/quant/grids.c

A book has 3 to 8 distinct numbers, so a row of it (8 or 4 of them) fits in 16 bits: the numbers' places in a short
list of levels, 2 bits each in the books of eights and 3 bits each in the books of fours, first number lowest.
"""
import json
import struct
import sys

# array, levels' name, bits of one place; books with one name of levels must have the same levels
BOOKS = [
    ("iq1s", "iq1", 2),
    ("iq2xxs", "iq2", 2),
    ("iq2xs", "iq2", 2),
    ("iq2s", "iq2", 2),
    ("iq3xxs", "iq3xxs", 3),
    ("iq3s", "iq3s", 3),
]
HEAD = """/*
 * Code books of the IQ types, packed: see grids.h. Written by tools/make_grids.py, do not edit.
 */
#include "quant/grids.h"
"""


def read_safetensors(path):
    """name -> (shape, signed bytes)"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    arrays = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        if info["dtype"] != "I8":
            sys.exit(f"{path}: '{name}' is {info['dtype']}, wanted I8")
        begin, end = info["data_offsets"]
        arrays[name] = info["shape"], struct.unpack(f"{end - begin}b", data[begin:end])
    return arrays


def print_array(declaration, items, per_line):
    """In the form that clang-format leaves alone."""
    if len(items) <= per_line:
        print(f"\n{declaration} = {{{', '.join(items)}}};")
        return
    print(f"\n{declaration} = {{")
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i:i + per_line]) + ",")
    print("};")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_grids.py GRIDS.safetensors")
    arrays = read_safetensors(sys.argv[1])
    levels = {}
    print(HEAD.rstrip())
    for book, level_name, bits in BOOKS:
        (_, width), values = arrays[book + "_grid"]
        found = sorted(set(values))
        if len(found) > 1 << bits or bits * width > 16:
            sys.exit(f"{book}: {len(found)} levels in rows of {width} do not fit in {bits} bits each")
        if levels.setdefault(level_name, found) != found:
            sys.exit(f"{book}: other levels than the books before it")
        packed = [sum(found.index(v) << bits * j for j, v in enumerate(values[i:i + width]))
                  for i in range(0, len(values), width)]
        print_array(f"const uint16_t wn_{book}_grid[{len(packed)}]", [f"0x{p:04x}" for p in packed], 14)
    for name, found in levels.items():
        room = 4 if len(found) <= 4 else 8
        print_array(f"const int8_t wn_{name}_levels[{room}]", [str(v) for v in found], 16)
    print_array("const int8_t wn_iq4nl_values[16]", [str(v) for v in arrays["iq4nl_values"][1]], 16)


if __name__ == "__main__":
    main()
