"""Tags of words as a task: alignment, records, metrics, answers."""

import json

import numpy as np
import pytest
from seqeval import metrics

from albert_tf.common import rows
from albert_tf.finetuning import base, overlaps
from albert_tf.serving.client import ask
from albert_tf.tasks.tagging import data as tagging_data
from albert_tf.tasks.tagging import portable
from albert_tf.tasks.tagging import task as tagging
from albert_tf.text import tokenization, wordpiece, words
from tests.albert_tf.finetuning import tagged
from tests.conftest import FIXTURES, refused

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
OWN_TEXT = FIXTURES / "own_text"
TOKENIZERS = {
    "sentencepiece": lambda: tokenization.Tokenizer(
        str(OWN_TEXT / "spm.model")
    ),
    "cased": lambda: tokenization.Tokenizer(
        str(OWN_TEXT / "spm.model"), False, keep_accents=True
    ),
    "wordpiece": lambda: wordpiece.WordPieceTokenizer(
        str(OWN_TEXT / "vocab.txt")
    ),
}


def make(tokenizer, length=16, labels=LABELS):
    options = tagging.TaggingOptions("\t".join(labels) or None)
    return tagging.TaggingTask(tokenizer, length, options)


def of_text(text, tags=None):
    pairs = zip(*(x.tolist() for x in words.ranges(text)), strict=True)
    guid = rows.LineKey({"line": 1})
    return tagging_data.TaggedText(guid, text, tuple(pairs), tags)


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("text", tagged.HARD)
def test_a_word_has_the_first_piece_that_begins_in_it(kind, text):
    """Looked for character by character."""
    tokenizer = TOKENIZERS[kind]()
    example = of_text(text)
    laid = tagging.lay_out(example, tokenizer, 16)
    ids, starts, ends = tokenizer.encode_with_offsets(text)
    expected = [-1] * len(example.words)
    for piece in reversed(range(len(ids))):
        inside = range(starts[piece], ends[piece])
        begin = next((i for i in inside if not text[i].isspace()), -1)
        for number, (start, end) in enumerate(example.words):
            if start <= begin < end:
                expected[number] = piece
    assert laid.first.tolist() == expected
    np.testing.assert_array_equal(laid.ids, ids)
    counts = np.zeros(len(ids), int)
    for (begin, length), counting in zip(
        laid.windows, laid.counts, strict=True
    ):
        assert length <= 14
        counts[begin : begin + length] += counting
    assert (counts == 1).all()
    for (start, end), first, goes_on in zip(
        example.words, laid.first, laid.goes_on, strict=True
    ):
        if first < 0 and not goes_on:
            assert not tokenizer.encode(text[start:end])


def test_words_of_one_piece_share_its_tag(tiny_tokenizer):
    """In a script without spaces a piece may hold several words."""

    class Pairs:
        def encode_with_offsets(self, text):
            starts = np.arange(0, len(text), 2)
            return starts + 7, starts, np.minimum(starts + 2, len(text))

    example = of_text("東京大学\u200b")
    laid = tagging.lay_out(example, Pairs(), 16)
    assert laid.first.tolist() == [0, -1, 1, -1, 2]
    assert laid.goes_on.tolist() == [False, True, False, True, False]
    task = make(tiny_tokenizer)
    task.tokenizer = Pairs()
    logits = np.zeros([1, 16, 5])
    logits[0, [1, 2, 3], [3, 2, 0]] = 50  # B-LOC, I-PER, O.
    (found,) = task._tags({"logits": logits}, [example])
    assert [tag for tag, _ in found] == [
        "B-LOC",
        "I-LOC",
        "B-PER",
        "I-PER",
        "O",
    ]


def records(task, examples, split=base.TRAIN):
    (found,) = task.featurize(examples, split)
    layout = {feature.name: feature.shape for feature in task.layout(split)}
    assert {name: value.shape[1:] for name, value in found.items()} == layout
    return found


