package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// The same file in every Go client: arguments in, lines of JSON out, as interop/README.md has it.

const capabilityTimeout = 80 * time.Second

type arguments struct {
	bootstrap, topic, group string
	compression, assignor   string
	instance                string
	protocol, pattern       string
	security                string
	to, transactional       string
	count, partitions       int
	limit, pause            int
	idempotent, commits     bool
	session                 time.Duration
}

type capability func(context.Context, arguments) (string, error)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: %s VERB --bootstrap HOST:PORT ...", os.Args[0]))
	}
	verb, given := os.Args[1], parsed(os.Args[2:])
	switch run, own := capabilities[verb]; {
	case verb == "produce":
		ctx, cancel := context.WithTimeout(context.Background(), capabilityTimeout)
		defer cancel()
		fail(produce(ctx, given))
	case verb == "member":
		seen := newSeen(os.Stdout, given.limit)
		fail(member(untilStopped(), given, seen))
	case verb == "transform":
		fail(transform(untilStopped(), given))
	case verb == "clerks":
		fail(clerks(untilStopped(), given))
	case own:
		ctx, cancel := context.WithTimeout(context.Background(), capabilityTimeout)
		defer cancel()
		detail, err := run(ctx, given)
		answer(detail, err)
	default:
		fail(fmt.Errorf("no such capability here: %q", verb))
	}
}

func parsed(words []string) arguments {
	var given arguments
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	flags.StringVar(&given.bootstrap, "bootstrap", "", "HOST:PORT")
	flags.StringVar(&given.topic, "topic", "", "")
	flags.StringVar(&given.group, "group", "", "")
	flags.StringVar(&given.compression, "compression", "none", "")
	flags.StringVar(&given.assignor, "assignor", "range", "")
	flags.StringVar(&given.instance, "instance", "", "")
	flags.StringVar(&given.protocol, "protocol", "classic", "")
	flags.StringVar(&given.pattern, "pattern", "", "a regular expression in place of the topic")
	flags.StringVar(&given.security, "security", "", "a file with key=value lines of a login")
	flags.StringVar(&given.to, "to", "", "the topic to which `transform` writes")
	flags.StringVar(&given.transactional, "transactional-id", "", "")
	flags.IntVar(&given.count, "count", 0, "")
	flags.IntVar(&given.partitions, "partitions", 1, "")
	flags.IntVar(&given.limit, "limit", 0, "")
	flags.IntVar(&given.pause, "pause-ms", 100, "between two commits of a clerk")
	flags.BoolVar(&given.idempotent, "idempotent", false, "")
	flags.BoolVar(&given.commits, "commit", false, "commit what was read before partitions are given back")
	session := flags.Int("session-timeout-ms", 10000, "")
	_ = flags.Parse(words) // ExitOnError
	given.session = time.Duration(*session) * time.Millisecond
	return given
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer(detail string, err error) {
	if err != nil {
		detail = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"ok": err == nil, "detail": detail})
}

// untilStopped ends with the line "stop" on stdin, or with stdin.
func untilStopped() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if lines.Text() == "stop" {
				return
			}
		}
	}()
	return ctx
}

// seen prints what happens to a member, and counts what it has handed out. Safe for concurrent use.
type seen struct {
	full chan struct{} // closed once the limit is reached
	once sync.Once

	mu        sync.Mutex
	out       *json.Encoder
	left      int
	limited   bool
	owned     map[int32]bool
	positions map[int32]int64 // after the last record handed out
}

func newSeen(out io.Writer, limit int) *seen {
	return &seen{
		full: make(chan struct{}), out: json.NewEncoder(out), left: limit, limited: limit > 0,
		owned: map[int32]bool{}, positions: map[int32]int64{},
	}
}

// owns says which partitions came and which went.
func (s *seen) owns(gained, lost []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, partition := range gained {
		s.owned[partition] = true
	}
	for _, partition := range lost {
		delete(s.owned, partition)
		delete(s.positions, partition) // somebody else's from now on
	}
	partitions := []int32{}
	for partition := range s.owned {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	_ = s.out.Encode(map[string]any{"event": "assigned", "partitions": partitions})
}

// record hands a record out; false if the limit was reached before, and the record is none of ours.
func (s *seen) record(partition int32, offset int64, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limited && s.left == 0 {
		return false
	}
	_ = s.out.Encode(map[string]any{
		"event": "record", "partition": partition, "offset": offset, "value": string(value),
	})
	s.positions[partition] = offset + 1
	if s.left--; s.limited && s.left == 0 {
		s.once.Do(func() { close(s.full) })
	}
	return true
}

func (s *seen) committed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(map[string]any{"event": "committed"})
}

// eventually gives a server the time to make its answers known everywhere: metadata is never at once everywhere.
func eventually(ctx context.Context, look func() error) error {
	for until := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := look()
		if err == nil || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
	}
}
