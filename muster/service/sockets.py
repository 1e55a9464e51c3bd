"""Whose account holds the other end of a connection on this machine: asked of the kernel.

By netlink where the kernel has it (sock_diag(7)), which looks up one connection; else in /proc/net/tcp, for which
the kernel walks through its whole table, some milliseconds each time.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

Address = tuple[str, int]
"""Host as a number, and port."""

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence, sender."""
_QUESTION = struct.Struct("=BBBxI")
"""Family, protocol, extensions, states; then the connection."""
_CONNECTION = struct.Struct("!HH16s16s")
"""Ports and addresses of both ends; an interface and a cookie follow it."""
_ANY_INTERFACE_NO_COOKIE = bytes(4) + b"\xff" * 8
_ANSWER = struct.Struct("=BBBB48xIIIII")
"""Family, state, ..., owner, inode, after a header."""

_ESTABLISHED = 1
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
"""Columns of /proc/net/tcp."""


def owner(client: Address, server: Address) -> int | None:
    """The account that made the client's end of a connection, while it is open.

    A socket that its process has left behind is shown as root's. Such a one is not established any more, and
    its inode is gone; the second look sees that if the first fell into that very moment.
    """
    first = _found(client, server)
    return first[0] if first is not None and first == _found(client, server) else None


def plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address that is written as an IPv6 one, as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _found(client: Address, server: Address) -> tuple[int, int] | None:
    """Owner and inode of the established socket from `client` to `server`."""
    try:
        return by_netlink(client, server)
    except OSError:
        return by_proc(client, server)


def by_netlink(client: Address, server: Address) -> tuple[int, int] | None:
    """The same, asked for this one socket; OSError where the kernel does not answer such questions."""
    ends = [plain(ip_address(host)) for host, _ in (client, server)]
    family = socket.AF_INET6 if any(end.version == 6 for end in ends) else socket.AF_INET
    packed = [(_as_v6(end) if family == socket.AF_INET6 else end).packed for end in ends]
    connection = _CONNECTION.pack(client[1], server[1], *packed)  # "16s" fills up with zeros
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED)
    body = question + connection + _ANY_INTERFACE_NO_COOKIE
    header = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
    ) as kernel:
        kernel.sendto(header + body, (0, 0))
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        (error,) = struct.unpack_from("=i", answer, _HEADER.size)
        if -error == errno.ENOENT:
            return None
        raise OSError(-error, "the kernel does not tell of its sockets")
    _, state, _, _, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # Where there is no connection it may answer with a socket that listens at the client's address.
    return (uid, inode) if state == _ESTABLISHED and inode else None


def by_proc(client: Address, server: Address) -> tuple[int, int] | None:
    """The same, from the list of all sockets."""
    ends = ip_address(client[0]), ip_address(server[0])
    both_v4 = all(isinstance(plain(end), IPv4Address) for end in ends)
    for file, form in (("tcp", plain), ("tcp6", _as_v6)) if both_v4 else (("tcp6", _as_v6),):
        local, remote = (
            _hexadecimal(form(end).packed, port)
            for end, (_, port) in zip(ends, (client, server), strict=True)
        )
        for line in Path("/proc/self/net", file).read_text().splitlines():
            if local in line:
                fields = line.split()
                if (fields[_LOCAL], fields[_REMOTE], int(fields[_STATE], 16)) == (
                    local,
                    remote,
                    _ESTABLISHED,
                ):
                    inode = int(fields[_INODE])
                    return (int(fields[_UID]), inode) if inode else None
    return None


def _as_v6(address: IPv4Address | IPv6Address) -> IPv6Address:
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")


def _hexadecimal(packed: bytes, port: int) -> str:
    """An address as /proc/net/tcp writes it: words of four bytes in the machine's order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words) + f":{port:04X}"