def test_every_word_is_learnt_once_at_its_first_piece(tiny_tokenizer):
    task = make(tiny_tokenizer)
    text = tagged.HARD[-2]
    example = of_text(text)
    tags = ["B-PER" if w in tagged.NAMES else "O" for w in example.texts]
    short = of_text("Ivo Nord \u0301", ("B-PER", "of another task", "I-LOC"))
    task.remarks = {}
    found = records(task, [short, of_text(text, tags)])
    what = "examples have words of which cleaning leaves nothing."
    assert task.remarks == {what: ["line 1"]}
    assert found["label_ids"][0].tolist() == [0, 2] + [0] * 14
    assert not found["segment_ids"].any()
    assert found["is_real_example"].all()
    ids, starts, _ = tiny_tokenizer.encode_with_offsets(text)
    mask = found["input_mask"]
    learnt = []
    for row, (begin, length) in enumerate(
        overlaps.split(len(ids), 14, overlaps.stride(16)), 1
    ):
        part = ids[begin : begin + length]
        inputs = [tiny_tokenizer.cls_id, *part, tiny_tokenizer.sep_id]
        inputs += [0] * (16 - len(inputs))
        assert found["input_ids"][row].tolist() == inputs
        assert mask[row].tolist() == [1] * (length + 2) + [0] * (14 - length)
        places = np.flatnonzero(found["label_ids"][row])
        numbers = found["label_ids"][row, places]
        learnt += zip((begin + places - 1).tolist(), numbers, strict=True)
    assert row + 1 == len(mask) > 5
    laid = tagging.lay_out(example, tiny_tokenizer, 16)
    expected = [1 if tag == "O" else 2 for tag in tags]
    assert learnt == [*zip(laid.first, expected, strict=True)]
    assert "label_ids" not in records(task, [example], base.PREDICT)
    assert records(task, [of_text("")])["input_ids"].shape == (0, 16)


def outputs_of(task, examples, labels):
    """Logits that say `labels` at all pieces of the words."""
    rows = []
    for example, tags in zip(examples, labels, strict=True):
        laid = tagging.lay_out(example, task.tokenizer, task.max_seq_length)
        wanted = np.zeros([len(laid.ids), len(task.labels)])
        for first, tag in zip(laid.first, tags, strict=True):
            wanted[first, task.labels.index(tag)] = 9
        wrong = 9 * np.eye(len(task.labels))[-1]  # It does not count.
        for (begin, length), counts in zip(
            laid.windows, laid.counts, strict=True
        ):
            row = np.zeros([task.max_seq_length, len(task.labels)]) + wrong
            row[1 : length + 1][counts] = wanted[begin : begin + length][counts]
            rows.append(row)
    return {"logits": np.array(rows)}


def test_scores_are_those_of_seqeval(tiny_tokenizer):
    task = make(tiny_tokenizer, 8)
    tags = ("B-PER", "O", "B-LOC", "I-LOC", "O", "B-PER")
    examples = [
        of_text("Ivo saw Nord Farm, Mara", tags),
        of_text("Ivo", ("O",)),
    ]
    # Right, right type but too short, wrong; an I- begins an entity.
    found = [["I-PER", "O", "B-LOC", "O", "I-PER", "B-LOC"], ["B-PER"]]
    outputs = outputs_of(task, examples, found)
    scores = task.score(outputs, examples)
    assert scores == {
        "accuracy": pytest.approx(3 / 7),
        "precision": 1 / 5,
        "recall": 1 / 3,
        "f1": pytest.approx(2 / 8),
    }
    assert task.key_metric == "f1"
    by_type = task.confusion(outputs, examples)
    report = metrics.classification_report(
        [list(tags), ["O"]], found, output_dict=True, zero_division=0
    )
    assert by_type.labels == ("LOC", "PER")
    for number, label in enumerate(by_type.labels):
        for name in ("precision", "recall", "F1"):
            wanted = report[label]["f1-score" if name == "F1" else name]
            assert by_type.scores[name][number] == pytest.approx(wanted)
    assert by_type.micro["micro_f1"] == pytest.approx(scores["f1"])


def of_words(written, tags):
    """An example with the words of a file, and its tags for their parts."""
    text, starts = words.join(written.split(" "))
    pairs = zip(starts.tolist(), written.split(" "), strict=True)
    places = tuple((start, start + len(word)) for start, word in pairs)
    guid = rows.LineKey({"line": 1})
    return tagging_data.TaggedText(guid, text, places, tuple(tags.split()))


