/* A lean load generator for Kafka's protocol: prebuilt Produces or Fetches from one thread per core, over epoll.

   Closed loop: each connection keeps `--in-flight` requests unanswered. Open loop (`--rate`): request n is due at n / rate, whatever
   the answers do, and its latency counts from then. A server that stalls thus delays all that was due meanwhile, and the figures
   show it (no coordinated omission). What is left unanswered counts with the age that it has at the end.

   One JSON object on stdout. Exit status 0; 3 if answers had errors, which the object counts by name; 1 with a sentence on stderr
   if a server hung up or sent what is no answer; 2 for wrong arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "error_names.h" /* written by tests/bench/lean/build.py from libs/wire/errors.py */
#include "histogram.h"
#include "messages.h"
#include "tls.h"

enum { ANSWER_BYTES_MAX = 256 << 20, FRAMES_PER_WRITE = 64, EVENTS = 64, ERROR_CODES = 512 };
static const int64_t S = 1000000000;

static struct {
    bool fetches, check_crc;
    const char *topic, *authority; /* whoever vouches for servers of TLS */
    double seconds, rate, drain_s;
    int acks, in_flight, threads, max_bytes;
    long batch_bytes, record_bytes;
    long long bytes_max;
} options = {.seconds = 5, .drain_s = 10, .acks = 1, .in_flight = 0, .threads = 0, .max_bytes = 1 << 20, .batch_bytes = 16384, .record_bytes = 1000};

struct connection {
    const char *name; /* the argument */
    int fd, index;
    tls_session *tls; /* NULL: without */
    struct position *positions;
    size_t count, turn;
    /* Requests are numbered from 0: answered <= written <= begun <= allowed. */
    uint64_t allowed, begun, written, answered;
    size_t written_of_next; /* bytes of request `written` that the socket has taken */
    int64_t *due_ns;        /* from when the latency counts, by number % in_flight */
    uint8_t *prefixes;      /* of Produces, by number % in_flight */
    struct writer frame;    /* the Fetch */
    bool awaits_room;
    uint8_t *received;
    size_t received_size, room;
};

struct worker {
    pthread_t thread;
    int index, epoll, timer;
    uint64_t requests, bytes, wire_bytes, records, empty, unanswered, throttle_ms;
    uint64_t errors[ERROR_CODES]; /* by code + 1: UNKNOWN_SERVER_ERROR is -1 */
    int64_t last_ns;
    struct histogram latency, woken_late;
};

static struct connection *connections;
static size_t connection_count;
static struct writer prefix, batch;
static size_t partition_at;
static int batch_records;
static int64_t start_ns;
static uint64_t scheduled; /* requests of an open loop */
static atomic_llong end_ns, acknowledged_bytes;

static _Noreturn void stop(int status, const char *format, ...) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once); /* for good: one sentence is enough */
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(status);
}

#include "connecting.h" /* it uses `stop` */

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * S + time.tv_nsec;
}

static bool is_open_loop(void) { return options.rate > 0; }

static size_t frame_size(const struct connection *c) {
    return options.fetches ? c->frame.size : prefix.size + batch.size + sizeof PRODUCE_SUFFIX;
}

/* When request `number` of a connection is due. Connections take turns. */
static int64_t due_at(uint64_t number, int connection) {
    double nth = (double)number * (double)connection_count + connection;
    return start_ns + (int64_t)(nth * 1e9 / options.rate);
}

static uint64_t share_of(const struct connection *c) {
    return scheduled / connection_count + ((uint64_t)c->index < scheduled % connection_count);
}

static int32_t partition_of(const struct connection *c, uint64_t number) { return c->positions[number % c->count].partition; }

static void begin(struct connection *c, int64_t now) {
    size_t slot = c->begun % (uint64_t)options.in_flight;
    c->due_ns[slot] = is_open_loop() ? due_at(c->begun, c->index) : now;
    uint8_t *frame;
    if (options.fetches) {
        fetch_frame(&c->frame, options.topic, c->positions, c->count, c->turn++ % c->count, options.max_bytes);
        frame = c->frame.data;
    } else {
        frame = c->prefixes + slot * prefix.size;
        put_at(frame + partition_at, (uint64_t)(uint32_t)partition_of(c, c->begun), 4);
    }
    put_at(frame + CORRELATION_AT, c->begun & 0x7fffffff, 4);
    c->begun++;
}

