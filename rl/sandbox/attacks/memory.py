"""Using up memory and processes."""

from typing import Final

from rl.sandbox.attacks.attack import read_attacks

ATTACKS: Final = read_attacks(
    """
### fork_bomb: more processes than allowed run at one time
children = 0
for _ in range(300):
    pid = attempt(os.fork)
    if pid == 0:
        time.sleep(2)
        os._exit(0)
    if pid is None:
        break
    children += 1
if children >= 16:
    won(f"{children} processes")
os.kill(0, 9)

### thread_bomb: more threads than allowed run at one time
import threading
threading.stack_size(65536)
started = 0
for _ in range(500):
    if attempt(lambda: threading.Thread(target=time.sleep, args=(2,), daemon=True).start() or True) is None:
        break
    started += 1
if started >= 16:
    won(f"{started} threads")
os._exit(0)

### memory_of_one_process: one process holds more memory than allowed
if attempt(bytearray, 256 << 20):
    won("256 MiB")

### memory_of_many_processes: the processes hold more memory together than allowed
def hold(_):
    if os.fork() == 0:
        data = b"x" * (24 << 20)
        time.sleep(0.6)
        won("the sum of 6 processes")
        os._exit(len(data) == 0)
for each in range(6):
    hold(each)
time.sleep(0.8)

### memory_of_orphans: processes whose parents have ended hold more memory than allowed
for _ in range(6):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            data = b"x" * (24 << 20)
            time.sleep(0.6)
            won("the sum of 6 orphans")
        os._exit(0)
time.sleep(0.8)

### memory_shared: shared mappings hold more memory than allowed
import mmap
for _ in range(6):
    if os.fork() == 0:
        shared = attempt(mmap.mmap, -1, 24 << 20)
        for offset in range(0, len(shared or ""), 4096):
            shared[offset] = 1
        time.sleep(0.6)
        if shared:
            won("6 shared mappings")
        os._exit(0)
time.sleep(0.8)

### memory_of_memfd: a file in memory is made, which no limit counts
descriptor = attempt(os.memfd_create, "hidden")
if descriptor is not None:
    won("memfd_create")

### memory_of_system_v: System V shared memory is made, which no limit counts
if libc.shmget(0, 8 << 20, 0o1600) >= 0:
    won("shmget")
if libc.msgget(0, 0o1600) >= 0 or libc.semget(0, 8, 0o1600) >= 0:
    won("message queues or semaphores")

### memory_of_message_queues: POSIX message queues are made, which no limit counts
if libc.mq_open(b"/queue", os.O_CREAT | os.O_RDWR, 0o600, None) >= 0:
    won("mq_open")

### memory_of_pipes: pipes hold more memory than allowed
import fcntl
held, pipes = 0, []
for _ in range(200):
    ends = attempt(os.pipe)
    if ends is None:
        break
    pipes.append(ends)
    attempt(fcntl.fcntl, ends[1], 1031, 1 << 20)
    os.set_blocking(ends[1], False)
    held += attempt(os.write, ends[1], bytes(1 << 20)) or 0
if held > 64 << 20:
    won(f"{held >> 20} MiB in pipes")

### memory_locked: memory is locked, so that the machine cannot swap it out
buffer = ctypes.create_string_buffer(1 << 20)
if libc.mlock(buffer, len(buffer)) == 0 or libc.mlockall(3) == 0:
    won("mlock")

### raise_limits: a limit of the box is raised from inside
import resource
for name in ("RLIMIT_AS", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_CORE"):
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or attempt(lambda: resource.setrlimit(which, (hard + 1, hard + 1)) or True):
        won(name)

### memory_of_headless_processes: processes whose first thread has ended hold more memory than allowed
import threading
def hold():
    time.sleep(0.2)
    data = b"x" * (24 << 20)
    time.sleep(0.6)
    won("the sum of 4 processes")
    os._exit(len(data) == 0)
for _ in range(4):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
time.sleep(1.5)

### memory_unmapped: shared memory is filled, and unmapped but for a page, which keeps all of it
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
size, held, zero = 8 << 20, 0, attempt(os.open, "/dev/zero", os.O_RDWR)
for flags, file in ((0x21, -1), (0x23, -1), (0x40021, -1), (1, -1 if zero is None else zero)):
    for _ in range(12):
        start = libc.mmap(None, size, 3, flags, file, 0)
        if start in (None, 2**64 - 1):
            break
        ctypes.memset(start, 1, size)
        libc.munmap(start + 4096, size - 4096)
        held += size
if held > 64 << 20:
    won(f"{held >> 20} MiB")

### memory_in_the_swap: memory is sent to the swap, or taken from the huge pages, where no limit counts it
import mmap
buffer = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for advice in (12, 20, 21, 25):
    if attempt(lambda: buffer.madvise(advice) or True):
        won(f"madvise {advice}")
if attempt(lambda: mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)):
    won("huge pages")

### counted_by_user: what the kernel counts for all of the user's processes is used up
timer, number = ctypes.c_void_p(), 0
while number < 1000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
    number += 1
if number:
    won(f"{number} timers")
if libc.inotify_init1(0) >= 0 or libc.fanotify_init(0, 0) >= 0:
    won("watchers of files")
""",
)
