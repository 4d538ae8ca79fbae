/*
 * The other end of a benchmark of streams: any number of clients on one epoll. They count events, look whether
 * ids rise, measure how late events are (ids are unix ms), and come back with Last-Event-ID when told to.
 *
 *   sse-client PORT FILE    FILE has a line for each stream to ask for: "path<TAB>header: value<TAB>..."
 *
 * Lines on stdin, each answered by one line of JSON on stdout:
 *   open N [stuck]     opens N more streams (stuck: reads their first bytes and no more)
 *   file FILE          streams opened from now on are those of this file
 *   reopen 0|1         whether streams that end are opened again after their `retry:`
 *   goal N             when a stream has seen N events it is whole: how long that took is measured
 *   stats | reset      what was seen since the last reset
 *   close              cuts every connection
 *   churn N            opens and cuts N streams
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { maxStreams = 20000, maxPending = 200, room = 64, bufferSize = 1 << 18, tailSize = 31, seconds = 1024 };
enum state { closed, opening, open_, stuck, ended };

struct stream {
  int fd, target;
  enum state state;
  int isStuck, retryMs, tailLength;
  unsigned events;
  long long lastId, begunMs, reopenAtMs, wholeMs;
  char tail[tailSize];
};

static struct stream streams[maxStreams];
/* isAwaited: who asked for more streams waits for an answer. */
static int made, isAwaited, poll_, port, reopens, churnLeft;
static char **targets;
static int targetCount, goal;
static long long opened, refused, ends, cuts, repeats, events, bytes, backs;
static long long startMs, lateBy[20001], endsIn[seconds];
static char buffer[room + bufferSize];

