package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// The same file in the Go clients that log in: settings of a login, by librdkafka's names.

type login struct {
	mechanism, user, password string
	endpoint                  string // where a token is to be had
	tls                       *tls.Config
}

// readLogin returns nil without a file.
func readLogin(path string) (*login, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	given := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		given[key] = value
	}
	found := &login{
		mechanism: given["sasl.mechanism"], user: given["sasl.username"], password: given["sasl.password"],
		endpoint: given["sasl.oauthbearer.token.endpoint.url"],
	}
	if ca := given["ssl.ca.location"]; ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", ca)
		}
		found.tls = &tls.Config{RootCAs: roots}
	}
	return found, nil
}

// token asks the identity provider, as the client credentials grant has it.
func (l *login) token(ctx context.Context) (string, error) {
	form := strings.NewReader("grant_type=client_credentials")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.endpoint, form)
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(l.user, l.password)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var granted struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&granted); err != nil {
		return "", err
	}
	return granted.Token, nil
}
