// How a runner answers calls: GO and SIZE records (`evokern.evaluator.call.protocol`) from a socket, one kernel.
//
// What a call costs beside the kernel is measured with a kernel that does nothing, and taken off. A kernel that served the socket
// itself would save what it is forgiven, so there must be next to nothing to save: no interpreter stands between a record and the
// kernel, and all memory is laid out beforehand.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "evokern.h"

namespace {

constexpr int RECORDS = 16;        // of a call's arguments, used in turn (`evokern_cpu.loader.RECORDS`)
constexpr int POISON = 0xA5;       // what is left in them after a call
constexpr size_t LONGEST = 1 << 14;
constexpr int MOST_DIMENSIONS = 64;
enum Kind : uint8_t { SIZE = 2, GO = 3, DONE = 4, BYTES = 5 };

struct Spec {
  uint64_t window;  // address; 0 for a scalar
  int32_t ndim;
  uint8_t code, bits;
};

struct __attribute__((packed)) Header {
  char magic[4];
  uint8_t kind, count;
  uint16_t zero;
  uint64_t seq;
};

struct __attribute__((packed)) Done {
  Header header;
  int32_t status;
  uint64_t claimed_ns;
};

struct __attribute__((packed)) Bytes {
  Header header;
  uint64_t count;
};

struct __attribute__((packed)) Place {
  uint8_t ndim;
  uint64_t offset;
  char scalar[8];
};

struct Tail {
  uint64_t workspace_offset, workspace_bytes;
};

using Run = int (*)(DLTensor* const*, int, void*, size_t, void*);
using Size = size_t (*)(DLTensor* const*, int);

// One argument as the kernel gets it, all in one piece: the struct, then what its pointers point to.
struct Argument {
  DLTensor tensor;
  int64_t numbers[];  // shape, strides, a scalar
};

int dimensions(const Spec& spec) { return spec.ndim ? spec.ndim : 1; }

size_t bytes_of(const Spec& spec) { return sizeof(Argument) + (2 * dimensions(spec) + 1) * sizeof(int64_t); }

struct Bound {
  Run run = nullptr;
  Size size = nullptr;
  Spec* specs = nullptr;
  int count = 0;
  uint64_t workspace = 0;
  size_t bytes = 0;
  char* records[RECORDS] = {};
  int next = 0;
} bound;

Argument* argument(char* record, int index) { return *reinterpret_cast<Argument**>(record + index * sizeof(void*)); }

// Pointers to the arguments, then the arguments.
void lay_out(char* record) {
  char* at = record + bound.count * sizeof(void*);
  for (int i = 0; i < bound.count; ++i) {
    const Spec& spec = bound.specs[i];
    Argument* made = reinterpret_cast<Argument*>(at);
    memcpy(record + i * sizeof(void*), &made, sizeof made);
    int64_t* numbers = made->numbers;
    void* scalar = numbers + 2 * dimensions(spec);
    void* data = spec.window ? reinterpret_cast<void*>(spec.window) : scalar;
    made->tensor = {data, {1, 0}, spec.ndim, {spec.code, spec.bits, 1}, numbers, numbers + dimensions(spec), 0};
    at += bytes_of(spec);
  }
}

// Where the record's places are: shapes, strides and offsets, or a scalar. The bytes behind the last one; null where they end too soon.
const char* put(char* record, const char* at, const char* end) {
  for (int i = 0; i < bound.count; ++i) {
    Place place;
    if (at + sizeof place > end) return nullptr;
    memcpy(&place, at, sizeof place);
    at += sizeof place;
    const Spec& spec = bound.specs[i];
    const size_t numbers = sizeof(int64_t) * place.ndim;
    if (place.ndim != spec.ndim || at + 2 * numbers > end) return nullptr;
    Argument* made = argument(record, i);
    if (spec.ndim) {
      memcpy(made->tensor.shape, at, numbers);
      memcpy(made->tensor.strides, at + numbers, numbers);
      // The offset is in `data` and byte_offset stays 0, as PyTorch and NumPy do it: a kernel that forgets byte_offset works too.
      made->tensor.data = reinterpret_cast<char*>(spec.window) + place.offset;
    } else {
      memcpy(made->tensor.data, place.scalar, sizeof place.scalar);
    }
    at += 2 * numbers;
  }
  return at;
}

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}

