// What a kernel might try in order to leave a message for another slot, or to read what the whole machine counts. Every probe is
// `int name(int leave)`: it leaves the message, or looks for it, and answers 1 where that worked, else 0.
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <string>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

static const key_t KEY = 0x45564b31;
static const char LIBRARY[] = "/etc/ld.so.cache";

static int file_at(const std::string& path, int leave) {
  int file = open(path.c_str(), leave ? O_CREAT | O_WRONLY : O_RDONLY, 0666);
  if (file < 0) return 0;
  char byte = 'x';
  long done = leave ? write(file, &byte, 1) : read(file, &byte, 1);
  close(file);
  return done == 1;
}

static int socket_at(sockaddr_un address, socklen_t size, int leave) {
  int made = socket(AF_UNIX, SOCK_STREAM, 0);
  if (made < 0) return 0;
  sockaddr* generic = reinterpret_cast<sockaddr*>(&address);
  // A socket that is left stays open as long as its process lives.
  if (leave) return bind(made, generic, size) == 0 && listen(made, 1) == 0;
  int result = connect(made, generic, size);
  close(made);
  return result == 0;
}

extern "C" {

int file_in_home(int leave) { return file_at(std::string(getenv("HOME") ? getenv("HOME") : "/tmp") + "/evokern-mail", leave); }
int file_in_tmp(int leave) { return file_at("/tmp/evokern-mail", leave); }
int file_in_shm(int leave) { return file_at("/dev/shm/evokern-mail", leave); }
int file_in_dev(int leave) { return file_at("/dev/evokern-mail", leave) || file_at("/dev/fd/evokern-mail", leave); }
int file_in_work(int leave) { return file_at("evokern-mail", leave); }
int file_in_libraries(int leave) { return file_at("/usr/lib/evokern-mail", leave) || file_at("/lib/evokern-mail", leave); }

int abstract_socket(int leave) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, "evokern", 7);
  return socket_at(address, offsetof(sockaddr_un, sun_path) + 8, leave);
}

int path_socket(int leave) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "/tmp/evokern-socket");
  return socket_at(address, sizeof address, leave);
}

int tcp_port(int leave) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(47391);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int made = socket(AF_INET, SOCK_STREAM, 0);
  if (made < 0) return 0;
  if (leave) return bind(made, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(made, 1) == 0;
  int result = connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address);
  close(made);
  return result == 0;
}

int shared_memory_segment(int leave) { return shmget(KEY, 4096, leave ? IPC_CREAT | 0666 : 0) >= 0; }
int message_queue(int leave) { return msgget(KEY, leave ? IPC_CREAT | 0666 : 0) >= 0; }
int semaphores(int leave) { return semget(KEY, 1, leave ? IPC_CREAT | 0666 : 0) >= 0; }

int posix_queue(int leave) {
  mqd_t queue = mq_open("/evokern", leave ? O_CREAT | O_RDWR : O_RDONLY, 0666, nullptr);
  return queue != static_cast<mqd_t>(-1);
}

static int key_in(long ring, int leave) {
  if (leave) return syscall(SYS_add_key, "user", "evokern", "x", 1, ring) >= 0;
  return syscall(SYS_keyctl, KEYCTL_SEARCH, ring, "user", "evokern", 0) >= 0;
}
int user_keyring(int leave) { return key_in(KEY_SPEC_USER_KEYRING, leave); }
int session_keyring(int leave) { return key_in(KEY_SPEC_SESSION_KEYRING, leave); }
int user_session_keyring(int leave) { return key_in(KEY_SPEC_USER_SESSION_KEYRING, leave); }

// A lock on a file that every slot sees; whoever looks finds that it is held.
int flock_on_library(int leave) {
  int file = open(LIBRARY, O_RDONLY);
  if (leave) return file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
  int held = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return held;
}

int read_lock_on_library(int leave) {
  int file = open(LIBRARY, O_RDONLY);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  if (leave) return file >= 0 && fcntl(file, F_OFD_SETLK, &lock) == 0;
  lock.l_type = F_WRLCK;
  int held = file >= 0 && fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
  close(file);
  return held;
}

