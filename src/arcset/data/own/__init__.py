"""Users' own data: folder trees, tables, records and arrays, listed, decoded and packed."""

from arcset.data.own.listing import Listing, list_samples

__all__ = ["Listing", "list_samples"]
