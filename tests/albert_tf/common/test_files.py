"""Finding files by pattern and replacing them whole."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import types

import pytest

from albert_tf.common import files
from tests.conftest import ROOT, refused


def touch(folder, *names):
    for name in names:
        (folder / name).write_text(name)


def test_patterns_find_files_in_order_each_once(tmp_path):
    (tmp_path / "a.folder").mkdir()
    touch(tmp_path, "b1", "b0", "a1", "a0", "a0.manifest.json", "a.partial")
    touch(tmp_path, "a1.card.md", "a1.card.png")
    patterns = f"{tmp_path}/b*, {tmp_path}/a*,{tmp_path}/*0,"
    found = files.expand_patterns(patterns, "input_file", files.BESIDE_RECORDS)
    assert found == [str(tmp_path / name) for name in ("b0", "b1", "a0", "a1")]
    assert len(files.expand_patterns(f"{tmp_path}/*", "input_file")) == 8
    assert files.list_folder(str(tmp_path))[:2] == ["a.folder", "a.partial"]
    (tmp_path / "[b]").mkdir()
    touch(tmp_path / "[b]", "z.x", "y.x", "x")
    found = files.find_by_ending(f"{tmp_path}/[b]", ".x")
    assert found == [f"{tmp_path}/[b]/{name}" for name in ("y.x", "z.x")]


def test_a_file_of_several_names_is_read_once(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "copy").write_text("t")  # Equal, but another file.
    touch(tmp_path, "t", "u", "z")
    (tmp_path / "a_link").symlink_to("t")
    (tmp_path / "b_link").symlink_to("a_link")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "v").hardlink_to(tmp_path / "u")
    for patterns, found in (
        (f"t,./t,d/../t,{tmp_path}/t", ["t"]),
        ("up/t,t", ["up/t"]),
        ("u,v", ["u"]),
        ("b_link,d/*", ["b_link", "d/copy"]),
        # A file itself goes before links to it, which come first here.
        ("*", ["t", "u", "z"]),
        ("z,[a-b]*", ["z", "a_link"]),
    ):
        caplog.clear()
        assert files.expand_patterns(patterns, "x") == found, patterns
        assert ("read once" in caplog.text) == (patterns != "b_link,d/*")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        (" , ", []),
        ("a, c", ["a", "c"]),
        ("a,b", ["a,b"]),
        ("c, a,b ,c", ["c", "a,b", "c"]),
        ("d,e/f,g", ["d,e/f,g"]),
        ("a,x,a,b", ["a", "x", "a,b"]),
    ],
)
def test_a_comma_in_the_name_of_a_file_divides_no_list(
    text, names, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d,e").mkdir()
    touch(tmp_path, "a", "a,b", "d,e/f,g")
    assert files.split_list(text) == names


@pytest.mark.parametrize("name", ["a[1].txt", "a*", "?", "[!b]", "a[", "**"])
def test_a_pattern_that_is_the_name_of_a_file_means_it(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "a1.txt", "a2", "c", name)
    assert files.expand_patterns(name, "x") == [name]
    paths = ["a1.txt", f"./{name}"]
    assert files.expand_patterns(",".join(paths), "x") == paths


def expand(patterns):
    files.expand_patterns(patterns, "input_file", files.BESIDE_RECORDS)


# Of the option x, in a folder with "file", "folder", "pipe", "a.card.md".
REFUSED = [
    (expand, "", "`input_file` is empty"),
    (expand, " , ", "`input_file` is empty"),
    (expand, "file,z*", r"`input_file=z\*` matches no file"),
    (expand, "a.*", "matches no file"),
    (expand, "folder", r"is a folder.* Use 'folder/\*'"),
    (expand, "pipe", "is a pipe or a device"),
    (expand, "dangling", "It is a link to nowhere, which is missing. Check"),
    (expand, "a.card.md", "`input_file=a.card.md` stands beside record files"),
    (files.require_file, "pipe", "`x=pipe` is not a file. Check the path"),
    (files.require_file, "none", "`x=none` is not a file. Check the path"),
    (files.require_file, "dangling", "not a file. It is a link to nowhere"),
    (files.require_file, "file/", "`x=file/` is not a file. Did you mean file"),
    (files.require_file, "filee", "not a file. Did you mean file. Check the"),
    (files.require_file, "foldr/a", "not a file. Did you mean folder. Check"),
    (files.require_file, "folder/innr", "Did you mean folder/inner. Check"),
    (expand, "fille", "no file. Did you mean file. Check the spelling"),
    (files.require_file, ".", "`x=.` is not a file but a folder. Name"),
    (files.refuse_file, "file", "`x=file` is a file. A folder"),
    (files.make_folder, "file", "`x`: Cannot .* 'file': 'file' is a file"),
    (files.make_folder, "file/", "'file/': 'file/?' is a file. Name another"),
    (files.make_folder, "file/a/b", "'file/a/b': 'file' is a file"),
    (files.make_folder, "a/" * 3000, "`x`: Cannot create .*name too long"),
    (files.require_folder_target, "dangling", "`x`: Cannot create"),
    (files.require_folder_target, "dangling/", "`x`: Cannot create"),
    (files.read_bytes, "folder", "folder is a folder. Put a file in its"),
    (files.read_bytes, "pipe", "pipe is a pipe or a device"),
]


PATH_ALONE = expand, files.read_bytes


@pytest.mark.parametrize(("function", "path", "message"), REFUSED)
def test_what_is_refused(function, path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    touch(tmp_path, "file", "a.card.md", "folder/inner")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    with refused(f"(?i){message}"):
        function(*[path, "x"][: 1 + (function not in PATH_ALONE)])
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "file")
    files.refuse_file(".", "x")
    files.refuse_file("missing", "x")
    assert files.require_file("file", "x") == "file"
    files.make_folder(os.path.dirname("gs://words"))  # A bucket needs none.
    for name in ("new", "new/"):
        files.require_folder_target(name, "x")
        assert os.listdir() == ["file"]


@pytest.mark.parametrize("unfinished_work", [False, True])
def test_a_file_is_replaced_whole(tmp_path, monkeypatch, unfinished_work):
    """It is synced to the disk, unless it is unfinished work."""
    synced, path = [], str(tmp_path / "file")
    monkeypatch.setattr(os, "fsync", synced.append)
    (tmp_path / "file.partial").write_text("of a browser")
    for text in ("old", "néw"):
        files.write_text(path, text, unfinished_work=unfinished_work)
    assert files.read_bytes(path) == "néw".encode()
    with (
        pytest.raises(RuntimeError, match="stop"),
        files.replace_atomically(
            path, unfinished_work=unfinished_work
        ) as stream,
    ):
        stream.write(b"half")
        raise RuntimeError("stop")
    assert files.read_bytes(path) == "néw".encode()
    assert (tmp_path / "file.partial").read_text() == "of a browser"
    assert len(list(tmp_path.iterdir())) == 2
    assert len(synced) == (0 if unfinished_work else 2)


def test_paths_with_a_scheme_work_alike():
    folder = "ram://test_files"
    files.make_folder(folder)
    for name in ("b.txt", "a.txt"):
        files.write_text(f"{folder}/{name}", name)
    assert files.exists(f"{folder}/a.txt")
    assert files.read_bytes(f"{folder}/b.txt") == b"b.txt"
    assert files.require_file(f"{folder}/a.txt", "x") == f"{folder}/a.txt"
    assert files.expand_patterns(f"{folder}/*.txt", "x") == [
        f"{folder}/a.txt",
        f"{folder}/b.txt",
    ]
    with refused("`x=ram://.*` is not a file"):
        files.require_file(f"{folder}/none", "x")


def test_sha256_is_that_of_the_content(tmp_path):
    content = bytes(range(251)) * 10_000  # More than is read at a time.
    (tmp_path / "x").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    assert files.sha256(str(tmp_path / "x")) == digest


def test_only_regular_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="Not a regular file"):
        files.write_text(str(pipe), "new")
    assert pipe.is_fifo()


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("elsewhere/file")
    with files.replace_atomically(str(link)) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", ["link", "link.albert_tf.partial"])
def test_a_link_in_a_folder_of_ours_is_replaced_itself(tmp_path, name):
    (tmp_path / "other").write_text("old")
    (tmp_path / name).symlink_to("other")
    files.write_text(str(tmp_path / "link"), "new")
    assert (tmp_path / "other").read_text() == "old"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "other"]


# Writes half a file, says so, and goes on when it is told to.
WRITER = """
import sys
from albert_tf.common import files
path, is_unfinished_work, content = sys.argv[1:]
with files.replace_atomically(
    path, unfinished_work=is_unfinished_work == "True"
) as stream:
    stream.write(content.encode())
    stream.flush()
    print("half", flush=True)
    sys.stdin.readline()
    stream.write(content.encode())
