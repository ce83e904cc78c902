package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var capabilities = map[string]capability{
	"offsets_by_time":       withAdmin(offsetsByTime),
	"admin_topics":          withAdmin(adminTopics),
	"admin_groups":          withAdmin(adminGroups),
	"admin_consumer_groups": withAdmin(adminConsumerGroups),
	"configs":               withAdmin(configs),
}

type story func(context.Context, *kadm.Client, arguments) (string, error)

func withAdmin(story story) capability {
	return func(ctx context.Context, given arguments) (string, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(given.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return "", err
		}
		defer client.Close()
		return story(ctx, kadm.NewClient(client), given)
	}
}

func created(ctx context.Context, admin *kadm.Client, topic string, partitions int32) error {
	response, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		return fmt.Errorf("creating %s: %w", topic, err)
	}
	if response.ID == (kadm.TopicID{}) || response.NumPartitions != partitions {
		return fmt.Errorf("created with id %v and %d partitions", response.ID, response.NumPartitions)
	}
	return known(ctx, admin, topic, int(partitions))
}

func offsetsByTime(ctx context.Context, admin *kadm.Client, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 2); err != nil {
		return "", err
	}
	began := time.Now().Add(-time.Hour).UnixMilli()
	client, err := kgo.NewClient(kgo.SeedBrokers(given.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return "", err
	}
	defer client.Close()
	for i := range 10 { // one at a time: a batch each
		record := &kgo.Record{
			Topic: given.topic, Partition: 1, Value: []byte("x"), Timestamp: time.UnixMilli(began + int64(i)*1000),
		}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return "", err
		}
	}
	for _, question := range []struct {
		what string
		ask  func() (kadm.ListedOffsets, error)
		want int64
	}{
		{"earliest", func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, given.topic) }, 0},
		{"latest", func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, given.topic) }, 10},
		{"between two records", func() (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, began+3500, given.topic)
		}, 4},
		{"of a record's own time", func() (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, began+4000, given.topic)
		}, 4},
		{"after the last record", func() (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, began+3600_000, given.topic)
		}, 10}, // kadm asks for the end where nothing is later
		{"of the greatest timestamp", func() (kadm.ListedOffsets, error) {
			return admin.ListMaxTimestampOffsets(ctx, given.topic)
		}, 9},
	} {
		listed, err := question.ask()
		if err != nil {
			return "", fmt.Errorf("%s: %w", question.what, err)
		}
		if found, _ := listed.Lookup(given.topic, 1); found.Err != nil || found.Offset != question.want {
			return "", fmt.Errorf("%s: offset %d (%v), not %d", question.what, found.Offset, found.Err, question.want)
		}
	}
	return "earliest, latest, four times", nil
}

func adminTopics(ctx context.Context, admin *kadm.Client, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 3); err != nil {
		return "", err
	}
	if again, err := admin.CreateTopic(ctx, 3, 1, nil, given.topic); err == nil {
		return "", fmt.Errorf("created twice: %v", again)
	}
	if updated, err := admin.UpdatePartitions(ctx, 5, given.topic); err != nil || updated.Error() != nil {
		return "", fmt.Errorf("adding partitions: %w, %w", err, updated.Error())
	}
	if err := known(ctx, admin, given.topic, 5); err != nil {
		return "", err
	}
	if _, err := admin.DeleteTopic(ctx, given.topic); err != nil {
		return "", fmt.Errorf("deleting: %w", err)
	}
	return "created, refused a second time, described, grown from 3 to 5, deleted", eventually(ctx, func() error {
		listed, err := admin.ListTopics(ctx)
		if err == nil && listed.Has(given.topic) {
			err = fmt.Errorf("the topic is still listed")
		}
		return err
	})
}

