package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
)

var capabilities = map[string]capability{
	"offsets_by_time": offsetsByTime,
	"admin_topics":    withClient(adminTopics),
	"admin_groups":    withClient(adminGroups),
	"configs":         withClient(configs),
}

func withClient(story func(context.Context, *kafka.Client, arguments) (string, error)) capability {
	return func(ctx context.Context, given arguments) (string, error) {
		return story(ctx, newClient(given), given)
	}
}

func newClient(given arguments) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(given.bootstrap), Timeout: 20 * time.Second}
}

func create(ctx context.Context, client *kafka.Client, topic string, partitions int) error {
	response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err == nil {
		err = response.Errors[topic]
	}
	return err
}

func created(ctx context.Context, client *kafka.Client, topic string, partitions int) error {
	if err := create(ctx, client, topic, partitions); err != nil {
		return fmt.Errorf("creating %s: %w", topic, err)
	}
	return known(ctx, client, topic, partitions)
}

func known(ctx context.Context, client *kafka.Client, topic string, count int) error {
	return eventually(ctx, func() error {
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return err
		}
		if len(metadata.Topics) != 1 || metadata.Topics[0].Error != nil {
			return fmt.Errorf("%s described as %+v", topic, metadata.Topics)
		}
		if found := len(metadata.Topics[0].Partitions); found != count {
			return fmt.Errorf("%s has %d partitions, not %d", topic, found, count)
		}
		return nil
	})
}

func offsetsByTime(ctx context.Context, given arguments) (string, error) {
	if err := created(ctx, newClient(given), given.topic, 2); err != nil {
		return "", err
	}
	leader, err := kafka.DialLeader(ctx, "tcp", given.bootstrap, given.topic, 1)
	if err != nil {
		return "", err
	}
	defer leader.Close()
	began := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	for i := range 10 { // one at a time: a batch each
		message := kafka.Message{Value: []byte("x"), Time: began.Add(time.Duration(i) * time.Second)}
		if _, err := leader.WriteMessages(message); err != nil {
			return "", fmt.Errorf("writing: %w", err)
		}
	}
	at := func(after time.Duration) func() (int64, error) {
		return func() (int64, error) { return leader.ReadOffset(began.Add(after)) }
	}
	for _, question := range []struct {
		what string
		ask  func() (int64, error)
		want int64
	}{
		{"earliest", leader.ReadFirstOffset, 0},
		{"latest", leader.ReadLastOffset, 10},
		{"between two records", at(3500 * time.Millisecond), 4},
		{"of a record's own time", at(4 * time.Second), 4},
		{"after the last record", at(time.Hour), -1},
	} {
		offset, err := question.ask()
		if err != nil || offset != question.want {
			return "", fmt.Errorf("%s: offset %d (%v), not %d", question.what, offset, err, question.want)
		}
	}
	return "earliest, latest, three times", nil
}

func adminTopics(ctx context.Context, client *kafka.Client, given arguments) (string, error) {
	if err := created(ctx, client, given.topic, 3); err != nil {
		return "", err
	}
	if err := create(ctx, client, given.topic, 3); !errors.Is(err, kafka.TopicAlreadyExists) {
		return "", fmt.Errorf("created a second time: %v", err)
	}
	grown, err := client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: given.topic, Count: 5}},
	})
	if err != nil || grown.Errors[given.topic] != nil {
		return "", fmt.Errorf("adding partitions: %w", err)
	}
	if err := known(ctx, client, given.topic, 5); err != nil {
		return "", err
	}
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{given.topic}})
	if err == nil {
		err = deleted.Errors[given.topic]
	}
	if err != nil {
		return "", fmt.Errorf("deleting: %w", err)
	}
	return "created, refused a second time, described, grown from 3 to 5, deleted", eventually(ctx, func() error {
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{}) // every topic
		if err != nil {
			return err
		}
		for _, topic := range metadata.Topics {
			if topic.Name == given.topic {
				return errors.New("the topic is still listed")
			}
		}
		return nil
	})
}

