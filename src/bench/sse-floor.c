/*
 * The floor of a fan-out: sends one chunk to every connection by send(2) and does nothing else. No timers, no
 * events from a bus, no full connections, no framing: whatever serves streams does at least this.
 *
 *   sse-floor              prints its port, then obeys lines on stdin:
 *   accept N               takes N connections, answers each request with a head
 *   send N BYTES US        sends N chunks of BYTES to all, one begun every US microseconds; prints CPU as JSON
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char head[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nretry: 3000\n\n\r\n";

static int *connections;
static int count;

static long long micros(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static long long cpuMicros(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000LL + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void acceptMore(int listening, int more) {
  connections = realloc(connections, (count + more) * sizeof(int));
  for (int n = 0; n < more; n++) {
    int fd = accept(listening, NULL, NULL);
    char request[4096];
    int on = 1;
    if (fd < 0 || read(fd, request, sizeof request) <= 0) exit(1);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (send(fd, head, sizeof head - 1, MSG_NOSIGNAL) < 0) exit(1);
    connections[count++] = fd;
  }
  printf("{\"connections\":%d}\n", count);
}

static void sendAll(int events, int bytes, int periodMicros) {
  char *chunk = malloc(bytes + 256);
  long long failed = 0, begunCpu = cpuMicros(), begun = micros(CLOCK_MONOTONIC);
  for (int n = 0; n < events; n++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char id[64];
    int idLength = sprintf(id, "id: %lld\nevent: ready\ndata: ", now.tv_sec * 1000LL + now.tv_nsec / 1000000);
    int filler = bytes - idLength - 2;
    int length = sprintf(chunk, "%x\r\n%s", bytes, id);
    memset(chunk + length, 'x', filler);
    memcpy(chunk + length + filler, "\n\n\r\n", 4);
    length += filler + 4;
    for (int c = 0; c < count; c++)
      if (send(connections[c], chunk, length, MSG_NOSIGNAL | MSG_DONTWAIT) != length) failed++;
    long long wait = begun + (n + 1LL) * periodMicros - micros(CLOCK_MONOTONIC);
    if (wait > 0) usleep(wait);
  }
  printf("{\"cpuUs\":%lld,\"failed\":%lld}\n", cpuMicros() - begunCpu, failed);
  free(chunk);
}

int main(void) {
  int listening = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(listening, (struct sockaddr *)&address, size) || listen(listening, 1024)) return 1;
  getsockname(listening, (struct sockaddr *)&address, &size);
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("{\"port\":%d}\n", ntohs(address.sin_port));
  char line[256];
  while (fgets(line, sizeof line, stdin)) {
    int a, b, c;
    if (sscanf(line, "accept %d", &a) == 1) acceptMore(listening, a);
    else if (sscanf(line, "send %d %d %d", &a, &b, &c) == 3) sendAll(a, b, c);
  }
  return 0;
}
