package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

// newConfig speaks as the newest Kafka the library knows, or as KAFKA_VERSION ("2.4.0"): older versions then.
func newConfig() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	if wanted := os.Getenv("KAFKA_VERSION"); wanted != "" {
		version, err := sarama.ParseKafkaVersion(wanted)
		if err != nil {
			return nil, err
		}
		config.Version = version
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	return config, nil
}

func member(ctx context.Context, given arguments, seen *seen) error {
	config, err := newConfig()
	if err != nil {
		return err
	}
	if err := secure(config, given.security); err != nil {
		return err
	}
	strategy := sarama.NewBalanceStrategyRange()
	if given.assignor == "cooperative-sticky" {
		strategy = sarama.NewBalanceStrategyCooperativeSticky()
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.InstanceId = given.instance
	config.Consumer.Group.Session.Timeout = given.session
	config.Consumer.Group.Heartbeat.Interval = given.session / 10
	group, err := sarama.NewConsumerGroup([]string{given.bootstrap}, given.group, config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	go func() {
		for err := range group.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	claims := &claims{seen: seen, stop: stop}
	for ctx.Err() == nil { // an eager rebalance ends one session; the next call begins another
		if err := group.Consume(ctx, []string{given.topic}, claims); err != nil {
			// Trying again, after a server that was away for instance, is left to the application.
			fmt.Fprintln(os.Stderr, "consuming:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil { // leaves the group
		return fmt.Errorf("leaving: %w", err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, errFull) {
		return cause
	}
	if errors.Is(context.Cause(ctx), errFull) {
		seen.committed()
	}
	return nil
}

var errFull = errors.New("the limit is reached")

// claims hands out the records of the partitions a member owns; each in a goroutine of its own.
type claims struct {
	seen *seen
	stop context.CancelCauseFunc
}

func (c *claims) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup commits: it is called when every claim has returned, while the member is in the group.
func (c *claims) Cleanup(session sarama.ConsumerGroupSession) error {
	select {
	case <-c.seen.full:
		session.Commit()
	default:
	}
	return nil
}

func (c *claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := []int32{claim.Partition()}
	c.seen.owns(partition, nil)
	defer c.seen.owns(nil, partition)
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if !c.seen.record(message.Partition, message.Offset, message.Value) {
				return nil
			}
			session.MarkMessage(message, "")
		case <-c.seen.full:
			c.stop(errFull)
			return nil
		case <-session.Context().Done():
			return nil
		}
	}
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func produce(_ context.Context, given arguments) error {
	config, err := newConfig()
	if err != nil {
		return err
	}
	codec, known := codecs[given.compression]
	if !known {
		return fmt.Errorf("no compression %q", given.compression)
	}
	config.Producer.Compression = codec
	if given.idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1 // sarama's own condition
	}
	producer, err := sarama.NewSyncProducer([]string{given.bootstrap}, config)
	if err != nil {
		return err
	}
	messages := make([]*sarama.ProducerMessage, given.count)
	for i := range messages {
		messages[i] = &sarama.ProducerMessage{
			Topic: given.topic, Partition: int32(i % given.partitions), Value: sarama.StringEncoder(strconv.Itoa(i)),
		}
	}
	return errors.Join(producer.SendMessages(messages), producer.Close())
}
