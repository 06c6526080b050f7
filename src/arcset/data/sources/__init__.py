"""Users' own data: folders, tables, records, arrays and packs, one `Source` each.

One image from a folder into a batch, call by call:

1. `load_dataset` is what users call;
2. `FolderSource.list_samples` walks the folder: an `Entry` per image, together a `Listing`;
3. `choose_reading` looks at some headers, and says which shape all images get: a `Reading`;
4. `decode_samples` asks for the pixels of all, those for training first, by way of
5. `decode_many`, whose threads call, image by image,
6. `Listing.content` for the bytes of the file, and
7. `Reading.read` for the pixels;
8. `SampleTable.dataset` lays labels, names and paths beside them: a `Dataset`;
9. `select` takes the known classes of it; and
10. `Samples.take` makes the batch.
"""
