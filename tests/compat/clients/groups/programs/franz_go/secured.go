// What kafkajs/secured.cjs does, on franz-go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const securedWithin = 30 * time.Second

type identity struct {
	User, Mechanism, Secret, Keystore string
}

type securedRun struct {
	Bootstrap, CA, Topic, Group string
	Producer, Consumer          identity
}

func (as identity) login() sasl.Mechanism {
	switch as.Mechanism {
	case "OAUTHBEARER":
		return oauth.Auth{Token: as.Secret}.AsMechanism()
	case "PLAIN":
		return plain.Auth{User: as.User, Pass: as.Secret}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: as.User, Pass: as.Secret}.AsSha256Mechanism()
	default:
		return scram.Auth{User: as.User, Pass: as.Secret}.AsSha512Mechanism()
	}
}

func (run securedRun) client(as identity, more ...kgo.Opt) *kgo.Client {
	trusted, pem := x509.NewCertPool(), must(os.ReadFile(run.CA))
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted}
	chosen := append(more, kgo.SeedBrokers(run.Bootstrap), kgo.DialTLSConfig(config), kgo.FetchMaxWait(100*time.Millisecond))
	if as.Keystore != "" {
		config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(as.Keystore, as.Keystore))}
	} else {
		chosen = append(chosen, kgo.SASL(as.login()))
	}
	return must(kgo.NewClient(chosen...))
}

func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func sayFacts(facts map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(facts); err != nil {
		panic(err)
	}
}

func fail(err error) {
	var known *kerr.Error
	if errors.As(err, &known) {
		sayFacts(map[string]any{"error": known.Message})
	} else {
		sayFacts(map[string]any{"error": err.Error()})
	}
	os.Exit(1)
}

// secured: the JSON file
func secured(file string) {
	var run securedRun
	if err := json.Unmarshal(must(os.ReadFile(file)), &run); err != nil {
		panic(err)
	}
	within, cancel := context.WithTimeout(context.Background(), securedWithin)
	defer cancel()
	producer := run.client(run.Producer, kgo.DefaultProduceTopic(run.Topic))
	if err := producer.ProduceSync(within, kgo.StringRecord("of franz-go")).FirstErr(); err != nil {
		fail(err)
	}
	producer.Close()
	fromStart := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	consumer := run.client(run.Consumer, kgo.ConsumerGroup(run.Group), kgo.ConsumeTopics(run.Topic), kgo.DisableAutoCommit(), fromStart)
	read := []string{}
	for len(read) == 0 {
		fetches := consumer.PollFetches(within)
		if err := fetches.Err(); err != nil {
			fail(err)
		}
		fetches.EachRecord(func(record *kgo.Record) { read = append(read, string(record.Value)) })
	}
	if err := consumer.CommitUncommittedOffsets(within); err != nil {
		fail(err)
	}
	consumer.Close()
	sayFacts(map[string]any{"read": read})
}
