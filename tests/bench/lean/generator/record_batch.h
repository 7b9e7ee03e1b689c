/* Record batches of version 2 (magic 2): written with a valid CRC-32C, and walked in answers. */
#ifndef RECORD_BATCH_H
#define RECORD_BATCH_H

#include "bytes.h"

enum { BATCH_HEADER = 61, BATCH_BEFORE_LENGTH_ENDS = 12, BATCH_MAGIC_AT = 16, BATCH_CRC_AT = 17, BATCH_AFTER_CRC = 21 };
enum { BATCH_LAST_DELTA_AT = 23, BATCH_COUNT_AT = 57 };

static uint32_t crc_table[256];

static inline void crc32c_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0x82f63b78u : value >> 1;
        crc_table[i] = value;
    }
}

static inline uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t value = 0xffffffffu;
    for (size_t i = 0; i < size; i++) value = value >> 8 ^ crc_table[(value ^ data[i]) & 0xff];
    return ~value;
}

static inline struct writer record_batch(int records, size_t value_size, int64_t timestamp_ms) {
    struct writer body = {0}, batch = {0}, record = {0};
    for (int delta = 0; delta < records; delta++) {
        record.size = 0;
        put(&record, 0, 1); /* attributes */
        put_varint(&record, 0);
        put_varint(&record, delta);
        put_varint(&record, -1); /* no key */
        put_varint(&record, (int64_t)value_size);
        uint8_t *value = writer_more(&record, value_size);
        for (size_t i = 0; i < value_size; i++) value[i] = (uint8_t)(i % 251);
        put_varint(&record, 0); /* no headers */
        put_varint(&body, (int64_t)record.size);
        put_bytes(&body, record.data, record.size);
    }
    put(&batch, 0, 8); /* base offset */
    put(&batch, (int64_t)(BATCH_HEADER - BATCH_BEFORE_LENGTH_ENDS + body.size), 4);
    put(&batch, -1, 4); /* leader epoch */
    put(&batch, 2, 1);
    put(&batch, 0, 4); /* CRC, below */
    put(&batch, 0, 2);
    put(&batch, records - 1, 4);
    put(&batch, timestamp_ms, 8);
    put(&batch, timestamp_ms, 8);
    put(&batch, -1, 8); /* neither producer id nor epoch nor sequence */
    put(&batch, -1, 2);
    put(&batch, -1, 4);
    put(&batch, records, 4);
    put_bytes(&batch, body.data, body.size);
    put_at(batch.data + BATCH_CRC_AT, crc32c(batch.data + BATCH_AFTER_CRC, batch.size - BATCH_AFTER_CRC), 4);
    free(body.data);
    free(record.data);
    return batch;
}

/* The fullest batch of at most `size` bytes; a single smaller record if none of `value_size` has room. */
static inline struct writer batch_of_about(size_t size, size_t value_size, int64_t timestamp_ms, int *records) {
    *records = 1;
    if (size <= value_size + 80) return record_batch(1, size - BATCH_HEADER - 12, timestamp_ms);
    struct writer one = record_batch(1, value_size, timestamp_ms);
    *records = (int)((size - BATCH_HEADER) / (one.size - BATCH_HEADER + 2)); /* later offset deltas take up to three bytes */
    free(one.data);
    return record_batch(*records, value_size, timestamp_ms);
}

struct walked {
    int64_t next_offset; /* behind the last whole batch; -1 without any */
    uint64_t bytes, records;
    const char *fault; /* what is wrong with the batches, or NULL */
};

/* Whole batches of a partition's records. The last one may be cut: Kafka sends slices of its files. */
static inline struct walked walk_batches(const uint8_t *data, size_t size, bool check_crc) {
    struct walked found = {.next_offset = -1};
    while (size >= BATCH_HEADER) {
        int64_t length = (int64_t)get_unsigned_at(data + 8, 4);
        if (length < BATCH_HEADER - BATCH_BEFORE_LENGTH_ENDS || data[BATCH_MAGIC_AT] != 2) {
            found.fault = "holds bytes that are no record batch of magic 2";
            return found;
        }
        size_t whole = (size_t)length + BATCH_BEFORE_LENGTH_ENDS;
        if (whole > size) break;
        if (check_crc && crc32c(data + BATCH_AFTER_CRC, whole - BATCH_AFTER_CRC) != get_unsigned_at(data + BATCH_CRC_AT, 4)) {
            found.fault = "holds a record batch whose CRC is wrong";
            return found;
        }
        int64_t next = (int64_t)get_unsigned_at(data, 8) + (int32_t)get_unsigned_at(data + BATCH_LAST_DELTA_AT, 4) + 1;
        if (next <= found.next_offset || next <= 0) {
            found.fault = "holds record batches whose offsets do not rise";
            return found;
        }
        found.next_offset = next;
        found.records += get_unsigned_at(data + BATCH_COUNT_AT, 4);
        found.bytes += whole;
        data += whole;
        size -= whole;
    }
    return found;
}

#endif