func known(ctx context.Context, admin *kadm.Client, topic string, count int) error {
	return eventually(ctx, func() error {
		listed, err := admin.ListTopics(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if found := len(listed[topic].Partitions); err == nil && found != count {
			err = fmt.Errorf("%s has %d partitions, not %d", topic, found, count)
		}
		return err
	})
}

func adminGroups(ctx context.Context, admin *kadm.Client, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 2); err != nil {
		return "", err
	}
	alive, leave := context.WithCancel(ctx)
	left := make(chan error)
	given.session, given.assignor = 10*time.Second, "range"
	go func() { left <- member(alive, given, newSeen(io.Discard, 0)) }()
	defer leave()
	if err := eventually(ctx, func() error { return described(ctx, admin, given, "Stable", 1) }); err != nil {
		return "", err
	}
	if err := admin.CommitAllOffsets(ctx, given.group, committed(given.topic)); err == nil {
		return "", fmt.Errorf("a commit from outside went into a group with members")
	}
	leave()
	if err := <-left; err != nil {
		return "", err
	}
	if err := admin.CommitAllOffsets(ctx, given.group, committed(given.topic)); err != nil {
		return "", fmt.Errorf("committing from outside: %w", err)
	}
	if err := described(ctx, admin, given, "Empty", 0); err != nil {
		return "", err
	}
	offsets, err := admin.FetchOffsets(ctx, given.group)
	if err != nil {
		return "", fmt.Errorf("fetching offsets: %w", err)
	}
	if found, _ := offsets.Lookup(given.topic, 1); found.At != 7 || found.Metadata != "why" {
		return "", fmt.Errorf("committed is %d with %q, not 7", found.At, found.Metadata)
	}
	if deleted, err := admin.DeleteGroup(ctx, given.group); err != nil || deleted.Err != nil {
		return "", fmt.Errorf("deleting: %w, %w", err, deleted.Err)
	}
	listed, err := admin.ListGroups(ctx)
	if err == nil && slices.Contains(listed.Groups(), given.group) {
		err = fmt.Errorf("the group is still listed")
	}
	return "listed, described with a member and empty, offsets committed and fetched, deleted", err
}

// adminConsumerGroups asks about a group that the server balances: what is told of it, its settings, offsets, end.
func adminConsumerGroups(ctx context.Context, admin *kadm.Client, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 2); err != nil {
		return "", err
	}
	if err := interval(ctx, given, kmsg.IncrementalAlterConfigOpSet, "2000"); err != nil {
		return "", err
	}
	alive, leave := context.WithCancel(ctx)
	left := make(chan error)
	given.session, given.protocol = 10*time.Second, "consumer"
	go func() { left <- member(alive, given, newSeen(io.Discard, 0)) }()
	defer leave()
	if err := eventually(ctx, func() error { return balanced(ctx, admin, given, "Stable", 1) }); err != nil {
		return "", err
	}
	if err := admin.CommitAllOffsets(ctx, given.group, committed(given.topic)); err == nil {
		return "", fmt.Errorf("a commit from outside went into a group with members")
	}
	if _, err := admin.DeleteGroup(ctx, given.group); !errors.Is(err, kerr.NonEmptyGroup) {
		return "", fmt.Errorf("deleted with a member: %w", err)
	}
	leave()
	if err := <-left; err != nil {
		return "", err
	}
	if err := eventually(ctx, func() error { return balanced(ctx, admin, given, "Empty", 0) }); err != nil {
		return "", err
	}
	if err := admin.CommitAllOffsets(ctx, given.group, committed(given.topic)); err != nil {
		return "", fmt.Errorf("committing from outside: %w", err)
	}
	offsets, err := admin.FetchOffsets(ctx, given.group)
	if err != nil {
		return "", fmt.Errorf("fetching offsets: %w", err)
	}
	if found, _ := offsets.Lookup(given.topic, 1); found.At != 7 || found.Metadata != "why" {
		return "", fmt.Errorf("committed is %d with %q, not 7", found.At, found.Metadata)
	}
	if deleted, err := admin.DeleteGroup(ctx, given.group); err != nil || deleted.Err != nil {
		return "", fmt.Errorf("deleting: %w, %w", err, deleted.Err)
	}
	if err := interval(ctx, given, kmsg.IncrementalAlterConfigOpDelete, ""); err != nil {
		return "", err
	}
	listed, err := admin.ListGroups(ctx)
	if err == nil && slices.Contains(listed.Groups(), given.group) {
		err = fmt.Errorf("the group is still listed")
	}
	return "interval set and back; listed by type, described with epochs, assignment and target; not deleted with a member; " +
		"offsets committed and fetched, group deleted", err
}

