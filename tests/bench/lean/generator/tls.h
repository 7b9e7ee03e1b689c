/* TLS for the load generator, by the libssl that Python and the openssl command have: it is opened at run time, so that no headers
   are needed. What is declared here is part of OpenSSL's stable interface since 1.1.0. */
#pragma once
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

typedef struct ssl_st tls_session;
typedef struct ssl_ctx_st tls_context;

/* Of <openssl/ssl.h>. */
enum { TLS_ERROR_WANT_READ = 2, TLS_ERROR_WANT_WRITE = 3, TLS_ERROR_SYSCALL = 5, TLS_ERROR_ZERO_RETURN = 6 };
enum { TLS_VERIFY_PEER = 1, TLS_CTRL_MODE = 33, TLS_MODE_PARTIAL_WRITE = 1, TLS_MODE_MOVING_BUFFER = 2 };
enum { TLS_DATA_MAX = 16384 }; /* of one record */

static struct {
    tls_context *context; /* NULL: without TLS */
    const void *(*TLS_client_method)(void);
    tls_context *(*SSL_CTX_new)(const void *method);
    int (*SSL_CTX_load_verify_locations)(tls_context *, const char *file, const char *path);
    void (*SSL_CTX_set_verify)(tls_context *, int mode, void *callback);
    long (*SSL_CTX_ctrl)(tls_context *, int command, long number, void *pointer);
    tls_session *(*SSL_new)(tls_context *);
    int (*SSL_set_fd)(tls_session *, int);
    int (*SSL_set1_host)(tls_session *, const char *);
    int (*SSL_connect)(tls_session *);
    int (*SSL_read)(tls_session *, void *, int);
    int (*SSL_write)(tls_session *, const void *, int);
    int (*SSL_get_error)(const tls_session *, int);
    const char *(*SSL_get_version)(const tls_session *);
    const void *(*SSL_get_current_cipher)(const tls_session *);
    const char *(*SSL_CIPHER_get_name)(const void *cipher);
    unsigned long (*ERR_get_error)(void);
    void (*ERR_clear_error)(void);
    const char *(*ERR_reason_error_string)(unsigned long);
} tls;

static const char *tls_reason(void) {
    const char *reason = tls.ERR_reason_error_string(tls.ERR_get_error());
    return reason ? reason : "no reason is known";
}

/* Trusts the authority whose certificate is in the PEM file. Returns a sentence if TLS cannot be spoken. */
static const char *tls_prepare(const char *authority) {
    void *library = dlopen("libssl.so.3", RTLD_NOW);
    if (!library) library = dlopen("libssl.so.1.1", RTLD_NOW);
    if (!library) return "neither libssl.so.3 nor libssl.so.1.1 is here: apt-get install openssl";
    struct { void **function; const char *name; } const functions[] = {
#define FUNCTION(name) {(void **)&tls.name, #name}
        FUNCTION(TLS_client_method), FUNCTION(SSL_CTX_new), FUNCTION(SSL_CTX_load_verify_locations), FUNCTION(SSL_CTX_set_verify),
        FUNCTION(SSL_CTX_ctrl), FUNCTION(SSL_new), FUNCTION(SSL_set_fd), FUNCTION(SSL_set1_host), FUNCTION(SSL_connect),
        FUNCTION(SSL_read), FUNCTION(SSL_write), FUNCTION(SSL_get_error), FUNCTION(SSL_get_version), FUNCTION(SSL_get_current_cipher),
        FUNCTION(SSL_CIPHER_get_name), FUNCTION(ERR_get_error), FUNCTION(ERR_clear_error), FUNCTION(ERR_reason_error_string),
#undef FUNCTION
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!(*functions[i].function = dlsym(library, functions[i].name))) return dlerror();
    tls.context = tls.SSL_CTX_new(tls.TLS_client_method());
    if (!tls.context || !tls.SSL_CTX_load_verify_locations(tls.context, authority, NULL)) return tls_reason();
    tls.SSL_CTX_set_verify(tls.context, TLS_VERIFY_PEER, NULL);
    tls.SSL_CTX_ctrl(tls.context, TLS_CTRL_MODE, TLS_MODE_PARTIAL_WRITE | TLS_MODE_MOVING_BUFFER, NULL);
    return NULL;
}

/* Shakes hands on a socket that blocks. Returns NULL, and why in `reason`, if that fails. */
static tls_session *tls_connect(int fd, const char *host, const char **reason) {
    tls_session *session = tls.SSL_new(tls.context);
    if (session && tls.SSL_set_fd(session, fd) && tls.SSL_set1_host(session, host) && tls.SSL_connect(session) == 1) return session;
    *reason = tls_reason();
    return NULL;
}

/* The result of recv and send: bytes, 0 at the end, or -1 with errno. */
static ssize_t tls_result(tls_session *session, int result) {
    if (result > 0) return result;
    switch (tls.SSL_get_error(session, result)) {
        case TLS_ERROR_WANT_READ:
        case TLS_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
        case TLS_ERROR_ZERO_RETURN: return 0;
        case TLS_ERROR_SYSCALL: return errno ? -1 : 0;
        default: errno = EPROTO; return -1;
    }
}

static ssize_t tls_receive(tls_session *session, void *data, size_t size) {
    tls.ERR_clear_error(); /* SSL_get_error looks at the thread's errors */
    errno = 0;
    return tls_result(session, tls.SSL_read(session, data, size > INT32_MAX ? INT32_MAX : (int)size));
}

/* Sends one record. After EAGAIN the same bytes come again, perhaps elsewhere and with more behind them. */
static ssize_t tls_send(tls_session *session, const struct iovec *parts, int count) {
    uint8_t record[TLS_DATA_MAX];
    size_t size = 0;
    for (int i = 0; i < count && size < sizeof record; i++) {
        size_t part = parts[i].iov_len < sizeof record - size ? parts[i].iov_len : sizeof record - size;
        memcpy(record + size, parts[i].iov_base, part);
        size += part;
    }
    tls.ERR_clear_error();
    errno = 0;
    return tls_result(session, tls.SSL_write(session, record, (int)size));
}
