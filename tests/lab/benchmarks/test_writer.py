from lab.benchmarks import writer


def test_generated_text_has_the_size_and_the_layout_of_its_source(tmp_path):
    source = tmp_path / "source.txt"
    source.write_text("the lamp was old .\nit fell .\n\nshe left .\n", "utf-8")
    texts = []
    for name in "ab":
        target = tmp_path / name
        writer.write_text(str(source), str(target), 1000)
        texts.append(target.read_text("utf-8"))
    assert texts[0] == texts[1]
    assert 1000 <= len(texts[0]) < 1050
    assert set(texts[0].split()) == set(source.read_text("utf-8").split())
    assert texts[0].split("\n")[2] == ""
