"""The daemon's socket is made safely, found where paths are long, and names accounts as the kernel knows them."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from muster.problems import InputError, Unable
from muster.service.unix_socket import bind, connect, peer_uid

from .accounts import UNPRIVILEGED
from .cli.daemons import only_root_can, open_folder, unprivileged_person

OLD_UMASK = 0o077


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "muster.sock"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(OLD_UMASK)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_the_mode_is_the_asked_one_whatever_the_umask(path: Path, mode: int) -> None:
    with bind(path, mode):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.umask(OLD_UMASK) == OLD_UMASK


def test_a_socket_that_nothing_listens_on_is_replaced(path: Path) -> None:
    bind(path, 0o600).close()  # as a killed daemon leaves it
    with pytest.raises(ConnectionRefusedError):
        connect(path, 1.0)
    with bind(path, 0o600), connect(path, 1.0):
        pass


@pytest.mark.parametrize("target", ["file", "listening", "missing"])
def test_a_planted_link_is_refused_and_not_followed(tmp_path: Path, path: Path, target: str) -> None:
    (tmp_path / "file").write_text("content")
    with bind(tmp_path / "listening", 0o600):
        path.symlink_to(tmp_path / target)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(InputError, match=r"muster\.sock: this is not a socket. Hint: remove it"):
            bind(path, 0o600)
        assert (sorted(tmp_path.iterdir()), (tmp_path / "file").read_text()) == (before, "content")


def test_what_is_not_a_socket_is_kept(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(InputError, match="this is not a socket"):
        bind(path, 0o600)
    assert path.read_text() == "mine"
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="this is not a socket"):
        bind(path, 0o600)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no file system without sockets here")
def test_a_file_system_without_sockets_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^/proc/muster.sock: no socket can be made here: .*Hint: MUSTER_HOME"
    ):
        bind(Path("/proc/muster.sock"), 0o600)


@pytest.mark.parametrize("length", [106, 107, 108, 109, 3000])
def test_a_path_may_be_longer_than_the_kernel_takes(length: int) -> None:
    with open_folder(0o711) as folder:
        while len(str(folder / "muster.sock")) < length - 200:
            folder /= "x" * 150
        folder /= "y" * (length - 1 - len(str(folder / "muster.sock")))
        folder.mkdir(parents=True)
        path = folder / "muster.sock"
        assert len(str(path)) == length
        with bind(path, 0o600) as listener, connect(path, 5.0) as client, listener.accept()[0] as server:
            client.sendall(b"x")
            assert (server.recv(1), peer_uid(server)) == (b"x", os.geteuid())
            assert [entry.name for entry in folder.iterdir()] == ["muster.sock"]


def test_a_client_waits_where_many_wait_already(path: Path) -> None:
    with bind(path, 0o600) as listener, ExitStack() as clients:
        listener.listen(0)
        clients.enter_context(connect(path, 60.0))
        connected = threading.Event()

        def come() -> None:
            clients.enter_context(connect(path, 60.0))
            connected.set()

        waiting = threading.Thread(target=come)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive(), "it fails at once where the kernel does not wait"
        for _ in range(2):
            listener.accept()[0].close()
        waiting.join(60.0)
        assert connected.is_set()


def test_a_tcp_socket_has_no_account() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        assert peer_uid(client) is peer_uid(server) is None


@only_root_can
def test_a_listener_of_another_account_is_sent_nothing() -> None:
    """It took the path before the daemon came, in a folder that all can write."""
    listens = (
        "import socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[1]); listener.listen(); print('listens', flush=True)\n"
        "print(listener.accept()[0].recv(100))"
    )
    with open_folder(0o1777) as folder:
        path, other = folder / "muster.sock", unprivileged_person(folder)
        uid = pwd.getpwnam(UNPRIVILEGED).pw_uid
        line = [other.python, "-c", listens, str(path)]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, **other.account) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            with pytest.raises(Unable, match=f"account {uid} listens here and does not own the folder"):
                connect(path, 5.0)
            assert process.stdout.read() == "b''\n"
        os.chown(folder, uid, -1)
        with subprocess.Popen(
            [*line[:-1], str(folder / "own.sock")], stdout=subprocess.PIPE, text=True, **other.account
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            connect(folder / "own.sock", 5.0).close()  # Its folder, its daemon: root may use it.