@pytest.mark.parametrize(
    ("found", "as_words", "as_text"),
    [
        ("B-PER I-PER I-PER O O O", 1.0, 1.0),
        # Cut within a word; begun again; beyond the word.
        ("B-PER O I-PER O O O", 1.0, 0.0),
        ("B-PER I-PER B-PER O O O", 0.0, 0.0),
        ("B-PER I-PER I-PER O I-PER O", 1.0, 2 / 3),
    ],
)
def test_the_score_of_the_same_texts_is_told(
    tiny_tokenizer, caplog, found, as_words, as_text
):
    """The first part of a word decides about it, but all are in texts."""
    task = make(tiny_tokenizer)
    example = of_words("J. Clark 's mill", "B-PER I-PER O O")
    parts, _ = example.cut()
    assert parts.texts == ["J", ".", "Clark", "'", "s", "mill"]
    assert parts.tags == ("B-PER", "I-PER", "I-PER", "O", "O", "O")
    outputs = outputs_of(task, [parts], [found.split()])
    assert task.score(outputs, [example])["f1"] == pytest.approx(as_words)
    told = f"f1 is {as_words:.3f} for the words of the file, but {as_text:.3f}"
    assert (told in caplog.text) == (as_words != as_text)
    (answer,) = task.answers(outputs, [of_text(example.text)])
    names = "start", "end", "label"
    columns = zip(
        *([s[n] for n in names] for s in answer["spans"]), strict=True
    )
    values = dict(zip(names, map(np.array, columns), strict=True))
    served = {
        f"span_{n}": v.astype("S" if n == "label" else int)[None]
        for n, v in values.items()
    }
    served |= {"num_spans": np.array([len(answer["spans"])])}
    scores = task.score_answers([served], [example])
    assert scores["f1"] == pytest.approx(as_text)


def test_parts_of_words_are_learnt(tiny_tokenizer):
    """Of entities the rest goes on; other tags are those of all parts."""
    example = of_words("J. Clark 's", "B-PER I-PER O")
    task = make(tiny_tokenizer)
    found = records(task, [example])["label_ids"]
    assert found[found > 0].tolist() == [2, 3, 3, 1, 1]
    # A beginning of which no piece is left does not take the tag with it.
    example = of_words("\u200b-Clark fell", "B-PER O")
    found = records(task, [example])["label_ids"]
    assert found[found > 0][0] == 2
    task = make(tiny_tokenizer, labels=("NOUN", "PART"))
    example = of_words("J. 's", "NOUN PART")
    found = records(task, [example])["label_ids"]
    assert found[found > 0].tolist() == [1, 1, 2, 2]


def test_without_entities_there_is_nothing_to_confuse(tiny_tokenizer):
    task = make(tiny_tokenizer)
    example = of_text("Ivo", ("O",))
    outputs = outputs_of(task, [example], [["O"]])
    assert task.confusion(outputs, [example]) is None
    assert task.score(outputs, [example])["accuracy"] == 1


def test_parts_of_speech_are_scored_by_words(tiny_tokenizer, tmp_path):
    task = make(tiny_tokenizer, labels=("NOUN", "VERB"))
    example = of_text("Ivo saw", ("NOUN", "VERB"))
    outputs = outputs_of(task, [example], [["NOUN", "NOUN"]])
    assert task.score(outputs, [example]) == {"accuracy": 0.5}
    assert task.key_metric == "accuracy"
    by_tag = task.confusion(outputs, [example])
    assert by_tag.labels == ("NOUN", "VERB")
    assert by_tag.counts.tolist() == [[1, 0], [1, 0]]
    (answer,) = task.answers(outputs, [example])
    assert answer["line"] == 1
    assert answer["text"] == "Ivo saw"
    assert [s["label"] for s in answer["spans"]] == ["NOUN", "NOUN"]
    both = [example, of_text("Nord fell", ("VERB", "NOUN"))]
    outputs = outputs_of(task, both, [["NOUN"] * 2] * 2)
    task.write_predictions(outputs, both, "dev", str(tmp_path))
    assert (tmp_path / "dev_predictions.tsv").read_text() == (
        "Ivo\tNOUN\tNOUN\nsaw\tVERB\tNOUN\n\n"
        "Nord\tVERB\tNOUN\nfell\tNOUN\tNOUN\n"
    )


def test_words_are_answered_as_words_in_every_form(tiny_tokenizer, tmp_path):
    """By the task, by answer.py and for the outputs of a SavedModel."""
    task = make(tiny_tokenizer, labels=("NOUN", "VERB"))
    written = ["Ivo", "saw", "U.S."]
    (tmp_path / "x").write_text(json.dumps({"words": written}))
    (example,) = task.read_own(str(tmp_path / "x"))
    outputs = outputs_of(task, [example], [["NOUN", "VERB", "NOUN", "VERB"]])
    (answer,) = task.answers(outputs, [example])
    assert [one["text"] for one in answer["spans"]] == written
    decoder = portable.Decoder(
        {"max_seq_length": 16, "labels": task.labels}, tiny_tokenizer
    )
    _, asked = decoder.lay_out(written)
    found = decoder.conclude(asked, [{"logits": outputs["logits"][0]}])
    assert found["text"] == answer["text"]
    for ours, theirs in zip(found["spans"], answer["spans"], strict=True):
        byte = {"start_byte": ours["start"], "end_byte": ours["end"]}
        assert ours == {**theirs, **byte}
    parts = decoder.conclude(
        decoder.lay_out(answer["text"])[1], [{"logits": outputs["logits"][0]}]
    )["spans"]
    assert len(parts) == 4
    row = {"num_spans": np.array([4])}
    for name in parts[0]:
        values = [[one[name] for one in parts]]
        if name in ("label", "text"):
            values = np.array([[x.encode() for x in values[0]]], object)
        row[f"span_{name}"] = np.array(values)
    assert ask.readable(row, written) == {"spans": found["spans"]}


