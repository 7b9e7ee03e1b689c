// A steady producer, or a consumer, for tests/bench/client_gaps: see its programs/stream_lines.py.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	size          = 100
	flushWithin   = 60 * time.Second
	refreshMinAge = 100 * time.Millisecond // its default would not allow a refresh each second
)

func sayLine(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

// stream: MODE BOOTSTRAP TOPIC PARTITION REFRESH_MS PER_SECOND
func stream(arguments []string) {
	numbers := make([]int, 3)
	for at, text := range arguments[3:6] {
		number, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		numbers[at] = number
	}
	topic, number, refreshMs, perSecond := arguments[2], int32(numbers[0]), numbers[1], numbers[2]
	chosen := []kgo.Opt{kgo.SeedBrokers(strings.Split(arguments[1], ",")...)}
	if refreshMs > 0 {
		chosen = append(chosen, kgo.MetadataMinAge(refreshMinAge), kgo.MetadataMaxAge(time.Duration(refreshMs)*time.Millisecond))
	}
	leaving, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if arguments[0] == "produce" {
		streamOut(leaving, chosen, topic, number, perSecond)
	} else {
		streamIn(leaving, chosen, topic, number)
	}
}

func streamOut(leaving context.Context, chosen []kgo.Opt, topic string, number int32, perSecond int) {
	client, err := kgo.NewClient(append(chosen, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...)
	if err != nil {
		panic(err)
	}
	begun, next := time.Now(), 0
	for leaving.Err() == nil {
		for float64(next) < time.Since(begun).Seconds()*float64(perSecond) {
			sequence := next
			next++
			record := &kgo.Record{Topic: topic, Partition: number, Value: []byte(fmt.Sprintf("%-*d", size, sequence))}
			client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
				if err == nil {
					sayLine("a", sequence, time.Now().UnixMicro())
				} else {
					sayLine("f", sequence, time.Now().UnixMicro(), strings.ReplaceAll(err.Error(), "\n", " "))
				}
			})
		}
		time.Sleep(max(time.Millisecond, time.Second/time.Duration(4*perSecond)))
	}
	flushing, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	client.Flush(flushing)
	client.Close()
}

func streamIn(leaving context.Context, chosen []kgo.Opt, topic string, number int32) {
	from := map[string]map[int32]kgo.Offset{topic: {number: kgo.NewOffset().AtEnd()}}
	client, err := kgo.NewClient(append(chosen, kgo.ConsumePartitions(from))...)
	if err != nil {
		panic(err)
	}
	for leaving.Err() == nil {
		client.PollFetches(leaving).EachRecord(func(record *kgo.Record) {
			sayLine("r", strings.TrimSpace(string(record.Value)), time.Now().UnixMicro(), record.Offset)
		})
	}
	client.Close()
	os.Exit(0)
}
