"""The table of layouts: how other projects name the weights of a model.

Here they have the names of Google's ALBERT. Google's BERT, and brightmart's
albert_zh, name the parts of a layer otherwise. transformers names everything
otherwise and transposes dense kernels; a `Family` is one of its model_types.

Source: github.com/google-research/bert, modeling.py; transformers 5.23.0,
models/albert, models/bert, models/mpnet and models/xlm_roberta.
"""

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.common import slices

# Of rows: our scope, the kind of layer, theirs.
Rows = Sequence[tuple[str, str, str]]

# The variables of each kind of layer: ours and theirs. A `kernel` is [in, out]
# here and [out, in] there; all else has one shape.
LEAVES = {
    "table": (("", ".weight"),),
    "bias": (("", ".bias"),),
    "dense": (("/kernel", ".weight"), ("/bias", ".bias")),
    "norm": (("/gamma", ".weight"), ("/beta", ".bias")),
    "output": (("output_weights", ".weight"), ("output_bias", ".bias")),
}
_EMBEDDINGS = (
    ("word_embeddings", "table"),
    ("token_type_embeddings", "table"),
    ("position_embeddings", "table"),
    ("LayerNorm", "norm"),
)
# Endings of norms in old files, and today's.
_OLD_LEAVES = ((".gamma", ".weight"), (".beta", ".bias"))

OUR_LAYER = "bert/encoder/transformer/group_{group}/inner_group_{inner}/"
# The parts of a layer: here, in Google's BERT, in transformers' ALBERT. Those
# of transformers' BERT are Google's, with dots.
_PARTS_OF_LAYER = (
    ("attention_1/self/query", "attention/self/query", "attention.query"),
    ("attention_1/self/key", "attention/self/key", "attention.key"),
    ("attention_1/self/value", "attention/self/value", "attention.value"),
    ("attention_1/output/dense", "attention/output/dense", "attention.dense"),
    ("LayerNorm", "attention/output/LayerNorm", "attention.LayerNorm"),
    ("ffn_1/intermediate/dense", "intermediate/dense", "ffn"),
    ("ffn_1/intermediate/output/dense", "output/dense", "ffn_output"),
    ("LayerNorm_1", "output/LayerNorm", "full_layer_layer_norm"),
)
_DOTTED = [bert.replace("/", ".") for _, bert, _ in _PARTS_OF_LAYER]
_OF_BERT = {bert: ours for ours, bert, _ in _PARTS_OF_LAYER}
# brightmart's albert_zh has one layer, which is shared.
_BERT_LAYER = re.compile(
    rf"bert/encoder/layer_(\d+|shared)/({'|'.join(_OF_BERT)})(?=/)"
)
# The variable that only brightmart's layout has: [E, H].
BRIGHTMART_PROJECTION = "bert/embeddings/word_embeddings_2"

# How the names of transformers' classes begin, by model_type.
CLASSES = {
    "albert": "Albert",
    "bert": "Bert",
    "mpnet": "MPNet",
    "xlm-roberta": "XLMRoberta",
}
# Rows of the position table before that of the first token, for padding.
FIRST_POSITIONS = {"mpnet": 2, "xlm-roberta": 2}
POSITIONS = "bert/embeddings/position_embeddings"
SEGMENTS = "bert/embeddings/token_type_embeddings"
MAPPING = "bert/encoder/embedding_hidden_mapping_in"
HUB_MAPPING = "albert.encoder.embedding_hidden_mapping_in"
POOLER = "bert/pooler"


def from_bert(name: str) -> str:
    """Return our name of a variable of Google's BERT; other names stay.

    Example:
        from_bert("bert/encoder/layer_3/output/LayerNorm/beta")
        = "bert/encoder/transformer/group_3/inner_group_0/LayerNorm_1/beta"
    """
    layer = _BERT_LAYER.match(name)
    if not layer:
        return name
    group = 0 if layer[1] == "shared" else int(layer[1])
    scope = OUR_LAYER.format(group=group, inner=0)
    return scope + _OF_BERT[layer[2]] + name[layer.end() :]


