"""What Slurm says of itself, by commands that change nothing: their output stays the same between releases."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_NO_RIGHT = "this account may not do that. Hint: run Muster as root, as SlurmUser or as an operator of Slurm"
_COMPARE = "compare this machine's clock and authentication key with slurmctld's"
_AWAY = f"slurmctld cannot be reached. Hint: scontrol ping; {_COMPARE}"
_CAUSES = (
    ("munge", "Slurm's authentication does not answer. Hint: is munged running?"),
    ("Unable to contact slurm controller", _AWAY),
    # It ended in the middle of an answer, or 22.05 does not accept a credential.
    ("Zero Bytes were transmitted", _AWAY),
    ("Unexpected message received", _AWAY),
    ("Protocol authentication error", f"slurmctld does not accept a credential. Hint: {_COMPARE}"),
    ("Connection reset by peer", _AWAY),
    ("missing socket error", _AWAY),
    ("Socket timed out", "slurmctld does not answer in time. Hint: scontrol ping"),
    ("Unable to process configuration file", "slurm.conf cannot be used. Hint: check SLURM_CONF"),
    ("Could not establish a configuration source", "no slurm.conf was found. Hint: set SLURM_CONF"),
    ("no slurm.conf was found", "no slurm.conf was found. Hint: set SLURM_CONF"),
    ("took longer than", "Slurm does not answer in time. Hint: scontrol ping; is munged running?"),
    ("is not installed here", "Slurm's client commands are not installed here"),
    ("Invalid user id", _NO_RIGHT),
    ("Access/permission denied", _NO_RIGHT),
)
"""What a message of Slurm contains, and what that means."""
_ASKING = frozenset({"squeue", "sinfo", "sacct", "sprio", "sshare", "sdiag"})
_ASKING_SCONTROL = frozenset({("scontrol", "show"), ("scontrol", "--oneliner"), ("scontrol", "ping")})
_ASKING_SACCTMGR = ("sacctmgr", "show", "qos")


class SlurmError(OSError):
    """A command of Slurm did not do what it was asked to; nothing is known of its effect if it took too long."""

    @property
    def is_known(self) -> bool:
        """Whether it is about Slurm as a whole, or about what this account may do there."""
        return bool(_cause_in(str(self)))

    @property
    def cause(self) -> str:
        """What it means, without the name of a job, user or host."""
        return _cause_in(str(self)) or "Slurm did not carry out a command"


@dataclass(frozen=True)
class SlurmQueries:
    """Asks one cluster, each question for a limited time."""

    conf: str | None = None
    """Path of its slurm.conf; None: where Slurm looks for it."""
    patience_seconds: float = 20.0
    """Longer than Slurm itself waits for its controller, so that its own message is seen."""

    def ask(self, command: Sequence[str]) -> str:
        """Return what a command prints that changes nothing. SlurmError if it fails or cannot be run."""
        return _text(self.ask_bytes(command))

    def ask_bytes(self, command: Sequence[str]) -> bytes:
        """Return the same as bytes, in which columns have the widths that were asked for."""
        known = command[0] in _ASKING or tuple(command[:2]) in _ASKING_SCONTROL
        if not known and tuple(command[:3]) != _ASKING_SACCTMGR:
            raise ValueError(f"{' '.join(command)} may change something")
        done = self._done(command)
        if done.returncode != 0:
            raise SlurmError(f"{command[0]}: {explained(_text(done.stderr))}")
        return done.stdout

    def _done(
        self,
        command: Sequence[str],
        text: str = "",
        errors: int = subprocess.PIPE,
        passed_on: Container[str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Return a command that has ended, whatever its status. SlurmError if it is not installed or takes too long."""
        environment = self._environment(passed_on)
        # Without it Slurm's commands look for a controller elsewhere, for a minute.
        if conf := environment.get("SLURM_CONF"):
            _check_conf(conf)
        try:
            return subprocess.run(
                command,
                env=environment,
                input=text.encode(),
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=self.patience_seconds,
                check=False,
            )
        except FileNotFoundError as error:
            what = f"{command[0]} is not installed here. Hint: install Slurm's client commands"
            raise SlurmError(what) from error
        except subprocess.TimeoutExpired as error:
            what = f"{command[0]} took longer than {self.patience_seconds:g} s. Hint: scontrol ping; is munged running?"
            raise SlurmError(what) from error

    def _environment(self, passed_on: Container[str] | None) -> Mapping[str, str]:
        """Times as Unix seconds, messages in English, and no settings of a job that this process may run in."""
        own = ("SLURM_", "SQUEUE_", "SBATCH_")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(own) and (passed_on is None or name in passed_on)
        }
        conf = self.conf or os.environ.get("SLURM_CONF")
        return {
            **kept,
            **({"SLURM_CONF": conf} if conf else {}),
            "SLURM_TIME_FORMAT": "%s",
            "LC_ALL": "C.UTF-8",
        }


def _check_conf(path: str) -> None:
    """SlurmError if there is no such file, or if this account cannot see whether there is one."""
    why = ""
    try:
        found = Path(path).is_file()
    except OSError as error:
        found, why = False, f": {error.strerror}"
    if not found:
        raise SlurmError(f"no slurm.conf was found at {path}{why}. Hint: set SLURM_CONF")


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", "replace")


def explained(message: str) -> str:
    """Return Slurm's own words, and what they mean where that is known."""
    said = (
        "; ".join(line.strip() for line in message.splitlines() if line.strip())
        or "it failed without a message"
    )
    cause = _cause_in(said)
    return f"{said}: {cause}" if cause else said


def _cause_in(message: str) -> str:
    """What a message means; empty where that is not known."""
    return next((cause for part, cause in _CAUSES if part.lower() in message.lower()), "")
