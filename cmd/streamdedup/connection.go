package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// connection says how to reach the brokers.
type connection struct {
	brokers      []string
	tls          bool
	tlsCA        string
	tlsCert      string
	tlsKey       string
	mechanism    string
	user         string
	password     string
	passwordFile string
}

const (
	saslPlain  = "plain"
	saslSHA256 = "scram-sha-256"
	saslSHA512 = "scram-sha-512"
)

// bindBrokers defines the flag that every command with a broker begins with.
func (c *connection) bindBrokers(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.brokers, "brokers", nil, "brokers to ask first, each `HOST:PORT`, with commas between (required)")
}

// bindSecurity defines the flags for TLS and SASL.
func (c *connection) bindSecurity(fs *pflag.FlagSet) {
	fs.BoolVar(&c.tls, "tls", false, "connect with TLS (default false)")
	fs.StringVar(&c.tlsCA, "tls-ca", "", "PEM `FILE` of the authorities to trust (default the system's)")
	fs.StringVar(&c.tlsCert, "tls-cert", "", "PEM `FILE` of our certificate, for brokers that ask for one")
	fs.StringVar(&c.tlsKey, "tls-key", "", "PEM `FILE` of its key")
	choiceFlag("NAME", saslPlain, saslSHA256, saslSHA512).
		add(fs, &c.mechanism, "sasl-mechanism", "log in with SASL: plain, scram-sha-256 or scram-sha-512")
	fs.StringVar(&c.user, "sasl-user", "", "user `NAME` to log in with")
	fs.StringVar(&c.password, "sasl-password", "", "`PASSWORD` to log in with; other users of the machine see flags, not the environment")
	fs.StringVar(&c.passwordFile, "sasl-password-file", "", "`FILE` with the password")
}

// options are what a Kafka client needs to connect as configured.
func (c *connection) options() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	config, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	login, err := c.login()
	if err != nil {
		return nil, err
	}
	return append(opts, login...), nil
}

// tlsConfig is nil where TLS is off.
func (c *connection) tlsConfig() (*tls.Config, error) {
	if !c.tls {
		if c.tlsCA != "" || c.tlsCert != "" || c.tlsKey != "" {
			return nil, withHint(usagef("--tls-ca, --tls-cert and --tls-key mean nothing without TLS"), "add --tls")
		}
		return nil, nil
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return nil, usagef("--tls-cert and --tls-key belong together: give both")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("read --tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read --tls-ca %s: %w", c.tlsCA, errors.New("there is no PEM certificate in it"))
		}
	}
	if c.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("read --tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// login is the option for SASL, none where there is no mechanism.
func (c *connection) login() ([]kgo.Opt, error) {
	if c.mechanism == "" {
		if c.user != "" || c.password != "" || c.passwordFile != "" {
			return nil, withHint(usagef("a SASL user or password means nothing without a mechanism"), "add --sasl-mechanism")
		}
		return nil, nil
	}
	password := c.password
	switch {
	case c.passwordFile != "" && password != "":
		return nil, usagef("--sasl-password and --sasl-password-file both name a password: give one of them")
	case c.passwordFile != "":
		var err error
		if password, err = readSecretFile("sasl-password-file", c.passwordFile); err != nil {
			return nil, err
		}
	}
	if c.user == "" || password == "" {
		return nil, usagef("--sasl-mechanism %s needs --sasl-user and a password", c.mechanism)
	}
	switch c.mechanism {
	case saslSHA256:
		return []kgo.Opt{kgo.SASL(scram.Auth{User: c.user, Pass: password}.AsSha256Mechanism())}, nil
	case saslSHA512:
		return []kgo.Opt{kgo.SASL(scram.Auth{User: c.user, Pass: password}.AsSha512Mechanism())}, nil
	}
	return []kgo.Opt{kgo.SASL(plain.Auth{User: c.user, Pass: password}.AsMechanism())}, nil
}