static long long nowMs(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void readTargets(const char *file) {
  FILE *in = fopen(file, "r");
  char line[4096];
  if (!in) exit(1);
  targetCount = 0;
  while (fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = 0;
    targets = realloc(targets, (targetCount + 1) * sizeof *targets);
    targets[targetCount++] = strdup(line);
  }
  fclose(in);
}

static void ask(struct stream *one) {
  char request[8192], *rest = targets[one->target % targetCount];
  int length = sprintf(request, "GET %.*s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n", (int)strcspn(rest, "\t"), rest);
  while ((rest = strchr(rest, '\t'))) {
    rest++;
    if (one->lastId && !strncasecmp(rest, "last-event-id", 13)) continue;
    length += sprintf(request + length, "%.*s\r\n", (int)strcspn(rest, "\t"), rest);
  }
  if (one->lastId) length += sprintf(request + length, "Last-Event-ID: %lld\r\n", one->lastId);
  length += sprintf(request + length, "\r\n");
  one->begunMs = nowMs(CLOCK_MONOTONIC);
  one->tailLength = 0;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  one->fd = socket(AF_INET, SOCK_STREAM, 0);
  int small = 4096, on = 1;
  if (one->isStuck) setsockopt(one->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (one->fd < 0 || connect(one->fd, (struct sockaddr *)&address, sizeof address) || write(one->fd, request, length) != length) {
    if (one->fd >= 0) close(one->fd);
    one->fd = -1;
    one->state = ended;
    one->reopenAtMs = one->begunMs + one->retryMs;
    return;
  }
  fcntl(one->fd, F_SETFL, O_NONBLOCK);
  one->state = opening;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
  epoll_ctl(poll_, EPOLL_CTL_ADD, one->fd, &event);
}

/* Cuts with a reset, so that no port is kept waiting. */
static void cut(struct stream *one) {
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  if (one->fd < 0) return;
  setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(one->fd);
  one->fd = -1;
  one->state = closed;
}

static int pending(void) {
  int found = 0;
  for (int n = 0; n < made; n++) found += streams[n].state == opening;
  return found;
}

static void finish(struct stream *one, int inOrder) {
  int wasOpening = one->state == opening;
  cut(one);
  one->state = ended;
  if (inOrder) ends++;
  else cuts++;
  if (wasOpening && !reopens) refused++;
  long long second = (nowMs(CLOCK_MONOTONIC) - startMs) / 1000;
  if (second >= 0 && second < seconds) endsIn[second]++;
  one->reopenAtMs = nowMs(CLOCK_MONOTONIC) + one->retryMs;
}

static void takeId(struct stream *one, long long id, long long now) {
  events++;
  one->events++;
  if (id <= one->lastId) repeats++;
  else one->lastId = id;
  long long late = now - id;
  lateBy[late < 0 ? 0 : late > 20000 ? 20000 : late]++;
  if (goal && one->events == (unsigned)goal) one->wholeMs = nowMs(CLOCK_MONOTONIC) - one->begunMs;
}

static void takeRetry(struct stream *one, char *from, char *end) {
  for (char *at = from; (at = memmem(at, end - at, "retry: ", 7)); at += 7) one->retryMs = atoi(at + 7);
}

static void greet(struct stream *one) {
  if (memcmp(buffer + room, "HTTP/1.1 200", 12)) {
    refused++;
    cut(one);
    one->state = ended;
    one->reopenAtMs = nowMs(CLOCK_MONOTONIC) + 30000;
    return;
  }
  if (one->lastId) backs++;
  opened++;
  one->state = open_;
  if (!one->isStuck) return;
  one->state = stuck;
  epoll_ctl(poll_, EPOLL_CTL_DEL, one->fd, NULL);
  struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = one};
  epoll_ctl(poll_, EPOLL_CTL_ADD, one->fd, &event);
}

static void take(struct stream *one, int length, long long now) {
  char *end = buffer + room + length, *from = buffer + room - one->tailLength, *at = from;
  memcpy(from, one->tail, one->tailLength);
  bytes += length;
  if (one->state == opening) {
    greet(one);
    takeRetry(one, buffer + room, end);
    if (one->fd < 0) return;
  }
  while ((at = memmem(from, end - from, "id: ", 4))) {
    char *stop = memchr(at, '\n', end - at);
    if (!stop) break;
    takeId(one, atoll(at + 4), now);
    from = stop;
  }
  if (end - from > tailSize) from = at && end - at <= tailSize ? at : end - tailSize;
  one->tailLength = end - from;
  memmove(one->tail, from, one->tailLength);
  if (end - from >= 7 && !memcmp(end - 7, "\r\n0\r\n\r\n", 7)) {
    takeRetry(one, buffer + room, end);
    finish(one, 1);
  }
}

static long long quantile(double share) {
  long long all = 0, seen = 0;
  for (int n = 0; n <= 20000; n++) all += lateBy[n];
  for (int n = 0; n <= 20000; n++)
    if ((seen += lateBy[n]) > all * share) return n;
  return 0;
}

static int compare(const void *a, const void *b) { return *(long long *)a < *(long long *)b ? -1 : 1; }

static void stats(void) {
  static long long whole[maxStreams];
  int wholes = 0, isOpen = 0, least = -1, most = 0, stuckOpen = 0;
  for (int n = 0; n < made; n++) {
    struct stream *one = &streams[n];
    isOpen += one->state == open_;
    stuckOpen += one->state == stuck;
    if (one->isStuck) continue;
    if (least < 0 || (int)one->events < least) least = one->events;
    if ((int)one->events > most) most = one->events;
    if (one->wholeMs) whole[wholes++] = one->wholeMs;
  }
  qsort(whole, wholes, sizeof *whole, compare);
  printf("{\"open\":%d,\"stuck\":%d,\"opened\":%lld,\"backs\":%lld,\"refused\":%lld,\"ends\":%lld,\"cuts\":%lld,", isOpen, stuckOpen, opened, backs, refused, ends, cuts);
  printf("\"events\":%lld,\"bytes\":%lld,\"repeats\":%lld,\"least\":%d,\"most\":%d,", events, bytes, repeats, least, most);
  printf("\"late\":{\"p50\":%lld,\"p99\":%lld,\"max\":%lld},", quantile(0.5), quantile(0.99), quantile(0.999999999));
  printf("\"whole\":{\"count\":%d,\"p50\":%lld,\"p99\":%lld},\"endsIn\":[", wholes, wholes ? whole[wholes / 2] : -1, wholes ? whole[wholes * 99 / 100] : -1);
  long long last = (nowMs(CLOCK_MONOTONIC) - startMs) / 1000;
  for (int n = 0; n < seconds && n <= last; n++) printf(n ? ",%lld" : "%lld", endsIn[n]);
  printf("]}\n");
}

static void reset(void) {
  opened = refused = ends = cuts = repeats = events = bytes = backs = 0;
  memset(lateBy, 0, sizeof lateBy);
  memset(endsIn, 0, sizeof endsIn);
  for (int n = 0; n < made; n++) streams[n].events = streams[n].wholeMs = 0;
  startMs = nowMs(CLOCK_MONOTONIC);
}

static void say(const char *what) { printf("{\"done\":\"%s\"}\n", what); }

static void openMore(int count, int isStuck) {
  for (int n = 0; n < count && made < maxStreams; n++) {
    streams[made] = (struct stream){.fd = -1, .target = made, .state = ended, .isStuck = isStuck, .retryMs = 1000};
    made++;
  }
  isAwaited = 1;
}

static void obey(char *line) {
  int n;
  char word[4096] = "";
  if (sscanf(line, "open %d %15s", &n, word) >= 1) return openMore(n, *word != 0);
  if (sscanf(line, "churn %d", &n) == 1) {
    churnLeft = n;
    return openMore(maxPending, 0);
  }
  if (!strncmp(line, "stats", 5)) return stats();
  if (!strncmp(line, "reset", 5)) reset();
  else if (!strncmp(line, "close", 5)) {
    for (n = 0; n < made; n++) cut(&streams[n]);
    made = 0;
  } else if (sscanf(line, "file %4000s", word) == 1) readTargets(word);
  else if (sscanf(line, "reopen %d", &n) == 1) reopens = n;
  else if (sscanf(line, "goal %d", &n) == 1) goal = n;
  else exit(1);
  say("ok");
}

/* What is to be opened now: a bounded number is on its way at once. */
static void tend(void) {
  long long now = nowMs(CLOCK_MONOTONIC);
  int free_ = maxPending - pending(), left = 0;
  for (int n = 0; n < made; n++) {
    struct stream *one = &streams[n];
    if (churnLeft && one->state == open_) {
      cut(one);
      one->state = ended;
      one->begunMs = one->reopenAtMs = 0;
      churnLeft--;
    }
    if (one->state == ended && free_ > 0 && (!one->begunMs || (reopens && one->reopenAtMs <= now))) {
      ask(one);
      free_--;
    }
    left += one->state == opening || (one->state == ended && !one->begunMs);
  }
  if (isAwaited && left == 0) {
    isAwaited = 0;
    say("open");
  }
}

static void readStream(struct epoll_event *event) {
  struct stream *one = event->data.ptr;
  if (one->fd < 0) return;
  if (one->state == stuck) return finish(one, 0);
  int length = read(one->fd, buffer + room, bufferSize);
  if (length > 0) take(one, length, nowMs(CLOCK_REALTIME));
  else if (length == 0 || errno != EAGAIN) finish(one, 0);
}

int main(int argc, char **argv) {
  if (argc < 3) return 1;
  port = atoi(argv[1]);
  readTargets(argv[2]);
  setvbuf(stdout, NULL, _IOLBF, 1 << 16);
  poll_ = epoll_create1(0);
  struct epoll_event input = {.events = EPOLLIN, .data.ptr = NULL}, found[512];
  epoll_ctl(poll_, EPOLL_CTL_ADD, 0, &input);
  fcntl(0, F_SETFL, O_NONBLOCK);
  startMs = nowMs(CLOCK_MONOTONIC);
  static char lines[8192];
  int held = 0;
  long long tendedMs = 0;
  for (;;) {
    int count = epoll_wait(poll_, found, 512, isAwaited || reopens ? 5 : 1000);
    for (int n = 0; n < count; n++) {
      if (found[n].data.ptr) {
        readStream(&found[n]);
        continue;
      }
      int length = read(0, lines + held, sizeof lines - held - 1);
      if (length == 0) return 0;
      if (length < 0) continue;
      lines[held += length] = 0;
      for (char *end; (end = strchr(lines, '\n'));) {
        *end = 0;
        obey(lines);
        held -= end + 1 - lines;
        memmove(lines, end + 1, held + 1);
      }
    }
    long long now = nowMs(CLOCK_MONOTONIC);
    if ((isAwaited && now != tendedMs) || (reopens && now >= tendedMs + 10)) {
      tendedMs = now;
      tend();
    }
  }
}
