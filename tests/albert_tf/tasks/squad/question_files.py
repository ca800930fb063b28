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


def content_of(*entries, context=CONTEXT):
    paragraph = {"context": context, "qas": list(entries)}
    return {"version": "", "data": [{"paragraphs": [paragraph]}]}


def write(path, *entries):
    path.write_text(json.dumps(content_of(*entries)))
    return str(path)
