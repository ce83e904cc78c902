package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/IBM/sarama"
)

var capabilities = map[string]capability{
	"offsets_by_time": withAdmin(offsetsByTime),
	"admin_topics":    withAdmin(adminTopics),
	"admin_groups":    withAdmin(adminGroups),
	"configs":         withAdmin(configs),
}

type story func(context.Context, sarama.Client, sarama.ClusterAdmin, arguments) (string, error)

func withAdmin(story story) capability {
	return func(ctx context.Context, given arguments) (string, error) {
		config, err := newConfig()
		if err != nil {
			return "", err
		}
		client, err := sarama.NewClient([]string{given.bootstrap}, config)
		if err != nil {
			return "", err
		}
		admin, err := sarama.NewClusterAdminFromClient(client)
		if err != nil {
			return "", err
		}
		defer admin.Close()
		return story(ctx, client, admin, given)
	}
}

func created(ctx context.Context, admin sarama.ClusterAdmin, topic string, partitions int32) error {
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
	if err := admin.CreateTopic(topic, detail, false); err != nil {
		return fmt.Errorf("creating %s: %w", topic, err)
	}
	return known(ctx, admin, topic, int(partitions))
}

func offsetsByTime(
	ctx context.Context, client sarama.Client, admin sarama.ClusterAdmin, given arguments,
) (string, error) {
	if err := created(ctx, admin, given.topic, 2); err != nil {
		return "", err
	}
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	began := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	for i := range 10 { // one at a time: a batch each
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: given.topic, Partition: 1, Value: sarama.StringEncoder("x"),
			Timestamp: began.Add(time.Duration(i) * time.Second),
		}); err != nil {
			return "", err
		}
	}
	for _, question := range []struct {
		what       string
		time, want int64
	}{
		{"earliest", sarama.OffsetOldest, 0},
		{"latest", sarama.OffsetNewest, 10},
		{"between two records", began.UnixMilli() + 3500, 4},
		{"of a record's own time", began.UnixMilli() + 4000, 4},
		{"after the last record", began.UnixMilli() + 3600_000, -1},
	} {
		offset, err := client.GetOffset(given.topic, 1, question.time)
		if err != nil || offset != question.want {
			return "", fmt.Errorf("%s: offset %d (%v), not %d", question.what, offset, err, question.want)
		}
	}
	return "earliest, latest, three times", nil
}

func adminTopics(
	ctx context.Context, _ sarama.Client, admin sarama.ClusterAdmin, given arguments,
) (string, error) {
	if err := created(ctx, admin, given.topic, 3); err != nil {
		return "", err
	}
	if err := created(ctx, admin, given.topic, 3); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return "", fmt.Errorf("created a second time: %v", err)
	}
	if err := admin.CreatePartitions(given.topic, 5, nil, false); err != nil {
		return "", fmt.Errorf("adding partitions: %w", err)
	}
	if err := known(ctx, admin, given.topic, 5); err != nil {
		return "", err
	}
	if brokers, controller, err := admin.DescribeCluster(); err != nil || len(brokers) != 1 || controller < 0 {
		return "", fmt.Errorf("describing the cluster: %v, %d, %v", brokers, controller, err)
	}
	if err := admin.DeleteTopic(given.topic); err != nil {
		return "", fmt.Errorf("deleting: %w", err)
	}
	return "created, refused a second time, described, grown from 3 to 5, deleted", eventually(ctx, func() error {
		listed, err := admin.ListTopics()
		if _, there := listed[given.topic]; err == nil && there {
			err = errors.New("the topic is still listed")
		}
		return err
	})
}

func known(ctx context.Context, admin sarama.ClusterAdmin, topic string, count int) error {
	return eventually(ctx, func() error {
		described, err := admin.DescribeTopics([]string{topic})
		if err != nil || len(described) != 1 || described[0].Err != sarama.ErrNoError {
			return fmt.Errorf("describing %s: %v, %w", topic, described, err)
		}
		if found := len(described[0].Partitions); found != count {
			return fmt.Errorf("%s has %d partitions, not %d", topic, found, count)
		}
		return nil
	})
}