static void add_rest(struct iovec *parts, int *count, const void *data, size_t size, size_t *skipped) {
    if (*skipped >= size) {
        *skipped -= size;
        return;
    }
    parts[(*count)++] = (struct iovec){(uint8_t *)data + *skipped, size - *skipped};
    *skipped = 0;
}

static void complete(struct worker *w, struct connection *c, int64_t now, uint64_t bytes, uint64_t records) {
    bool counts = is_open_loop() || now <= atomic_load_explicit(&end_ns, memory_order_relaxed);
    if (counts) {
        histogram_add(&w->latency, now - c->due_ns[c->answered % (uint64_t)options.in_flight]);
        w->requests++;
        w->bytes += bytes;
        w->records += records;
        w->last_ns = now;
        if (options.bytes_max && atomic_fetch_add(&acknowledged_bytes, (long long)bytes) + (long long)bytes >= options.bytes_max) {
            long long end = atomic_load(&end_ns);
            while (now < end && !atomic_compare_exchange_weak(&end_ns, &end, now)) continue;
        }
    }
}

static void await_room(struct worker *w, struct connection *c, bool awaits) {
    if (c->awaits_room == awaits) return;
    struct epoll_event event = {.events = EPOLLIN | (awaits ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(w->epoll, EPOLL_CTL_MOD, c->fd, &event)) stop(1, "epoll_ctl: %s", strerror(errno));
    c->awaits_room = awaits;
}

/* Begins what may begin, and writes what the socket takes. */
static void advance(struct worker *w, struct connection *c) {
    for (;;) {
        int64_t now = now_ns();
        bool goes_on = is_open_loop() || now < atomic_load_explicit(&end_ns, memory_order_relaxed);
        while (goes_on && c->begun < c->allowed && c->begun - c->answered < (uint64_t)options.in_flight) begin(c, now);
        if (c->written == c->begun) return await_room(w, c, false);
        struct iovec parts[3 * FRAMES_PER_WRITE];
        int count = 0;
        size_t skipped = c->written_of_next;
        for (uint64_t i = c->written; i < c->begun && i < c->written + FRAMES_PER_WRITE; i++) {
            if (options.fetches) {
                add_rest(parts, &count, c->frame.data, c->frame.size, &skipped);
                continue;
            }
            add_rest(parts, &count, c->prefixes + i % (uint64_t)options.in_flight * prefix.size, prefix.size, &skipped);
            add_rest(parts, &count, batch.data, batch.size, &skipped);
            add_rest(parts, &count, PRODUCE_SUFFIX, sizeof PRODUCE_SUFFIX, &skipped);
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t taken = c->tls ? tls_send(c->tls, parts, count) : sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (taken < 0 && errno == EINTR) continue;
        if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return await_room(w, c, true);
        if (taken < 0) stop(1, "%s: %s, with %llu requests unanswered", c->name, strerror(errno), (unsigned long long)(c->begun - c->answered));
        c->written_of_next += (size_t)taken;
        for (; c->written_of_next >= frame_size(c) && c->written < c->begun; c->written++) {
            c->written_of_next -= frame_size(c);
            if (options.fetches || options.acks) continue;
            complete(w, c, now_ns(), batch.size, (uint64_t)batch_records); /* acks=0 has no answer */
            c->answered++;
            if (!is_open_loop()) c->allowed++;
        }
    }
}

static void count_error(struct worker *w, int code) { w->errors[code >= -1 && code < ERROR_CODES - 2 ? code + 1 : ERROR_CODES - 1]++; }

static const char *error_name(int slot) {
    static char number[32];
    size_t known = sizeof ERROR_NAMES / sizeof *ERROR_NAMES;
    if (slot < (int)known && ERROR_NAMES[slot]) return ERROR_NAMES[slot];
    if (slot == ERROR_CODES - 1) return "an error code that Kafka does not have";
    snprintf(number, sizeof number, "error %d", slot - 1);
    return number;
}

static fault read_fetch(struct worker *w, struct connection *c, struct reader *r, int *error, uint64_t *bytes, uint64_t *records) {
    int32_t throttle_ms;
    uint64_t partitions;
    fault wrong = read_fetch_head(r, options.topic, error, &throttle_ms, &partitions);
    if (wrong) return wrong;
    w->throttle_ms += (uint64_t)throttle_ms;
    if (*error) count_error(w, *error);
    if (!*error && partitions != c->count) return "has other partitions than the request";
    size_t first = (c->turn - 1) % c->count;
    for (uint64_t i = 0; i < partitions; i++) {
        struct position *asked = &c->positions[(first + i) % c->count];
        struct fetched found = {0};
        int32_t partition;
        if ((wrong = read_fetched_partition(r, asked->offset, options.check_crc, &partition, &found))) return wrong;
        for (size_t j = 0; partition != asked->partition && j < c->count; j++) asked = &c->positions[j]; /* the order is the server's */
        if (partition != asked->partition) return "names other partitions than the request";
        if (found.has_nothing) stop(1, "%s: partition %d is empty: there is nothing to fetch", c->name, partition);
        if (found.error) {
            *error = found.error;
            count_error(w, found.error);
            continue;
        }
        w->empty += (uint64_t)found.empty;
        if (found.walked.next_offset >= 0 && found.walked.next_offset <= asked->offset) return "holds records before the offset that was asked for";
        *bytes += found.walked.bytes;
        *records += found.walked.records;
        asked->offset = found.at_end ? 0 : found.walked.next_offset < 0 ? asked->offset : found.walked.next_offset;
    }
    return read_fetch_tail(r, partitions > 0);
}

static void take_answer(struct worker *w, struct connection *c, const uint8_t *data, size_t size) {
    struct reader r = {data, data + size, true};
    fault wrong;
    int error = 0;
    uint64_t bytes = batch.size, records = (uint64_t)batch_records;
    if (c->answered == c->written) stop(1, "%s: an answer came to no request", c->name);
    if (get(&r, 4) != (int64_t)(c->answered & 0x7fffffff))
        stop(1, "%s: the answer to request %llu has the correlation id of another", c->name, (unsigned long long)c->answered);
    if (options.fetches) {
        bytes = records = 0;
        wrong = read_fetch(w, c, &r, &error, &bytes, &records);
    } else {
        int32_t throttle_ms = 0;
        wrong = read_produce_answer(&r, options.topic, partition_of(c, c->answered), &error, &throttle_ms);
        w->throttle_ms += (uint64_t)throttle_ms;
        if (error) count_error(w, error);
    }
    if (wrong) stop(1, "%s: an answer of %zu bytes %s", c->name, size, wrong);
    if (!error) complete(w, c, now_ns(), bytes, records);
    w->wire_bytes += size + 4;
    c->answered++;
    if (!is_open_loop()) c->allowed++;
}

/* Returns whether more may have arrived: epoll does not see what is decrypted. */
static bool receive(struct worker *w, struct connection *c) {
    if (c->room - c->received_size < 4096) {
        c->room = c->room * 2 + 65536;
        c->received = realloc(c->received, c->room);
        if (!c->received) stop(1, "no memory for an answer of %zu bytes", c->room);
    }
    uint8_t *free = c->received + c->received_size;
    size_t room = c->room - c->received_size;
    ssize_t got = c->tls ? tls_receive(c->tls, free, room) : recv(c->fd, free, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    unsigned long long missing = c->begun - c->answered;
    if (got < 0) stop(1, "%s: %s, with %llu requests unanswered", c->name, strerror(errno), missing);
    if (!got) stop(1, "%s: the server closed the connection, with %llu requests unanswered", c->name, missing);
    c->received_size += (size_t)got;
    size_t at = 0;
    while (c->received_size - at >= 4) {
        int64_t size = (int32_t)get_unsigned_at(c->received + at, 4);
        if (size < 4 || size > ANSWER_BYTES_MAX) stop(1, "%s: an answer claims a length of %lld bytes", c->name, (long long)size);
        if (c->received_size - at - 4 < (size_t)size) break;
        take_answer(w, c, c->received + at + 4, (size_t)size);
        at += 4 + (size_t)size;
    }
    c->received_size -= at;
    if (at) memmove(c->received, c->received + at, c->received_size);
    return c->tls != NULL;
}

/* The connections of a worker are each `threads`-th. Lets those begin whose requests are due; returns when the next one is. */
static int64_t let_due_begin(struct worker *w, size_t *cursor, uint64_t *number) {
    for (;;) {
        struct connection *c = &connections[*cursor];
        if (*number * connection_count + (uint64_t)c->index >= scheduled) return INT64_MAX;
        int64_t due = due_at(*number, c->index), now = now_ns();
        if (due > now) return due;
        histogram_add(&w->woken_late, now - due);
        c->allowed++;
        advance(w, c);
        if ((*cursor += (size_t)options.threads) >= connection_count) {
            *cursor = (size_t)w->index;
            ++*number;
        }
    }
}

static void set_timer(struct worker *w, int64_t at_ns) {
    struct itimerspec when = {.it_value = {at_ns / S, at_ns % S}};
    if (timerfd_settime(w->timer, TFD_TIMER_ABSTIME, &when, NULL)) stop(1, "timerfd_settime: %s", strerror(errno));
}

static bool is_done(struct worker *w) {
    bool ended = now_ns() >= atomic_load(&end_ns);
    for (size_t i = (size_t)w->index; i < connection_count; i += (size_t)options.threads) {
        struct connection *c = &connections[i];
        if (is_open_loop() ? c->answered < share_of(c) : !ended || c->answered < c->begun) return false;
    }
    return true;
}

/* What has no answer at the end is no faster than the age that it has now. */
static void count_unanswered(struct worker *w, int64_t now) {
    for (size_t i = (size_t)w->index; i < connection_count; i += (size_t)options.threads) {
        struct connection *c = &connections[i];
        if (!is_open_loop() && c->answered < c->begun)
            stop(1, "%s: %llu requests had no answer %g seconds after the end", c->name, (unsigned long long)(c->begun - c->answered), options.drain_s);
        for (uint64_t number = c->answered; is_open_loop() && number < share_of(c); number++) {
            histogram_add(&w->latency, now - due_at(number, c->index));
            w->unanswered++;
        }
    }
}

static void *work(void *argument) {
    struct worker *w = argument;
    size_t cursor = (size_t)w->index;
    uint64_t number = 0;
    for (size_t i = cursor; i < connection_count; i += (size_t)options.threads) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, connections[i].fd, &event)) stop(1, "epoll_ctl: %s", strerror(errno));
    }
    struct epoll_event timer = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->timer, &timer)) stop(1, "epoll_ctl: %s", strerror(errno));
    while (now_ns() < start_ns) {
        struct timespec until = {start_ns / S, start_ns % S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    for (size_t i = cursor; !is_open_loop() && i < connection_count; i += (size_t)options.threads) {
        connections[i].allowed = (uint64_t)options.in_flight;
        advance(w, &connections[i]);
    }
    while (!is_done(w)) {
        int64_t next = is_open_loop() ? let_due_begin(w, &cursor, &number) : INT64_MAX, end = atomic_load(&end_ns);
        int64_t last = end + (int64_t)(options.drain_s * 1e9), now = now_ns();
        if (now >= last) break;
        int64_t wake = now < end && end < next ? end : next < last ? next : last;
        set_timer(w, wake);
        struct epoll_event events[EVENTS];
        int count = epoll_wait(w->epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c) {
                uint64_t expired;
                if (read(w->timer, &expired, sizeof expired) < 0 && errno != EAGAIN) stop(1, "timerfd: %s", strerror(errno));
                continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) while (receive(w, c)) continue;
            advance(w, c);
        }
    }
    count_unanswered(w, now_ns());
    return NULL;
}

