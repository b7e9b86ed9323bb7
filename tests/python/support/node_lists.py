"""Slurm's node lists, and the nodes that they are."""

from __future__ import annotations

NODE_LISTS = {
    "vn1": ["vn1"],
    "vn[1-2,9-10]": ["vn1", "vn2", "vn9", "vn10"],
    "vn[01-03],gpu[8-11],login": ["vn01", "vn02", "vn03", "gpu8", "gpu9", "gpu10", "gpu11", "login"],
    "n[008-011]": ["n008", "n009", "n010", "n011"],
    "n[1,3,5]": ["n1", "n3", "n5"],
    "rack[0-1]n[1-2]": ["rack0n1", "rack0n2", "rack1n1", "rack1n2"],
    "a-b,n_[1-2]": ["a-b", "n_1", "n_2"],
    "vn[9-10,1-2]": ["vn9", "vn10", "vn1", "vn2"],
}
