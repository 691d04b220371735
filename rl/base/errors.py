"""Every error that Ratchet raises on purpose, one class per boundary that can break.

RatchetError                exit 1
├── UsageError              exit 2   an argument, a setting, a name or the path of a model is wrong
├── BadFile                 exit 2   a file that came from outside cannot be read; says where
├── NotEnoughData           exit 3   too few ratings or pairs for what was asked
├── GateRejected            exit 4   the gate rejected the new version; says why
├── RunConflict             exit 1   another run of the agent is active, or this run is not ours any more
├── TrainingFailed          exit 1   a damaged model or checkpoint, or the training itself
│   └── OutOfMemory         exit 1   training needs more memory than there is; a run tries smaller steps first
├── ExportFailed            exit 1   merging, converting, quantising, or the disk it goes to
├── BackupFailed            exit 1   the database cannot be copied or put back; says what to install or to stop
├── SandboxUnavailable      exit 1   this machine cannot run untrusted code safely; says how to change that
├── RewardFailed            exit 1   a reward broke, which says nothing about the answer; names the reward
├── JudgeFailed             exit 1   a model on a server cannot be asked which answer is better; names the judge
├── SourceFailed            exit 1   a system that feedback comes from cannot be asked; names the source
└── Interrupted             exit 130 a person or the system asked to stop; a checkpoint was kept

Commands print the message of a RatchetError as one line and exit with its code; anything else is a bug and keeps its
traceback. The API answers UsageError and BadFile as 400 and RunConflict as 409."""


class RatchetError(Exception):
    exit_code = 1


class UsageError(RatchetError):
    exit_code = 2


class BadFile(RatchetError):
    """``location`` helps a person to find the problem: a line, a byte offset, the id of an entry."""

    exit_code = 2

    def __init__(self, path: object, problem: str, location: str = "") -> None:
        self.path, self.problem, self.location = str(path), problem, location
        super().__init__(f"{path}{f' ({location})' if location else ''}: {problem}")


class NotEnoughData(RatchetError):
    exit_code = 3


class GateRejected(RatchetError):
    exit_code = 4


class RunConflict(RatchetError):
    pass


class TrainingFailed(RatchetError):
    pass


class OutOfMemory(TrainingFailed):
    @property
    def shortage(self) -> str:
        """What ran out, without the advice, which stands after a colon."""
        return str(self).partition(":")[0]


class ExportFailed(RatchetError):
    pass


class BackupFailed(RatchetError):
    pass


class SandboxUnavailable(RatchetError):
    pass


class RewardFailed(RatchetError):
    def __init__(self, reward: str, problem: str) -> None:
        self.reward = reward
        super().__init__(f"reward {reward}: {problem}")


class JudgeFailed(RatchetError):
    pass


class SourceFailed(RatchetError):
    pass


class Interrupted(RatchetError):
    exit_code = 130
