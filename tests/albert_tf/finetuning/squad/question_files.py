"""Small files in the layout of SQuAD."""

import json

CONTEXT = "The rain falls on the hill and the rain feeds the river."


LENGTH = 24


def entry(id_, answer=None, start=None):
    """A question; without an answer one that cannot be answered."""
    answers = []
    if answer is not None:
        start = CONTEXT.find(answer) if start is None else start
        answers = [{"text": answer, "answer_start": start}]
    return {
        "id": id_,
        "question": f"What is {id_}?",
        "answers": answers,
        "is_impossible": not answers,
    }


def write(path, *entries):
    paragraph = {"context": CONTEXT, "qas": list(entries)}
    content = {"version": "", "data": [{"paragraphs": [paragraph]}]}
    path.write_text(json.dumps(content))
    return str(path)