func adminGroups(
	ctx context.Context, _ sarama.Client, admin sarama.ClusterAdmin, given arguments,
) (string, error) {
	if err := created(ctx, admin, given.topic, 2); err != nil {
		return "", err
	}
	alive, leave := context.WithCancel(ctx)
	left := make(chan error)
	given.session, given.assignor = 10*time.Second, "range"
	go func() { left <- member(alive, given, newSeen(io.Discard, 0)) }()
	defer leave()
	if err := eventually(ctx, func() error { return described(admin, given, "Stable", 1) }); err != nil {
		return "", err
	}
	if err := commit(admin, given); err == nil {
		return "", errors.New("a commit from outside went into a group with members")
	}
	leave()
	if err := <-left; err != nil {
		return "", err
	}
	if err := commit(admin, given); err != nil {
		return "", fmt.Errorf("committing from outside: %w", err)
	}
	if err := described(admin, given, "Empty", 0); err != nil {
		return "", err
	}
	if err := committed(admin, given, 7, "why"); err != nil {
		return "", err
	}
	if err := admin.DeleteConsumerGroupOffset(given.group, given.topic, 1); err != nil {
		return "", fmt.Errorf("deleting an offset: %w", err)
	}
	if err := committed(admin, given, -1, ""); err != nil {
		return "", err
	}
	if err := admin.DeleteConsumerGroup(given.group); err != nil {
		return "", fmt.Errorf("deleting: %w", err)
	}
	listed, err := admin.ListConsumerGroups()
	if _, there := listed[given.group]; err == nil && there {
		err = errors.New("the group is still listed")
	}
	return "listed, described with a member and empty, offsets committed, fetched, deleted; the group deleted", err
}

func commit(admin sarama.ClusterAdmin, given arguments) error {
	response, err := admin.AlterConsumerGroupOffsets(given.group, map[string]map[int32]sarama.OffsetAndMetadata{
		given.topic: {1: {Offset: 7, Metadata: "why", LeaderEpoch: -1}},
	}, nil)
	if err == nil && response.Errors[given.topic][1] != sarama.ErrNoError {
		err = response.Errors[given.topic][1]
	}
	return err
}

func committed(admin sarama.ClusterAdmin, given arguments, offset int64, metadata string) error {
	offsets, err := admin.ListConsumerGroupOffsets(given.group, map[string][]int32{given.topic: {1}})
	if err != nil {
		return fmt.Errorf("fetching offsets: %w", err)
	}
	found := offsets.GetBlock(given.topic, 1)
	if found == nil || found.Offset != offset || found.Metadata != metadata {
		return fmt.Errorf("committed is %+v, not %d", found, offset)
	}
	return nil
}

func described(admin sarama.ClusterAdmin, given arguments, state string, members int) error {
	listed, err := admin.ListConsumerGroups()
	if err != nil || listed[given.group] != "consumer" {
		return fmt.Errorf("listed as %q, %w", listed[given.group], err)
	}
	groups, err := admin.DescribeConsumerGroups([]string{given.group})
	if err != nil || len(groups) != 1 {
		return fmt.Errorf("describing: %d groups, %w", len(groups), err)
	}
	if found := groups[0]; found.Err != sarama.ErrNoError || found.State != state || len(found.Members) != members {
		return fmt.Errorf("described as %+v, not as %s with %d members", found, state, members)
	}
	for _, member := range groups[0].Members {
		assignment, err := member.GetMemberAssignment()
		if err != nil || len(assignment.Topics[given.topic]) != 2 {
			return fmt.Errorf("described with %v assigned, %w", assignment, err)
		}
	}
	return nil
}

func configs(ctx context.Context, _ sarama.Client, admin sarama.ClusterAdmin, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 1); err != nil {
		return "", err
	}
	const key = "retention.ms"
	first, err := configured(admin, given.topic, key)
	if err != nil {
		return "", err
	}
	value := "3600000"
	for _, change := range []struct {
		entry sarama.IncrementalAlterConfigsEntry
		want  string
	}{
		{sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}, value},
		{sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}, first},
	} {
		entries := map[string]sarama.IncrementalAlterConfigsEntry{key: change.entry}
		if err := admin.IncrementalAlterConfig(sarama.TopicResource, given.topic, entries, false); err != nil {
			return "", fmt.Errorf("altering: %w", err)
		}
		if err := eventually(ctx, func() error {
			now, err := configured(admin, given.topic, key)
			if err == nil && now != change.want {
				err = fmt.Errorf("%s is %s, not %s", key, now, change.want)
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s: %s, set, and back", key, first), nil
}

func configured(admin sarama.ClusterAdmin, topic, key string) (string, error) {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: topic, ConfigNames: []string{key},
	})
	if err != nil {
		return "", fmt.Errorf("describing: %w", err)
	}
	if len(entries) != 1 || entries[0].Name != key {
		return "", fmt.Errorf("asked for %s alone, was told %v", key, entries)
	}
	return entries[0].Value, nil
}
