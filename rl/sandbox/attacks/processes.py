"""Harming other processes, outliving the run, and taking more time than allowed."""

from dataclasses import replace
from typing import Final

from rl.sandbox.attacks.attack import SMALL, read_attacks

_SHORT: Final = replace(SMALL, wall_seconds=0.5)

ATTACKS: Final = read_attacks(
    """
### kill_everything: a signal to all, to the group, to the parent or to the first kills a process outside
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for target in (os.getppid(), 1, 0, -1):
    for number in (signal.SIGTERM, signal.SIGKILL):
        if (target, number) != (0, signal.SIGKILL):
            attempt(os.kill, target, number)
attempt(os.kill, 0, signal.SIGKILL)

### kill_by_number: a process outside is killed by its number
for pid in (facts["victim"], facts["parent"], *range(max(2, facts["victim"] - 20), facts["victim"] + 20)):
    if pid != os.getpid():
        attempt(os.kill, pid, 9)

### stop_by_number: a process outside is stopped
attempt(os.kill, facts["victim"], 19)
descriptor = attempt(os.pidfd_open, facts["victim"])
if descriptor is not None:
    import signal
    if attempt(lambda: signal.pidfd_send_signal(descriptor, 19) or True):
        won("by pidfd")

### trace: another process is traced
for pid in {facts["victim"], facts["parent"], os.getppid(), 1}:
    if libc.ptrace(16, pid, None, None) == 0 or libc.ptrace(0x4206, pid, None, None) == 0:
        won(f"process {pid}")

### memory_by_call: the memory of another process is read by process_vm_readv
buffer = ctypes.create_string_buffer(8)
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
own = Piece(ctypes.addressof(buffer), 8)
child = os.fork()
if child == 0:
    time.sleep(1)
    os._exit(0)
for pid in {facts["victim"], facts["parent"], os.getppid(), 1, child}:
    if libc.process_vm_readv(pid, ctypes.byref(own), 1, ctypes.byref(own), 1, 0) > 0:
        won(f"process {pid}")
os.kill(child, 9)

### memory_by_file: the memory of the process that keeps the box is opened for writing
for pid in {facts["victim"], facts["parent"], os.getppid(), 1} - {os.getpid()}:
    if attempt(os.open, f"/proc/{pid}/mem", os.O_RDWR) is not None:
        won(f"process {pid}")

### outlive_the_run: a daemon outlives the run
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", [f"left-{facts['cookie']}", "20"])
    os._exit(0)
time.sleep(0.1)

### outlive_by_nohup: a command in the background outlives the run
nohup setsid sleep "20.$cookie" >/dev/null 2>&1 &
(trap '' HUP TERM INT; exec -a "left-$cookie" sleep 20) &
sleep 0.1

### hold_stdout: a daemon that holds stdout open keeps the run from ending
if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sleep", [f"left-{facts['cookie']}", "20"])
os._exit(0)

### sleep_for_ever: the program goes on after its time
time.sleep(20)

### ignore_signals: a program and its children that ignore every signal go on after their time
import signal
for number in range(1, 65):
    attempt(signal.signal, number, signal.SIG_IGN)
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        attempt(os.execv, "/bin/sleep", [f"left-{facts['cookie']}", "20"])
while True:
    time.sleep(1)

### burn_cpu: several processes use more CPU time together than allowed
for _ in range(4):
    if os.fork() == 0:
        end = time.process_time() + 0.8
        while time.process_time() < end:
            pass
        os._exit(0)
for _ in range(4):
    os.wait()
won("3.2 seconds")

### take_priority: the program gets ahead of others
if attempt(os.nice, -5) is not None:
    won("nice")
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    if attempt(lambda: os.sched_setscheduler(0, policy, os.sched_param(1)) or True):
        won("real time")
if attempt(lambda: (lambda file: (file.write("-500"), file.flush()))(open("/proc/self/oom_score_adj", "w"))):
    won("the OOM killer's favour")

### type_into_the_terminal: keys are pressed in the terminal that the site was started from
import fcntl
for number in (0, 1, 2, attempt(os.open, "/dev/tty", os.O_RDWR)):
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
        if number is not None and libc.ioctl(number, ctypes.c_ulong(request), b"x") == 0:
            won("TIOCSTI or TIOCLINUX")

### signal_by_descriptor: the kernel sends a process outside a signal when a pipe or socket is ready
import fcntl, socket, struct
for number in (9, 19):
    for command, value in ((8, facts["victim"]), (8, -facts["victim"]), *(
        (15, struct.pack("ii", kind, facts["victim"])) for kind in (0, 1, 2)
    )):
        ends = os.pipe() + tuple(each.detach() for each in socket.socketpair())
        for descriptor in ends:
            attempt(fcntl.fcntl, descriptor, 10, number)
            attempt(fcntl.fcntl, descriptor, command, value)
            attempt(fcntl.fcntl, descriptor, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        for descriptor in ends[1:]:
            attempt(os.write, descriptor, b"x")
        for descriptor in ends:
            os.close(descriptor)
time.sleep(0.2)

### signal_by_rare_calls: a process outside is signalled by a call that few programs use
import struct
victim, column = facts["victim"], {"x86_64": 0, "aarch64": 1}[os.uname().machine]
told = ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1), 128)
libc.syscall((200, 130)[column], victim, 9)
libc.syscall((234, 131)[column], victim, victim, 9)
libc.syscall((129, 138)[column], victim, 9, told)
libc.syscall((297, 240)[column], victim, victim, 9, told)
for target in (-victim, victim):
    attempt(os.kill, target, 9)
attempt(os.setpriority, os.PRIO_USER, 0, 19)
if attempt(lambda: os.getpriority(os.PRIO_PROCESS, victim)) == 19:
    won("nice")

### race_the_end: processes that keep forking, without streams and in sessions of their own, outrun the end
if os.fork() == 0:
    for number in (0, 1, 2):
        os.close(number)
    for _ in range(8):
        attempt(os.fork)
    while True:
        attempt(os.setsid)
        if attempt(os.fork):
            os._exit(0)
        if time.monotonic_ns() % 50 == 0 and attempt(os.fork) == 0:
            attempt(os.execv, "/bin/sleep", [f"left-{facts['cookie']}", "20"])
time.sleep(0.1)

### burn_cpu_unseen: children that nobody waits for use more CPU time together than allowed
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(10):
    for _ in range(2):
        if os.fork() == 0:
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
            os._exit(0)
    attempt(os.wait)
won("4 seconds")
""",
    outlive_by_nohup={"language": "shell"},
    sleep_for_ever={"limits": _SHORT},
    ignore_signals={"limits": _SHORT},
    burn_cpu={"limits": replace(SMALL, cpu_seconds=1)},
    burn_cpu_unseen={"limits": replace(SMALL, cpu_seconds=1, wall_seconds=15)},
)