/* HOST:PORT/PARTITION[,PARTITION…] */
static void open_connection(struct connection *c, const char *argument) {
    char *text = strdup(argument), *slash = strrchr(text, '/'), *colon;
    if (!slash || (*slash = 0, !(colon = strrchr(text, ':')))) stop(2, "%s is not HOST:PORT/PARTITION[,PARTITION]", argument);
    *colon = 0;
    c->name = argument;
    for (char *rest = slash + 1, *end; ; rest = end + 1) {
        long partition = strtol(rest, &end, 10);
        if (end == rest || partition < 0 || partition > INT32_MAX || (*end && *end != ',')) stop(2, "%s has no partition where one is due", argument);
        c->positions = realloc(c->positions, (c->count + 1) * sizeof *c->positions);
        c->positions[c->count++] = (struct position){(int32_t)partition, 0};
        if (!*end) break;
    }
    c->due_ns = calloc((size_t)options.in_flight, sizeof *c->due_ns);
    if (!options.fetches) {
        c->prefixes = malloc((size_t)options.in_flight * prefix.size);
        for (int i = 0; i < options.in_flight; i++) memcpy(c->prefixes + (size_t)i * prefix.size, prefix.data, prefix.size);
    }
    c->fd = connect_to(argument, text, colon + 1);
    if (options.authority) c->tls = secure(argument, c->fd, text);
    set_nonblocking(argument, c->fd);
    free(text);
}