"""


@pytest.fixture
def start_writer():
    """Starts processes that write a file; ends those that are left."""
    with contextlib.ExitStack() as stack:

        def start(path, content, *, unfinished_work=False):
            command = [sys.executable, "-c", WRITER, str(path)]
            process = stack.enter_context(
                subprocess.Popen(
                    [*command, str(unfinished_work), content],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            assert process.stdout.readline() == b"half\n"
            return process

        yield start


@pytest.mark.parametrize("unfinished_work", [False, True])
def test_two_processes_that_write_a_file_do_not_mix(
    start_writer, tmp_path, unfinished_work
):
    """The file is always one of the two, whole; the last one stays."""
    path = tmp_path / "file"
    first, second = (
        start_writer(path, content, unfinished_work=unfinished_work)
        for content in ("first", "2")
    )
    assert not path.exists() and len(list(tmp_path.iterdir())) == 2
    for process, content in ((second, "22"), (first, "firstfirst")):
        process.communicate(b"\n")
        assert process.returncode == 0
        assert path.read_text() == content
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_has_left_is_removed_alone(
    start_writer, tmp_path
):
    path = tmp_path / "a*"  # No pattern.
    killed = start_writer(path, "killed")
    killed.kill()
    killed.wait()
    alive = start_writer(path, "alive")
    others = "ab", "a*.partial", f"a*.x{files.PARTIAL}", f"a*b{files.PARTIAL}"
    touch(tmp_path, *others, f"a*{files.PARTIAL}")  # Of an earlier version.
    (tmp_path / f"a*.01234567{files.PARTIAL}").mkdir()
    own = {path.name for path in tmp_path.iterdir()} - {*others}
    assert {*map(os.path.basename, files.find_leftovers(str(path)))} < own
    files.write_text(str(path), "new")
    left = {path.name for path in tmp_path.iterdir()} - {*others, "a*"}
    assert own > left and len(left) == 2  # A folder, and that of `alive`.
    alive.communicate(b"\n")
    assert path.read_text() == "alivealive"


def test_without_locks_nothing_is_taken_for_left(tmp_path, monkeypatch):
    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", flock)
    partial = f"file{files.PARTIAL}"
    touch(tmp_path, partial)
    files.write_text(str(tmp_path / "file"), "new")
    assert sorted(os.listdir(tmp_path)) == ["file", partial]
    assert files.find_leftovers(str(tmp_path / "file")) == []


def test_what_is_left_is_known_where_only_writers_may_lock(
    tmp_path, monkeypatch
):
    lock = fcntl.flock

    def flock(descriptor, how):  # As on NFS.
        if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE:
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(descriptor, how)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    touch(tmp_path, f"file{files.PARTIAL}", f"file.01234567{files.PARTIAL}")
    assert len(files.find_leftovers(str(tmp_path / "file"))) == 2
    files.write_text(str(tmp_path / "file"), "new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_nobody_may_list_can_be_written_to(tmp_path, monkeypatch):
    def listdir(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(files.os, "listdir", listdir)
    files.write_text(str(tmp_path / "file"), "new")
    assert (tmp_path / "file").read_text() == "new"


def test_a_full_disk_is_named_with_the_file_that_found_it(tmp_path):
    outer, inner = str(tmp_path / "outer"), str(tmp_path / "inner")
    with (
        pytest.raises(OSError, match=r"No space.*bytes are free.*/inner'$"),
        files.replace_atomically(outer),
        files.replace_atomically(inner) as stream,
    ):
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_too_little_room_is_named_with_the_folder(monkeypatch):
    free = types.SimpleNamespace(free=2000)
    monkeypatch.setattr(shutil, "disk_usage", {"run": free}.get)
    files.require_disk_space("run", 2000, "output_dir")
    files.require_disk_space("gs://bucket/run", 2**60, "output_dir")
    words = "`output_dir=run` .* 2,000 free bytes, but 2,001 are needed"
    with pytest.raises(OSError, match=words):
        files.require_disk_space("run", 2001, "output_dir")


def test_lines_are_those_of_utf8(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfa \r\n\n\xc3\xbc")
    assert files.read_lines(str(path), "x") == ["a ", "", "\u00fc"]
    path.write_bytes(b"a\n\xfc")
    with refused("`x=.* byte 3 of the file is"):
        files.read_lines(str(path), "x")


NEW, OLD = "x.albert_tf.partial", "x.albert_tf.replaced"
USERS = {"x.old", "x.partial", "x.replaced"}


@pytest.mark.parametrize(
    "there, expected",
    [
        # Killed while the new one was made, before and after the exchange.
        ({"x": "old", NEW: "half"}, "old"),
        ({OLD: "old", NEW: "new"}, "old"),
        ({"x": "new", OLD: "old"}, "new"),
        ({NEW: "half"}, None),
        # What has another name is the user's.
        *(({"x": "new", name: "mine"}, "new") for name in USERS),
    ],
)
def test_a_killed_replacement_of_a_folder_is_cleared(tmp_path, there, expected):
    for name, text in there.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    files.clear_replacement(str(tmp_path / "x"))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == ({"x"} if expected else set()) | (USERS & set(there))
    if expected:
        assert (tmp_path / "x" / "file").read_text() == expected


def test_a_folder_that_cannot_be_exchanged_stays(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    touch(tmp_path / "x", "old")
    real = os.replace

    def replace(source, target):
        if str(source).endswith(files.PARTIAL):
            raise OSError(errno.EIO, "no")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with (
        pytest.raises(OSError, match="no"),
        files.replace_folder(f"{tmp_path}/x/"),
    ):
        pass
    assert [p.name for p in tmp_path.rglob("*")] == ["x", "old"]


def test_a_folder_beside_that_is_the_users_is_not_removed(tmp_path):
    for name in ("x", "x.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("mine")
    with files.replace_folder(str(tmp_path / "x")) as folder:
        files.write_text(f"{folder}/file", "new")
    assert (tmp_path / "x" / "file").read_text() == "new"
    assert (tmp_path / "x.old" / "file").read_text() == "mine"


def test_of_a_link_the_folder_that_it_leads_to_is_replaced(tmp_path):
    """Again and again; what a link led to in earlier versions stays, too."""
    for name in ("real", "earlier"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("old")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "link").symlink_to("../real")
    touch(tmp_path, f"there/link{files.PARTIAL}")  # The user's.
    (tmp_path / "real.albert_tf.replaced").symlink_to("earlier")
    link = f"{tmp_path}/there/link"
    for text in ("new", "newer"):
        files.clear_replacement(link)
        files.require_folder_target(link, "x")
        with files.replace_folder(f"{link}/") as folder:
            files.write_text(f"{folder}/file", text)
        assert os.readlink(link) == "../real"
        assert (tmp_path / "real" / "file").read_text() == text
        assert sorted(os.listdir(tmp_path)) == ["earlier", "real", "there"]
    assert (tmp_path / "earlier" / "file").read_text() == "old"


@pytest.mark.parametrize(
    ("folder", "to", "is_allowed"),
    [
        ("run", "other", True),
        ("run", "inner/../other", True),
        ("run", "nowhere", True),
        ("run", "../secret", False),
        ("run", "{root}/secret", False),
        ("run", "out/secret", False),  # `out` is a link to the root.
        ("run", "again", False),  # A link to a link.
        ("m/snapshots/1", "../../blobs/x", True),
        ("m/snapshots/1", "../../blobs/../../secret", False),
        ("m/snapshots/1", "../../blobs/leaves", False),
        ("m/snapshots/1", "../2/other", False),
        ("m/snapshots/1/onnx", "../../../blobs/x", True),
        ("m/others/1", "../../blobs/x", False),
    ],
)
def test_a_link_stays_in_its_folder_or_leads_to_blobs(
    tmp_path, folder, to, is_allowed
):
    home = tmp_path / folder
    for path in (home / "inner", tmp_path / "m/blobs"):
        path.mkdir(parents=True, exist_ok=True)
    for path in ("secret", "m/blobs/x", f"{folder}/other"):
        (tmp_path / path).touch()
    (home / "out").symlink_to(tmp_path)
    (home / "again").symlink_to("out/secret")
    (tmp_path / "m/blobs/leaves").symlink_to(tmp_path / "secret")
    (home / "name").symlink_to(to.format(root=tmp_path))
    (tmp_path / "link").symlink_to(home)
    for given in (home, tmp_path / "link"):
        if is_allowed:
            path = files.safe_join(str(given), "name")
            assert path == str(given / "name")
        else:
            with refused("outside of its folder"):
                files.safe_join(str(given), "name")


def test_size_and_time_of_a_file(tmp_path):
    touch(tmp_path, "abc")
    os.utime(tmp_path / "abc", ns=(5, 7))
    assert files.size_and_time(str(tmp_path / "abc")) == (3, 7)
    files.write_text("ram://test_size/a", "abcd")
    assert files.size_and_time("ram://test_size/a")[0] == 4


@pytest.mark.parametrize(
    "read",
    [files.read_bytes, lambda path: files.safe_join(*os.path.split(path))],
)
def test_what_may_never_end_is_not_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with refused("pipe is a pipe or a device"):
        read(str(tmp_path / "pipe"))
    with refused("zero is a pipe or a device"):
        read("/dev/zero")
    inner, outer = os.pipe()
    os.write(outer, b"Ivo")
    os.close(outer)
    assert read(f"/dev/fd/{inner}")
    os.close(inner)


def test_what_can_be_read_only_once_has_no_digest(tmp_path):
    """Whoever asks for one reads the file, too."""
    inner, outer = os.pipe()
    os.close(outer)
    for path in (f"/dev/fd/{inner}", "/dev/zero"):
        with refused(f"{path} is .* read twice"):
            files.sha256(path)
    os.close(inner)
    touch(tmp_path, "a")
    with open(tmp_path / "a") as stream:
        again = files.sha256(f"/dev/fd/{stream.fileno()}")
    assert again == files.sha256(str(tmp_path / "a"))


def test_names_that_are_no_text_are_not_matched(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff.txt")
    with open(path, "w"):
        pass
    assert files.match_pattern(f"{tmp_path}/*.md") == []
    with refused(r"udcff.txt', whose name is no"):
        files.match_pattern(f"{tmp_path}/*.txt")
