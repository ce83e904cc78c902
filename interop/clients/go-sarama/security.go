package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"muster/interop/go-sarama/login"
)

// secure has the client log in as the file says; without a file it does not.
func secure(config *sarama.Config, path string) error {
	found, err := login.Read(path)
	if found == nil || err != nil {
		return err
	}
	config.Net.SASL.Enable = true
	config.Net.SASL.Version = sarama.SASLHandshakeV1
	config.Net.SASL.Mechanism = sarama.SASLMechanism(found.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = found.User, found.Password
	switch found.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha256.New} }
	case sarama.SASLTypeSCRAMSHA512:
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha512.New} }
	case sarama.SASLTypeOAuth:
		config.Net.SASL.TokenProvider = provider{found}
	}
	if found.TLS != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, found.TLS
	}
	return nil
}

type provider struct{ *login.Login }

func (p provider) Token() (*sarama.AccessToken, error) {
	token, err := p.FetchToken(context.Background())
	return &sarama.AccessToken{Token: token}, err
}

// scramClient is what sarama leaves to the application.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.conversation = client.NewConversation()
	return nil
}

func (c *scramClient) Step(challenge string) (string, error) {
	if c.conversation == nil {
		return "", errors.New("a step before the begin")
	}
	return c.conversation.Step(challenge)
}

func (c *scramClient) Done() bool { return c.conversation.Done() }