static double number_of(const char *name, const char *text, double least, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most)) stop(2, "--%s takes a number from %g to %g, and got %s", name, least, most, text);
    return value;
}

static void read_options(int count, char **arguments) {
    static const struct option NAMES[] = {
        {"topic", 1, 0, 't'}, {"seconds", 1, 0, 's'}, {"rate", 1, 0, 'r'}, {"acks", 1, 0, 'a'}, {"in-flight", 1, 0, 'f'},
        {"threads", 1, 0, 'n'}, {"batch-bytes", 1, 0, 'b'}, {"record-bytes", 1, 0, 'v'}, {"max-bytes", 1, 0, 'm'},
        {"bytes-max", 1, 0, 'x'}, {"drain", 1, 0, 'd'}, {"check-crc", 0, 0, 'c'}, {"tls-authority", 1, 0, 'l'}, {0, 0, 0, 0}};
    if (count < 2 || (strcmp(arguments[1], "produce") && strcmp(arguments[1], "fetch")))
        stop(2, "the first argument is produce or fetch");
    options.fetches = !strcmp(arguments[1], "fetch");
    int index, option;
    while ((option = getopt_long(count - 1, arguments + 1, "", NAMES, &index)) != -1) {
        const char *name = option == '?' ? "" : NAMES[index].name;
        switch (option) {
            case 't': options.topic = optarg; break;
            case 's': options.seconds = number_of(name, optarg, 0.001, 1e6); break;
            case 'r': options.rate = number_of(name, optarg, 0.001, 1e8); break;
            case 'd': options.drain_s = number_of(name, optarg, 0, 1e6); break;
            case 'a': options.acks = (int)number_of(name, optarg, -1, 1); break;
            case 'f': options.in_flight = (int)number_of(name, optarg, 1, 1e6); break;
            case 'n': options.threads = (int)number_of(name, optarg, 1, 1024); break;
            case 'b': options.batch_bytes = (long)number_of(name, optarg, 128, 64 << 20); break;
            case 'v': options.record_bytes = (long)number_of(name, optarg, 0, 64 << 20); break;
            case 'm': options.max_bytes = (int)number_of(name, optarg, 1, 128 << 20); break;
            case 'x': options.bytes_max = (long long)number_of(name, optarg, 1, 1e15); break;
            case 'c': options.check_crc = true; break;
            case 'l': options.authority = optarg; break;
            default: stop(2, "what it takes stands in tests/bench/lean/generator/load.c");
        }
    }
    if (!options.topic) stop(2, "--topic is missing");
    if (options.fetches && options.in_flight > 1) stop(2, "a fetch has to know where the one before it ended: --in-flight is 1");
    if (!options.in_flight) options.in_flight = options.fetches ? 1 : 5;
    if (optind + 1 >= count) stop(2, "no connection is named");
    connection_count = (size_t)(count - 1 - optind);
    if (!options.threads) options.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if ((size_t)options.threads > connection_count) options.threads = (int)connection_count;
    scheduled = is_open_loop() ? (uint64_t)(options.rate * options.seconds) : 0;
}

