"""Writing the card of a run again."""

from albert_tf import write_run_card
from albert_tf.text import tokenization
from albert_tf.training import run_folder
from tests.conftest import refused


def test_the_card_is_made_from_the_folder_alone(small_config, tmp_path, capsys):
    settings = write_run_card.RunCardOptions(str(tmp_path))
    vocabulary = tokenization.VocabularyOptions()
    run_folder.RunStart(
        str(tmp_path), "run_x", settings, small_config, vocabulary
    ).write_options()
    write_run_card.run(settings)
    path = tmp_path / "run_card.md"
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text().startswith("# Run card: run_x")
    write_run_card.run(settings)  # It replaces its own.
    path.write_text("# What I think of this run\n")
    with refused("run_card.md was written by hand"):
        write_run_card.run(settings)
    assert path.read_text() == "# What I think of this run\n"
