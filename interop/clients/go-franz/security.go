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
)

// security returns the options of a login; none without a file.
func security(given arguments) ([]kgo.Opt, error) {
	login, err := readLogin(given.security)
	if login == nil || err != nil {
		return nil, err
	}
	mechanism, err := login.sasl()
	if err != nil {
		return nil, err
	}
	// Without a logger a refused member waits in silence: polls tell of no login.
	warnings := kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil))
	options := []kgo.Opt{kgo.SASL(mechanism), warnings}
	if login.tls != nil {
		options = append(options, kgo.DialTLSConfig(login.tls))
	}
	return options, nil
}

func (l *login) sasl() (sasl.Mechanism, error) {
	shown := scram.Auth{User: l.user, Pass: l.password}
	switch l.mechanism {
	case "PLAIN":
		return plain.Auth{User: l.user, Pass: l.password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return shown.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return shown.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := l.token(ctx)
			return oauth.Auth{Token: token}, err
		}), nil
	}
	return nil, fmt.Errorf("no mechanism %q", l.mechanism)
}
