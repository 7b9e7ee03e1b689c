// A member of a group on franz-go: reads, says what it read, commits it; leaves on SIGTERM.
// What it says, and its arguments, are those of ../said.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const atOnce = 200

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	MinOffset *int64 `json:"minOffset,omitempty"`
	MaxOffset *int64 `json:"maxOffset,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
}

var saying sync.Mutex

func say(name string, facts map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	event := map[string]any{"name": name}
	for key, fact := range facts {
		event[key] = fact
	}
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func sayPartitions(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, byTopic map[string][]int32) {
		named := []partition{}
		for topic, numbers := range byTopic {
			for _, number := range numbers {
				named = append(named, partition{Topic: topic, Partition: number})
			}
		}
		sort.Slice(named, func(a, b int) bool { return named[a].Partition < named[b].Partition })
		say(name, map[string]any{"partitions": named})
	}
}

func options() []kgo.Opt {
	bootstrap := flag.String("bootstrap-server", "", "")
	group := flag.String("group-id", "", "")
	topic := flag.String("topic", "", "")
	pattern := flag.String("pattern", "", "")
	protocol := flag.String("group-protocol", "classic", "")
	strategy := flag.String("assignment-strategy", "range", "")
	instance := flag.String("group-instance-id", "", "")
	session := flag.Int("session-timeout", 45000, "")
	flag.Parse()
	chosen := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.ConsumerGroup(*group),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MetadataMaxAge(500 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.SessionTimeout(time.Duration(*session) * time.Millisecond),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(sayPartitions("partitions_assigned")),
		kgo.OnPartitionsRevoked(sayPartitions("partitions_revoked")),
		kgo.OnPartitionsLost(sayPartitions("partitions_revoked")),
	}
	if *topic != "" {
		chosen = append(chosen, kgo.ConsumeTopics(*topic))
	} else {
		chosen = append(chosen, kgo.ConsumeTopics("^"+*pattern), kgo.ConsumeRegex())
	}
	if *instance != "" {
		chosen = append(chosen, kgo.InstanceID(*instance))
	}
	switch {
	case *protocol == "consumer":
		chosen = append(chosen, kgo.ServerSideBalancer())
	case *strategy == "cooperative-sticky":
		chosen = append(chosen, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		chosen = append(chosen, kgo.Balancers(kgo.RangeBalancer()))
	}
	return chosen
}

func settle(client *kgo.Client, fetches kgo.Fetches) {
	consumed, following := []partition{}, []partition{}
	fetches.EachPartition(func(found kgo.FetchTopicPartition) {
		if len(found.Records) == 0 {
			return
		}
		first, last := found.Records[0].Offset, found.Records[len(found.Records)-1].Offset
		next := last + 1
		consumed = append(consumed, partition{Topic: found.Topic, Partition: found.Partition, MinOffset: &first, MaxOffset: &last})
		following = append(following, partition{Topic: found.Topic, Partition: found.Partition, Offset: &next})
	})
	if len(consumed) == 0 {
		return
	}
	say("records_consumed", map[string]any{"partitions": consumed})
	err := client.CommitRecords(context.Background(), fetches.Records()...)
	facts := map[string]any{"offsets": following, "success": err == nil}
	if err != nil {
		facts["error"] = err.Error()
	}
	say("offsets_committed", facts)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "stream" {
		stream(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "flood" {
		flood(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "secured" {
		secured(os.Args[2])
		return
	}
	client, err := kgo.NewClient(options()...)
	if err != nil {
		panic(err)
	}
	leaving, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	say("startup_complete", nil)
	for leaving.Err() == nil {
		polling, cancel := context.WithTimeout(leaving, 100*time.Millisecond)
		fetches := client.PollRecords(polling, atOnce)
		cancel()
		fetches.EachError(func(topic string, number int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				say("error", map[string]any{"error": fmt.Sprintf("%s-%d: %v", topic, number, err)})
			}
		})
		settle(client, fetches)
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	say("shutdown_complete", nil)
	os.Exit(0)
}
