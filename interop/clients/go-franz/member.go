package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func member(ctx context.Context, given arguments, seen *seen) error {
	balancer := kgo.GroupBalancer(kgo.RangeBalancer())
	if given.assignor == "cooperative-sticky" {
		balancer = kgo.CooperativeStickyBalancer()
	}
	lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		seen.owns(nil, partitions[given.topic])
	}
	revoked := func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
		if given.commits {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "committing:", err)
			}
		}
		lost(ctx, client, partitions)
	}
	topics := []kgo.Opt{kgo.ConsumeTopics(given.topic)}
	if given.pattern != "" {
		topics = []kgo.Opt{
			kgo.ConsumeRegex(),
			kgo.ConsumeTopics(given.pattern),
			kgo.MetadataMaxAge(2 * time.Second), // it matches topics itself, and looks for new ones each five minutes
			kgo.MetadataMinAge(time.Second),
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(given.bootstrap),
		kgo.ConsumerGroup(given.group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(given.session),
		kgo.HeartbeatInterval(given.session / 10),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			seen.owns(partitions[given.topic], nil)
		}),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(lost),
	}
	options = append(options, topics...)
	secured, err := security(given)
	if err != nil {
		return err
	}
	options = append(options, secured...)
	if given.protocol == "consumer" {
		balancer = kgo.StickyBalancer()
		if given.assignor == "range" {
			balancer = kgo.RangeBalancer()
		}
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(balancer))
	}
	if given.instance != "" {
		options = append(options, kgo.InstanceID(given.instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close() // leaves the group
	return consume(ctx, client, given, seen)
}

// consume hands out records until ctx ends or the limit is reached; then it commits what it handed out.
func consume(ctx context.Context, client *kgo.Client, given arguments, seen *seen) error {
	for {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(record *kgo.Record) {
			seen.record(record.Partition, record.Offset, record.Value)
		})
		if ctx.Err() != nil {
			return nil
		}
		for _, failed := range fetches.Errors() {
			var outside *kgo.ErrGroupSession // news, no failure: the client goes on trying to get in
			if !errors.As(failed.Err, &outside) {
				return fmt.Errorf("fetching partition %d: %w", failed.Partition, failed.Err)
			}
		}
		select {
		case <-seen.full:
			return commit(client, given, seen)
		default:
		}
	}
}

func commit(client *kgo.Client, given arguments, seen *seen) error {
	var records []*kgo.Record
	for partition, position := range seen.positions {
		// CommitRecords commits the offset after the record, and the record's leader epoch, for which -1 is none.
		records = append(records, &kgo.Record{
			Topic: given.topic, Partition: partition, Offset: position - 1, LeaderEpoch: -1,
		})
	}
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	seen.committed()
	return nil
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func produce(ctx context.Context, given arguments) error {
	codec, known := codecs[given.compression]
	if !known {
		return fmt.Errorf("no compression %q", given.compression)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(given.bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec),
	}
	if !given.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	records := make([]*kgo.Record, given.count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: given.topic, Partition: int32(i % given.partitions), Value: []byte(strconv.Itoa(i)),
		}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
