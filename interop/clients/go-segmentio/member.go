package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

func member(ctx context.Context, given arguments, seen *seen) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: given.group, Brokers: []string{given.bootstrap}, Topics: []string{given.topic},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: given.session / 10, SessionTimeout: given.session,
		JoinGroupBackoff: 200 * time.Millisecond,
		StartOffset:      kafka.FirstOffset,
		ErrorLogger:      kafka.LoggerFunc(func(text string, a ...any) { fmt.Fprintf(os.Stderr, text+"\n", a...) }),
	})
	if err != nil {
		return err
	}
	for {
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			return group.Close() // leaves the group
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err) // the library joins anew by itself
			continue
		}
		ended := consume(ctx, generation, given, seen)
		select {
		case <-seen.full:
			if err := commit(generation, given, seen); err != nil {
				return err
			}
			return group.Close()
		case <-ended:
		case <-ctx.Done():
			return group.Close()
		}
	}
}

// consume hands out what the partitions of a generation hold, until it ends.
func consume(ctx context.Context, generation *kafka.Generation, given arguments, seen *seen) <-chan struct{} {
	var owned []int32
	for _, assigned := range generation.Assignments[given.topic] {
		owned = append(owned, int32(assigned.ID))
		generation.Start(func(ctx context.Context) { read(ctx, given, assigned, seen) })
	}
	seen.owns(owned, nil)
	ended := make(chan struct{})
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		seen.owns(nil, owned)
		close(ended)
	})
	return ended
}

func read(ctx context.Context, given arguments, assigned kafka.PartitionAssignment, seen *seen) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{given.bootstrap}, Topic: given.topic, Partition: assigned.ID, MaxWait: time.Second,
	})
	defer reader.Close()
	if err := reader.SetOffset(assigned.Offset); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, kafka.ErrGenerationEnded) {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
		if !seen.record(int32(message.Partition), message.Offset, message.Value) {
			return
		}
	}
}

func commit(generation *kafka.Generation, given arguments, seen *seen) error {
	positions := map[int]int64{}
	for partition, position := range seen.positions {
		positions[int(partition)] = position
	}
	if err := generation.CommitOffsets(map[string]map[int]int64{given.topic: positions}); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	seen.committed()
	return nil
}

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func produce(ctx context.Context, given arguments) error {
	codec, known := codecs[given.compression]
	if !known || given.idempotent {
		return fmt.Errorf("compression %q, idempotent %v: not in this library", given.compression, given.idempotent)
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(given.bootstrap), Topic: given.topic, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 10 * time.Millisecond,
		Balancer:     kafka.BalancerFunc(func(message kafka.Message, _ ...int) int { return message.WriterData.(int) }),
	}
	messages := make([]kafka.Message, given.count)
	for i := range messages {
		messages[i] = kafka.Message{Value: []byte(strconv.Itoa(i)), WriterData: i % given.partitions}
	}
	return errors.Join(writer.WriteMessages(ctx, messages...), writer.Close())
}