static void print_result(struct worker *workers) {
    static struct worker all;
    for (int i = 0; i < options.threads; i++) {
        struct worker *w = &workers[i];
        all.requests += w->requests, all.bytes += w->bytes, all.wire_bytes += w->wire_bytes, all.records += w->records;
        all.empty += w->empty, all.unanswered += w->unanswered, all.throttle_ms += w->throttle_ms;
        for (int code = 0; code < ERROR_CODES; code++) all.errors[code] += w->errors[code];
        if (w->last_ns > all.last_ns) all.last_ns = w->last_ns;
        histogram_merge(&all.latency, &w->latency);
        histogram_merge(&all.woken_late, &w->woken_late);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    /* An open loop may take longer than its schedule; a closed one ends with its time. */
    int64_t end = atomic_load(&end_ns);
    if (is_open_loop() && all.last_ns > end) end = all.last_ns;
    printf("{\"api\": \"%s\", \"loop\": \"%s\", \"connections\": %zu, \"threads\": %d, \"in_flight\": %d, ", options.fetches ? "fetch" : "produce",
           is_open_loop() ? "open" : "closed", connection_count, options.threads, options.in_flight);
    printf("\"tls\": \"%s\", ", tls_named(connections[0].tls));
    printf("\"offered_rate\": %.3f, \"scheduled\": %llu, \"seconds\": %.6f, ", options.rate, (unsigned long long)scheduled, (double)(end - start_ns) / 1e9);
    printf("\"requests\": %llu, \"bytes\": %llu, \"records\": %llu, ", (unsigned long long)all.requests, (unsigned long long)all.bytes, (unsigned long long)all.records);
    printf("\"answer_bytes\": %llu, \"empty\": %llu, \"unanswered\": %llu, \"throttle_ms\": %llu, \"errors\": {",
           (unsigned long long)all.wire_bytes, (unsigned long long)all.empty, (unsigned long long)all.unanswered, (unsigned long long)all.throttle_ms);
    bool any = false;
    for (int slot = 0; slot < ERROR_CODES; slot++)
        if (all.errors[slot]) any = printf("%s\"%s\": %llu", any ? ", " : "", error_name(slot), (unsigned long long)all.errors[slot]) > 0;
    printf("}, \"cpu_s\": %.6f, ", (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    histogram_print("latency_us", &all.latency);
    printf(", ");
    histogram_print("woken_late_us", &all.woken_late);
    printf("}\n");
    fflush(stdout);
    if (ferror(stdout)) stop(1, "the result could not be written");
    if (any) stop(3, "answers had errors: they are counted in the result");
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    crc32c_prepare();
    if (!options.fetches) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        batch = batch_of_about((size_t)options.batch_bytes, (size_t)options.record_bytes, time.tv_sec * 1000 + time.tv_nsec / 1000000, &batch_records);
        prefix = produce_prefix(options.topic, options.acks, batch.size, sizeof PRODUCE_SUFFIX, &partition_at);
    }
    const char *wrong = options.authority ? tls_prepare(options.authority) : NULL;
    if (wrong) stop(1, "%s: %s", options.authority, wrong);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes */
    connections = calloc(connection_count, sizeof *connections);
    for (size_t i = 0; i < connection_count; i++) {
        connections[i].index = (int)i;
        open_connection(&connections[i], arguments[(size_t)optind + 1 + i]);
    }
    struct worker *workers = calloc((size_t)options.threads, sizeof *workers);
    start_ns = now_ns() + S / 100;
    atomic_store(&end_ns, start_ns + (int64_t)(options.seconds * 1e9));
    for (int i = 0; i < options.threads; i++) {
        workers[i].index = i;
        workers[i].epoll = epoll_create1(EPOLL_CLOEXEC);
        workers[i].timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (workers[i].epoll < 0 || workers[i].timer < 0) stop(1, "epoll or timerfd: %s", strerror(errno));
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) stop(1, "no thread: %s", strerror(errno));
    }
    for (int i = 0; i < options.threads; i++) pthread_join(workers[i].thread, NULL);
    print_result(workers);
    return 0;
}
