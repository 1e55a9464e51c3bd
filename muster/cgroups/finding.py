"""Where groups can be made: the mounted trees of either version, and our groups in them by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from muster.cgroups.group import Ability, CgroupError, Group, group_of, weight_file, write

PARENT = "muster"
"""The folder of our groups. Not removed while others, of this or another process, stand in it."""
_SUFFIX = ".group"
"""Of a group's folder, so that no name collides with the kernel's own files."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_V1_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "freezer", "devices")
_V2_CONTROLLERS = ("cpu", "cpuset", "memory")


class Cgroups:
    """Where this process may make groups, and what they can do. Got from `find_cgroups`."""

    def __init__(self, version: int, bases: Mapping[str, Path], mounts: Iterable[Path]) -> None:
        self.version = version
        self._bases = bases
        self._mounts = tuple(dict.fromkeys(mounts))

    @property
    def abilities(self) -> frozenset[Ability]:
        """What can be set and read; a call for anything else raises CgroupError."""
        needs = {
            Ability.CPU_QUOTA: "cpu",
            Ability.CPU_WEIGHT: "cpu",
            Ability.CPU_SET: "cpuset",
            Ability.MEMORY_LIMIT: "memory",
            Ability.MEMORY_USED: "memory",
            Ability.CPU_SECONDS: "cpuacct" if self.version == 1 else "cpu",
        }
        return frozenset(ability for ability, controller in needs.items() if controller in self._bases)

    def group(self, name: str) -> Group:
        """The group of this name beside this process's others, made if it is not there.

        ValueError for a name that cannot be a folder's: letters, digits, `.`, `_`, `-`. Groups of all Muster
        processes of a session share the names; those of other sessions are found by `standing`.
        """
        if not _NAME.fullmatch(name):
            what = "a group's name has letters, digits, '.', '_' and '-', at most 100, and begins with none of '.'"
            raise ValueError(f"{what}; found {name!r}")
        made = {controller: self._made(name, base) for controller, base in self._bases.items()}
        return group_of(self.version, name, made)

    def standing(self) -> dict[str, Group]:
        """All groups that stand, of this and other processes, by name; goes through every folder of the trees.

        One whose maker died over it may lack folders of some controllers.
        """
        found: dict[str, dict[str, Path]] = {}
        for mount in self._mounts:
            below = [name for name, base in self._bases.items() if base.is_relative_to(mount)]
            for folder in _group_folders(mount) if below else ():
                folders = found.setdefault(folder.name.removesuffix(_SUFFIX), {})
                for controller in below:
                    folders.setdefault(controller, folder)
        return {
            name: group_of(self.version, name, {one: folders[one] for one in self._bases if one in folders})
            for name, folders in sorted(found.items())
        }

    def is_whole(self, group: Group) -> bool:
        """Whether it has a folder for every controller."""
        return group.controllers == self._bases.keys()

    def set_cpu_weight_of_all(self, weight: int) -> None:
        """The share of busy CPUs of all groups beside this process's together, against all else: as `Group`'s.

        100 are one ordinary process's share, however many jobs there are. Void once the last group is gone.
        """
        file, value = weight_file(self.version, weight)
        refusal = f"Muster's groups cannot have a CPU weight of {weight}"
        if "cpu" not in self._bases:
            raise CgroupError(f"{refusal}: no CPU controller on this machine")
        write(self._bases["cpu"] / PARENT / file, value, refusal)

    def _made(self, name: str, base: Path) -> Path:
        folder = base / PARENT / f"{name}{_SUFFIX}"
        for _ in range(10):  # another process may remove the parent, empty, just now
            try:
                _make_folder(folder.parent, hand_down=self.version == 2)
                _make_folder(folder, hand_down=False)
                return folder
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CgroupError(f"group {name} cannot be made at {folder}: {error.strerror}") from None
        raise CgroupError(f"group {name} cannot be made at {folder}: its parent disappears again and again")