int attribute_of_device(int leave) {
  char byte = 'x';
  if (leave) return setxattr("/dev/null", "user.evokern", &byte, 1, 0) == 0 || setxattr(LIBRARY, "user.evokern", &byte, 1, 0) == 0;
  return getxattr("/dev/null", "user.evokern", &byte, 1) == 1 || getxattr(LIBRARY, "user.evokern", &byte, 1) == 1;
}

// A thread that waits on a page of a file that every slot sees is woken, and counted, by whoever shares that page.
int shared_page_of_library(int leave) {
  (void)leave;
  int file = open(LIBRARY, O_RDONLY);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return page != MAP_FAILED;
}

// Counts of the whole machine: they are read, or made to move. `leave` moves.
static int has_inode(int descriptor) {
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_ino != 0;
}
int inode_of_pipe(int) { int ends[2] = {-1, -1}; return pipe(ends) == 0 && has_inode(ends[0]); }
int inode_of_socket(int) { return has_inode(socket(AF_UNIX, SOCK_STREAM, 0)); }
int inode_of_memfd(int) { return has_inode(syscall(SYS_memfd_create, "probe", 0)); }
int inode_of_held(int) {
  for (int descriptor = 0; descriptor < 64; ++descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) == 0 && !S_ISCHR(status.st_mode) && !S_ISREG(status.st_mode)) return 1;
  }
  return 0;
}
int inode_of_shared_memory(int) { return mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; }
int eventfd_made(int) { return syscall(SYS_eventfd2, 0, 0) >= 0; }
int epoll_made(int) { return syscall(SYS_epoll_create1, 0) >= 0; }
int timerfd_made(int) { return syscall(SYS_timerfd_create, 1, 0) >= 0; }
int signalfd_made(int) { sigset_t none; sigemptyset(&none); return syscall(SYS_signalfd4, -1, &none, 8, 0) >= 0; }
int inotify_made(int) { return syscall(SYS_inotify_init1, 0) >= 0; }
int pidfd_made(int) { return syscall(SYS_pidfd_open, getpid(), 0) >= 0; }
int load_of_machine(int) { struct sysinfo info; return sysinfo(&info) == 0; }
int ticks_of_machine(int) { struct tms spent; return syscall(SYS_times, &spent) > 0; }
int space_on_disk(int) { struct statvfs info; return statvfs("/", &info) == 0 || statvfs("/usr/lib", &info) == 0; }
int mount_id(int) { char buffer[256]; return syscall(SYS_statx, AT_FDCWD, "/", 0, 0x1000, buffer) == 0; }
int file_of_process(int) { return file_at("/proc/self/stat", 0) || file_at("/proc/loadavg", 0) || file_at("/proc/1/stat", 0); }
int file_of_kernel(int) { return file_at("/sys/kernel/mm/transparent_hugepage/enabled", 0) || file_at("/proc/sys/kernel/pid_max", 0); }
int huge_pages(int) { return mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) != MAP_FAILED; }
int residency_of_library(int) {
  int file = open(LIBRARY, O_RDONLY);
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, file, 0);
  unsigned char there = 0;
  return page != MAP_FAILED && mincore(page, 4096, &there) == 0;
}
int merged_pages(int) { void* page = aligned_alloc(4096, 4096); return madvise(page, 4096, MADV_MERGEABLE) == 0; }
int page_cache(int) { int file = open(LIBRARY, O_RDONLY); return posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0; }

// Opens what a slot sees: a folder to list it, a file to read it, a file to write it. Answers the error's number.
int opens(int which) {
  int flags[] = {O_RDONLY | O_DIRECTORY, O_RDONLY, O_WRONLY};
  const char* paths[] = {"/usr/lib", LIBRARY, "/dev/fd/4"};
  int file = open(paths[which], flags[which]);
  int number = file < 0 ? errno : 0;
  if (file >= 0) close(file);
  return number;
}

// One system call: what it returns, or minus the error's number. For the table of forbidden ones.
long ask(long number, long a, long b, long c, long d, long e, long f) {
  long result = syscall(number, a, b, c, d, e, f);
  return result < 0 ? -errno : result;
}

}  // extern "C"
