/* Latencies in buckets that widen with the value, as HdrHistogram's do: each is at most 1/128 of its values wide. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

enum { SUB_BITS = 7, BUCKETS = (64 - SUB_BITS + 1) << SUB_BITS };

struct histogram {
    uint64_t counts[BUCKETS], count, max_ns;
    double sum_ns;
};

static inline unsigned bucket_of(uint64_t ns) {
    if (ns < 2u << SUB_BITS) return (unsigned)ns;
    int shift = 63 - __builtin_clzll(ns) - SUB_BITS;
    return ((unsigned)shift << SUB_BITS) + (unsigned)(ns >> shift);
}

/* The greatest value of a bucket. */
static inline uint64_t bucket_top(unsigned bucket) {
    if (bucket < 2u << SUB_BITS) return bucket;
    unsigned shift = (bucket >> SUB_BITS) - 1;
    return ((((uint64_t)bucket & ((1u << SUB_BITS) - 1)) | 1u << SUB_BITS) + 1) * (1ull << shift) - 1;
}

static inline void histogram_add(struct histogram *h, int64_t ns) {
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    h->counts[bucket_of(value)]++;
    h->count++;
    h->sum_ns += (double)value;
    if (value > h->max_ns) h->max_ns = value;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from) {
    for (unsigned i = 0; i < BUCKETS; i++) into->counts[i] += from->counts[i];
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    if (from->max_ns > into->max_ns) into->max_ns = from->max_ns;
}

static inline uint64_t histogram_quantile(const struct histogram *h, double quantile) {
    uint64_t wanted = (uint64_t)(quantile * (double)h->count), seen = 0;
    if (wanted >= h->count) return h->max_ns;
    for (unsigned i = 0; i < BUCKETS; i++)
        if ((seen += h->counts[i]) > wanted) return bucket_top(i) < h->max_ns ? bucket_top(i) : h->max_ns;
    return h->max_ns;
}

static inline void histogram_print(const char *name, const struct histogram *h) {
    static const struct { const char *name; double quantile; } QUANTILES[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"p9999", 0.9999}};
    printf("\"%s\": {\"count\": %llu, \"mean\": %.3f", name, (unsigned long long)h->count, h->count ? h->sum_ns / (double)h->count / 1e3 : 0);
    for (size_t i = 0; i < sizeof QUANTILES / sizeof *QUANTILES; i++)
        printf(", \"%s\": %.3f", QUANTILES[i].name, (double)histogram_quantile(h, QUANTILES[i].quantile) / 1e3);
    printf(", \"max\": %.3f}", (double)h->max_ns / 1e3);
}

#endif
