package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transform writes each record of one topic to another in transactions with the group's offsets, until ctx ends. What
// cannot go on begins anew.
func transform(ctx context.Context, given arguments) error {
	for ctx.Err() == nil {
		if err := carry(ctx, given); err != nil {
			fmt.Fprintln(os.Stderr, "begins anew, since", err)
			told("anew", 0)
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}

func carry(ctx context.Context, given arguments) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(given.bootstrap, ",")...),
		kgo.TransactionalID(given.transactional),
		kgo.TransactionTimeout(30*time.Second),
		kgo.ConsumerGroup(given.group),
		kgo.ConsumeTopics(given.topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(given.session),
		kgo.HeartbeatInterval(time.Second),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for ctx.Err() == nil {
		if err := step(ctx, session, given.to); err != nil {
			return err
		}
	}
	return nil
}

func step(ctx context.Context, session *kgo.GroupTransactSession, to string) error {
	polled, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	records := session.PollFetches(polled).Records() // errors of fetching pass by: the client goes on trying
	cancel()
	if len(records) == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	var failed kgo.FirstErrPromise
	for _, record := range records {
		copied := &kgo.Record{Topic: to, Partition: record.Partition, Value: record.Value}
		session.Produce(context.Background(), copied, failed.Promise())
	}
	produced := failed.Err()
	committed, err := session.End(context.Background(), kgo.TransactionEndTry(produced == nil))
	switch {
	case err != nil:
		return errors.Join(produced, err)
	case committed:
		told("committed", len(records))
	default:
		fmt.Fprintln(os.Stderr, "aborted", produced)
		told("aborted", len(records))
	}
	return nil
}

func told(event string, records int) {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"event": event, "records": records})
}
