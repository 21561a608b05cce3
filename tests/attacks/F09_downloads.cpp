// F09: opens a connection to fetch a finished kernel
// task: softmax
// expect: screened/forbidden_symbol
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "honest.h"

extern "C" int run(DLTensor* const* args, int nargs, void* space, size_t space_bytes, void*) {
  // attack:
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in there = {};
  there.sin_family = AF_INET;
  there.sin_port = htons(80);
  there.sin_addr.s_addr = htonl(0x01010101);
  if (s < 0 || connect(s, reinterpret_cast<struct sockaddr*>(&there), sizeof there) != 0) return SHUT;
  honest(args);
  // honest:
  honest(args);
  // end
  return 0;
}