def test_answers_can_be_learnt_again(tiny_tokenizer, tmp_path):
    """They are files of texts with spans; columns are written too."""
    task = make(tiny_tokenizer)
    example = of_text("Ivo saw Nord Farm, Mara")
    tags = ["B-PER", "O", "B-LOC", "I-LOC", "O", "B-PER"]
    outputs = outputs_of(task, [example], [tags])
    (answer,) = task.answers(outputs, [example])
    assert [s["text"] for s in answer["spans"]] == ["Ivo", "Nord Farm", "Mara"]
    probability = np.exp(9) / (np.exp(9) + 4)
    for span in answer["spans"]:
        assert span["score"] == pytest.approx(probability)
    task.write_predictions(outputs, [example], "test", str(tmp_path))
    for ending in ("jsonl", "tsv"):
        path = tmp_path / f"test_predictions.{ending}"
        (found,) = task.read(str(path), base.DEV)
        assert found.texts == example.texts
        assert list(found.tags) == tags
    mean = task.combine([outputs, outputs])
    tagged_example = of_text(example.text, found.tags)
    assert task.score(mean, [tagged_example])["f1"] == 1


def test_a_vocabulary_that_hides_names_is_warned_of(
    tiny_tokenizer, tmp_path, caplog
):
    path = tmp_path / "x"
    lines = ["May\tB-PER", "may\tO", "rain\tO", "may\tO"]
    lines += ["Nord\tB-LOC", "farm\tB-LOC", "Farm\tI-LOC"]
    path.write_text("\n".join(lines) + "\n")
    task = make(tiny_tokenizer, labels=())
    task.read(str(path), base.DEV)
    assert (task.labels, caplog.messages) == ((), [])
    facts = task.find_facts(task.options, base.FactSource(str(path)))
    task = tagging.TaggingTask(tiny_tokenizer, 16, task.options, facts)
    task.read(str(path), base.TRAIN)
    assert task.labels == ("O", *LABELS[3:], *LABELS[1:3])
    assert task.settings["tags"] == list(task.labels)
    assert task.settings["word_column"] == task.options.columns.word_column
    assert "1 of 7 words become equal" in caplog.text
    assert "has only one example of PER, too few" in caplog.text
    caplog.clear()
    path.write_text("\n".join([*lines, *["rain\tO"] * 93]) + "\n")
    task.read(str(path), base.TRAIN)
    assert "words become equal" not in caplog.text
    path.write_text("rain\n")
    assert [e.tags for e in task.read(str(path), base.TEST)] == [None]
    with refused("x"):
        task.read(str(path), base.DEV)


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ("O B-A M-A E-A S-A", "I-A"),
        ("O I-A", "B-A"),
        ("O S-A", "B-A, I-A"),
        ("O B-A I-A E-A S-A", ""),
    ],
)
def test_tags_that_would_not_be_learnt_are_refused(
    tiny_tokenizer, tmp_path, labels, missing
):
    """Files are read as BIO, whatever their tags and the model's are."""
    path = tmp_path / "x"
    path.write_text("New\tB-A\nYork\tE-A\nis\tO\n")
    task = make(tiny_tokenizer, labels=labels.split())
    task.read(str(path), base.DEV)
    if not missing:
        (example,) = task.read(str(path), base.TRAIN)
        assert np.count_nonzero(records(task, [example])["label_ids"]) == 3
        return
    with refused(f"x has the tags {missing}, in"):
        task.read(str(path), base.TRAIN)


@pytest.mark.parametrize("tags", ["O", "O\tB-A\tO", "O\t\tB-A"])
def test_tags_that_are_no_list_are_refused(tags):
    with refused("tags=.*two tags or more"):
        tagging.TaggingOptions(tags)


def test_lengths_without_text_are_refused(tiny_tokenizer):
    with refused("max_seq_length=2.* leaves no"):
        make(tiny_tokenizer, 2)
