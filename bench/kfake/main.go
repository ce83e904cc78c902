// Kfake serves franz-go's in-memory Kafka, the fastest fake there is, as one broker: a lower bound to measure beside.
//
//	kfake [-host 127.0.0.1] [-port 0] [-data-dir DIR] [-auto-create] [TOPIC[:PARTITIONS] ...]
//
// The first line on stdout is "ready HOST:PORT". SIGTERM or SIGINT ends it.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	log.SetFlags(0)
	host := flag.String("host", "127.0.0.1", "address to listen on")
	port := flag.Int("port", 0, "port to listen on, 0 for any")
	dataDir := flag.String("data-dir", "", "keep everything in this folder too, never synced; empty: memory only")
	autoCreate := flag.Bool("auto-create", false, "topics come to be when asked for")
	flag.Parse()

	// kfake has no way to choose the address, only the listener: it advertises whatever the listener is bound to.
	listen := func(network, _ string) (net.Listener, error) {
		return net.Listen(network, net.JoinHostPort(*host, strconv.Itoa(*port)))
	}
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(listen)}
	if *dataDir != "" {
		options = append(options, kfake.DataDir(*dataDir))
	}
	if *autoCreate {
		options = append(options, kfake.AllowAutoTopicCreation())
	}
	for _, argument := range flag.Args() {
		name, partitions, err := topic(argument)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, kfake.SeedTopics(partitions, name))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	fmt.Println("ready", cluster.ListenAddrs()[0])
	<-signals
	cluster.Close()
}

// topic reads "name" (one partition) or "name:partitions".
func topic(argument string) (string, int32, error) {
	name, count, found := strings.Cut(argument, ":")
	if !found {
		return name, 1, nil
	}
	partitions, err := strconv.ParseInt(count, 10, 32)
	if err != nil || partitions < 1 {
		return "", 0, fmt.Errorf("%q: a topic is NAME or NAME:PARTITIONS", argument)
	}
	return name, int32(partitions), nil
}
