// Records as fast as quotas let them, for tests/compat/clients/quotas: produces them, or reads those that are there.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const floodedRequest = 16 << 10

type longestThrottle struct{ ms atomic.Int64 }

func (longest *longestThrottle) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	if ms := interval.Milliseconds(); ms > longest.ms.Load() {
		longest.ms.Store(ms)
	}
}

// flood: MODE BOOTSTRAP CLIENT_ID TOPIC COUNT SIZE. Its lines are "read NUMBER…" for each poll, then "throttled MS".
func flood(arguments []string) {
	count, err := strconv.Atoi(arguments[4])
	if err != nil {
		panic(err)
	}
	size, err := strconv.Atoi(arguments[5])
	if err != nil {
		panic(err)
	}
	longest := &longestThrottle{}
	chosen := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(arguments[1], ",")...),
		kgo.ClientID(arguments[2]),
		kgo.WithHooks(longest),
	}
	if arguments[0] == "produce" {
		floodOut(chosen, arguments[3], count, size)
	} else {
		floodIn(chosen, arguments[3], count)
	}
	fmt.Println("throttled", longest.ms.Load())
	os.Exit(0)
}

func floodOut(chosen []kgo.Opt, topic string, count int, size int) {
	chosen = append(chosen, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(floodedRequest),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	client, err := kgo.NewClient(chosen...)
	if err != nil {
		panic(err)
	}
	for number := 0; number < count; number++ {
		value := []byte(fmt.Sprintf("%-*d", size, number))
		record := &kgo.Record{Topic: topic, Partition: unevenPartition(number), Value: value}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				panic(err)
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	client.Close()
}

func unevenPartition(number int) int32 {
	if number%4 == 0 {
		return 1
	}
	return 0
}

func floodIn(chosen []kgo.Opt, topic string, count int) {
	start := kgo.NewOffset().AtStart()
	chosen = append(chosen, kgo.FetchMaxPartitionBytes(floodedRequest), kgo.FetchMaxBytes(floodedRequest),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: start, 1: start}}))
	client, err := kgo.NewClient(chosen...)
	if err != nil {
		panic(err)
	}
	for read := 0; read < count; {
		words := []string{"read"}
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			panic(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			words = append(words, strings.TrimSpace(string(record.Value)))
			read++
		})
		fmt.Println(strings.Join(words, " "))
	}
	client.Close()
}
