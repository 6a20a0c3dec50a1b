package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/streamdedup/streamdedup/internal/kafkatest"
)

// authority makes a certificate for this machine that signs itself, and a file
// for whoever is to trust it.
func authority(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// A broker that wants TLS and a login answers only who has both right. That it
// has no such topic is its answer.
func TestRunConnectsWithTLSAndSASL(t *testing.T) {
	const answered = `error: input topic "nosuch" does not exist`
	certificate, ca := authority(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, method := range map[string]string{
		saslPlain: "PLAIN", saslSHA256: "SCRAM-SHA-256", saslSHA512: "SCRAM-SHA-512",
	} {
		brokers := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(method, "me", "secret"),
			kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}})).ListenAddrs()
		f := func(works bool, args ...string) {
			t.Helper()
			code, _, stderr := exec("", runArgs(brokers, "nosuch", "out", args...)...)
			if code != exitFailed || works != strings.Contains(stderr, answered) {
				t.Errorf("%s %v: exit code %d, want an answer: %v; stderr:\n%s", flag, args, code, works, stderr)
			}
		}
		f(true, "--tls", "--tls-ca", ca, "--sasl-mechanism", flag, "--sasl-user", "me", "--sasl-password-file", password)
		f(false, "--tls", "--tls-ca", ca, "--sasl-mechanism", flag, "--sasl-user", "me", "--sasl-password", "wrong")
		f(false, "--tls", "--sasl-mechanism", flag, "--sasl-user", "me", "--sasl-password", "secret")
	}
}
