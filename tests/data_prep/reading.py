"""What tests of the corpus share: files, and all that is read from them."""

import itertools

from data_prep.writer import corpus, decoding

SIZES = [1, 2, 3, 7, 20, 100, 1000, 10**6]


def make_options(**values):
    return corpus.CorpusOptions(**{"input_file": "unused", **values})


def read_all(paths, block_bytes=corpus.BLOCK_BYTES, **values):
    """Return documents, the sum of all counts, and the reader."""
    options = make_options(**values)
    paths = [str(path) for path in paths]
    reader = corpus.CorpusReader(paths, options, block_bytes)
    found, totals = [], {"lines_skipped": 0, "lines_replaced": 0}
    for index, block in enumerate(reader.read_blocks()):
        assert block.index == index
        assert block.text.endswith(b"\n")
        lines, counts = decoding.decode_lines(block, options)
        found += documents_of(lines)
        totals = {name: totals[name] + counts[name] for name in totals}
    return found, totals, reader


def documents_of(lines):
    groups = itertools.groupby(map(str.strip, lines), key=bool)
    return [list(group) for is_filled, group in groups if is_filled]


def write(folder, content, name="a.txt"):
    path = folder / name
    path.write_bytes(content)
    return path
