"""Readers of files with rows: TFRecord, CSV, Parquet, and folders of images.

A reader has three methods. ``chunks(paths)`` finds out what rows the files have, without reading them if the
format allows it. ``read(chunk)`` returns the rows of a chunk, as arrays with one row each in the first
dimension. ``finish(columns)`` turns such arrays into what the model gets, such as ``(x, y)``. An object of
your own with these methods is a reader, too.
"""
