"""The attention mask of permutation language modelling, as loops.

Source: XLNet, the released program's data_utils._local_perm. The collator of
transformers is another rule: it lets special tokens be seen by all.
"""

import numpy as np


def hidden_from(ranks, is_target, is_special):
    """Bool [S, S]: True where position i may not see position j.

    Ranks are those of all positions, drawn for each half by itself.
    """
    length = len(ranks)
    half = length // 2
    hidden = np.zeros([length, length], bool)
    for i in range(length):
        for j in range(length):
            if i < half <= j:
                hidden[i, j] = True
            if (i < half) != (j < half):
                continue
            is_open = {k: not (is_target[k] or is_special[k]) for k in (i, j)}
            rank_i = -1 if is_open[i] else ranks[i]
            rank_j = -1 if is_open[j] else ranks[j]
            if not is_target[i]:
                rank_i += 1
            hidden[i, j] = rank_i <= rank_j and not is_open[j]
    return hidden
