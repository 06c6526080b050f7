"""Users' own data: folder trees, tables, records and arrays, listed, decoded and packed.

dataset = load_own("photos")                  # a sub-folder per identity
pack("photos", "photos.pack", size=112)       # decoded once, for more than memory holds
dataset = load_pack("photos.pack")
"""

from arcset.data.own.listing import Listing, list_samples
from arcset.data.own.load import load_own
from arcset.data.own.packing import Pack, pack
from arcset.data.own.packs import is_pack, load_pack
from arcset.data.own.shapes import choose_reading

__all__ = [
    "Listing",
    "Pack",
    "choose_reading",
    "is_pack",
    "list_samples",
    "load_own",
    "load_pack",
    "pack",
]