def find_cgroups() -> tuple[Cgroups | None, str]:
    """The control groups of this machine that Muster may use, and a description; or None, and the reason."""
    own = own_groups()
    mounts = list(mounted_trees())
    tried = []
    for kind, _, root, mount in mounts:
        if kind == "cgroup2":
            base = v2_base(mount, folder_below(mount, root, own.get("", "/")))
            if base is not None:
                given = _enabled(base)
                bases = {name: base for name in _V2_CONTROLLERS if name in given}
                return Cgroups(2, bases, [mount]), f"cgroup v2 at {base}: {', '.join(bases)}"
            tried.append(
                f"cgroup v2 at {mount}: no CPU controller that this user may hand to groups of its own"
            )
    bases = {}
    for kind, controllers, root, mount in mounts:
        for controller in controllers if kind == "cgroup" else ():
            base = folder_below(mount, root, own.get(controller, "/"))
            if controller in _V1_CONTROLLERS and _can_make(base):
                bases[controller] = base
            elif controller in _V1_CONTROLLERS:
                tried.append(f"cgroup v1 at {base}: this user may make no group there")
    # In the order in which a process enters them.
    bases = {name: bases[name] for name in _V1_CONTROLLERS if name in bases}
    if "cpu" in bases:
        tops = [mount for kind, names, _, mount in mounts if kind == "cgroup" and set(names) & set(bases)]
        return Cgroups(1, bases, tops), f"cgroup v1: {', '.join(bases)}"
    return None, "; ".join(tried) or "no control groups are mounted on this machine"


def own_groups() -> dict[str, str]:
    """This process's group in each v1 controller's tree, and in v2's by the empty name."""
    paths = {}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            paths.update(dict.fromkeys(names.split(","), path))
    return paths


def mounted_trees() -> Iterator[tuple[str, tuple[str, ...], str, Path]]:
    """Mounted trees of groups: cgroup or cgroup2, v1's controllers, which group is the mount's root, where."""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                root, point = (_unescaped(field) for field in left.split(" ")[3:5])
                yield kind, tuple(options.split(",")), root, Path(point)


def folder_below(mount: Path, root: str, own: str) -> Path:
    """The folder of group `own` in a tree whose mount shows group `root`; the mount if it is not in there."""
    path = mount / os.path.relpath(own, root)
    return path if ".." not in path.parts and path.is_dir() else mount


def v2_base(mount: Path, own: Path) -> Path | None:
    """The nearest folder from our own group upwards that can give the CPU controller to groups in it.

    Not one that holds processes, unless it is the root: the kernel lets such a group hand down the CPU controller to
    threads alone, and no process may enter a group below it.
    """
    for folder in (own, *own.parents):
        if not _has_processes(folder):
            for controller in _V2_CONTROLLERS:
                if controller not in _enabled(folder):
                    with suppress(OSError):
                        (folder / "cgroup.subtree_control").write_text(f"+{controller}")
            if "cpu" in _enabled(folder) and _can_make(folder):
                return folder
        if folder == mount:
            return None
    return None


def _has_processes(folder: Path) -> bool:
    """Whether a v2 group holds processes itself; the root, which has no type, may."""
    if not (folder / "cgroup.type").exists():
        return False
    try:
        return bool((folder / "cgroup.procs").read_text().strip())
    except OSError:  # of a group in which only threads are, it cannot be read
        return True


def _enabled(folder: Path) -> list[str]:
    """v2 controllers that groups in this folder have."""
    try:
        return (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []


def _can_make(base: Path) -> bool:
    """Whether a group can be made here: found out by making our parent."""
    parent = base / PARENT
    try:
        parent.mkdir(exist_ok=True)
    except OSError:
        return False
    writable = os.access(parent, os.W_OK)
    with suppress(OSError):
        parent.rmdir()
    return writable


def _make_folder(folder: Path, *, hand_down: bool) -> None:
    """A group's folder, ready for processes (v1's CPU set is empty at first) and, in v2, for groups in it."""
    folder.mkdir(exist_ok=True)  # who made it may have died before it was ready
    if hand_down:
        for controller in _enabled(folder.parent):
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
    else:
        _fill_cpu_set(folder)


def _fill_cpu_set(folder: Path) -> None:
    for file in ("cpuset.cpus", "cpuset.mems"):
        path, above = folder / file, folder.parent / file
        if path.exists() and above.exists() and not path.read_text().strip():
            with suppress(OSError):  # v2 takes an empty set as "what is above", and the root has no such file
                path.write_text(above.read_text())


def _group_folders(mount: Path) -> Iterator[Path]:
    """Every group of ours below a mount, wherever it was made."""
    for folder, inner, _ in os.walk(mount):
        if Path(folder).name == PARENT:
            yield from (Path(folder) / name for name in sorted(inner) if name.endswith(_SUFFIX))
            inner.clear()


def _unescaped(field: str) -> str:
    """A field of mountinfo: spaces and the like are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)
