"""Users' own data: folders, tables, records, arrays and packs, one `Source` each.

One image from a folder into a batch: `load_dataset` calls `load_own`, which asks `list_samples` for
a `Listing` (`FolderSource.entries` walks the folder), `choose_reading` for the shape, and
`decode_samples` for the pixels (`decode_many` calls `Listing.content` and `Reading.read`). The
`Dataset` that comes out is divided by `select`, and `Samples.take` makes the batch.
"""
