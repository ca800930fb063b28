"""The names of weights in Hugging Face folders, by model_type.

A table pairs ours with theirs, for ALBERT and for BERT; reading and writing
both use it.

Source: transformers 5.23.0, models/albert and models/bert.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping

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
# The scope of a classifier of tokens, and what that of texts begins with: both
# are `classifier` there.
TAGS = "cls/tags/"
_CLASSES = "output_"


@dataclasses.dataclass(frozen=True)
class Family:
    """The models of one model_type.

    Attributes:
        scope: What precedes the names of the encoder, unless it is saved alone.
        architectures: Rows of the heads that each class of transformers has.
        without_pooler: Classes that transformers may save without a pooler.
        tied: Tensors that transformers ties: each equals another, and may
            replace it.
        tokens: The class whose head classifies tokens; another class, that of
            texts, has the same names.
    """

    scope: str
    encoder: Rows
    architectures: Mapping[str, Rows]
    without_pooler: Collection[str]
    tied: Mapping[str, str]
    tokens: str

    def pairs(self, groups: int, inner: int) -> Iterable[tuple[str, str]]:
        """Yield every pair of names, ours and theirs, heads included.

        Args:
            groups: Groups of layers, each with `inner` layers.
        """
        heads = {row for rows in self.architectures.values() for row in rows}
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
        self, groups: int, inner: int, *, is_of_tokens: bool
    ) -> dict[str, str]:
        """Return our names by theirs; see `pairs` and `tokens`."""
        foreign = _CLASSES if is_of_tokens else TAGS
        return {
            theirs: name
            for name, theirs in self.pairs(groups, inner)
            if not name.startswith(foreign)
        }

    def full_name(self, name: str) -> str:
        """Return today's name of a tensor.

        An encoder that was saved alone lacks the scope before its names.
        """
        for old, new in _OLD_LEAVES:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        bare = name.split(".")[0] in ("embeddings", "encoder", "pooler")
        return f"{self.scope}.{name}" if bare else name


def _encoder(scope: str, layers: Rows, pooler: str) -> Rows:
    return (
        *(
            (f"bert/embeddings/{name}", kind, f"{scope}.embeddings.{name}")
            for name, kind in _EMBEDDINGS
        ),
        *layers,
        (f"{POOLER}/dense", "dense", pooler),
    )


_ALBERT_LAYER = (
    "bert/encoder/transformer/group_{group}/inner_group_{inner}/",
    "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
)
_ALBERT_LAYERS = (
    (MAPPING, "dense", MAPPING_THEIRS),
    *(
        (_ALBERT_LAYER[0] + ours, kind, _ALBERT_LAYER[1] + theirs)
        for ours, kind, theirs in (
            ("attention_1/self/query", "dense", "attention.query"),
            ("attention_1/self/key", "dense", "attention.key"),
            ("attention_1/self/value", "dense", "attention.value"),
            ("attention_1/output/dense", "dense", "attention.dense"),
            ("LayerNorm", "norm", "attention.LayerNorm"),
            ("ffn_1/intermediate/dense", "dense", "ffn"),
            ("ffn_1/intermediate/output/dense", "dense", "ffn_output"),
            ("LayerNorm_1", "norm", "full_layer_layer_norm"),
        )
    ),
)
_BERT_LAYERS = tuple(
    (
        bert.OUR_LAYER + ours,
        "norm" if theirs.endswith("LayerNorm") else "dense",
        "bert.encoder.layer.{group}." + theirs.replace("/", "."),
    )
    for theirs, ours in bert.SCOPES
)


def _masked_lm(transform: str, bias: str) -> Rows:
    return (
        ("cls/predictions/transform/dense", "dense", f"{transform}.dense"),
        (
            "cls/predictions/transform/LayerNorm",
            "norm",
            f"{transform}.LayerNorm",
        ),
        ("cls/predictions/output_bias", "bias", bias),
    )


def _architectures(
    name: str, masked_lm: Rows, sentences: str
) -> dict[str, Rows]:
    """Return the heads by class.

    Label 1 of the head for two sentences means swapped in an ALBERT, and random
    in a BERT, as with `sentence_objective=nsp`.
    """
    pairs = (("cls/seq_relationship/", "output", sentences),)
    return {
        f"{name}ForPreTraining": (*masked_lm, *pairs),
        f"{name}ForMaskedLM": masked_lm,
        f"{name}ForSequenceClassification": (("", "output", "classifier"),),
        f"{name}ForQuestionAnswering": (
            ("cls/squad/", "output", "qa_outputs"),
        ),
        f"{name}ForTokenClassification": ((TAGS, "output", "classifier"),),
        f"{name}Model": (),
    }


def _family(
    scope: str, encoder: Rows, masked_lm: Rows, sentences: str
) -> Family:
    """Return the family whose classes begin with the scope's name."""
    name, bias = scope.capitalize(), masked_lm[-1][-1]
    without_pooler = (
        "Model",
        "ForMaskedLM",
        "ForQuestionAnswering",
        "ForTokenClassification",
    )
    decoder = f"{bias}.decoder"
    return Family(
        scope,
        encoder,
        _architectures(name, masked_lm, sentences),
        {name + kind for kind in without_pooler},
        {
            f"{decoder}.weight": f"{scope}.embeddings.word_embeddings.weight",
            f"{decoder}.bias": f"{bias}.bias",
        },
        f"{name}ForTokenClassification",
    )


FAMILIES = {
    "albert": _family(
        "albert",
        _encoder("albert", _ALBERT_LAYERS, "albert.pooler"),
        _masked_lm("predictions", "predictions"),
        "sop_classifier.classifier",
    ),
    "bert": _family(
        "bert",
        _encoder("bert", _BERT_LAYERS, "bert.pooler.dense"),
        _masked_lm("cls.predictions.transform", "cls.predictions"),
        "cls.seq_relationship",
    ),
}
ALBERT, BERT = FAMILIES.values()