func adminGroups(ctx context.Context, client *kafka.Client, given arguments) (string, error) {
	if err := created(ctx, client, given.topic, 2); err != nil {
		return "", err
	}
	alive, leave := context.WithCancel(ctx)
	left := make(chan error)
	given.session = 10 * time.Second
	go func() { left <- member(alive, given, newSeen(io.Discard, 0)) }()
	defer leave()
	if err := eventually(ctx, func() error { return described(ctx, client, given, "Stable", 1) }); err != nil {
		return "", err
	}
	if err := commitOutside(ctx, client, given); err == nil {
		return "", errors.New("a commit from outside went into a group with members")
	}
	leave()
	if err := <-left; err != nil {
		return "", err
	}
	// Reading goes on in the background until the readers notice, but the member has left.
	if err := eventually(ctx, func() error { return described(ctx, client, given, "Empty", 0) }); err != nil {
		return "", err
	}
	if err := commitOutside(ctx, client, given); err != nil {
		return "", fmt.Errorf("committing from outside: %w", err)
	}
	if err := committed(ctx, client, given, 7, "why"); err != nil {
		return "", err
	}
	forgotten, err := client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{
		GroupID: given.group, Topics: map[string][]int{given.topic: {1}},
	})
	if err != nil || forgotten.Error != nil || forgotten.Topics[given.topic][0].Error != nil {
		return "", fmt.Errorf("deleting an offset: %+v, %w", forgotten, err)
	}
	if err := committed(ctx, client, given, -1, ""); err != nil {
		return "", err
	}
	deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{given.group}})
	if err != nil || deleted.Errors[given.group] != nil {
		return "", fmt.Errorf("deleting: %v, %w", deleted, err)
	}
	if there, err := listed(ctx, client, given.group); err != nil || there {
		return "", fmt.Errorf("the group is still listed, or %w", err)
	}
	return "listed, described with a member and empty, offsets committed, fetched, deleted; the group deleted", nil
}

func commitOutside(ctx context.Context, client *kafka.Client, given arguments) error {
	response, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: given.group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{given.topic: {{Partition: 1, Offset: 7, Metadata: "why"}}},
	})
	if err == nil {
		err = response.Topics[given.topic][0].Error
	}
	return err
}

func committed(ctx context.Context, client *kafka.Client, given arguments, offset int64, metadata string) error {
	response, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: given.group, Topics: map[string][]int{given.topic: {1}},
	})
	if err != nil || response.Error != nil || len(response.Topics[given.topic]) != 1 {
		return fmt.Errorf("fetching offsets: %+v, %w", response, err)
	}
	if found := response.Topics[given.topic][0]; found.CommittedOffset != offset || found.Metadata != metadata {
		return fmt.Errorf("committed is %+v, not %d", found, offset)
	}
	return nil
}

func listed(ctx context.Context, client *kafka.Client, group string) (bool, error) {
	response, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil || response.Error != nil {
		return false, fmt.Errorf("listing: %v, %w", response, err)
	}
	for _, found := range response.Groups {
		if found.GroupID == group {
			return found.ProtocolType == "consumer", nil
		}
	}
	return false, nil
}

func described(ctx context.Context, client *kafka.Client, given arguments, state string, members int) error {
	if there, err := listed(ctx, client, given.group); err != nil || !there {
		return fmt.Errorf("the group is not listed, %w", err)
	}
	response, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{given.group}})
	if err != nil || len(response.Groups) != 1 {
		return fmt.Errorf("describing: %+v, %w", response, err)
	}
	found := response.Groups[0]
	if found.Error != nil || found.GroupState != state || len(found.Members) != members {
		return fmt.Errorf("described as %+v, not as %s with %d members", found, state, members)
	}
	for _, member := range found.Members {
		if topics := member.MemberAssignments.Topics; len(topics) != 1 || len(topics[0].Partitions) != 2 {
			return fmt.Errorf("described with %+v assigned", topics)
		}
	}
	return nil
}

func configs(ctx context.Context, client *kafka.Client, given arguments) (string, error) {
	if err := created(ctx, client, given.topic, 1); err != nil {
		return "", err
	}
	const key = "retention.ms"
	first, err := configured(ctx, client, given.topic, key)
	if err != nil {
		return "", err
	}
	for _, change := range []struct {
		config kafka.IncrementalAlterConfigsRequestConfig
		want   string
	}{
		{kafka.IncrementalAlterConfigsRequestConfig{Name: key, Value: "3600000"}, "3600000"}, // the zero operation sets
		{kafka.IncrementalAlterConfigsRequestConfig{Name: key, ConfigOperation: kafka.ConfigOperationDelete}, first},
	} {
		altered, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: given.topic,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{change.config},
			}},
		})
		if err != nil || len(altered.Resources) != 1 || altered.Resources[0].Error != nil {
			return "", fmt.Errorf("altering: %+v, %w", altered, err)
		}
		if err := eventually(ctx, func() error {
			now, err := configured(ctx, client, given.topic, key)
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

func configured(ctx context.Context, client *kafka.Client, topic, key string) (string, error) {
	response, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{key},
		}},
	})
	if err != nil || len(response.Resources) != 1 || response.Resources[0].Error != nil {
		return "", fmt.Errorf("describing: %+v, %w", response, err)
	}
	if found := response.Resources[0].ConfigEntries; len(found) != 1 || found[0].ConfigName != key {
		return "", fmt.Errorf("asked for %s alone, was told %+v", key, found)
	}
	return response.Resources[0].ConfigEntries[0].ConfigValue, nil
}
