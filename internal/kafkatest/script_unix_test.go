//go:build unix

package kafkatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a broker that ends at once has said of the cause is said by the script that
// started it: the log is long, and its end is where the trouble came up, not what it was.
func TestStartSaysWhyABrokerEnded(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "scripts", "kafka"), os.DirFS("../../scripts/kafka")); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		// A broker that says what the test wants, and no jars.
		"java": `case "$*" in -version) echo 'openjdk version "17.0.1"' >&2 ;; *kafka.Kafka*) cat "$SAYS"; exit 1 ;; esac`,
		"mvn":  `for last; do :; done; mkdir -p "${last#*=}"`,
	} {
		file := filepath.Join(root, "bin", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for want, log := range map[string]string{
		"java.net.BindException: Address already in use":       "[main] ERROR kafka.Kafka$ - FATAL\nCaused by: java.net.BindException: Address already in use\n\tat kafka.Main\n[main] INFO - bye\n",
		"java.lang.RuntimeException: node id 7 does not match": "[main] ERROR kafka.Kafka$ - FATAL\njava.lang.RuntimeException: node id 7 does not match\n\tat kafka.Main\n",
		"[main] ERROR kafka.Kafka$ - no settings":              "[main] ERROR kafka.Kafka$ - no settings\n[main] INFO - bye\n",
		"Too small maximum heap":                               "Error occurred during initialization of VM\nToo small maximum heap\n\n",
		"it said nothing":                                      "",
	} {
		dir := t.TempDir()
		says := filepath.Join(dir, "says")
		if err := os.WriteFile(says, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/kafka/start.sh"), "--port", "1", "--dir", filepath.Join(dir, "broker"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "SAYS="+says)
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "at once: "+want+"; see ") || !strings.Contains(string(said), "\nhint: ") {
			t.Errorf("%v, want an error with %q:\n%s", err, want, said)
		}
	}
}