func balanced(ctx context.Context, admin *kadm.Client, given arguments, state string, members int) error {
	listed, err := admin.ListGroupsByType(ctx, []string{"consumer"}, state)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	if found := listed[given.group]; found.State != state || found.ProtocolType != "consumer" {
		return fmt.Errorf("listed as %+v, not as %s", found, state)
	}
	groups, err := admin.DescribeConsumerGroups(ctx, given.group)
	if err != nil {
		return fmt.Errorf("describing: %w", err)
	}
	found := groups[given.group]
	if found.Err != nil || found.State != state || len(found.Members) != members {
		return fmt.Errorf("described as %+v, not as %s with %d members", found, state, members)
	}
	if members > 0 && (len(found.AssignedPartitions()[given.topic]) != 2 || len(found.TargetPartitions()[given.topic]) != 2) {
		return fmt.Errorf("described with %v assigned of %v", found.AssignedPartitions(), found.TargetPartitions())
	}
	return nil
}

// interval alters the heartbeat interval that the group's members are told.
func interval(ctx context.Context, given arguments, op kmsg.IncrementalAlterConfigOp, value string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(given.bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op = "consumer.heartbeat.interval.ms", op
	if op == kmsg.IncrementalAlterConfigOpSet {
		config.Value = &value
	}
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, given.group
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("altering the group's settings: %w", err)
	}
	return kerr.ErrorForCode(response.Resources[0].ErrorCode)
}

func committed(topic string) kadm.Offsets {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "why"})
	return offsets
}

func described(ctx context.Context, admin *kadm.Client, given arguments, state string, members int) error {
	listed, err := admin.ListGroups(ctx, state)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	if found := listed[given.group]; found.State != state || found.ProtocolType != "consumer" {
		return fmt.Errorf("listed as %+v, not as %s", found, state)
	}
	groups, err := admin.DescribeGroups(ctx, given.group)
	if err != nil {
		return fmt.Errorf("describing: %w", err)
	}
	found := groups[given.group]
	if found.Err != nil || found.State != state || len(found.Members) != members {
		return fmt.Errorf("described as %+v, not as %s with %d members", found, state, members)
	}
	if members > 0 && len(found.AssignedPartitions()[given.topic]) != 2 {
		return fmt.Errorf("described with %v assigned", found.AssignedPartitions())
	}
	return nil
}

func configs(ctx context.Context, admin *kadm.Client, given arguments) (string, error) {
	if err := created(ctx, admin, given.topic, 1); err != nil {
		return "", err
	}
	const key = "retention.ms"
	first, err := configured(ctx, admin, given.topic, key)
	if err != nil {
		return "", err
	}
	for _, change := range []struct {
		alter kadm.AlterConfig
		want  string
	}{
		{kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr("3600000")}, "3600000"},
		{kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key}, first},
	} {
		altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change.alter}, given.topic)
		if err == nil {
			_, err = altered.On(given.topic, nil)
		}
		if err != nil {
			return "", fmt.Errorf("altering: %w", err)
		}
		if err := eventually(ctx, func() error {
			now, err := configured(ctx, admin, given.topic, key)
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

func configured(ctx context.Context, admin *kadm.Client, topic, key string) (string, error) {
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", fmt.Errorf("describing: %w", err)
	}
	resource, err := described.On(topic, nil)
	if err != nil || resource.Err != nil {
		return "", fmt.Errorf("describing: %w, %w", err, resource.Err)
	}
	for _, config := range resource.Configs {
		if config.Key == key {
			return config.MaybeValue(), nil
		}
	}
	return "", fmt.Errorf("%s is not among the %d keys described", key, len(resource.Configs))
}
