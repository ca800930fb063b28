"""The names of weights in Hugging Face folders, by model_type.

A table pairs ours with theirs, for ALBERT and for BERT; reading and writing
both use it.

Source: transformers 5.23.0, models/albert and models/bert.
"""

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

from albert_tf.common import slices
from albert_tf.model.checkpoints import bert

# Ours, the kind of layer, theirs.
Rows = tuple[tuple[str, str, str], ...]

# What each kind of layer calls its variables: ours and theirs. A `kernel` is
# [in, out] here and [out, in] there; all else has one shape.
LEAVES = {
    "table": (("", ".weight"),),
    "bias": (("", ".bias"),),
    "dense": (("/kernel", ".weight"), ("/bias", ".bias")),
    "norm": (("/gamma", ".weight"), ("/beta", ".bias")),
    "output": (("output_weights", ".weight"), ("output_bias", ".bias")),
}
# Endings of norms in old files, and today's.
_OLD_LEAVES = ((".gamma", ".weight"), (".beta", ".bias"))
_GROUP = "/group_{group}/"
_EMBEDDINGS = (
    ("word_embeddings", "table"),
    ("token_type_embeddings", "table"),
    ("position_embeddings", "table"),
    ("LayerNorm", "norm"),
)
MAPPING = "bert/encoder/embedding_hidden_mapping_in"
MAPPING_THEIRS = "albert.encoder.embedding_hidden_mapping_in"
POOLER = "bert/pooler"


@dataclasses.dataclass(frozen=True)
class Family:
    """The models of one model_type.

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
        self, groups: int, inner: int, only: Sequence[str] = ()
    ) -> Iterable[tuple[str, str]]:
        """Yield every pair of names, ours and theirs, heads included.

        Args:
            groups: Groups of layers, each with `inner` layers.
            only: Classes whose heads are included. Default: all.
        """
        heads = {
            row
            for name, rows in self.architectures.items()
            for row in rows
            if not only or name in only
        }
        for ours, kind, theirs in (*self.encoder, *sorted(heads)):
            layers = [(0, 0)]
            if _GROUP in ours:
                layers = [(i, j) for i in range(groups) for j in range(inner)]
            for our_leaf, their_leaf in LEAVES[kind]:
                for group, layer in layers:
                    numbers = {"group": group, "inner": layer}
                    yield (
                        (ours + our_leaf).format(**numbers),
                        (theirs + their_leaf).format(**numbers),
                    )

    def ours(
        self, groups: int, inner: int, its: Sequence[str]
    ) -> dict[str, str]:
        """Return our names by theirs; see `pairs`.

        Of heads with the same names that of the class counts which is one of
        `its`; else the classifier of texts.
        """
        found: dict[str, str] = {}
        for name, theirs in self.pairs(groups, inner):
            found.setdefault(theirs, name)
        of_class = self.pairs(groups, inner, its) if its else ()
        return found | {theirs: name for name, theirs in of_class}

    def full_name(self, name: str) -> str:
        """Return today's name of a tensor.

        An encoder that was saved alone lacks the scope before its names.
        """
        for old, new in _OLD_LEAVES:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        bare = name.split(".")[0] in ("embeddings", "encoder", "pooler")
        return f"{self.scope}.{name}" if bare else name


_ALBERT_LAYER = (
    "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."
)
# In the order of `bert.SCOPES`.
_ALBERT_SCOPES = (
    "attention.query",
    "attention.key",
    "attention.value",
    "attention.dense",
    "attention.LayerNorm",
    "ffn",
    "ffn_output",
    "full_layer_layer_norm",
)
_BERT_SCOPES = [theirs.replace("/", ".") for theirs, _ in bert.SCOPES]


def _layers(place: str, scopes: Iterable[str]) -> Rows:
    return tuple(
        (
            bert.OUR_LAYER + ours,
            "norm" if "LayerNorm" in ours else "dense",
            place + theirs,
        )
        for (_, ours), theirs in zip(bert.SCOPES, scopes, strict=True)
    )


def _family(
    scope: str, layers: Rows, pooler: str, masked_lm: Rows, sentences: str
) -> Family:
    """Return the family whose classes begin with the scope's name.

    Label 1 of the head for two sentences means swapped in an ALBERT, and random
    in a BERT, as with `sentence_objective=nsp`.
    """
    name, bias = scope.capitalize(), masked_lm[-1][-1]
    words = f"{scope}.embeddings.word_embeddings.weight"
    encoder = (
        *(
            (f"bert/embeddings/{table}", kind, f"{scope}.embeddings.{table}")
            for table, kind in _EMBEDDINGS
        ),
        *layers,
        (f"{POOLER}/dense", "dense", pooler),
    )
    heads: dict[str, Rows] = {
        "ForPreTraining": (
            *masked_lm,
            ("cls/seq_relationship/", "output", sentences),
        ),
        "ForMaskedLM": masked_lm,
        "ForSequenceClassification": (("", "output", "classifier"),),
        "ForQuestionAnswering": (("cls/squad/", "output", "qa_outputs"),),
        "Model": (),
    }
    with_pooler = "ForPreTraining", "ForSequenceClassification"
    return Family(
        scope,
        encoder,
        {name + kind: rows for kind, rows in heads.items()},
        {name + kind for kind in heads if kind not in with_pooler},
        {
            f"{bias}.decoder.weight": words,
            f"{bias}.decoder.bias": f"{bias}.bias",
        },
    )


def _masked_lm(transform: str, bias: str) -> Rows:
    ours = "cls/predictions/transform"
    return (
        (f"{ours}/dense", "dense", f"{transform}.dense"),
        (f"{ours}/LayerNorm", "norm", f"{transform}.LayerNorm"),
        ("cls/predictions/output_bias", "bias", bias),
    )


ALBERT = _family(
    "albert",
    (
        (MAPPING, "dense", MAPPING_THEIRS),
        *_layers(_ALBERT_LAYER, _ALBERT_SCOPES),
    ),
    "albert.pooler",
    _masked_lm("predictions", "predictions"),
    "sop_classifier.classifier",
)
BERT = _family(
    "bert",
    _layers("bert.encoder.layer.{group}.", _BERT_SCOPES),
    "bert.pooler.dense",
    _masked_lm("cls.predictions.transform", "cls.predictions"),
    "cls.seq_relationship",
)
_FAMILIES = {"albert": ALBERT, "bert": BERT}


@functools.cache
def family(model_type: str) -> Family:
    """Return a family with the heads of all slices."""
    known = _FAMILIES[model_type]
    heads = {
        f"{known.scope.capitalize()}{kind}": rows
        for module in slices.parts("model")
        for kind, rows in module.HEAD.transformers.items()
    }
    free = {
        f"{known.scope.capitalize()}{kind}"
        for module in slices.parts("model")
        for kind in module.HEAD.transformers
        if not module.HEAD.reads_pooler
    }
    return dataclasses.replace(
        known,
        architectures={**heads, **known.architectures},
        without_pooler={*known.without_pooler, *free},
    )


def labelled() -> set[str]:
    """Return the variables with a value for each label of a model."""
    heads = (module.HEAD for module in slices.parts("model"))
    return {"output_bias", *(h.width_of for h in heads if h.transformers)}
