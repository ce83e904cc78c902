package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const readEvery = 10

var telling sync.Mutex

// clerk is a member of a group of its own, which commits 1, 2, 3 ... and reads that back.
type clerk struct {
	group, topic string
	client       *kgo.Client
	owns         bool
	mu           sync.Mutex
	last         int64
}

// clerks runs as many as were asked for, until ctx ends.
func clerks(ctx context.Context, given arguments) error {
	var all sync.WaitGroup
	for number := range given.count {
		one := &clerk{group: fmt.Sprintf("%s-%d", given.group, number), topic: given.topic}
		if err := one.open(given); err != nil {
			return err
		}
		all.Add(1)
		go func() {
			defer all.Done()
			one.work(ctx, given)
		}()
	}
	all.Wait()
	return nil
}

func (c *clerk) open(given arguments) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.bootstrap, ",")...),
		kgo.ConsumerGroup(c.group),
		kgo.ConsumeTopics(c.topic),
		kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(given.session),
		kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, given map[string][]int32) {
			client.PauseFetchTopics(c.topic) // what was committed is no position of a record
			c.moved("assigned", len(given[c.topic]) > 0)
		}),
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) { c.moved("revoked", false) }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { c.moved("lost", false) }),
	)
	c.client = client
	return err
}

func (c *clerk) moved(why string, owns bool) {
	c.mu.Lock()
	c.owns = owns
	c.mu.Unlock()
	c.tell("moved", map[string]any{"why": why})
}

func (c *clerk) work(ctx context.Context, given arguments) {
	defer c.client.Close()
	number := int64(0)
	for ctx.Err() == nil {
		polled, cancel := context.WithTimeout(ctx, time.Duration(given.pause)*time.Millisecond)
		c.client.PollFetches(polled)
		cancel()
		c.mu.Lock()
		owns := c.owns
		c.mu.Unlock()
		if !owns || ctx.Err() != nil {
			continue
		}
		number++
		if err := c.commit(number); err != nil {
			c.tell("refused", map[string]any{"why": err.Error()})
		} else if number%readEvery == 0 {
			c.readBack()
		}
	}
	c.readBack()
}

func (c *clerk) commit(number int64) error {
	record := &kgo.Record{Topic: c.topic, Partition: 0, Offset: number - 1, LeaderEpoch: -1}
	if err := c.client.CommitRecords(context.Background(), record); err != nil {
		return err
	}
	c.last = number
	_, generation := c.client.GroupMetadata()
	c.tell("ack", map[string]any{"number": number, "generation": generation})
	return nil
}

func (c *clerk) readBack() {
	found, err := kadm.NewClient(c.client).FetchOffsets(context.Background(), c.group)
	if err != nil {
		c.tell("refused", map[string]any{"why": err.Error()})
		return
	}
	number := int64(-1)
	if offset, known := found.Lookup(c.topic, 0); known {
		number = offset.At
	}
	c.tell("read", map[string]any{"number": number, "least": c.last})
}

func (c *clerk) tell(event string, rest map[string]any) {
	rest["event"], rest["group"], rest["at"] = event, c.group, float64(time.Now().UnixMilli())/1000
	telling.Lock()
	defer telling.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(rest)
}