def transposed(name: str, value: np.ndarray) -> np.ndarray:
    """Transpose a dense kernel between both layouts; others stay.

    Args:
        name: Our name of the variable.
    """
    if name.endswith("/kernel"):
        return np.ascontiguousarray(value.T)
    return value


@dataclasses.dataclass(frozen=True)
class Family:
    """The models of one model_type of transformers.

    Attributes:
        scope: What precedes the names of the encoder, unless it is saved alone.
        architectures: Rows of the heads that each class of transformers has.
        without_pooler: Classes that transformers may save without a pooler.
        tied: Tensors that transformers ties: each equals another, and may
            replace it.
    """

    scope: str
    encoder: Rows
    architectures: Mapping[str, Rows]
    without_pooler: Collection[str]
    tied: Mapping[str, str]

    def pairs(
        self, groups: int, inner: int, classes: Collection[str] = ()
    ) -> Iterator[tuple[str, str]]:
        """Yield every pair of names, ours and theirs, heads included.

        Args:
            groups: Groups of layers, each with `inner` layers.
            classes: Those whose heads are included. Default: all.
        """
        heads = {
            row
            for name, rows in self.architectures.items()
            for row in rows
            if not classes or name in classes
        }
        for ours, kind, theirs in (*self.encoder, *sorted(heads)):
            layers = [(0, 0)]
            if ours.startswith(OUR_LAYER):
                layers = [(i, j) for i in range(groups) for j in range(inner)]
            for our_leaf, their_leaf in LEAVES[kind]:
                for group, layer in layers:
                    numbers = {"group": group, "inner": layer}
                    yield (
                        (ours + our_leaf).format(**numbers),
                        (theirs + their_leaf).format(**numbers),
                    )

    def our_names(
        self, groups: int, inner: int, classes: Collection[str]
    ) -> dict[str, str]:
        """Return our names by theirs; see `pairs`.

        Of heads with the same names there that of one of `classes` counts; else
        the classifier of texts.
        """
        names: dict[str, str] = {}
        for ours, theirs in self.pairs(groups, inner):
            names.setdefault(theirs, ours)
        of_classes = self.pairs(groups, inner, classes) if classes else ()
        return names | {theirs: ours for ours, theirs in of_classes}

    def full_name(self, name: str) -> str:
        """Return today's name of a tensor.

        An encoder that was saved alone lacks the scope before its names.
        """
        for old, new in _OLD_LEAVES:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        is_bare = name.split(".")[0] in ("embeddings", "encoder", "pooler")
        return f"{self.scope}.{name}" if is_bare else name


def _make_family(
    scope: str,
    layers: Rows,
    pooler: str,
    masked_words: Rows,
    sentences: str,
    model_type: str = "",
) -> Family:
    """Return a family; its model_type is the scope if nothing else is said.

    Label 1 of the head for two sentences means swapped in an ALBERT, and random
    in a BERT, as with `sentence_objective=nsp`.
    """
    name, bias = CLASSES[model_type or scope], masked_words[-1][-1]
    words, *others = (
        (f"bert/embeddings/{part}", kind, f"{scope}.embeddings.{part}")
        for part, kind in _EMBEDDINGS
    )
    sentence_order = "cls/seq_relationship/", "output", sentences
    heads: dict[str, Rows] = {
        "ForPreTraining": (*masked_words, sentence_order),
        "ForMaskedLM": masked_words,
        "Model": (),
    }
    return Family(
        scope,
        (words, *others, *layers, (f"{POOLER}/dense", "dense", pooler)),
        {name + kind: rows for kind, rows in heads.items()},
        {name + kind for kind in ("ForMaskedLM", "Model")},
        {
            f"{bias}.decoder.weight": f"{words[-1]}.weight",
            f"{bias}.decoder.bias": f"{bias}.bias",
        },
    )


def layer_rows(scope: str, parts: Iterable[str]) -> Rows:
    """Return the rows of a layer; `parts` in the order of `_PARTS_OF_LAYER`."""
    return tuple(
        (
            OUR_LAYER + ours,
            "norm" if "LayerNorm" in ours else "dense",
            scope + theirs,
        )
        for ours, theirs in zip(_OF_BERT.values(), parts, strict=True)
    )


