package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"muster/interop/go-franz/login"
)

// security returns the options of a login; none without a file.
func security(given arguments) ([]kgo.Opt, error) {
	found, err := login.Read(given.security)
	if found == nil || err != nil {
		return nil, err
	}
	mechanism, err := mechanismOf(found)
	if err != nil {
		return nil, err
	}
	// Without a logger a refused member waits in silence: polls tell of no login.
	warnings := kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil))
	options := []kgo.Opt{kgo.SASL(mechanism), warnings}
	if found.TLS != nil {
		options = append(options, kgo.DialTLSConfig(found.TLS))
	}
	return options, nil
}

func mechanismOf(l *login.Login) (sasl.Mechanism, error) {
	shown := scram.Auth{User: l.User, Pass: l.Password}
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return shown.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return shown.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := l.FetchToken(ctx)
			return oauth.Auth{Token: token}, err
		}), nil
	}
	return nil, fmt.Errorf("no mechanism %q", l.Mechanism)
}
