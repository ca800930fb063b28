"""Tokenizers as others save them: our ids are those of `AutoTokenizer`."""

import json

import pytest

from albert_tf.text import normalization, tokenization, tokenizer_json
from albert_tf.training import run_folder
from tests.conftest import refused
from tests.foreign_tokenizers import CONFIG, OWN, RULES, SPECIAL, V3, write
from tests.parity.test_bert import HARD_TEXTS, own_lines

pytestmark = pytest.mark.torch
# Words of as many characters as those of both limits, and one more.
LONG = [f"a {'x' * count} b" for count in (100, 101, 150, 200, 201)]
TEXTS = [*HARD_TEXTS, *LONG]


def saved(folder, *, name="BertTokenizer", **settings):
    """As transformers 5 saves it: without vocab.txt."""
    import transformers

    made = getattr(transformers, name).from_pretrained(str(folder), **settings)
    for path in folder.iterdir():
        if path.name != "config.json":
            path.unlink()
    made.save_pretrained(str(folder))


def bert_5(folder, **settings):
    write(folder, "bert", {RULES: ..., CONFIG: ..., SPECIAL: ...})
    saved(folder, **settings)


def mpnet_5(folder, **settings):
    write(folder, "mpnet", {})
    saved(folder, name="MPNetTokenizer", **settings)


def tokenizers_alone(folder, **settings):
    """As the library tokenizers trains and saves it."""
    import tokenizers
    import transformers

    write(folder, "bert", {RULES: ..., CONFIG: ..., SPECIAL: ...})
    made = tokenizers.BertWordPieceTokenizer(
        str(folder / "vocab.txt"), **settings
    )
    (folder / "vocab.txt").unlink()
    special = {
        f"{n}_token": f"[{n.upper()}]"
        for n in ("pad", "unk", "cls", "sep", "mask")
    }
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made._tokenizer, **special
    ).save_pretrained(str(folder))


def our_export(folder, name="AutoTokenizer", **settings):
    options = tokenization.VocabularyOptions(
        vocab_file=str(OWN / "vocab.txt"), **settings
    )
    tokenizer = tokenization.load(options)
    write(folder, "bert", {"vocab.txt": ..., SPECIAL: ...})
    (folder / RULES).write_text(tokenizer_json.make(tokenizer))
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **tokenizer.normalization.of_classes,
        **tokenizer_json.special_pieces(tokenizer),
    }
    (folder / CONFIG).write_text(json.dumps(values))
    saved(folder, name=name)


FORMS = {
    "3, cased": lambda f: write(f, "bert", {RULES: ..., **V3}),
    "4": lambda f: write(f, "bert", {}),
    "4, cased": lambda f: write(
        f,
        "bert",
        {
            f"{RULES}:normalizer.lowercase": False,
            f"{CONFIG}:do_lower_case": False,
        },
    ),
    "4, casing of the config": lambda f: write(
        f, "bert", {f"{CONFIG}:do_lower_case": False}
    ),
    "5": bert_5,
    "5, cased": lambda f: bert_5(f, do_lower_case=False),
    "5, accents": lambda f: bert_5(f, strip_accents=False),
    "MPNet, 4": lambda f: write(f, "mpnet", {}),
    "MPNet, 4, cased": lambda f: write(
        f, "mpnet", {RULES: ..., f"{CONFIG}:do_lower_case": False}
    ),
    "MPNet, 5": mpnet_5,
    "XLM-R": lambda f: write(f, "xlm-roberta", {}),
    "tokenizers": tokenizers_alone,
    "tokenizers, cased": lambda f: tokenizers_alone(f, lowercase=False),
    "ours": our_export,
    "ours, cased": lambda f: our_export(f, do_lower_case=False),
    "ours, accents": lambda f: our_export(f, keep_accents=True),
    "ours by BertTokenizer": lambda f: our_export(f, "BertTokenizer"),
    "ours by BertTokenizer, cased": lambda f: our_export(
        f, "BertTokenizer", do_lower_case=False
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_of_words_are_those_of_transformers(tmp_path, form):
    import transformers

    FORMS[form](tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    given = tokenization.VocabularyOptions()
    found, _ = run_folder.vocabulary_beside(str(tmp_path), given)
    ours = tokenization.load(found.resolved())
    texts = TEXTS + own_lines()[:100]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    for text, ids in zip(texts, expected, strict=True):
        assert ours.encode(text) == ids, text


@pytest.mark.parametrize("way", ["lampe", "[E1]"])
def test_added_tokens_of_transformers_are_refused(tmp_path, way):
    import transformers

    bert_5(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    theirs.add_tokens([way], special_tokens=way.startswith("["))
    theirs.save_pretrained(str(tmp_path))
    with refused(r'tokenizer.json has added tokens=\["'):
        normalization.read(str(tmp_path / RULES), normalization.WORDPIECE)


@pytest.mark.parametrize(
    ("lower", "keep_accents", "is_fast"),
    [(True, False, False), (False, True, True), (False, False, False)],
)
def test_a_saved_model_of_pieces_gives_the_ids_of_its_file(
    tmp_path, shared_dir, lower, keep_accents, is_fast
):
    """transformers 5 saves no spiece.model; its own ids differ, see docs."""
    source = shared_dir / "data/vocab/30k-clean.model"
    write(tmp_path, "albert", {RULES: ..., CONFIG: ..., SPECIAL: ...})
    (tmp_path / "spiece.model").write_bytes(source.read_bytes())
    settings = {"do_lower_case": lower, "keep_accents": keep_accents}
    saved(tmp_path, name="AlbertTokenizer", **settings)
    if is_fast:  # Its class is lost: what remains are the rules.
        (tmp_path / CONFIG).write_text(
            '{"tokenizer_class": "PreTrainedTokenizerFast"}'
        )
    given = tokenization.VocabularyOptions()
    found, _ = run_folder.vocabulary_beside(str(tmp_path), given)
    assert found.path == str(tmp_path / RULES)
    assert found.resolved().settings.items() >= settings.items()
    ours = tokenization.load(found.resolved())
    expected = tokenization.Tokenizer(str(source), **settings)
    texts = TEXTS + own_lines()[:100]
    assert ours.encode_batch(texts) == expected.encode_batch(texts)