ssize_t received(int socket, void* into, size_t size, int flags) {
  ssize_t length;
  do length = recv(socket, into, size, flags);
  while (length < 0 && errno == EINTR);
  return length;
}

bool answered(int socket, const void* answer, size_t size) {
  ssize_t sent;
  do sent = send(socket, answer, size, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(size);
}

// Whether the record was a call, and an answer was sent.
bool answer(int socket, const char* record, size_t length) {
  Header header;
  memcpy(&header, record, sizeof header);
  if (memcmp(header.magic, "EVK1", 4) != 0 || header.count != bound.count || !bound.run) return false;
  char* memory = bound.records[bound.next];
  lay_out(memory);
  const char* at = put(memory, record + sizeof header, record + length);
  Tail tail;
  if (!at || at + sizeof tail != record + length) return false;
  memcpy(&tail, at, sizeof tail);
  received(socket, nullptr, 0, 0);  // it was only looked at so far
  bound.next = (bound.next + 1) % RECORDS;
  DLTensor* const* arguments = reinterpret_cast<DLTensor* const*>(memory);
  if (header.kind == SIZE) {
    Bytes bytes{header, bound.size ? bound.size(arguments, bound.count) : 0};
    bytes.header.kind = BYTES, bytes.header.count = 0;
    memset(memory, POISON, bound.bytes);
    return answered(socket, &bytes, sizeof bytes);
  }
  const bool has = bound.workspace && tail.workspace_bytes;
  void* workspace = has ? reinterpret_cast<void*>(bound.workspace + tail.workspace_offset) : nullptr;
  const uint64_t start = now_ns();
  const int status = bound.run(arguments, bound.count, workspace, tail.workspace_bytes, nullptr);
  Done done{header, status, now_ns() - start};
  done.header.kind = DONE, done.header.count = 0;
  memset(memory, POISON, bound.bytes);
  return answered(socket, &done, sizeof done);
}

}  // namespace

// Takes the arguments of all calls that follow; windows and workspace as addresses, `size` may be null. Returns 0, or 1 without memory.
extern "C" int bind_calls(Run run, Size size, const Spec* specs, int count, uint64_t workspace) {
  free(bound.specs);
  for (char* record : bound.records) free(record);
  bound = Bound();
  bound.bytes = count * sizeof(void*);
  for (int i = 0; i < count; ++i) {
    if (specs[i].ndim < 0 || specs[i].ndim > MOST_DIMENSIONS) return 1;
    bound.bytes += bytes_of(specs[i]);
  }
  bound.specs = static_cast<Spec*>(malloc(count * sizeof(Spec) + 1));
  if (!bound.specs) return 1;
  if (count) memcpy(bound.specs, specs, count * sizeof(Spec));
  bound.count = count;
  for (char*& record : bound.records) {
    if (!(record = static_cast<char*>(malloc(bound.bytes + 1)))) return 1;
  }
  bound.run = run, bound.size = size, bound.workspace = workspace;
  return 0;
}

// Answers calls until there is a record that is none, which stays in the socket, or until the judge has hung up.
extern "C" void serve_calls(int socket) {
  alignas(8) static char record[LONGEST];
  for (;;) {
    const ssize_t length = received(socket, record, sizeof record, MSG_PEEK);
    if (length < static_cast<ssize_t>(sizeof(Header))) return;
    const uint8_t kind = static_cast<uint8_t>(record[offsetof(Header, kind)]);
    if ((kind != SIZE && kind != GO) || !answer(socket, record, length)) return;
  }
}