def _masked_word_rows(
    transform: str, bias: str, norm: str = "LayerNorm"
) -> Rows:
    ours = "cls/predictions/"
    return (
        (f"{ours}transform/dense", "dense", f"{transform}.dense"),
        (f"{ours}transform/LayerNorm", "norm", f"{transform}.{norm}"),
        (f"{ours}output_bias", "bias", bias),
    )


ALBERT = _make_family(
    "albert",
    (
        (MAPPING, "dense", HUB_MAPPING),
        *layer_rows(
            "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
            [albert for _, _, albert in _PARTS_OF_LAYER],
        ),
    ),
    "albert.pooler",
    _masked_word_rows("predictions", "predictions"),
    "sop_classifier.classifier",
)
BERT = _make_family(
    "bert",
    layer_rows("bert.encoder.layer.{group}.", _DOTTED),
    "bert.pooler.dense",
    _masked_word_rows("cls.predictions.transform", "cls.predictions"),
    "cls.seq_relationship",
)


def _like_roberta(model_type: str, scope: str, layers: Rows) -> Family:
    """Return a family whose heads are those of RoBERTa.

    Two positions are of padding, and nothing compares two sentences.
    """
    family = _make_family(
        scope,
        layers,
        f"{scope}.pooler.dense",
        _masked_word_rows("lm_head", "lm_head", "layer_norm"),
        "",
        model_type,
    )
    name = CLASSES[model_type]
    words = f"{name}ForMaskedLM"
    return dataclasses.replace(
        family,
        architectures={
            words: family.architectures[words],
            f"{name}Model": (),
            # The head has the pooler's layer.
            f"{name}ForSequenceClassification": (
                (f"{POOLER}/dense", "dense", "classifier.dense"),
                ("", "output", "classifier.out_proj"),
            ),
            f"{name}ForMultipleChoice": (("", "output", "classifier"),),
        },
    )


_WITH_SEGMENTS = _like_roberta(
    "mpnet",
    "mpnet",
    (
        (
            "bert/encoder/relative_attention_bias",
            "table",
            "mpnet.encoder.relative_attention_bias",
        ),
        *layer_rows(
            "mpnet.encoder.layer.{group}.",
            [
                *(f"attention.attn.{letter}" for letter in "qkvo"),
                "attention.LayerNorm",
                *("intermediate.dense", "output.dense", "output.LayerNorm"),
            ],
        ),
    ),
)
MPNET = dataclasses.replace(
    _WITH_SEGMENTS,
    encoder=[row for row in _WITH_SEGMENTS.encoder if row[0] != SEGMENTS],
)
XLM_ROBERTA = _like_roberta(
    "xlm-roberta",
    "roberta",
    layer_rows("roberta.encoder.layer.{group}.", _DOTTED),
)
_FAMILIES = {
    "albert": ALBERT,
    "bert": BERT,
    "mpnet": MPNET,
    "xlm-roberta": XLM_ROBERTA,
}


@functools.cache
def family(model_type: str) -> Family:
    """Return a family with the heads of all slices."""
    common = _FAMILIES[model_type]
    architectures, without_pooler = {}, {*common.without_pooler}
    for head in _heads_of_slices():
        for kind, rows in head.transformers.items():
            name = f"{CLASSES[model_type]}{kind}"
            architectures[name] = rows
            if not head.reads_pooler:
                without_pooler.add(name)
    return dataclasses.replace(
        common,
        architectures={**architectures, **common.architectures},
        without_pooler=without_pooler,
    )


def labelled() -> set[str]:
    """Return the variables with a value for each label of a model."""
    heads = (head for head in _heads_of_slices() if head.transformers)
    return {head.width_of for head in heads if head.width_of}


def _heads_of_slices() -> Iterator[Any]:
    """Yield `heads.head.Head`s; loads TensorFlow."""
    for module in slices.load_all("model"):
        yield from module.HEADS
