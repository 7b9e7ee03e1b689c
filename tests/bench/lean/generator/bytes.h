/* Bytes as Kafka's protocol has them: big-endian numbers, unsigned varints, compact strings. Readers never pass their end. */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    uint8_t *data;
    size_t size, room;
};

static inline uint8_t *writer_more(struct writer *w, size_t size) {
    if (w->size + size > w->room) {
        w->room = (w->size + size) * 2;
        w->data = realloc(w->data, w->room);
        if (!w->data) abort();
    }
    w->size += size;
    return w->data + w->size - size;
}

static inline void put_at(uint8_t *place, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) place[i] = (uint8_t)value;
}

static inline void put(struct writer *w, int64_t value, int bytes) { put_at(writer_more(w, (size_t)bytes), (uint64_t)value, bytes); }

static inline void put_bytes(struct writer *w, const void *data, size_t size) { memcpy(writer_more(w, size), data, size); }

static inline void put_uvarint(struct writer *w, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(w, (int64_t)(value & 0x7f) | 0x80, 1);
    put(w, (int64_t)value, 1);
}

static inline void put_varint(struct writer *w, int64_t value) { put_uvarint(w, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63)); }

static inline void put_compact(struct writer *w, const char *text) {
    put_uvarint(w, strlen(text) + 1);
    put_bytes(w, text, strlen(text));
}

/* `ok` becomes false where the bytes end too early or a number is none; what is read from then on is 0. */
struct reader {
    const uint8_t *at, *end;
    bool ok;
};

static inline const uint8_t *take(struct reader *r, uint64_t size) {
    if (!r->ok || (uint64_t)(r->end - r->at) < size) {
        r->ok = false;
        return NULL;
    }
    r->at += size;
    return r->at - size;
}

static inline uint64_t get_unsigned_at(const uint8_t *place, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | place[i];
    return value;
}

static inline int64_t get(struct reader *r, int bytes) {
    const uint8_t *place = take(r, (uint64_t)bytes);
    if (!place) return 0;
    int unused = 64 - 8 * bytes;
    return (int64_t)(get_unsigned_at(place, bytes) << unused) >> unused;
}

static inline uint64_t get_uvarint(struct reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        const uint8_t *place = take(r, 1);
        if (!place) return 0;
        value |= (uint64_t)(*place & 0x7f) << shift;
        if (*place < 0x80) return value;
    }
    r->ok = false;
    return 0;
}

/* The number of elements or bytes of a compact array, string or bytes: 0 also where it is null. */
static inline uint64_t get_compact_size(struct reader *r) {
    uint64_t size = get_uvarint(r);
    return size ? size - 1 : 0;
}

static inline void skip_compact(struct reader *r) { take(r, get_compact_size(r)); }

static inline void skip_tags(struct reader *r) {
    for (uint64_t left = get_uvarint(r); left && r->ok; left--) {
        get_uvarint(r);
        take(r, get_uvarint(r));
    }
}

static inline bool is_text(struct reader *r, const char *expected) {
    uint64_t size = get_compact_size(r);
    const uint8_t *text = take(r, size);
    return text && size == strlen(expected) && !memcmp(text, expected, size);
}

#endif
