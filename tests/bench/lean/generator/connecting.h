/* Connections of the load generator. What fails here ends it. */
#pragma once
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>

#include "tls.h"

enum { HANDSHAKE_S_MAX = 15 };

static int connect_to(const char *name, const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int wrong = getaddrinfo(host, port, &hints, &found), fd = -1, yes = 1;
    if (wrong) stop(1, "%s: %s", name, gai_strerror(wrong));
    for (struct addrinfo *each = found; each && fd < 0; each = each->ai_next) {
        fd = socket(each->ai_family, each->ai_socktype, 0);
        if (fd >= 0 && connect(fd, each->ai_addr, each->ai_addrlen)) {
            int reason = errno;
            close(fd);
            fd = -1;
            errno = reason;
        }
    }
    if (fd < 0) stop(1, "%s: cannot connect: %s", name, strerror(errno));
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

static tls_session *secure(const char *name, int fd, const char *host) {
    const char *reason = "";
    const struct timeval patience = {.tv_sec = HANDSHAKE_S_MAX};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience); /* of no effect once it does not block */
    tls_session *session = tls_connect(fd, host, &reason);
    if (!session) stop(1, "%s: no TLS: %s", name, reason);
    return session;
}

static void set_nonblocking(const char *name, int fd) {
    if (fcntl(fd, F_SETFL, O_NONBLOCK)) stop(1, "%s: %s", name, strerror(errno));
}

/* The version and the cipher of a session, "" without TLS. */
static const char *tls_named(tls_session *session) {
    static char name[128];
    if (!session) return "";
    snprintf(name, sizeof name, "%s %s", tls.SSL_get_version(session), tls.SSL_CIPHER_get_name(tls.SSL_get_current_cipher(session)));
    return name;
}
