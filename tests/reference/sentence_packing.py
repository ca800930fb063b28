"""Which sentences fairseq packs into a block, as its loop has it.

Source: fairseq, data/token_block_utils_fast.pyx, _get_slice_indices_fast, break
modes complete and complete_doc. There an empty document separator is a
sentence of its own; here documents are lists, and the separator of
FULL-SENTENCES takes a place where a block goes on with another document.
"""


def pack(documents, limit, cross_documents):
    """Return the blocks as lists of (document, sentence).

    Args:
        documents: The sizes of their sentences.
    """
    blocks, block, size = [], [], 0
    for number, sizes in enumerate(documents):
        if not cross_documents and block:
            blocks.append(block)
            block, size = [], 0
        for sentence, more in enumerate(sizes):
            separator = int(sentence == 0 and size > 0)
            if size + separator + more <= limit or size == 0:
                size += separator + more
            else:
                blocks.append(block)
                block, size = [], more
            block.append((number, sentence))
    return [*blocks, block] if block else blocks
