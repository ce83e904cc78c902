// Package login reads the settings of a login, by librdkafka's names. The Go clients that log in share it.
package login

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

// Login says who comes in, and how. TLS is nil without an authority.
type Login struct {
	Mechanism, User, Password string
	TLS                       *tls.Config
	endpoint                  string // where a token is to be had
}

// Read returns nil without a file.
func Read(path string) (*Login, error) {
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
	found := &Login{
		Mechanism: given["sasl.mechanism"], User: given["sasl.username"], Password: given["sasl.password"],
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
		found.TLS = &tls.Config{RootCAs: roots}
	}
	return found, nil
}

// FetchToken asks the identity provider, as the client credentials grant has it.
func (l *Login) FetchToken(ctx context.Context) (string, error) {
	form := strings.NewReader("grant_type=client_credentials")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.endpoint, form)
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(l.User, l.Password)
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
