/* Requests and answers: Produce 9 and Fetch 12, the last before topic ids, which Kafka 4 and Penstock serve alike. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "record_batch.h"

enum { PRODUCE = 0, PRODUCE_VERSION = 9, FETCH = 1, FETCH_VERSION = 12 };
enum { CORRELATION_AT = 8, TIMEOUT_MS = 30000, FETCH_WAIT_MS = 500, RESPONSE_BYTES = 50 << 20 };
#define CLIENT_ID "bench"

/* Request header v2, after four bytes for the length of the frame. */
static inline void put_request_header(struct writer *w, int api_key, int version) {
    put(w, 0, 4);
    put(w, api_key, 2);
    put(w, version, 2);
    put(w, 0, 4); /* correlation id */
    put(w, strlen(CLIENT_ID), 2);
    put_bytes(w, CLIENT_ID, strlen(CLIENT_ID));
    put(w, 0, 1);
}

/* All of a Produce before the batch, except correlation id and partition; `*partition_at` is where that stands. */
static inline struct writer produce_prefix(const char *topic, int acks, size_t batch_size, size_t suffix_size, size_t *partition_at) {
    struct writer w = {0};
    put_request_header(&w, PRODUCE, PRODUCE_VERSION);
    put(&w, 0, 1); /* no transactional id */
    put(&w, acks, 2);
    put(&w, TIMEOUT_MS, 4);
    put_uvarint(&w, 2); /* one topic */
    put_compact(&w, topic);
    put_uvarint(&w, 2); /* one partition */
    *partition_at = w.size;
    put(&w, 0, 4);
    put_uvarint(&w, batch_size + 1);
    put_at(w.data, w.size + batch_size + suffix_size - 4, 4);
    return w;
}

static const uint8_t PRODUCE_SUFFIX[3]; /* no tags of partition, topic, request */

struct position {
    int32_t partition;
    int64_t offset;
};

/* A Fetch without a session (KIP-227). It asks for all the partitions, from the `first` on round. */
static inline void fetch_frame(struct writer *w, const char *topic, const struct position *asked, size_t count, size_t first, int32_t max_bytes) {
    int64_t all_bytes = (int64_t)max_bytes * (int64_t)count;
    w->size = 0;
    put_request_header(w, FETCH, FETCH_VERSION);
    put(w, -1, 4); /* no replica */
    put(w, FETCH_WAIT_MS, 4);
    put(w, 1, 4); /* least bytes */
    put(w, all_bytes < RESPONSE_BYTES ? all_bytes : RESPONSE_BYTES, 4);
    put(w, 0, 1); /* READ_UNCOMMITTED */
    put(w, 0, 4); /* session id */
    put(w, -1, 4); /* session epoch: none */
    put_uvarint(w, 2);
    put_compact(w, topic);
    put_uvarint(w, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct position *one = &asked[(first + i) % count];
        put(w, one->partition, 4);
        put(w, -1, 4); /* current leader epoch */
        put(w, one->offset, 8);
        put(w, -1, 4); /* last fetched epoch */
        put(w, -1, 8); /* log start offset */
        put(w, max_bytes, 4);
        put(w, 0, 1);
    }
    put(w, 0, 1); /* tags of the topic */
    put_uvarint(w, 1); /* no forgotten topics */
    put_uvarint(w, 1); /* no rack */
    put(w, 0, 1);
    put_at(w->data, w->size - 4, 4);
}

/* What is wrong with the form of an answer, as the end of a sentence; NULL if nothing is. */
typedef const char *fault;

static const fault CUT = "ends early";

static inline fault expect_end(const struct reader *r) {
    if (!r->ok) return CUT;
    return r->at == r->end ? NULL : "has bytes behind its end";
}

/* `r` stands behind the correlation id. */
static inline fault read_produce_answer(struct reader *r, const char *topic, int32_t partition, int *error, int32_t *throttle_ms) {
    skip_tags(r);
    uint64_t topics = get_compact_size(r);
    bool is_topic = is_text(r, topic);
    uint64_t partitions = get_compact_size(r);
    int64_t index = get(r, 4);
    *error = (int)get(r, 2);
    take(r, 8 + 8 + 8); /* base offset, append time, log start offset */
    for (uint64_t left = get_compact_size(r); left && r->ok; left--) {
        take(r, 4);
        skip_compact(r);
        skip_tags(r);
    }
    skip_compact(r); /* error message */
    skip_tags(r);
    skip_tags(r);
    *throttle_ms = (int32_t)get(r, 4);
    skip_tags(r);
    if (!r->ok) return CUT;
    if (topics != 1 || partitions != 1 || !is_topic || index != partition) return "names other partitions than the request";
    return expect_end(r);
}

struct fetched {
    int error, empty; /* `empty`: no whole batch came although records were there */
    struct walked walked;
    bool at_end, has_nothing;
};

/* The head of an answer to a Fetch, down to the number of partitions. */
static inline fault read_fetch_head(struct reader *r, const char *topic, int *error, int32_t *throttle_ms, uint64_t *partitions) {
    skip_tags(r);
    *throttle_ms = (int32_t)get(r, 4);
    *error = (int)get(r, 2);
    get(r, 4); /* session id */
    uint64_t topics = get_compact_size(r);
    *partitions = 0;
    if (!r->ok) return CUT;
    if (!topics) return NULL;
    bool is_topic = is_text(r, topic);
    *partitions = get_compact_size(r);
    if (!r->ok) return CUT;
    return topics == 1 && is_topic ? NULL : "names other topics than the request";
}

static inline fault read_fetched_partition(struct reader *r, int64_t asked, bool check_crc, int32_t *partition, struct fetched *found) {
    *partition = (int32_t)get(r, 4);
    found->error = (int)get(r, 2);
    int64_t high_watermark = get(r, 8);
    take(r, 8 + 8); /* last stable offset, log start offset */
    for (uint64_t left = get_compact_size(r); left && r->ok; left--) {
        take(r, 8 + 8);
        skip_tags(r);
    }
    get(r, 4); /* preferred read replica */
    uint64_t size = get_compact_size(r);
    const uint8_t *records = take(r, size);
    skip_tags(r);
    if (!r->ok) return CUT;
    found->walked = (struct walked){.next_offset = -1};
    if (!found->error) found->walked = walk_batches(records, size, check_crc);
    if (found->walked.fault) return found->walked.fault;
    found->has_nothing = !found->error && high_watermark <= 0;
    found->empty = !found->error && found->walked.next_offset < 0 && asked < high_watermark;
    found->at_end = (found->walked.next_offset < 0 ? asked : found->walked.next_offset) >= high_watermark;
    return NULL;
}

static inline fault read_fetch_tail(struct reader *r, bool has_topic) {
    if (has_topic) skip_tags(r);
    skip_tags(r);
    return expect_end(r);
}

#endif
